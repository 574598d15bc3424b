// Package elementwise holds the inner kernels of elementwise operations, of chains of them, and of
// softmax and cross entropy along rows, for float32 and float64.
//
// zz_elementwise_amd64.s (AVX2 and AVX-512) is written by internal/gen/elementwise. unary.go,
// binary.go, math.go, decode.go and softmax.go hold the Go twins, which also serve operations
// without assembly. AVX2 and AVX-512 give the same bits; the Go twins differ within the bounds that
// math_test.go states.
//
// Arithmetic in assembly treats denormal numbers as zero. Neg, abs and fill only move bits and keep
// them; sine, cosine, power and decoding compute float32 in float64 and keep them too.
package elementwise

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// A BinaryFunc computes dst[i] = f(a[i], b[i]). dst may be a or b.
type BinaryFunc[T asm.Float] func(dst, a, b []T)

// A UnaryFunc computes dst[i] = f(a[i]). dst may be a.
type UnaryFunc[T asm.Float] func(dst, a []T)

// Kernels are the functions of a level for one type. dst may be an operand.
type Kernels[T asm.Float] struct {
	unary         map[*kernels.Op]UnaryFunc[T]  // by op, of those without attributes
	binary        map[*kernels.Op]BinaryFunc[T] // the same
	affine        func(dst, a []T, scale, shift T)
	leakyReLU     func(dst, a []T, slope T)
	leakyReLUGrad func(dst, y, dy []T, slope T)
	Fill          func(dst []T, v T)
	// max(a, b); b where either is NaN.
	Max BinaryFunc[T]
	// Runs a program: see ChainCodes. Nil: none.
	Chain  func(slots [][]T, program []uint32, n int)
	decode func(t arena.DType, scale, shift float64) DecodeFunc[T] // nil: none
}

// At returns the functions of level l for T.
func At[T asm.Float](l asm.Level) *Kernels[T] {
	var zero T
	if _, single := any(zero).(float32); single {
		return any(kernels32(l)).(*Kernels[T])
	}
	return any(kernels64(l)).(*Kernels[T])
}

// Unary returns the function of an op of one operand at level l, nil where there is none. An op
// alone, a step of a chain and the activation of a product all use this function, so they have the
// same bits.
func Unary[T asm.Float](l asm.Level, op *kernels.Op, attrs any) UnaryFunc[T] {
	v := At[T](l)
	switch op {
	case kernels.LeakyReLU:
		slope := T(attrs.(kernels.LeakyReLUAttrs).Slope)
		return func(dst, a []T) { v.leakyReLU(dst, a, slope) }
	case kernels.Affine:
		a := attrs.(kernels.AffineAttrs)
		scale, shift := T(a.Scale), T(a.Shift)
		return func(dst, x []T) { v.affine(dst, x, scale, shift) }
	}
	if f := v.unary[op]; f != nil {
		return f
	}
	return goKernels[T]().unary[op]
}

// Binary returns the function of an op of two operands at level l, nil where there is none.
func Binary[T asm.Float](l asm.Level, op *kernels.Op, attrs any) BinaryFunc[T] {
	v := At[T](l)
	switch op {
	case kernels.Greater:
		f := v.binary[kernels.Less]
		return func(dst, a, b []T) { f(dst, b, a) }
	case kernels.GreaterEqual:
		f := v.binary[kernels.LessEqual]
		return func(dst, a, b []T) { f(dst, b, a) }
	case kernels.LeakyReLUGrad:
		slope := T(attrs.(kernels.LeakyReLUAttrs).Slope)
		return func(dst, y, dy []T) { v.leakyReLUGrad(dst, y, dy, slope) }
	}
	if f := v.binary[op]; f != nil {
		return f
	}
	return goKernels[T]().binary[op]
}
