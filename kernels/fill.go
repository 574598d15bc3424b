package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// FillAttrs are the attributes of Fill.
type FillAttrs struct {
	Type  arena.DType
	Shape Shape
	Value float64
}

// Fill is a constant.
//
//	→ y [Shape] of type Type
//
// y = Value.
var Fill = Register(&Op{
	Name: "fill",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[FillAttrs]("fill", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("fill", in, 0); err != nil {
			return nil, err
		}
		if a.Type.Size() == 0 {
			return nil, attrError("fill", "has no type")
		}
		return []Spec{{a.Type, a.Shape}}, checkShape("fill", a.Shape)
	},
	Ref: func(attrs any, _, out []Tensor) {
		v := attrs.(FillAttrs).Value
		each(out[0].Data, func(float64) float64 { return v })
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		return Case{Attrs: FillAttrs{randomType(r, float), randomShape(r, randomRank(r)), float64(r.IntN(100))}}
	},
})
