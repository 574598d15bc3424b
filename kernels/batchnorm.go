package kernels

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// BatchNormAttrs are the attributes of BatchNorm and its gradient.
type BatchNormAttrs struct {
	Eps      float64 // added to the variance; above 0
	Momentum float64 // weight of a batch in the running statistics, in [0, 1]; only RunningStat uses it
	ReLU     bool    // y = max(y, 0)
}

// BatchNorm normalises each channel over the batch.
//
//	x [B, C, ...], gamma [C], beta [C] → y [B, C, ...], mean [C], variance [C] (biased)
//
// y = scale·(x - mean) + beta, or max(y, 0) with ReLU; scale = gamma/√(variance + Eps). Mean and
// scale are computed from the stored mean and variance, and rounded to the type of x. A channel of
// equal elements becomes beta exactly. A channel needs at least 2 elements.
//
// The variance is +Inf where the sum of squares about the mean is too large for its type; then y has
// no meaning. CheckFinite finds it.
// Source: Ioffe and Szegedy, ICML 2015, algorithm 1.
var BatchNorm = Register(&Op{
	Name: "batchNorm", InPlace: []int8{0}, Infer: inferBatchNorm, Ref: refBatchNorm, Cases: batchNormCases,
	Cost: func(_ any, in, _ []Spec) int64 { return 7 * int64(in[0].Shape.Elems()) },
})

// BatchNormGrad is the gradient of BatchNorm.
//
//	x [B, C, ...], gamma [C], beta [C], mean [C], variance [C], dy [B, C, ...] → dx [B, C, ...], dgamma [C], dbeta [C]
//
// With x̂ = (x - mean)/√(variance + Eps) and n elements a channel: dbeta = Σ dy, dgamma = Σ dy·x̂,
// dx = gamma/√(variance + Eps)·(dy - dbeta/n - x̂·dgamma/n). With ReLU, dy counts as 0 where
// scale·(x - mean) + beta, computed exactly as in BatchNorm, is not above 0.
var BatchNormGrad = Register(&Op{
	Name: "batchNormGrad", InPlace: []int8{0, 5}, Infer: inferBatchNormGrad, Ref: refBatchNormGrad,
	Cases: batchNormGradCases,
	Cost:  func(_ any, in, _ []Spec) int64 { return 10 * int64(in[0].Shape.Elems()) },
})

// RunningStatAttrs are the attributes of RunningStat.
type RunningStatAttrs struct {
	Momentum float64 // weight of the new batch, in [0, 1]
	Factor   float64 // n/(n-1) for a variance of n elements, which makes it unbiased; 1 for a mean
}

// RunningStat updates a running statistic with that of a batch.
//
//	running [C], batch [C], guard int32 [4] → running
//
// running = (1 - Momentum)·running + Momentum·Factor·batch. If guard[0] is not 0 nothing changes.
var RunningStat = Register(&Op{
	Name: "runningStat", Updates: []int8{0}, Infer: inferRunningStat,
	Ref: func(attrs any, in, out []Tensor) {
		a := attrs.(RunningStatAttrs)
		copy(out[0].Data, in[0].Data)
		if in[2].Data[0] != 0 {
			return
		}
		for i, v := range in[1].Data {
			out[0].Data[i] = (1-a.Momentum)*in[0].Data[i] + a.Momentum*a.Factor*v
		}
	},
	Cost: func(_ any, in, _ []Spec) int64 { return 3 * int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := Spec{float, randomShape(r, 1)}
		stopped := r.IntN(4) == 0
		return Case{
			Attrs: RunningStatAttrs{Momentum: r.Float64(), Factor: 1 + r.Float64()},
			In:    []Spec{s, s, GuardSpec},
			Fill: func(r *rand.Rand, k int, data []float64) {
				if k == 2 {
					data[0] = oneIf(stopped)
					return
				}
				normal(r, data)
			},
		}
	},
})

func init() {
	BatchNorm.Grad = func(g Graph, n Node, dy []Value) []Value {
		return g.ApplyAll(BatchNormGrad, n.Attrs, n.In[0], n.In[1], n.In[2], n.Out[1], n.Out[2], dy[0])
	}
}

// Scale returns the factor that BatchNorm applies to the centred elements of a channel.
func (a BatchNormAttrs) Scale(gamma, variance float64) float64 {
	return gamma / math.Sqrt(variance+a.Eps)
}

// CheckVariance returns an error that names the first channel whose variance over a batch is not
// finite, and wraps ErrNonFinite, or nil.
func CheckVariance(variance []float64) error {
	for c, v := range variance {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("the variance of channel %d over the batch is %v (scale or clip what the layer normalizes): %w",
				c, v, ErrNonFinite)
		}
	}
	return nil
}

// checkEps refuses an Eps that is not a normal number of type t: arithmetic in t could take it for
// 0, or for infinite.
func checkEps(name string, eps float64, t arena.DType) error {
	if !(eps > 0) || math.IsInf(eps, 0) {
		return attrError(name, "eps %v must be above 0", eps)
	}
	least, most := 0x1p-1022, math.MaxFloat64
	if t == arena.Float32 {
		least, most = 0x1p-126, math.MaxFloat32
	}
	if eps < least || eps > most {
		return attrError(name, "eps %v must be between %.3g and %.3g, the normal numbers of %v", eps, least, most, t)
	}
	return nil
}

// checkMomentum refuses a share outside of [0, 1].
func checkMomentum(name string, m float64) error {
	if !(m >= 0 && m <= 1) {
		return attrError(name, "momentum %v must lie in [0, 1]", m)
	}
	return nil
}

// channels checks that operand 0 is x [B, C, ...] and that operands 1 to last-1 are [C].
func channels(name string, in []Spec, last int) error {
	x := in[0]
	if len(x.Shape) < 2 {
		return shapeError(name, "takes x [B, C, ...], not %v", x)
	}
	for k, s := range in[1:last] {
		if c := (Spec{x.Type, x.Shape[1:2]}); !s.Equal(c) {
			return shapeError(name, "operand %d must be %v for x %v, not %v", k+1, c, x.Shape, s)
		}
	}
	return nil
}

// channelCount returns the elements of a channel of x [B, C, ...].
func channelCount(x Shape) int { return x[0] * x[2:].Elems() }

func inferBatchNorm(attrs any, in []Spec) ([]Spec, error) {
	return inferChannels("batchNorm", attrs, in, 3, 3)
}

func inferBatchNormGrad(attrs any, in []Spec) ([]Spec, error) {
	out, err := inferChannels("batchNormGrad", attrs, in, 6, 5)
	if err == nil && !in[5].Equal(in[0]) {
		return nil, shapeError("batchNormGrad", "gradient must be %v, not %v", in[0], in[5])
	}
	return out, err
}

// inferChannels checks the n operands of a batch normalization, of which operands 1 to last-1 are
// [C].
func inferChannels(name string, attrs any, in []Spec, n, last int) ([]Spec, error) {
	a, err := attrsOf[BatchNormAttrs](name, attrs)
	if err != nil {
		return nil, err
	}
	if err := checkMomentum(name, a.Momentum); err != nil {
		return nil, err
	}
	if err := floats(name, in, n); err != nil {
		return nil, err
	}
	if err := checkEps(name, a.Eps, in[0].Type); err != nil {
		return nil, err
	}
	if err := channels(name, in, last); err != nil {
		return nil, err
	}
	x := in[0].Shape
	if x[1] > 0 && channelCount(x) < 2 {
		return nil, shapeError(name, "%v has %d elements a channel, whose variance needs at least 2", x, channelCount(x))
	}
	return []Spec{in[0], in[1], in[1]}, nil
}

func inferRunningStat(attrs any, in []Spec) ([]Spec, error) {
	const name = "runningStat"
	a, err := attrsOf[RunningStatAttrs](name, attrs)
	if err != nil {
		return nil, err
	}
	if err := checkMomentum(name, a.Momentum); err != nil {
		return nil, err
	}
	if !(a.Factor >= 1) || math.IsInf(a.Factor, 0) {
		return nil, attrError(name, "factor %v must be at least 1", a.Factor)
	}
	if err := count(name, in, 3); err != nil {
		return nil, err
	}
	if !in[2].Equal(GuardSpec) {
		return nil, shapeError(name, "guard must be int32 (4), not %v", in[2])
	}
	return sameSpecs(name, in[:2], 2)
}

// planes visits the elements of x [B, C, ...] by channel and image: elements lo to hi-1 are
// contiguous.
func planes(x Shape, visit func(channel, lo, hi int)) {
	n := x[2:].Elems()
	for c := range x[1] {
		for b := range x[0] {
			lo := (b*x[1] + c) * n
			visit(c, lo, lo+n)
		}
	}
}

// channelRuns iterates over the planes of a channel of x.
func channelRuns(x Tensor, channel int) iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		n := x.Shape[2:].Elems()
		for b := range x.Shape[0] {
			if lo := (b*x.Shape[1] + channel) * n; !yield(x.Data[lo : lo+n]) {
				return
			}
		}
	}
}

func refBatchNorm(attrs any, in, out []Tensor) {
	a, x, y := attrs.(BatchNormAttrs), in[0].Data, out[0].Data
	mean, variance := out[1].Data, out[2].Data
	n := float64(channelCount(in[0].Shape))
	standard := make([]numeric.Standard, len(mean))
	for c := range mean {
		if len(x) == 0 {
			return
		}
		m := numeric.MomentsOf(channelRuns(in[0], c))
		standard[c] = m.Standard(a.Eps)
		mean[c], variance[c] = m.Mean(), numeric.StoredVariance[float64](m.Variance(), n)
		if out[2].Type == arena.Float32 {
			variance[c] = float64(numeric.StoredVariance[float32](m.Variance(), n))
		}
	}
	planes(in[0].Shape, func(c, lo, hi int) {
		for i := lo; i < hi; i++ {
			y[i] = in[1].Data[c]*standard[c].Of(x[i]) + in[2].Data[c]
			if a.ReLU && y[i] < 0 {
				y[i] = 0
			}
		}
	})
}

func refBatchNormGrad(attrs any, in, out []Tensor) {
	a, x, dy := attrs.(BatchNormAttrs), in[0].Data, in[5].Data
	gamma, beta, mean, variance := in[1].Data, in[2].Data, in[3].Data, in[4].Data
	dx, dgamma, dbeta := out[0].Data, out[1].Data, out[2].Data
	n := float64(channelCount(in[0].Shape))
	through := func(c, i int) float64 {
		if a.ReLU && !(a.Scale(gamma[c], variance[c])*(x[i]-mean[c])+beta[c] > 0) {
			return 0
		}
		return dy[i]
	}
	hat := func(c, i int) float64 { return (x[i] - mean[c]) / math.Sqrt(variance[c]+a.Eps) }
	planes(in[0].Shape, func(c, lo, hi int) {
		for i := lo; i < hi; i++ {
			dbeta[c] += through(c, i)
			dgamma[c] += through(c, i) * hat(c, i)
		}
	})
	planes(in[0].Shape, func(c, lo, hi int) {
		for i := lo; i < hi; i++ {
			dx[i] = a.Scale(gamma[c], variance[c]) * (through(c, i) - dbeta[c]/n - hat(c, i)*dgamma[c]/n)
		}
	})
}

// randomChannels returns x [B, C, ...] of rank 2 to 5 with at least two elements a channel.
func randomChannels(r *rand.Rand) Shape {
	s := randomShape(r, 2+r.IntN(4))
	if channelCount(s) < 2 {
		s[0] = 2 + r.IntN(3)
	}
	return s
}

// normTolerance is the tolerance of a normalization of n values up to size: mean and shift are
// rounded to float32, with an error of 2^-24·size, and divided by √eps at worst; sums over n values
// add sumTolerance.
func normTolerance(n int, size, eps float64) float64 {
	return sumTolerance(n) + 0x1p-22*size/math.Sqrt(eps)
}

// twoSided fills data with values on alternating sides of offset, at a distance of 0.7 to 1.3. So
// the variance of any two neighbours is large, and no normalised value is near 0, where ReLU is not
// differentiable.
func twoSided(r *rand.Rand, data []float64, offset float64) {
	for i := range data {
		data[i] = offset + float64(1-i%2*2)*(0.7+0.6*r.Float64())
	}
}

// batchNormAttrs returns random attributes.
func batchNormAttrs(r *rand.Rand) BatchNormAttrs {
	return BatchNormAttrs{Eps: []float64{1e-1, 1e-3, 1e-5}[r.IntN(3)], Momentum: 0.1, ReLU: r.IntN(2) == 0}
}

// batchNormCases have channels whose values alternate between two sides of their mean, which is
// sometimes far from 0.
func batchNormCases(r *rand.Rand, float arena.DType) Case {
	s, a := randomChannels(r), batchNormAttrs(r)
	offset := []float64{0, 0, 10, -100}[r.IntN(4)]
	c := Spec{float, s[1:2]}
	return Case{
		Attrs: a, In: []Spec{{float, s}, c, c},
		Tolerance: normTolerance(1, 2+math.Abs(offset), 0.25), // a variance is at least 0.25: see twoSided
		Fill: func(r *rand.Rand, k int, data []float64) {
			switch k {
			case 0:
				byChannel(s, data, func(v []float64) { twoSided(r, v, offset) })
			case 1:
				between(r, data, 0.5, 1.5)
			default:
				between(r, data, -0.1, 0.1)
			}
		},
	}
}

// byChannel calls fill for the elements of each channel of x [B, C, ...], in the order of the
// batch.
func byChannel(x Shape, data []float64, fill func(v []float64)) {
	v := make([]float64, channelCount(x))
	for c := range x[1] {
		fill(v)
		i := 0
		planes(x, func(channel, lo, hi int) {
			if channel == c {
				i += copy(data[lo:hi], v[i:])
			}
		})
	}
}

func batchNormGradCases(r *rand.Rand, float arena.DType) Case {
	s, a := randomChannels(r), batchNormAttrs(r)
	c := Spec{float, s[1:2]}
	return Case{
		Attrs: a, In: []Spec{{float, s}, c, c, c, c, {float, s}}, Tolerance: sumTolerance(channelCount(s)),
		Fill: func(r *rand.Rand, k int, data []float64) {
			switch k {
			case 0:
				byChannel(s, data, func(v []float64) { twoSided(r, v, 0) })
			case 1, 4:
				between(r, data, 0.5, 1.5)
			case 2:
				between(r, data, -0.1, 0.1)
			case 3:
				between(r, data, -0.3, 0.3)
			default:
				normal(r, data)
			}
		},
	}
}
