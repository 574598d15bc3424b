// Package arrow reads Arrow IPC files and streams as a dataset: Feather files of version 2, and the
// files that Hugging Face's datasets keeps on disk, are such. It is a module of its own, because the
// library that it uses is large.
//
// [Open] opens a file, a folder or a pattern of files; several files are one dataset. Each selected
// [Column] becomes a field by the rules of package table, as in package parquet: numbers keep their
// type, lists have one length, texts are labels from a list of classes, and bytes, such as images,
// go to a [dataloader.Decoder]. Dictionaries are looked up.
//
// # Order and memory
//
// A local file whose record batches are not compressed is mapped, and each row is read where it is:
// Dataset.Random is true, any order is equally fast, and Fetch allocates nothing, apart from what a
// Decoder allocates. Memory is a few hundred bytes for each column of each record batch; the bytes
// of the file are the system's cache.
//
// Elsewhere, as in compressed files and in files of a store, record batches are decoded one by one.
// The dataset then is one of blocks, see [dataloader.FromBlocks]: memory is at most Options.Held
// record batches, each of Options.Limit bytes compressed and as many decompressed, with the
// dictionaries of the file, which are read again for each record batch. The memory is used again. A
// record batch costs some garbage of the library: the metadata, and a decoder for each compressed one.
//
// # Packing
//
// The command evenkeel-pack does not read Arrow files, since this package is a module of its own. A
// program packs them in three lines:
//
//	d, err := arrow.Open("train.arrow", arrow.Options{Columns: []arrow.Column{{Name: "x"}, {Name: "label", FindClasses: true}}})
//	err = pack.Write(ctx, "train.pack", d, pack.WriteOptions{Classes: map[string][]string{"label": d.Classes("label")}})
//	err = d.Close()
//
// # What is read
//
// Booleans, integers, floating-point numbers, decimals, dates, times, text and bytes of all forms
// (32 and 64 bits, views, of fixed length), lists and lists of fixed length, structures, and
// dictionaries, which may grow or be replaced in a stream. Extension types are read as what they are
// stored in. Maps, lists of structures, unions, list views, run-end encoding, big-endian files and
// Feather files of version 1 are refused by name. This package does not write Arrow.
//
// # Files from elsewhere
//
// The lengths in the metadata are checked before the library, github.com/apache/arrow-go, reads them,
// its memory is limited to Options.Limit, and offsets are checked where they are used. A panic of the
// library becomes an error, and so does a mapped file that another process has shortened.
package arrow
