// Package npy reads NumPy's files as datasets: one array of a .npy file, the arrays of several, or
// those of a .npz archive. The first dimension of an array is the samples, and the others are the
// shape of the field. A field has the name of its array: of x.npy that is x.
//
// Versions 1 to 3 of the format are read, both orders and both endians. Package table has the rules
// for types that a device does not have; text, dates, complex numbers, structures and Python objects
// are refused by name. An array that is stored as it is needed, row-major and little-endian and not
// compressed, stays in the file, which is mapped where the system can do it; Fetch then allocates
// nothing. Other arrays are read into memory when the file is opened, up to Options.Memory bytes.
package npy
