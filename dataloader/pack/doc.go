// Package pack stores the samples of any dataset in one file of records of equal size, which is
// read by index at the speed of the file system.
//
// [Write] writes a pack, [Open] and [OpenFS] return a [Dataset], and [Dataset.Verify] compares the
// file with its checksums. A field may also keep its encoded bytes, such as JPEG files, which have
// other lengths in each sample: see [WriteOptions.Encoded] and [Options.Decoders].
//
// # Layout
//
// All numbers are little-endian. A file has four parts:
//
//	offset 0        8 bytes   "EVKPACK1"
//	       8        uint32    n, bytes of the description
//	      12        uint32    CRC-32C of the description
//	      16        n bytes   description: a JSON object, padded with spaces
//	records         count × record bytes: the samples, one after another
//	values          valueBytes bytes: the values of encoded fields, one after another
//	sums            uint32 × chunks: CRC-32C of each chunk of records, then of values
//
// The members of the description:
//
//	version      1
//	count        number of samples
//	record       bytes of one record, a multiple of the largest element
//	records      offset of the first record, a multiple of 4096
//	values       offset of the values: records + count × record
//	valueBytes   bytes of all values
//	longest      bytes of the longest value
//	sums         offset of the checksums: values + valueBytes, rounded up to a multiple of 8
//	chunk        bytes of a chunk, a power of two; the last chunk of either part may be shorter
//	fingerprint  FNV-1a (64 bits) of the checksums, as 16 hexadecimal digits
//	fields       array of fields, in the order of the record
//	notes        object of texts, for people and programs
//
// and those of a field:
//
//	name          its name
//	type          "float32", "float64", "uint8", "int32", "int64", "float16", "bfloat16", or "encoded"
//	shape         of one sample, row-major; [] for a scalar
//	scale, shift  a stored value x stands for scale·x + shift
//	classes       names of labels: a value y stands for classes[y]; [] or none for no labels
//	offset        in the record, a multiple of the size of an element
//
// In the record, an encoded field has two uint64: the offset of its value in the file, and the bytes
// of the value. The file ends after the last checksum.
//
// # Memory
//
// An open pack keeps its description, and one record for each worker that reads at the same time,
// if a record has at most 256 KiB; longer ones are read straight to their place. Encoded values need
// their length in addition. Fetch allocates nothing in the steady state, except for what a Decoder
// allocates. Pages of a file that is read do not count as memory of the process; with
// [Options.Mapped] they do while they are in the page cache, and the system takes them back when it
// needs memory.
package pack
