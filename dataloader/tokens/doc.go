// Package tokens reads files of tokens, as language models are trained on: numbers of 16 or 32 bits,
// little-endian, one after another.
//
// A sample is a window of Options.Window tokens, and the tokens that follow each of them:
//
//	field  shape     type   tokens of a file
//	x      [Window]  int32  at, at+1, … at+Window-1
//	y      [Window]  int32  at+1, at+2, … at+Window
//
// [Write] writes such a file, of what a tokenizer makes of texts. Windows start at multiples of Options.Stride and never cross the end of a file. A file is mapped
// where the system can do it. Reading a sample allocates nothing.
package tokens
