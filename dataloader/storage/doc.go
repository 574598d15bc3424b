// Package storage opens the files of datasets, wherever they are, for reads at any offset.
//
// A [File] has a name, a size that does not change and ReadAt. [OpenFile] opens a file of this
// machine, [Open] one of any [fs.FS]: a folder ([Dir]), a zip archive ([Zip]), an embedded folder,
// an object store. [ReadAt] reads a range in full: it is the one way in which readers of formats
// read, because it honours a context, continues short reads and reports a file that has shrunk.
//
//	fsys (Dir, Zip, a store) ── Open ──► File ── Retry, ReadAhead, Map ──► File ── ReadAt ──► bytes
//
// Local files are read with ReadAt, which reports an error where the disk fails or the file has
// shrunk. [Map] maps a file where small reads at random offsets matter, and guards them. [ReadAhead]
// reads in blocks, ahead of its caller and within a stated number of bytes, for stores where each
// read is a request. [Retry] repeats reads that fail for a reason that may pass.
//
// A [Folder] opens nothing outside itself: a symbolic link that leads out is an error. Pipes,
// devices and sockets are refused before they are opened, because opening one can block for ever.
//
// The package storagetest makes files fail at a chosen call, for tests of what reads them.
package storage
