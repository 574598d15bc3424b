//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// turnerAt returns a level's transposition of whole squares, and their side; nil: none.
func turnerAt[T asm.Word](asm.Level) (f func(dst, src []T, rows, cols, rowStride, step int), side int) {
	return nil, 0
}
