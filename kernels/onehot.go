package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// OneHotAttrs are the attributes of OneHot.
type OneHotAttrs struct {
	Classes int
	Type    arena.DType // float
}

// OneHot spreads class indices.  labels int [R] → y [R, Classes], 1 at the label and 0 elsewhere.
// A label outside 0..Classes-1 gives a row of zeros.
var OneHot = Register(&Op{
	Name: "one_hot",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[OneHotAttrs]("one_hot", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("one_hot", in, 1); err != nil {
			return nil, err
		}
		if a.Classes < 1 || !a.Type.Float() {
			return nil, attrError("one_hot", "cannot make %d classes of %v", a.Classes, a.Type)
		}
		if !integer(in[0].Type) || len(in[0].Shape) != 1 {
			return nil, shapeError("one_hot", "labels must be a vector of uint8, int32 or int64, not %v", in[0])
		}
		return []Spec{{a.Type, Shape{in[0].Shape[0], a.Classes}}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		c := attrs.(OneHotAttrs).Classes
		clear(out[0].Data)
		for i, label := range in[0].Data {
			if label >= 0 && label < float64(c) {
				out[0].Data[i*c+int(label)] = 1
			}
		}
	},
	Cost: moves,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		classes := randomDim(r)
		return Case{
			Attrs: OneHotAttrs{classes, float},
			In:    []Spec{{randomInteger(r), randomShape(r, 1)}},
			Fill:  func(r *rand.Rand, _ int, data []float64) { labels(r, data, classes+1) },
		}
	},
})

func init() { OneHot.Grad = noGrad }
