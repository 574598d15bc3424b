//go:build amd64 && !purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../internal/gen run ./shape -dir ../../kernels/cpu

// turnerAt returns a level's transposition of whole squares of 4 or 8 bytes, and their side; nil: none.
func turnerAt[T asm.Word](l asm.Level) (f func(dst, src []T, rows, cols, rowStride, step int), side int) {
	if l == asm.Portable {
		return nil, 0
	}
	switch f := any(&f).(type) {
	case *func(dst, src []uint32, rows, cols, rowStride, step int):
		*f, side = turn32, 8
	case *func(dst, src []uint64, rows, cols, rowStride, step int):
		*f, side = turn64, 4
	}
	return f, side
}
