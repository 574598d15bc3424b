package kernels

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// GuardSpec is the spec of a program's status word: element 0 is 0, or the code of the first check
// that failed.
var GuardSpec = Spec{arena.Int32, Shape{4}}

// CheckFiniteAttrs are the attributes of CheckFinite. Code identifies the tensor, and is not 0.
type CheckFiniteAttrs struct{ Code int32 }

// CheckFinite records the first tensor that has a NaN or an infinity.
//
//	x [...], guard int32 [4] → guard
//
// If guard[0] is 0 and an element of x is not finite: guard[0] = Code.
var CheckFinite = Register(&Op{
	Name: "check_finite", Updates: []int8{1},
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[CheckFiniteAttrs]("check_finite", attrs)
		if err != nil {
			return nil, err
		}
		if a.Code == 0 {
			return nil, attrError("check_finite", "code must not be 0")
		}
		if err := count("check_finite", in, 2); err != nil {
			return nil, err
		}
		if !in[0].Type.Float() || !in[1].Equal(GuardSpec) {
			return nil, shapeError("check_finite", "takes floats and a guard int32 (4), not %v", in)
		}
		return []Spec{GuardSpec}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		guard := out[0].Data
		copy(guard, in[1].Data)
		if guard[0] == 0 && !finite(in[0].Data) {
			guard[0] = float64(attrs.(CheckFiniteAttrs).Code)
		}
	},
	Cost: func(_ any, in, _ []Spec) int64 { return int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		c := Case{
			Attrs: CheckFiniteAttrs{1 + r.Int32N(1000)},
			In:    []Spec{{float, randomShape(r, randomRank(r))}, GuardSpec},
		}
		bad := []float64{0, 0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32}[r.IntN(6)]
		code := float64(r.IntN(4) / 3 * 77)
		c.Fill = func(r *rand.Rand, k int, data []float64) {
			if k == 1 {
				data[0] = code
				return
			}
			normal(r, data)
			data[r.IntN(len(data))] = bad
		}
		return c
	},
})

// finite reports whether no element is NaN or an infinity.
func finite(x []float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
