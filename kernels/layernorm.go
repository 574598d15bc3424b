package kernels

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// LayerNormAttrs are the attributes of LayerNorm and its gradient. Eps is added to the variance,
// and is above 0.
type LayerNormAttrs struct{ Eps float64 }

// LayerNorm normalises each row.
//
//	x [..., N], gamma [N], beta [N] → y [..., N], mean [R], rstd [R], with R rows
//
// rstd = 1/√(variance + Eps); y = (x - mean)·rstd·gamma + beta. The variance may be too large for
// the type of x. A row of equal elements becomes beta exactly.
// Source: Ba, Kiros and Hinton, arXiv:1607.06450.
var LayerNorm = Register(&Op{
	Name: "layerNorm", InPlace: []int8{0}, Infer: inferLayerNorm, Ref: refLayerNorm, Cases: layerNormCases,
	Cost: func(_ any, in, _ []Spec) int64 { return 8 * int64(in[0].Shape.Elems()) },
})

// LayerNormGrad is the gradient of LayerNorm.
//
//	x [..., N], gamma [N], mean [R], rstd [R], dy [..., N] → dx [..., N], dgamma [N], dbeta [N]
//
// With x̂ = (x - mean)·rstd and g = dy·gamma: dx = rstd·(g - Σg/N - x̂·Σ(g·x̂)/N), sums over a row;
// dgamma = Σ dy·x̂ and dbeta = Σ dy, over the rows.
var LayerNormGrad = Register(&Op{
	Name: "layerNormGrad", InPlace: []int8{0, 4}, Infer: inferLayerNormGrad, Ref: refLayerNormGrad,
	Cases: layerNormGradCases,
	Cost:  func(_ any, in, _ []Spec) int64 { return 14 * int64(in[0].Shape.Elems()) },
})

func init() {
	LayerNorm.Grad = func(g Graph, n Node, dy []Value) []Value {
		return g.ApplyAll(LayerNormGrad, n.Attrs, n.In[0], n.In[1], n.Out[1], n.Out[2], dy[0])
	}
}

// rowsOf checks operands of a layer normalization. It returns the specs of one value a column, and
// one a row.
func rowsOf(name string, attrs any, in []Spec, n int) (column, row Spec, err error) {
	a, err := attrsOf[LayerNormAttrs](name, attrs)
	if err != nil {
		return column, row, err
	}
	if err := floats(name, in, n); err != nil {
		return column, row, err
	}
	if err := checkEps(name, a.Eps, in[0].Type); err != nil {
		return column, row, err
	}
	x := in[0]
	if len(x.Shape) == 0 || x.Shape[len(x.Shape)-1] == 0 {
		return column, row, shapeError(name, "takes x [..., N] with N above 0, not %v", x)
	}
	last := len(x.Shape) - 1
	return Spec{x.Type, x.Shape[last:]}, Spec{x.Type, Shape{x.Shape[:last].Elems()}}, nil
}

// expect returns an error unless the first operands have the specs want.
func expect(name string, in []Spec, want ...Spec) error {
	for k, w := range want {
		if !in[k].Equal(w) {
			return shapeError(name, "operand %d must be %v for x %v, not %v", k, w, in[0].Shape, in[k])
		}
	}
	return nil
}

func inferLayerNorm(attrs any, in []Spec) ([]Spec, error) {
	column, row, err := rowsOf("layerNorm", attrs, in, 3)
	if err != nil {
		return nil, err
	}
	return []Spec{in[0], row, row}, expect("layerNorm", in, in[0], column, column)
}

func inferLayerNormGrad(attrs any, in []Spec) ([]Spec, error) {
	column, row, err := rowsOf("layerNormGrad", attrs, in, 5)
	if err != nil {
		return nil, err
	}
	return []Spec{in[0], column, column}, expect("layerNormGrad", in, in[0], column, row, row, in[0])
}

func refLayerNorm(attrs any, in, out []Tensor) {
	gamma, beta := in[1].Data, in[2].Data
	n := len(gamma)
	for r := range out[1].Data {
		x, y := in[0].Data[r*n:][:n], out[0].Data[r*n:][:n]
		eps, m := attrs.(LayerNormAttrs).Eps, numeric.MomentsOf(slices.Values([][]float64{x}))
		standard := m.Standard(eps)
		out[1].Data[r], out[2].Data[r] = m.Mean(), m.Rstd(eps)
		for i, v := range x {
			y[i] = standard.Of(v)*gamma[i] + beta[i]
		}
	}
}

func refLayerNormGrad(_ any, in, out []Tensor) {
	gamma, mean, rstd := in[1].Data, in[2].Data, in[3].Data
	dgamma, dbeta := out[1].Data, out[2].Data
	n := len(gamma)
	for r := range mean {
		x, dy, dx := in[0].Data[r*n:][:n], in[4].Data[r*n:][:n], out[0].Data[r*n:][:n]
		standard := numeric.StandardOf(mean[r], rstd[r])
		sum, dot := 0.0, 0.0
		for i, d := range dy {
			hat := standard.Of(x[i])
			sum += d * gamma[i] / float64(n)
			dot += d * gamma[i] * hat / float64(n)
			dgamma[i] += d * hat
			dbeta[i] += d
		}
		for i, d := range dy {
			dx[i] = rstd[r] * (d*gamma[i] - sum - standard.Of(x[i])*dot)
		}
	}
}

// layerNormCases have rows with values on both sides of their mean, so that only rows of one
// element have a small variance.
func layerNormCases(r *rand.Rand, float arena.DType) Case {
	s := randomShape(r, 1+r.IntN(3))
	n := s[len(s)-1]
	offset := []float64{0, 0, 10, -100}[r.IntN(4)]
	a, least := LayerNormAttrs{Eps: []float64{1e-1, 1e-3}[r.IntN(2)]}, 0.25
	if n == 1 {
		least = a.Eps
	}
	c := Spec{float, s[len(s)-1:]}
	return Case{
		Attrs: a, In: []Spec{{float, s}, c, c}, Tolerance: normTolerance(1, 2+math.Abs(offset), least),
		Fill: func(r *rand.Rand, k int, data []float64) {
			if k > 0 {
				between(r, data, -1, 1)
				return
			}
			for i := 0; i < len(data); i += n {
				twoSided(r, data[i:i+n], offset)
			}
		},
	}
}

func layerNormGradCases(r *rand.Rand, float arena.DType) Case {
	s := randomShape(r, 1+r.IntN(3))
	x, c, row := Spec{float, s}, Spec{float, s[len(s)-1:]}, Spec{float, Shape{s[:len(s)-1].Elems()}}
	return Case{
		Attrs: LayerNormAttrs{Eps: 1e-5}, In: []Spec{x, c, row, row, x},
		Tolerance: sumTolerance(max(c.Shape.Elems(), row.Shape.Elems())),
		Fill: func(r *rand.Rand, k int, data []float64) {
			if normal(r, data); k == 3 {
				between(r, data, 0.5, 1.5)
			}
		},
	}
}
