package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A rule8 is a rule whose states are codes of a byte, in place of s and v. The assembly knows the fields' offsets.
type rule8[T float] struct {
	rule[T]
	m       []int8  // [elements] codes of means
	root    []uint8 // [elements] codes of roots
	largest []T     // [blocks, 2]
	unbias  T       // √own[5]

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

// bindAdam8Of takes whole blocks by the device's level, and the last one, if it is shorter, in Go.
func bindAdam8Of[T float](b *binding) (func(), error) {
	attrs, all := b.Attrs.(kernels.Adam8Attrs), rulesAt[T](b.dev.level)
	run, last := all.adam8, goAdam8[T]
	if attrs.Decoupled {
		run, last = all.adamW8, goAdamW8[T]
	}
	u := leanAdam[T](b, attrs.AdamAttrs, attrs.Decoupled)
	r := &rule8[T]{m: out[int8](b, 1), root: out[uint8](b, 2), largest: out[T](b, 3)}
	r.means.fill(kernels.TopSigned)
	for i := range 128 { // the bytes of negative codes
		r.means.values[uint8(-i)] = -r.means.values[i]
	}
	r.roots.fill(kernels.TopUnsigned)
	whole := len(u.p) / kernels.Block8
	pieces := b.over(len(r.largest)/2, updateGrain/kernels.Block8, func(lo, hi, _ int) {
		run(r, lo, min(hi, whole))
		last(r, max(lo, whole), hi)
	})
	return func() {
		if u.begin() {
			r.rule, r.unbias = u.rule, T(math.Sqrt(float64(u.own[5])))
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

// adam8 updates one block after the other, whose states are on the stack meanwhile.
func (r *rule8[T]) adam8(shrink T, lo, hi int) {
	var s, v [kernels.Block8]T
	for b := lo; b < hi; b++ {
		from, to := b*kernels.Block8, min((b+1)*kernels.Block8, len(r.p))
		one := r.rule
		one.p, one.g, one.s, one.v = r.p[from:to], r.g[from:to], s[:to-from], v[:to-from]
		m, root, largest := r.m[from:to], r.root[from:to], r.largest[2*b:][:2]
		for i, code := range m {
			one.s[i] = largest[0] * r.means.values[uint8(code)]
			x := largest[1] * r.roots.values[root[i]]
			one.v[i] = x * x
		}
		one.adam(shrink, 0, to-from)
		most := [2]T{}
		for i, x := range one.s {
			y := T(math.Sqrt(float64(one.v[i])))
			one.v[i] = y
			if x = T(math.Abs(float64(x))); x > most[0] { // not where x is NaN
				most[0] = x
			}
			if y > most[1] {
				most[1] = y
			}
		}
		for k, x := range most {
			if largest[k] = 0; x >= kernels.Least8 {
				largest[k] = x
			}
		}
		r.means.means(m, one.s, largest[0])
		r.roots.roots(root, one.v, largest[1])
	}
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
		c.values[code] = kernels.Decode8[T](code, top)
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

// means writes the codes of x, of which the largest magnitude is most.
func (c *coder[T]) means(codes []int8, x []T, most T) {
	if most == 0 {
		clear(codes)
		return
	}
	by := 1 / most
	for i, v := range x {
		negative := int32(math.Float32bits(float32(v))) >> 31
		code := int32(c.encode(T(math.Abs(float64(v))) * by))
		codes[i] = int8((code ^ negative) - negative)
	}
}

// roots writes the codes of x, whose elements are not below 0. One that is not 0 has a code that is not.
func (c *coder[T]) roots(codes []uint8, x []T, most T) {
	if most == 0 {
		clear(codes)
		return
	}
	by := 1 / most
	for i, v := range x {
		code := uint8(c.encode(v * by))
		if code == 0 && v > 0 {
			code = 1
		}
		codes[i] = code
	}
}
