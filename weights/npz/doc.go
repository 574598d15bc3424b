// Package npz reads and writes NumPy's .npz files, which are zip archives of .npy arrays.
//
// [Open] lists the arrays as tensors, named as in NumPy: the entry "hidden/w.npy" is "hidden/w".
// [File.Read] copies one to memory, row-major and little endian, whatever order and byte order it
// is stored in. All versions of the header are read, stored and compressed. [Create] writes a file
// in one atomic step; numpy.load reads it.
//
// Arrays of Python objects are pickles, which can run code: they are refused, and so are structured
// arrays and types that package safetensors has no name for. A bfloat16 array is stored by NumPy as
// raw bytes ("V2"), which forgets its type, so that neither reading nor writing accepts it.
//
// A damaged or hostile file is a [*FormatError]. An array that is stored uncompressed, row-major
// and little endian is read in pieces; of any other, Read and ReadAt keep one whole array in
// memory.
package npz
