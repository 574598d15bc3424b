package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// vectors are the elementwise functions of one level for one type. Those in assembly take denormal numbers for 0 and make
// none, which the processor is slow at. Neg, abs and fill only move bits; sine, cosine, power and decoding compute float32 in
// float64, and keep them. So does Go.
type vectors[T float] struct {
	unary         map[*kernels.Op]unaryFunc[T]  // ops without attributes
	binary        map[*kernels.Op]binaryFunc[T] // the same
	affine        func(dst, a []T, scale, shift T)
	leakyRelu     func(dst, a []T, slope T)
	leakyReluGrad func(dst, y, dy []T, slope T)
	fill          func(dst []T, v T)
	max           binaryFunc[T]                                           // b where one is NaN
	chain         func(slots [][]T, program []uint32, n int)              // nil: none
	decode        func(t arena.DType, scale, shift float64) decodeFunc[T] // nil: none
}

// vectorsAt returns the functions of a level.
func vectorsAt[T float](l asm.Level) *vectors[T] {
	var zero T
	if _, single := any(zero).(float32); single {
		return any(vectors32(l)).(*vectors[T])
	}
	return any(vectors64(l)).(*vectors[T])
}

// unaryTile returns the tile function of an elementwise op of one operand, or nil. The op alone, a step of a chain
// and an activation of a matmul all use this function, and so have the same bits.
func unaryTile[T float](l asm.Level, op *kernels.Op, attrs any) unaryFunc[T] {
	v := vectorsAt[T](l)
	switch op {
	case kernels.LeakyRelu:
		slope := T(attrs.(kernels.LeakyReluAttrs).Slope)
		return func(dst, a []T) { v.leakyRelu(dst, a, slope) }
	case kernels.Affine:
		a := attrs.(kernels.AffineAttrs)
		scale, shift := T(a.Scale), T(a.Shift)
		return func(dst, x []T) { v.affine(dst, x, scale, shift) }
	}
	if f := v.unary[op]; f != nil {
		return f
	}
	return goVectors[T]().unary[op]
}

// binaryTile returns the tile function of an elementwise op of two operands, or nil.
func binaryTile[T float](l asm.Level, op *kernels.Op, attrs any) binaryFunc[T] {
	v := vectorsAt[T](l)
	switch op {
	case kernels.Greater:
		f := v.binary[kernels.Less]
		return func(dst, a, b []T) { f(dst, b, a) }
	case kernels.GreaterEqual:
		f := v.binary[kernels.LessEqual]
		return func(dst, a, b []T) { f(dst, b, a) }
	case kernels.LeakyReluGrad:
		slope := T(attrs.(kernels.LeakyReluAttrs).Slope)
		return func(dst, y, dy []T) { v.leakyReluGrad(dst, y, dy, slope) }
	}
	if f := v.binary[op]; f != nil {
		return f
	}
	return goVectors[T]().binary[op]
}
