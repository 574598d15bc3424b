// Package parquet reads Parquet files as a dataset, row group by row group.
//
// [Open] opens a file, a folder or a pattern of files; several files are one dataset. Each selected
// [Column] becomes a field by the rules of package table: numbers keep their type, lists have one
// length, texts are labels from a list of classes, and bytes, such as images, go to a
// [dataloader.Decoder]. A structure of "bytes" and "path", as Hugging Face stores images, stands for
// the bytes.
//
//	file: row group 0: chunk of column a: page, page, …    a block: the selected columns of
//	                   chunk of column b: page, …          one row group, decoded
//	      row group 1: …
//
// # Order and memory
//
// The rows of a row group are decoded together, so that a row at random costs a row group. The
// dataset therefore is a [dataloader.Blocked] one: a loader that shuffles permutes the row groups
// and mixes the samples of a few at a time, see [dataloader.FromBlocks]. Memory is at most
// Options.Held decoded row groups, each of Options.Limit bytes or less, and for each row group
// that is being decoded a few pages and a dictionary of one column. All of it is used again. For data
// in row groups that are too large, or for one sample here and there, pack the dataset first.
//
// Fetch of a decoded row copies it and allocates nothing, apart from what a Decoder allocates. A row
// group that fits in the memory of an earlier one is decoded with less than 4 KiB of garbage for
// each dozen pages, of the library's decoders.
//
// A value that its field does not hold, a missing one without Fill, and a list of another length make
// their row bad, and Fetch of that row returns the error. If more than 1,024 and a sixteenth of the rows
// of a group are bad, or a page is damaged, all of the group are.
//
// # What is read
//
// All physical types; the encodings PLAIN, dictionary, RLE, DELTA_BINARY_PACKED,
// DELTA_LENGTH_BYTE_ARRAY and BYTE_STREAM_SPLIT; pages of version 1 and 2, whose checksums are
// verified where there are any; uncompressed, Snappy, gzip, Brotli, zstd and LZ4_RAW. Members of
// structures are columns with names like "image.path". Maps, lists of structures, decimals of varying
// length, DELTA_BYTE_ARRAY, LZO, LZ4 in Hadoop's frames and encrypted files are refused by name. This
// package does not write Parquet.
//
// # Files from elsewhere
//
// github.com/parquet-go/parquet-go decodes levels, indices and differences. It allocates memory for
// the lengths that a file claims: for a run of 2^31 values, for instance. This package therefore reads
// the footer, the headers of pages and the lengths of runs itself, and checks them against the size
// of the file, the rows of the row group and Options.Limit before it allocates anything or calls the
// library. A panic of the library becomes an error.
package parquet
