package kernels

import (
	encoding "encoding/binary"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// IntegerFunc is a function of one or two integers.
type IntegerFunc uint8

// The functions. Comparisons are 1 where they hold and 0 elsewhere.
const (
	IntegerConvert IntegerFunc = iota // of one operand: a
	IntegerAdd
	IntegerSub
	IntegerMul
	IntegerMax
	IntegerMin
	IntegerLess
	IntegerLessEqual
	IntegerEqual
	IntegerNotEqual
	IntegerDiv // rounds towards 0, as in Go; 0 where b is 0
	IntegerPow // a to the power of b; 1/a^-b, rounded towards 0, where b is below 0, and 0 where a is 0, too
)

var integerNames = [...]string{"convert", "add", "sub", "mul", "max", "min", "less", "less_equal", "equal", "not_equal", "div", "pow"}

// String returns the name of the function.
func (f IntegerFunc) String() string { return integerNames[f] }

// Of returns f of a and b, in 64 bits, which wrap around.
func (f IntegerFunc) Of(a, b int64) int64 {
	holds := false
	switch f {
	case IntegerConvert:
		return a
	case IntegerAdd:
		return a + b
	case IntegerSub:
		return a - b
	case IntegerMul:
		return a * b
	case IntegerMax:
		return max(a, b)
	case IntegerMin:
		return min(a, b)
	case IntegerLess:
		holds = a < b
	case IntegerLessEqual:
		holds = a <= b
	case IntegerEqual:
		holds = a == b
	case IntegerNotEqual:
		holds = a != b
	case IntegerDiv:
		if b == 0 {
			return 0
		}
		return a / b
	case IntegerPow:
		return integerPow(a, b)
	}
	if holds {
		return 1
	}
	return 0
}

// integerPow returns a to the power of b, by squaring.
func integerPow(a, b int64) int64 {
	if b < 0 {
		if a != 1 && a != -1 {
			return 0
		}
		b &= 1 // 1/a is a
	}
	y := int64(1)
	for ; b > 0; b >>= 1 {
		if b&1 == 1 {
			y *= a
		}
		a *= a
	}
	return y
}

// operands returns how many operands f has.
func (f IntegerFunc) operands() int {
	if f == IntegerConvert {
		return 1
	}
	return 2
}

// IntegerAttrs are the attributes of Integer.
type IntegerAttrs struct {
	Func IntegerFunc
	To   arena.DType // type of the result: uint8, int32 or int64
}

// Integer computes a function of integers.
//
//	a [...], b [...] of any integer types → y of type To, shapes broadcast as in NumPy
//
// Operands are widened to 64 bits, where results wrap around as in Go. y has the low bits of the
// result: that is arithmetic in type To. The reference computes in float64, which holds integers up to
// 2^53; Run computes in 64 bits. There is no gradient.
var Integer = Register(&Op{
	Name: "integer",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[IntegerAttrs]("integer", attrs)
		if err != nil {
			return nil, err
		}
		if int(a.Func) >= len(integerNames) || !integer(a.To) {
			return nil, attrError("integer", "has no function %d to %v", uint8(a.Func), a.To)
		}
		if err := count("integer", in, a.Func.operands()); err != nil {
			return nil, err
		}
		shapes := make([]Shape, len(in))
		for i, x := range in {
			if !integer(x.Type) {
				return nil, shapeError("integer", "operands must be uint8, int32 or int64, not %v", in)
			}
			shapes[i] = x.Shape
		}
		s, err := broadcastShapes(shapes...)
		if err != nil {
			return nil, shapeError("integer", "shapes %v do not broadcast", shapes)
		}
		return []Spec{{a.To, s}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(IntegerAttrs)
		elem := func(_ any, x, y float64) float64 {
			v := a.Func.Of(numeric.ToInt64(x), numeric.ToInt64(y))
			return float64(lowBits(a.To, v))
		}
		refElem(elem, attrs, in, out)
	},
	Cases: func(r *rand.Rand, _ arena.DType) Case {
		s := randomShape(r, randomRank(r))
		a := IntegerAttrs{IntegerFunc(r.IntN(len(integerNames))), randomInteger(r)}
		c := Case{Attrs: a, In: []Spec{{randomInteger(r), s}}}
		if a.Func != IntegerConvert {
			c.In = []Spec{{randomInteger(r), narrow(r, s)}, {randomInteger(r), narrow(r, s)}}
		}
		// Numbers that float64 holds, with their products, and ties.
		c.Fill = func(r *rand.Rand, k int, data []float64) {
			most := []int64{5, 1 << 25}[r.IntN(2)]
			if a.Func == IntegerPow {
				most = []int64{3, 34}[k]
			}
			fillIntegers(r, c.In[k].Type, most, data)
		}
		return c
	},
	Grad: noGrad,
})

// fillIntegers fills data with random integers of type t from -most on, below most.
func fillIntegers(r *rand.Rand, t arena.DType, most int64, data []float64) {
	for i := range data {
		data[i] = float64(lowBits(t, r.Int64N(2*most)-most))
	}
}

// runInteger runs Integer in 64 bits, from memory.
func runInteger(c Call, in [][]byte, out []byte) {
	a := c.Attrs.(IntegerAttrs)
	x := make([][]int64, 2)
	st := make([][]int, len(in))
	for k, o := range c.In {
		x[k] = integersOf(o.Spec, in[k])
		st[k] = broadcastStrides(o.Shape, c.Out[0].Shape)
	}
	forEachIndex(c.Out[0].Shape, st, func(i int, at []int) {
		var y int64
		if len(at) > 1 {
			y = x[1][at[1]]
		}
		putInteger(a.To, out, i, a.Func.Of(x[0][at[0]], y))
	})
}

// integersOf decodes integers, little-endian.
func integersOf(s Spec, src []byte) []int64 {
	x := make([]int64, s.Shape.Elems())
	for i := range x {
		switch s.Type {
		case arena.Uint8:
			x[i] = int64(src[i])
		case arena.Int32:
			x[i] = int64(int32(encoding.LittleEndian.Uint32(src[4*i:])))
		default:
			x[i] = int64(encoding.LittleEndian.Uint64(src[8*i:]))
		}
	}
	return x
}
