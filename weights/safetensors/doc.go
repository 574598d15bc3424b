// Package safetensors reads and writes files of named tensors in the safetensors format, as one
// file or as shards with an index, without trusting what they contain.
//
// A file is 8 bytes with the length of a header, the header in JSON, and the bytes of the tensors:
//
//	0        8                          8+n                       size
//	| n: u64 | {"a":{"dtype":"F32",…}}  | a, row-major | b | …     |
//
// The header names each tensor's type, shape and place. Places must tile the data exactly, so that
// a file has no hidden bytes and no two tensors share any. Numbers are little endian.
//
// [Open] reads a file or an index of shards, and [File.Read] copies one tensor. [Create] writes a
// file or shards in one atomic step. [NewWriter] writes to any io.Writer.
//
// With CreateOptions.Checksum, the metadata hold a checksum of the whole file, header and data.
// [File.Verify] compares it. Other readers see one more entry of metadata.
//
// A damaged or hostile file is a [*FormatError], which wraps [ErrFormat]. Reading a header takes at
// most a few times its length of memory, and that is bounded by [MaxHeaderBytes] and by the file.
package safetensors
