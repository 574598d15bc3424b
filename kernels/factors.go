package kernels

import (
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// productType checks the n operands of a product, and returns the type of the result. The first two
// operands are the factors. If operands is 0 or Float32, all have one type, float32 or float64, and
// so has the result. If it is BFloat16 or Float16, each factor is rounded to it before it is
// multiplied, to the nearest, ties to even; a factor may be stored in float32 or in that type.
// Sums, other operands and the result are then float32.
func productType(op string, in []Spec, n int, operands arena.DType) (arena.DType, error) {
	if !operands.Half() {
		if operands != 0 && operands != arena.Float32 {
			return 0, attrError(op, "operands of type %v: must be bfloat16, float16 or float32", operands)
		}
		if err := floats(op, in, n); err != nil {
			return 0, err
		}
		return in[0].Type, nil
	}
	if err := count(op, in, n); err != nil {
		return 0, err
	}
	for k, s := range in {
		if s.Type != arena.Float32 && (s.Type != operands || k > 1) {
			return 0, shapeError(op, "factors must be float32 or %v, and other operands float32, not %v", operands, in)
		}
	}
	return arena.Float32, nil
}

// roundFactors returns in with both factors rounded.
func roundFactors(operands arena.DType, in []Tensor) []Tensor {
	if !operands.Half() {
		return in
	}
	in = slices.Clone(in)
	for k := range 2 {
		in[k].Data = slices.Clone(in[k].Data)
		each(in[k].Data, func(v float64) float64 { return Round(operands, v) })
	}
	return in
}

// ComputeTypeOf returns the type that the factors of a product are rounded to, 0 if they are not
// rounded.
func ComputeTypeOf(attrs any) arena.DType {
	var t arena.DType
	switch a := attrs.(type) {
	case MatMulAttrs:
		t = a.ComputeType
	case ConvAttrs:
		t = a.ComputeType
	case ConvGradAttrs:
		t = a.ComputeType
	}
	if !t.Half() {
		return 0
	}
	return t
}

// WithComputeType returns the attributes of a product with its factors rounded to t, 0 for not at
// all. Attributes of other operations are returned unchanged.
func WithComputeType(attrs any, t arena.DType) any {
	switch a := attrs.(type) {
	case MatMulAttrs:
		a.ComputeType = t
		return a
	case ConvAttrs:
		a.ComputeType = t
		return a
	case ConvGradAttrs:
		a.ComputeType = t
		return a
	}
	return attrs
}

// randomFactors returns a type to round the factors of a product of floats to, mostly 0.
func randomFactors(r *rand.Rand, float arena.DType) arena.DType {
	if float != arena.Float32 || r.IntN(3) > 0 {
		return 0
	}
	return randomHalf(r)
}

// randomStored returns a type to store such a factor in.
func randomStored(r *rand.Rand, float, operands arena.DType) arena.DType {
	if operands.Half() && r.IntN(2) == 0 {
		return operands
	}
	return float
}
