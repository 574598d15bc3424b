package kernels

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// GroupNormAttrs are the attributes of GroupNorm and its gradient.
type GroupNormAttrs struct {
	Groups int     // divides the channels
	Eps    float64 // added to the variance; above 0
}

// GroupNorm normalises groups of channels within each image.
//
//	x [B, C, ...], gamma [C], beta [C] → y [B, C, ...], mean [B, G], rstd [B, G]
//
// Mean and rstd = 1/√(variance + Eps) are over the C/G channels of a group; y = (x -
// mean)·rstd·gamma + beta. The variance may be too large for the type of x. A group of equal
// elements becomes beta exactly.
// Source: Wu and He, ECCV 2018. One group is layer normalization of the image, C groups are
// instance normalization.
var GroupNorm = Register(&Op{
	Name: "groupNorm", InPlace: []int8{0}, Infer: inferGroupNorm, Ref: refGroupNorm, Cases: groupNormCases,
	Cost: func(_ any, in, _ []Spec) int64 { return 8 * int64(in[0].Shape.Elems()) },
})

// GroupNormGrad is the gradient of GroupNorm.
//
//	x [B, C, ...], gamma [C], mean [B, G], rstd [B, G], dy [B, C, ...] → dx [B, C, ...], dgamma [C], dbeta [C]
//
// With x̂ = (x - mean)·rstd, g = dy·gamma and n elements a group: dx = rstd·(g - Σg/n -
// x̂·Σ(g·x̂)/n), sums over a group; dgamma = Σ dy·x̂ and dbeta = Σ dy, over a channel.
var GroupNormGrad = Register(&Op{
	Name: "groupNormGrad", InPlace: []int8{0, 4}, Infer: inferGroupNormGrad, Ref: refGroupNormGrad,
	Cases: groupNormGradCases,
	Cost:  func(_ any, in, _ []Spec) int64 { return 12 * int64(in[0].Shape.Elems()) },
})

func init() {
	GroupNorm.Grad = func(g Graph, n Node, dy []Value) []Value {
		return g.ApplyAll(GroupNormGrad, n.Attrs, n.In[0], n.In[1], n.Out[1], n.Out[2], dy[0])
	}
}

// groupsOf checks attributes, operand count and x of a group normalization. It returns the specs of
// one value a channel, and one a group.
func groupsOf(name string, attrs any, in []Spec, n int) (channel, group Spec, err error) {
	a, err := attrsOf[GroupNormAttrs](name, attrs)
	if err != nil {
		return channel, group, err
	}
	if a.Groups < 1 {
		return channel, group, attrError(name, "%d groups must be at least 1", a.Groups)
	}
	if err := floats(name, in, n); err != nil {
		return channel, group, err
	}
	if err := checkEps(name, a.Eps, in[0].Type); err != nil {
		return channel, group, err
	}
	x := in[0]
	if len(x.Shape) < 2 || x.Shape[1:].Elems() == 0 {
		return channel, group, shapeError(name, "takes x [B, C, ...] whose images have elements, not %v", x)
	}
	if x.Shape[1]%a.Groups != 0 {
		return channel, group, shapeError(name, "%d groups do not divide the %d channels of %v", a.Groups, x.Shape[1],
			x.Shape)
	}
	return Spec{x.Type, x.Shape[1:2]}, Spec{x.Type, Shape{x.Shape[0], a.Groups}}, nil
}

func inferGroupNorm(attrs any, in []Spec) ([]Spec, error) {
	channel, group, err := groupsOf("groupNorm", attrs, in, 3)
	if err != nil {
		return nil, err
	}
	return []Spec{in[0], group, group}, expect("groupNorm", in, in[0], channel, channel)
}

func inferGroupNormGrad(attrs any, in []Spec) ([]Spec, error) {
	channel, group, err := groupsOf("groupNormGrad", attrs, in, 5)
	if err != nil {
		return nil, err
	}
	return []Spec{in[0], channel, channel}, expect("groupNormGrad", in, in[0], channel, group, group, in[0])
}

func refGroupNorm(attrs any, in, out []Tensor) {
	a, x := attrs.(GroupNormAttrs), in[0]
	if x.Shape[0] == 0 {
		return
	}
	plane := x.Shape[2:].Elems()
	n := x.Shape[1] / a.Groups * plane
	for g := range out[1].Data {
		from, to := x.Data[g*n:][:n], out[0].Data[g*n:][:n]
		m := numeric.MomentsOf(slices.Values([][]float64{from}))
		standard := m.Standard(a.Eps)
		out[1].Data[g], out[2].Data[g] = m.Mean(), m.Rstd(a.Eps)
		first := g % a.Groups * (n / plane)
		for i, v := range from {
			c := first + i/plane
			to[i] = standard.Of(v)*in[1].Data[c] + in[2].Data[c]
		}
	}
}

func refGroupNormGrad(attrs any, in, out []Tensor) {
	a, shape := attrs.(GroupNormAttrs), in[0].Shape
	gamma, dgamma, dbeta := in[1].Data, out[1].Data, out[2].Data
	plane := shape[2:].Elems()
	n := shape[1] / a.Groups * plane
	for g, mean := range in[2].Data {
		rstd, standard := in[3].Data[g], numeric.StandardOf(mean, in[3].Data[g])
		x, dy, dx := in[0].Data[g*n:][:n], in[4].Data[g*n:][:n], out[0].Data[g*n:][:n]
		first := g % a.Groups * (n / plane)
		sum, dot := 0.0, 0.0
		for i, d := range dy {
			c, hat := first+i/plane, standard.Of(x[i])
			sum += d * gamma[c] / float64(n)
			dot += d * gamma[c] * hat / float64(n)
			dgamma[c] += d * hat
			dbeta[c] += d
		}
		for i, d := range dy {
			dx[i] = rstd * (d*gamma[first+i/plane] - sum - standard.Of(x[i])*dot)
		}
	}
}

// randomGroups returns x [B, C, ...] and a number of groups that divides C.
func randomGroups(r *rand.Rand) (Shape, int) {
	s := randomShape(r, 2+r.IntN(4))
	g := 1 + r.IntN(s[1])
	for s[1]%g != 0 {
		g--
	}
	return s, g
}

// groupNormCases have groups with values on both sides of their mean, so that only groups of one
// element have a small variance.
func groupNormCases(r *rand.Rand, float arena.DType) Case {
	s, groups := randomGroups(r)
	n := s[1:].Elems() / groups
	offset := []float64{0, 0, 10, -100}[r.IntN(4)]
	a, least := GroupNormAttrs{Groups: groups, Eps: []float64{1e-1, 1e-3}[r.IntN(2)]}, 0.25
	if n == 1 {
		least = a.Eps
	}
	c := Spec{float, s[1:2]}
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

func groupNormGradCases(r *rand.Rand, float arena.DType) Case {
	s, groups := randomGroups(r)
	x, c, g := Spec{float, s}, Spec{float, s[1:2]}, Spec{float, Shape{s[0], groups}}
	return Case{
		Attrs: GroupNormAttrs{Groups: groups, Eps: 1e-5}, In: []Spec{x, c, g, g, x}, Tolerance: sumTolerance(s.Elems()),
		Fill: func(r *rand.Rand, k int, data []float64) {
			if normal(r, data); k == 3 {
				between(r, data, 0.5, 1.5)
			}
		},
	}
}
