package cpu

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Levels returns the sets of instructions that this processor has, from Portable on: the levels of all but products of bfloat16.
func Levels() []Instructions {
	var all []Instructions
	for l := asm.Portable; l <= asm.Best(); l++ {
		all = append(all, Portable+Instructions(l))
	}
	return all
}

// Unary returns the function of an op of one operand at a level.
func Unary[T float](i Instructions, op *kernels.Op, attrs any) func(dst, a []T) {
	return unaryTile[T](asm.Level(i-Portable), op, attrs)
}

// Binary returns the function of an op of two operands at a level.
func Binary[T float](i Instructions, op *kernels.Op, attrs any) func(dst, a, b []T) {
	return binaryTile[T](asm.Level(i-Portable), op, attrs)
}

// Assembled reports whether the op's function at a level is assembly.
func Assembled[T float](i Instructions, op *kernels.Op) bool {
	v := vectorsAt[T](asm.Level(i - Portable))
	return v.unary[op] != nil || v.binary[op] != nil ||
		slices.Contains([]*kernels.Op{kernels.LeakyRelu, kernels.LeakyReluGrad, kernels.Affine, kernels.Greater, kernels.GreaterEqual}, op)
}

// Bytes returns the memory of x.
func Bytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	copy(asm.View[float32](b), x)
	return b
}
