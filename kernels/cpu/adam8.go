package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A rule8 is a rule whose states are codes of a byte, in place of s and v. The assembly knows the fields' offsets.
type rule8[T float] struct {
	rule[T]
	m       []int8  // [elements] codes of means
	root    []uint8 // [elements] codes of roots
	largest []T     // [blocks, 2]

	means, roots coder[T]
}

func bindAdam8(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindAdam8Of[float32](b)
	case arena.Float64:
		return bindAdam8Of[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// vectorEpsilon8 is the least Epsilon of assembly, which takes the steps of roots below 2⁻⁶³ as if these were 0.
const vectorEpsilon8 = 0x1p-36

// bindAdam8Of takes whole blocks by the device's level, and the last one, if it is shorter, in Go.
func bindAdam8Of[T float](b *binding) (func(), error) {
	attrs, all := b.Attrs.(kernels.Adam8Attrs), rulesAt[T](b.dev.level)
	run, last := all.adam8, goAdam8[T]
	if attrs.Decoupled {
		run, last = all.adamW8, goAdamW8[T]
	}
	if attrs.Epsilon < vectorEpsilon8 {
		run = last
	}
	u := leanAdam[T](b, attrs.AdamAttrs, attrs.Decoupled)
	u.own[3], u.own[4] = T(math.Sqrt(attrs.Beta2)), T(math.Sqrt(1-attrs.Beta2))
	rates := u.rates
	u.rates = func(c []float64) { // the root's correction goes into the rate and ε, since it might make the root too large for its type
		rates(c)
		unbias := math.Sqrt(c[3])
		u.own[0], u.own[6] = T(c[0]*unbias/c[2]), T(attrs.Epsilon*unbias)
	}
	r := &rule8[T]{m: out[int8](b, 1), root: out[uint8](b, 2), largest: out[T](b, 3)}
	r.means.fill(numeric.TopSigned)
	for i := range 128 { // the bytes of negative codes
		r.means.values[uint8(-i)] = -r.means.values[i]
	}
	r.roots.fill(numeric.TopUnsigned)
	whole := len(u.p) / kernels.Block8
	pieces := b.over(len(r.largest)/2, updateGrain/kernels.Block8, func(lo, hi, _ int) {
		run(r, lo, min(hi, whole))
		last(r, max(lo, whole), hi)
	})
	return func() {
		if u.begin() {
			r.rule = u.rule
			pieces()
		}
	}, nil
}

// leanAdam binds Adam, or AdamW where decoupled, but for its states and function.
func leanAdam[T float](b *binding, attrs kernels.AdamAttrs, decoupled bool) *updater[T] {
	u, _ := newUpdater[T](b, attrs.Common())
	op := kernels.Adam
	if decoupled {
		op = kernels.AdamW
	}
	u.choose(op, attrs, goRules[T]())
	return u
}

func goAdam8[T float](r *rule8[T], lo, hi int) { r.adam8(0, lo, hi) }

func goAdamW8[T float](r *rule8[T], lo, hi int) { r.adam8(r.own[7], lo, hi) }

// adam8 updates one block after the other, whose means and roots are on the stack meanwhile.
func (r *rule8[T]) adam8(shrink T, lo, hi int) {
	rate, b1, r1, b2, r2, eps := r.own[0], r.own[1], r.own[2], r.own[3], r.own[4], r.own[6]
	var means, sizes, tile [kernels.Block8]T
	for b := lo; b < hi; b++ {
		from, to := b*kernels.Block8, min((b+1)*kernels.Block8, len(r.p))
		p, m, root, largest := r.p[from:to], r.m[from:to], r.root[from:to], r.largest[2*b:][:2]
		g := r.grads(tile[:], p, from)
		s, v := means[:len(p)], sizes[:len(p)]
		for i, code := range m {
			s[i] = b1*(largest[0]*r.means.values[uint8(code)]) + r1*g[i]
			v[i] = hypot(b2*(largest[1]*r.roots.values[root[i]]), r2*g[i])
			p[i] -= shrink*p[i] + rate*s[i]/(v[i]+eps)
		}
		most := [2]T{}
		for i, x := range s {
			if x = T(math.Abs(float64(x))); x > most[0] { // not where x is NaN
				most[0] = x
			}
			if v[i] > most[1] {
				most[1] = v[i]
			}
		}
		for k, x := range most {
			if largest[k] = 0; x >= numeric.Least8 {
				largest[k] = x
			}
		}
		r.means.means(m, s, largest[0])
		r.roots.roots(root, v, largest[1])
	}
}

// hypot returns √(x² + y²), also where squares leave the range of their type.
func hypot[T float](x, y T) T {
	a, b := float64(x), float64(y)
	if s := a*a + b*b; s > 0x1p-900 && s < 0x1p1000 || a == 0 && b == 0 {
		return T(math.Sqrt(s))
	}
	return T(math.Hypot(a, b))
}

// A coder knows the codes of a byte as tables, so that it need not branch on what cannot be foretold.
type coder[T float] struct {
	slope, start [8]T   // the code of x is slope·x + start, by interval: 0 is that of 1
	values       [256]T // what a byte stands for
	top          int32
}

func (c *coder[T]) fill(top int) {
	c.top = int32(top)
	for code := range 2 << top {
		c.values[code] = numeric.Decode8[T](code, top)
	}
	for d := range top + 1 {
		n := math.Ldexp(1, top-d) // codes of the interval, which begins at 1/8 of its end
		c.slope[d] = T(n / 7 * math.Pow(8, float64(d+1)))
		c.start[d] = T(n - 1 - n/7 + 0.5)
	}
}

// encode is Encode8 but for the rounding of ties.
func (c *coder[T]) encode(x T) int {
	if !(x < 1) {
		x = 1
	}
	d := min((126-int32(math.Float32bits(float32(x))>>23))/3, c.top) & 7
	return int(x*c.slope[d] + c.start[d])
}

// scales returns two numbers by which most becomes 1: where it is huge, one alone would be denormal.
func scales[T float](most T) (shrink, by T) {
	if shrink = 1; most > 1 {
		shrink = 0x1p-8
	}
	return shrink, 1 / (most * shrink)
}

// means writes the codes of x, of which the largest magnitude is most.
func (c *coder[T]) means(codes []int8, x []T, most T) {
	if most == 0 {
		clear(codes)
		return
	}
	shrink, by := scales(most)
	for i, v := range x {
		negative := int32(math.Float32bits(float32(v))) >> 31
		code := int32(c.encode(T(math.Abs(float64(v))) * shrink * by))
		codes[i] = int8((code ^ negative) - negative)
	}
}

// roots writes the codes of x, whose elements are not below 0. One that is not 0 has a code that is not.
func (c *coder[T]) roots(codes []uint8, x []T, most T) {
	if most == 0 {
		clear(codes)
		return
	}
	shrink, by := scales(most)
	for i, v := range x {
		code := uint8(c.encode(v * shrink * by))
		if code == 0 && v > 0 {
			code = 1
		}
		codes[i] = code
	}
}
