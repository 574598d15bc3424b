package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// SumSquares is the sum of squares of a tensor.
//
//	x [...] of a float type → y float64 ()
//
// y = Σ x². It is summed in float64, in a fixed order.
var SumSquares = Register(&Op{
	Name: "sum_squares",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs("sum_squares", attrs); err != nil {
			return nil, err
		}
		return []Spec{{arena.Float64, Shape{}}}, floats("sum_squares", in, 1)
	},
	Ref: func(_ any, in, out []Tensor) {
		sum := 0.0
		for _, v := range in[0].Data {
			sum += v * v
		}
		out[0].Data[0] = sum
	},
	Cost:  func(_ any, in, _ []Spec) int64 { return 2 * int64(in[0].Shape.Elems()) },
	Cases: unaryCases(nil),
})

// ClipNormAttrs are the attributes of ClipNorm.
type ClipNormAttrs struct {
	Max    float64
	Scaled bool // operand 0 is u, a factor that the tensors have in any case, as 1 / the loss scale; else u is 1
}

// First returns which operand is the first sum of squares.
func (a ClipNormAttrs) First() int {
	if a.Scaled {
		return 1
	}
	return 0
}

// ClipNorm computes the factor that limits the common norm of several tensors to Max. Its operands
// are the sums of squares of these tensors, as scalars, after the factor u if Scaled.
//
//	(u float64 (),) n × float64 () → scale float64 ()
//
// scale = min(u, Max / √Σ), u if all sums are 0, and NaN if Σ overflows.
// Source: Pascanu et al., ICML 2013, section 3.2.
var ClipNorm = Register(&Op{
	Name: "clip_norm",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[ClipNormAttrs]("clip_norm", attrs)
		if err != nil {
			return nil, err
		}
		if !(a.Max > 0) {
			return nil, attrError("clip_norm", "largest norm %v must be positive", a.Max)
		}
		if len(in) <= a.First() {
			return nil, shapeError("clip_norm", "takes at least one sum of squares")
		}
		for _, s := range in {
			if s.Type != arena.Float64 || len(s.Shape) != 0 {
				return nil, shapeError("clip_norm", "takes float64 (), not %v", s)
			}
		}
		return []Spec{{arena.Float64, Shape{}}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		a, u, total := attrs.(ClipNormAttrs), 1.0, 0.0
		if a.Scaled {
			u = in[0].Data[0]
		}
		for _, x := range in[a.First():] {
			total += x.Data[0]
		}
		out[0].Data[0] = u
		if scale := a.Max/math.Sqrt(total) + (total - total); !(scale >= u) { // Inf - Inf is NaN
			out[0].Data[0] = scale
		}
	},
	Cases: func(r *rand.Rand, _ arena.DType) Case {
		a := ClipNormAttrs{Max: 0.5 + r.Float64(), Scaled: r.IntN(2) == 0}
		c := Case{Attrs: a}
		n := 1 + r.IntN(9)
		if r.IntN(8) == 0 {
			n = 300 // more than one GPU kernel has parameters for
		}
		for range a.First() + n {
			c.In = append(c.In, Spec{arena.Float64, Shape{}})
		}
		zero := r.IntN(8) == 0
		c.Fill = func(r *rand.Rand, k int, data []float64) {
			switch {
			case k == 0 && a.Scaled:
				between(r, data, 0.25, 1)
			case !zero:
				between(r, data, 0, 1)
			}
		}
		return c
	},
})
