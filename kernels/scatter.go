package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// ScatterAttrs are the attributes of Scatter. Rows is the number of rows of the result.
type ScatterAttrs struct{ Rows int }

// Scatter sums rows by index: the gradient of Gather.
//
//	index int [R], dy [R, ...] float → y [Rows, ...]
//
// y[index[i]] += dy[i], in the order of i. Rows with an index outside 0..Rows-1 are ignored.
var Scatter = Register(&Op{
	Name: "scatter",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[ScatterAttrs]("scatter", attrs)
		if err != nil {
			return nil, err
		}
		if a.Rows < 0 {
			return nil, attrError("scatter", "cannot make %d rows", a.Rows)
		}
		if err := count("scatter", in, 2); err != nil {
			return nil, err
		}
		index, dy := in[0], in[1]
		if !integer(index.Type) || len(index.Shape) != 1 {
			return nil, shapeError("scatter", "indices must be a vector of uint8, int32 or int64, not %v", index)
		}
		if !dy.Type.Float() || len(dy.Shape) == 0 || dy.Shape[0] != index.Shape[0] {
			return nil, shapeError("scatter", "takes a float row for each of %d indices, not %v", index.Shape[0], dy)
		}
		return []Spec{{dy.Type, append(Shape{a.Rows}, dy.Shape[1:]...)}}, nil
	},
	Ref: func(_ any, in, out []Tensor) {
		y := out[0]
		row := y.Shape[1:].Elems()
		clear(y.Data)
		for i, at := range in[0].Data {
			if at >= 0 && at < float64(y.Shape[0]) {
				to := y.Data[int(at)*row:][:row]
				for j, v := range in[1].Data[i*row:][:row] {
					to[j] += v
				}
			}
		}
	},
	Cost: func(_ any, in, _ []Spec) int64 { return int64(in[1].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, 1+r.IntN(3))
		rows, at := randomDim(r), randomInteger(r)
		return Case{
			Attrs:     ScatterAttrs{rows},
			In:        []Spec{{at, s[:1]}, {float, s}},
			Tolerance: sumTolerance(s[0]),
			Fill: func(r *rand.Rand, k int, data []float64) {
				if k == 0 {
					indices(r, data, at, rows, r.IntN(4))
					return
				}
				normal(r, data)
			},
		}
	},
})

func init() {
	Scatter.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{None, g.Apply(Gather, nil, dy[0], n.In[0])}
	}
}
