// Package shards reads samples from tar archives in the layout of WebDataset: the entries of a sample
// follow one another and share a key, and each field is an entry with an extension of its own.
//
//	train-000.tar   000017.jpg  000017.cls     key 000017, fields jpg and cls
//	                000018.jpg  000018.cls
//	train-001.tar   …
//
// [Open] and [OpenFS] take a pattern, such as "train-{000..099}.tar" or "train-*.tar", and the fields
// with their extensions and decoders. They return a [Dataset].
//
// # Keys
//
// The key of an entry is its name up to the first dot of the last element; the rest is the extension,
// in lower case. So "a.b/c.seg.png" has the key "a.b/c" and the extension "seg.png". Ignored, and
// counted in [Info], are folders, entries whose last element begins with a dot or has no dot, entries
// in a folder __MACOSX, and extensions that no field has. An error that names the file, the offset
// and the entry are: a key that returns after another one, an extension twice in a sample, a sample
// without one of the fields, links, devices and sparse files, and names with "..".
//
// # Archives
//
// Whether a shard is compressed shows in its first bytes. A plain archive is indexed by one scan and
// then read at random. Archives that were joined are read to the end. An archive without its two
// blocks of zeros at the end is an error, unless [Options.Unfinished] is set, since it may have been
// cut.
//
// A shard in gzip or zstd is decompressed once by Open, which must know the samples, and then block
// by block: a block is a sequence of members of gzip or frames of zstd with 8 MiB or more, most often
// the whole shard. The dataset is a [dataloader.Blocked] then: shuffling mixes the samples of a few
// blocks, and [Options.Held] of them are in memory. [Options.Index] saves the scan.
//
// # Memory
//
// The index needs 16 bytes for each field of each sample, and 8 bytes a sample of a shard while it is
// scanned. Fetch needs the bytes of one sample for each worker that reads at the same time. Compressed
// shards need Options.Held blocks of at most [Options.MaxBlock] bytes, and, while one is decompressed,
// what the decompressor needs: 32 KiB for gzip, the window for zstd, at most 128 MiB. Fetch allocates
// nothing in the steady state, except for what a Decoder allocates and, with compressed shards, the
// first blocks. [Integer], [Class] and [Raw] allocate nothing; [JSON] allocates as encoding/json does.
package shards
