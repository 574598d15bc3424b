package elementwise

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Assembled reports whether the function of op at level l is assembly.
func Assembled[T asm.Float](l asm.Level, op *kernels.Op) bool {
	k := At[T](l)
	return k.unary[op] != nil || k.binary[op] != nil ||
		slices.Contains([]*kernels.Op{kernels.LeakyReLU, kernels.LeakyReLUGrad, kernels.Affine, kernels.Greater, kernels.GreaterEqual}, op)
}
