package kernels

import (
	encoding "encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// IntegerReduceAttrs are the attributes of IntegerReduce.
type IntegerReduceAttrs struct {
	Func IntegerFunc // IntegerAdd or IntegerMax
	ReduceAttrs
	To arena.DType // type of the result: uint8, int32 or int64
}

// First is the result of Func of no element.
func (a IntegerReduceAttrs) First() int64 {
	if a.Func == IntegerMax {
		return math.MinInt64
	}
	return 0
}

// IntegerReduce sums integers along axes, or takes the largest.
//
//	x [...] of any integer type → y of type To, x's shape without Axes
//
// Elements are widened to 64 bits, where sums wrap around as in Go. y has the low bits: that is
// arithmetic in type To. The maximum of no element is the smallest int64. There is no gradient.
var IntegerReduce = Register(&Op{
	Name: "integer_reduce",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[IntegerReduceAttrs]("integer_reduce", attrs)
		if err != nil {
			return nil, err
		}
		if a.Func != IntegerAdd && a.Func != IntegerMax || !integer(a.To) {
			return nil, attrError("integer_reduce", "has no function %d to %v", uint8(a.Func), a.To)
		}
		if err := count("integer_reduce", in, 1); err != nil {
			return nil, err
		}
		if !integer(in[0].Type) {
			return nil, shapeError("integer_reduce", "takes uint8, int32 or int64, not %v", in)
		}
		if err := checkAxes("integer_reduce", a.Axes, in[0].Shape); err != nil {
			return nil, err
		}
		return []Spec{{a.To, reducedShape(in[0].Shape, a.Axes, a.Keep)}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(IntegerReduceAttrs)
		y := reduceIntegers(a, in[0].Shape, func(i int) int64 { return numeric.ToInt64(in[0].Data[i]) })
		for i, v := range y {
			out[0].Data[i] = float64(lowBits(a.To, v))
		}
	},
	Cost: func(_ any, in, _ []Spec) int64 { return int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		c := reduceCases(r, float)
		f := []IntegerFunc{IntegerAdd, IntegerMax}[r.IntN(2)]
		c.Attrs = IntegerReduceAttrs{f, c.Attrs.(ReduceAttrs), randomInteger(r)}
		c.Tolerance = 0
		c.In[0].Type = randomInteger(r)
		c.Fill = func(r *rand.Rand, _ int, data []float64) {
			fillIntegers(r, c.In[0].Type, []int64{5, 1 << 25}[r.IntN(2)], data)
		}
		return c
	},
	Grad: noGrad,
})

// reduceIntegers returns the results, in 64 bits, of elements of a tensor of shape s.
func reduceIntegers(a IntegerReduceAttrs, s Shape, element func(i int) int64) []int64 {
	kept := reducedShape(s, a.Axes, true)
	y := make([]int64, kept.Elems())
	for i := range y {
		y[i] = a.First()
	}
	forEachIndex(s, [][]int{broadcastStrides(kept, s)}, func(i int, at []int) { y[at[0]] = a.Func.Of(y[at[0]], element(i)) })
	return y
}

// lowBits returns the low bits of v as an integer of type t.
func lowBits(t arena.DType, v int64) int64 {
	switch t {
	case arena.Uint8:
		return int64(uint8(v))
	case arena.Int32:
		return int64(int32(v))
	}
	return v
}

// runIntegerReduce runs IntegerReduce in 64 bits, from memory.
func runIntegerReduce(c Call, in [][]byte, out []byte) {
	a := c.Attrs.(IntegerReduceAttrs)
	x := integersOf(c.In[0].Spec, in[0])
	for i, v := range reduceIntegers(a, c.In[0].Shape, func(i int) int64 { return x[i] }) {
		putInteger(a.To, out, i, v)
	}
}

// putInteger writes the low bits of v as element i of integers of type t, little-endian.
func putInteger(t arena.DType, dst []byte, i int, v int64) {
	switch t {
	case arena.Uint8:
		dst[i] = uint8(v)
	case arena.Int32:
		encoding.LittleEndian.PutUint32(dst[4*i:], uint32(v))
	default:
		encoding.LittleEndian.PutUint64(dst[8*i:], uint64(v))
	}
}
