// Package csv reads tables of text, CSV and TSV, as datasets. Each record is a sample; Options.Fields
// say which columns become which field.
//
// The rules are those of RFC 4180. Lines end in LF, CR LF, or CR if the first one does; blank lines
// are skipped. A byte order mark of UTF-8 is skipped, and UTF-16 is refused. Every record has as many
// values as the first one. Quotes enclose a whole value, with "" for a quote; a quote that does not
// close is an error at the line where it opens. A zero byte is an error.
//
//	value of a number field  is
//	12, -1.5, +2e-3          a decimal number, rounded once to the type of the field
//	an empty value, or one   missing: Field.Fill, or an error without one
//	of Options.Missing
//	NaN, inf, -Infinity      an error, unless Field.NonFinite allows it
//	0x1p3, 1_000, " 1"       an error; so is a number that the type does not hold, such as 1e999
//
// The file is read in pieces of about 1 MiB, by all processors. [Open] keeps the values of all
// records in memory, in the types of their fields; with Options.Held it keeps those of a few pieces,
// for files larger than memory. Reading a sample allocates nothing.
//
// A bad record, with a value that its field does not hold or another number of values, is the error of
// its sample only, unless more than 1,024 and a sixteenth of the records of a piece are bad: then all of
// the piece are. FindClasses collects the texts of bad records too.
package csv
