package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// CumSumAttrs are the attributes of CumSum.
type CumSumAttrs struct {
	Axis    int
	Reverse bool // sums begin at the end of the axis
}

// CumSum is the running sum along an axis.
//
//	x [...] → y [...], of one float type
//
// y[i] = x[0] + … + x[i] along Axis, or x[i] + … + x[n-1] with Reverse. Devices add in float64.
var CumSum = Register(&Op{
	Name: "cumsum", InPlace: []int8{0},
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[CumSumAttrs]("cumsum", attrs)
		if err != nil {
			return nil, err
		}
		if err := floats("cumsum", in, 1); err != nil {
			return nil, err
		}
		if a.Axis < 0 || a.Axis >= len(in[0].Shape) {
			return nil, attrError("cumsum", "axis %d is outside %v", a.Axis, in[0].Shape)
		}
		return []Spec{in[0]}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(CumSumAttrs)
		lines(in[0].Shape, a.Axis, func(start, step, n int) {
			if a.Reverse {
				start, step = start+(n-1)*step, -step
			}
			sum := 0.0
			for i := range n {
				sum += in[0].Data[start+i*step]
				out[0].Data[start+i*step] = sum
			}
		})
	},
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, 1+r.IntN(4))
		axis := r.IntN(len(s))
		return Case{Attrs: CumSumAttrs{axis, r.IntN(2) == 0}, In: []Spec{{float, s}}, Tolerance: sumTolerance(s[axis])}
	},
})

func init() {
	CumSum.Grad = func(g Graph, n Node, dy []Value) []Value {
		a := n.Attrs.(CumSumAttrs)
		a.Reverse = !a.Reverse
		return []Value{g.Apply(CumSum, a, dy[0])}
	}
}
