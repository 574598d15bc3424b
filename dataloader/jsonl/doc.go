// Package jsonl reads JSON lines as datasets: each line is an object, and a sample. Options.Fields say
// which members become which field. Blank lines are skipped.
//
//	member                  becomes
//	number, bool            a scalar: whole numbers are exact, others are rounded once to the field's type
//	list, also nested       a vector or matrix: Field.Shape has the lengths, which every line must have
//	string                  with Field.Classes or FindClasses its index in a list; with a Decoder what that
//	                        makes of it
//	anything                with a Decoder: the JSON text
//	null, or no member      Field.Fill, or an error without one
//
// A line that is no JSON, has a key twice, text that is no UTF-8, something after the object, or a
// number that the field does not hold, is the error of its sample only, which names the file and the
// line; unless more than 1,024 and a sixteenth of the lines of a piece are bad: then all of the piece are.
// FindClasses collects the texts of bad lines too.
//
// Files are decoded in pieces of about 1 MiB, and Options.Held of them are kept; a file whose name
// ends in .gz or .zst is one piece. Decoding allocates; reading a sample of a piece does not.
package jsonl
