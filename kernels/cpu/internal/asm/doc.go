// Package asm holds what the assembly packages below it share: instruction levels, views of raw
// memory as elements, and hints to the processor.
//
// Each package below is one family of kernels: gemm, conv, elementwise, norm, pool2d, dropout,
// reduce, update, transpose, half. In each,
//
//   - zz_*_amd64.s is AVX2 and AVX-512 assembly that a generator in internal/gen writes, and zz_*_amd64.go declares its functions;
//   - a Go twin of every function, with the same signature, serves other processors and the build tag purego;
//   - exported constructors (At, For) return the table of functions of a [Level];
//   - argument structs are read by the assembly at fixed offsets, which a test compares with the generator's.
//
// Functions do not check their arguments: slices must hold the stated elements, and addresses must
// be aligned to the element. They allocate nothing, keep no pointer, and may run at once on
// arguments that do not overlap. No call of assembly should take longer than about 100 µs, because
// the Go scheduler cannot interrupt it.
//
// Assembly treats denormal numbers as zero in arithmetic, as operands and as results: it sets FTZ
// and DAZ in MXCSR and restores it before it returns.
package asm
