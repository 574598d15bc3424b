package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Gather picks rows.
//
//	data [N, ...] of any type, index int [R] → y [R, ...]
//
// y[i] = data[index[i]]. An index outside 0..N-1 gives a row of zeros.
var Gather = Register(&Op{
	Name: "gather",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs("gather", attrs); err != nil {
			return nil, err
		}
		if err := count("gather", in, 2); err != nil {
			return nil, err
		}
		data, index := in[0], in[1]
		if len(data.Shape) == 0 || !integer(index.Type) || len(index.Shape) != 1 {
			return nil, shapeError("gather", "takes rows and a vector of uint8, int32 or int64, not %v", in)
		}
		return []Spec{{data.Type, append(Shape{index.Shape[0]}, data.Shape[1:]...)}}, nil
	},
	Moves: func(input int) bool { return input == 0 },
	Ref: func(_ any, in, out []Tensor) {
		row := in[0].Shape[1:].Elems()
		clear(out[0].Data)
		for i, at := range in[1].Data {
			if at >= 0 && at < float64(in[0].Shape[0]) {
				copy(out[0].Data[i*row:][:row], in[0].Data[int(at)*row:])
			}
		}
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s, at := randomShape(r, 1+r.IntN(3)), randomInteger(r)
		return Case{
			In: []Spec{{randomType(r, float), s}, {at, Shape{randomDim(r)}}},
			Fill: func(r *rand.Rand, k int, data []float64) {
				if k == 0 {
					fillAny(r, k, data)
					return
				}
				indices(r, data, at, s[0], r.IntN(4))
			},
		}
	},
})

func init() {
	Gather.Grad = func(g Graph, n Node, dy []Value) []Value {
		data := g.Spec(n.In[0])
		if !data.Type.Float() {
			return []Value{None, None}
		}
		return []Value{g.Apply(Scatter, ScatterAttrs{Rows: data.Shape[0]}, n.In[1], dy[0]), None}
	}
}
