//go:build amd64 && !purego

package transpose

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./transpose -dir ../../kernels/cpu/internal/asm/transpose

// At returns the assembly of level l for T, and the side of its squares: rows and cols must be
// multiples of side. Otherwise it does the same as Portable. f is nil where there is none for T.
func At[T asm.Word](l asm.Level) (f func(dst, src []T, rows, cols, rowStride, step int), side int) {
	if l == asm.Portable {
		return nil, 0
	}
	switch f := any(&f).(type) {
	case *func(dst, src []uint32, rows, cols, rowStride, step int):
		*f, side = transpose32, 8
	case *func(dst, src []uint64, rows, cols, rowStride, step int):
		*f, side = transpose64, 4
	}
	return f, side
}
