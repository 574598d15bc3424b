package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// A value is a value of the model at one batch: known at import, or computed by the program.
type value struct {
	typ     proto.DataType
	shape   kernels.Shape
	con     *constant     // nil: computed
	at      kernels.Value // of a computed value
	missing string        // not empty: there is no such value, and why. Only a node that reads it is in error
	blamed  bool          // the node that should make it, or one before, is in error already
}

// A constant is a value that is known at import.
type constant struct {
	tensor *proto.Tensor // the elements; nil: they are data
	data   []float64     // integers are exact up to 2^53; the largest int64 stands for itself
	init   *initializer  // the initializer that it is, unchanged; nil: none
}

// An initializer is a tensor of the file, under a name.
type initializer struct {
	name   string
	tensor *proto.Tensor
	root   *initializer // of an Identity: the initializer that it repeats; nil: none
}

// elements returns the elements of a constant, or refuses if there are more than limit.
func (v *value) elements(limit int) []float64 {
	if v.con.tensor == nil {
		return v.con.data
	}
	n := v.shape.Elems()
	if n > limit {
		refuse("a constant of %v has more than %d elements: see Options.FoldElements", v.shape, limit)
	}
	data := make([]float64, n)
	for i := range data {
		data[i] = v.con.tensor.Float64(i)
		if !v.typ.IsFloat() {
			checkInteger(v.con.tensor.Int64(i))
		}
	}
	return data
}

// mostInteger limits integers: a float64 holds all of them up to here.
const mostInteger = 1 << 53

// checkInteger refuses an integer that a float64 does not hold. The largest and the smallest int64,
// which stand for "to the end", are allowed.
func checkInteger(i int64) {
	if (i > mostInteger || i < -mostInteger) && i != math.MaxInt64 && i != math.MinInt64 {
		refuse("the integer %d is beyond 2^53", i)
	}
}

// toInt converts an element of a constant of integers.
func toInt(x float64) int {
	switch {
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int(x)
}

// known returns a constant.
func known(typ proto.DataType, shape kernels.Shape, data []float64) *value {
	return &value{typ: typ, shape: shape, con: &constant{data: data}, at: kernels.None}
}

// known64 returns a vector of int64.
func known64(data ...int) *value {
	v := known(proto.Int64, kernels.Shape{len(data)}, make([]float64, len(data)))
	for i, d := range data {
		v.con.data[i] = float64(d)
	}
	return v
}

// ofTensor returns the constant that a tensor is. The tensor has passed Check.
func ofTensor(t *proto.Tensor) *value {
	v := &value{typ: t.Type, shape: kernels.Shape{}, con: &constant{tensor: t}, at: kernels.None}
	for _, d := range t.Dims {
		v.shape = append(v.shape, int(d))
	}
	return v
}

// round returns x as a number of a type.
func round(typ proto.DataType, x float64) float64 {
	switch typ {
	case proto.Float:
		return float64(float32(x))
	case proto.Double:
		return x
	case proto.Bool:
		if x != 0 {
			return 1
		}
		return 0
	}
	x = math.Trunc(x)
	if typ == proto.Int64 && (x == math.MaxInt64 || x == math.MinInt64) { // "to the end"
		return x
	}
	if r, ok := ranges[typ]; !ok || math.IsNaN(x) || x < r[0] || x > r[1] {
		refuse("%v as a constant of type %v", x, typ)
	}
	return x
}

// ranges are the smallest and the largest constants of types of integers: those that a float64
// holds.
var ranges = map[proto.DataType][2]float64{
	proto.Int64: {-mostInteger, mostInteger}, proto.Uint64: {0, mostInteger},
	proto.Int32: {math.MinInt32, math.MaxInt32}, proto.Uint32: {0, math.MaxUint32},
	proto.Int16: {math.MinInt16, math.MaxInt16}, proto.Uint16: {0, math.MaxUint16},
	proto.Int8: {math.MinInt8, math.MaxInt8}, proto.Uint8: {0, math.MaxUint8},
}

// broadcast returns the shape that shapes broadcast to.
func broadcast(shapes ...kernels.Shape) kernels.Shape {
	var out kernels.Shape
	for _, s := range shapes {
		if len(s) > len(out) {
			out = append(slices.Repeat(kernels.Shape{1}, len(s)-len(out)), out...)
		}
		for i, d := range s {
			o := &out[len(out)-len(s)+i]
			switch {
			case *o == 1:
				*o = d
			case d != 1 && d != *o:
				mismatch("shapes %v do not broadcast", shapes)
			}
		}
	}
	return out
}
