package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Where chooses elements.
//
//	cond [...] float, a [...], b [...] of one type → y of that type, shapes broadcast as in NumPy
//
// y = a where cond ≠ 0, NaN included, and b elsewhere. An element that is not chosen has no effect,
// whatever it is, and no gradient. cond has none.
var Where = Register(&Op{
	Name: "where",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs("where", attrs); err != nil {
			return nil, err
		}
		if err := count("where", in, 3); err != nil {
			return nil, err
		}
		if !in[0].Type.Float() || in[1].Type != in[2].Type || !in[1].Type.Float() && !integer(in[1].Type) {
			return nil, shapeError("where", "takes a condition of floats and two operands of one type, not %v", in)
		}
		s, err := broadcastShapes(in[0].Shape, in[1].Shape, in[2].Shape)
		if err != nil {
			return nil, shapeError("where", "shapes %v, %v and %v do not broadcast", in[0].Shape, in[1].Shape, in[2].Shape)
		}
		return []Spec{{in[1].Type, s}}, nil
	},
	Moves: func(input int) bool { return input > 0 },
	Ref: func(_ any, in, out []Tensor) {
		var st [][]int
		for _, x := range in {
			st = append(st, broadcastStrides(x.Shape, out[0].Shape))
		}
		forEachIndex(out[0].Shape, st, func(i int, at []int) {
			k := 2
			if in[0].Data[at[0]] != 0 {
				k = 1
			}
			out[0].Data[i] = in[k].Data[at[k]]
		})
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s, t := randomShape(r, randomRank(r)), randomType(r, float)
		return Case{In: []Spec{{float, narrow(r, s)}, {t, narrow(r, s)}, {t, narrow(r, s)}}, Fill: func(r *rand.Rand, k int, data []float64) {
			if k > 0 {
				fillAny(r, k, data)
				return
			}
			for i := range data {
				data[i] = []float64{0, 0, math.Copysign(0, -1), 1, -2, 1e-40, math.NaN()}[r.IntN(7)]
			}
		}}
	},
})

func init() {
	Where.Grad = func(g Graph, n Node, dy []Value) []Value {
		a := g.Spec(n.In[1])
		if !a.Type.Float() {
			return []Value{None, None, None}
		}
		none := g.Apply(Fill, FillAttrs{Type: a.Type})
		da, db := g.Apply(Where, nil, n.In[0], dy[0], none), g.Apply(Where, nil, n.In[0], none, dy[0])
		return []Value{None, sumTo(g, da, a.Shape), sumTo(g, db, g.Spec(n.In[2]).Shape)}
	}
}
