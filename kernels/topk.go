package kernels

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// TopKAttrs are the attributes of TopK.
type TopKAttrs struct {
	Axis int
	K    int // at least 1, at most the size of Axis
}

// TopK selects the K largest elements along an axis, the largest first.
//
//	x [..., N, ...] float → y [..., K, ...] of x's type, index [..., K, ...] int64
//
// index is the place of y in x along Axis. Of equal elements the first comes first. NaN is larger than
// all numbers.
var TopK = Register(&Op{
	Name: "topk",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[TopKAttrs]("topk", attrs)
		if err != nil {
			return nil, err
		}
		if err := floats("topk", in, 1); err != nil {
			return nil, err
		}
		s := slices.Clone(in[0].Shape)
		if a.Axis < 0 || a.Axis >= len(s) {
			return nil, attrError("topk", "axis %d is outside %v", a.Axis, s)
		}
		if a.K < 1 || a.K > s[a.Axis] {
			return nil, attrError("topk", "cannot select %d of the %d elements along axis %d", a.K, s[a.Axis], a.Axis)
		}
		s[a.Axis] = a.K
		return []Spec{{in[0].Type, s}, {arena.Int64, slices.Clone(s)}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		a, x := attrs.(TopKAttrs), in[0]
		to := 0
		lines(x.Shape, a.Axis, func(start, step, n int) {
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(i, j int) int { return numeric.Descending(x.Data[start+i*step], x.Data[start+j*step]) })
			// Lines of x and of the results come in the same order.
			first := to/step*a.K*step + to%step
			for k, i := range order[:a.K] {
				out[0].Data[first+k*step], out[1].Data[first+k*step] = x.Data[start+i*step], float64(i)
			}
			to++
		})
	},
	Cost: func(_ any, in, _ []Spec) int64 { return int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, 1+r.IntN(3))
		axis := r.IntN(len(s))
		k := 1 + r.IntN(min(s[axis], []int{1, 5, 40}[r.IntN(3)]))
		return Case{Attrs: TopKAttrs{axis, k}, In: []Spec{{float, s}}, Fill: func(r *rand.Rand, _ int, data []float64) {
			if r.IntN(2) == 0 {
				distinct(r, data)
				return
			}
			// Ties, zeros of both signs, and values that are not finite; at least one is NaN, so that
			// the result is, and no gradient is expected.
			for i := range data {
				data[i] = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40}[r.IntN(8)]
			}
			data[0] = math.NaN()
		}}
	},
})

// TopKGradAttrs are the attributes of TopKGrad. N is the size of the axis in x.
type TopKGradAttrs struct{ Axis, N int }

// TopKGrad writes gradients to the places of the selected elements: the gradient of TopK.
//
//	index [..., K, ...] int64, dy [..., K, ...] float → dx [..., N, ...], 0 elsewhere
//
// The indices of a line are distinct. One outside 0..N-1 is ignored.
var TopKGrad = Register(&Op{
	Name: "topk_grad",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[TopKGradAttrs]("topk_grad", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("topk_grad", in, 2); err != nil {
			return nil, err
		}
		index, dy := in[0], in[1]
		if index.Type != arena.Int64 || !dy.Type.Float() || !index.Shape.Equal(dy.Shape) {
			return nil, shapeError("topk_grad", "takes indices of int64 and floats of one shape, not %v", in)
		}
		if a.Axis < 0 || a.Axis >= len(dy.Shape) || a.N < 0 {
			return nil, attrError("topk_grad", "axis %d of %d elements does not fit %v", a.Axis, a.N, dy.Shape)
		}
		s := slices.Clone(dy.Shape)
		s[a.Axis] = a.N
		return []Spec{{dy.Type, s}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(TopKGradAttrs)
		clear(out[0].Data)
		line := 0
		lines(in[0].Shape, a.Axis, func(start, step, n int) {
			first := line/step*a.N*step + line%step
			for i := range n {
				if at := in[0].Data[start+i*step]; at >= 0 && at < float64(a.N) {
					out[0].Data[first+int(at)*step] = in[1].Data[start+i*step]
				}
			}
			line++
		})
	},
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, 1+r.IntN(3))
		axis := r.IntN(len(s))
		k, n := s[axis], s[axis]+r.IntN(9)
		return Case{Attrs: TopKGradAttrs{axis, n}, In: []Spec{{arena.Int64, s}, {float, s}}, Fill: func(r *rand.Rand, operand int, data []float64) {
			if operand == 1 {
				normal(r, data)
				return
			}
			lines(s, axis, func(start, step, _ int) {
				for i, at := range r.Perm(n)[:k] {
					data[start+i*step] = float64(at)
				}
				if r.IntN(4) == 0 && k > 0 {
					data[start] = []float64{-1, float64(n), 1 << 40}[r.IntN(3)]
				}
			})
		}}
	},
})

func init() {
	TopK.Grad = func(g Graph, n Node, dy []Value) []Value {
		if dy[0] == None {
			return []Value{None}
		}
		a := n.Attrs.(TopKAttrs)
		return []Value{g.Apply(TopKGrad, TopKGradAttrs{a.Axis, g.Spec(n.In[0]).Shape[a.Axis]}, n.Out[1], dy[0])}
	}
}
