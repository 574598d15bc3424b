package kernels

import (
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// productType checks the n operands of a product of tensors, and returns the type of the result. The first two are the factors. With operands 0 or
// Float32 all are of one type, float32 or float64, and so is the result. With Bfloat16 or Float16 each factor is rounded to it, to the nearest, of two to the even one,
// before it is multiplied; a factor may be stored in float32 or in that type. Then sums, other operands and the result are float32.
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

// OperandsOf returns the type that the factors of a product are rounded to, 0 where they are taken as they are.
func OperandsOf(attrs any) arena.DType {
	var t arena.DType
	switch a := attrs.(type) {
	case MatMulAttrs:
		t = a.Operands
	case ConvAttrs:
		t = a.Operands
	case ConvGradAttrs:
		t = a.Operands
	}
	if !t.Half() {
		return 0
	}
	return t
}

// WithOperands returns the attributes of a product whose factors are rounded to t, 0 for not at all. Attributes of other operations stay as they are.
func WithOperands(attrs any, t arena.DType) any {
	switch a := attrs.(type) {
	case MatMulAttrs:
		a.Operands = t
		return a
	case ConvAttrs:
		a.Operands = t
		return a
	case ConvGradAttrs:
		a.Operands = t
		return a
	}
	return attrs
}

// randomFactors returns what the factors of a product of floats are rounded to, mostly nothing.
func randomFactors(r *rand.Rand, float arena.DType) arena.DType {
	if float != arena.Float32 || r.IntN(3) > 0 {
		return 0
	}
	return randomHalf(r)
}

// randomStored returns the type in which such a factor is stored.
func randomStored(r *rand.Rand, float, operands arena.DType) arena.DType {
	if operands.Half() && r.IntN(2) == 0 {
		return operands
	}
	return float
}
