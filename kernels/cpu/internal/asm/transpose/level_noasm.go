//go:build !amd64 || purego

package transpose

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// At returns the assembly of level l for T, and the side of its squares: rows and cols must be
// multiples of side. Otherwise it does the same as Portable. f is nil where there is none: always
// in this build.
func At[T asm.Word](asm.Level) (f func(dst, src []T, rows, cols, rowStride, step int), side int) {
	return nil, 0
}
