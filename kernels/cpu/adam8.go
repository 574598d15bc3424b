package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// An adam8 is Adam8 bound to memory: Adam or AdamW on one block at a time, whose states lie in the workspace of a worker meanwhile.
type adam8[T float] struct {
	*updater[T]
	m       []int8  // [elements] codes of means
	root    []uint8 // [elements] codes of roots
	largest []T     // [blocks, 2]

	means, roots coder[T]

	workers []rule[T] // s and v are a block's
}

func adam8Work(d *Device, _ any, in, _ []kernels.Spec) int64 {
	return int64(d.pool.threads()) * 2 * kernels.Block8 * in[0].Type.Size()
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

func bindAdam8Of[T float](b *binding) (func(), error) {
	attrs := b.Attrs.(kernels.Adam8Attrs)
	u := leanAdam[T](b, attrs.AdamAttrs, attrs.Decoupled)
	a := &adam8[T]{updater: u, m: out[int8](b, 1), root: out[uint8](b, 2), largest: out[T](b, 3)}
	a.means.fill(kernels.TopSigned)
	for i := range 128 { // the bytes of negative codes
		a.means.values[uint8(-i)] = -a.means.values[i]
	}
	a.roots.fill(kernels.TopUnsigned)
	a.workers = leanWorkers[T](b, kernels.Block8)
	all := b.over(len(a.largest)/2, updateGrain/kernels.Block8, a.blocks)
	return func() {
		if a.begin() {
			all()
		}
	}, nil
}

// leanAdam binds Adam, or AdamW where decoupled, but for its states.
func leanAdam[T float](b *binding, attrs kernels.AdamAttrs, decoupled bool) *updater[T] {
	u, _ := newUpdater[T](b, attrs.Common())
	op := kernels.Adam
	if decoupled {
		op = kernels.AdamW
	}
	u.choose(op, attrs, rulesAt[T](b.dev.level))
	return u
}

// leanWorkers gives each worker a rule with room for the states of n elements, in the workspace.
func leanWorkers[T float](b *binding, n int) []rule[T] {
	workers := make([]rule[T], b.dev.pool.threads())
	work := view[T](b.work())
	for i := range workers {
		w := &workers[i]
		w.s, w.v, work = work[:n], work[n:2*n], work[2*n:]
	}
	return workers
}

// blocks updates some blocks.
func (a *adam8[T]) blocks(lo, hi, worker int) {
	r := &a.workers[worker]
	s, v := r.s, r.v
	*r = a.rule
	for b := lo; b < hi; b++ {
		from, to := b*kernels.Block8, min((b+1)*kernels.Block8, len(a.p))
		r.p, r.g, r.s, r.v = a.p[from:to], a.g[from:to], s[:to-from], v[:to-from]
		m, root, largest := a.m[from:to], a.root[from:to], a.largest[2*b:][:2]
		for i, code := range m {
			r.s[i] = largest[0] * a.means.values[uint8(code)]
			x := largest[1] * a.roots.values[root[i]]
			r.v[i] = x * x
		}
		a.run(r, 0, to-from)
		most := [2]T{}
		for i, x := range r.s {
			y := T(math.Sqrt(float64(r.v[i])))
			r.v[i] = y
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
		a.means.means(m, r.s, largest[0])
		a.roots.roots(root, r.v, largest[1])
	}
	r.s, r.v = s, v
}

// A coder knows the codes of a byte as tables, so that it need not branch on what cannot be foretold.
type coder[T float] struct {
	top          int
	values       [256]T // what a byte stands for
	slope, start [8]T   // the code of x is slope·x + start, by interval: 0 is that of 1
}

func (c *coder[T]) fill(top int) {
	c.top = top
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
	d := min((126-int(math.Float32bits(float32(x))>>23))/3, c.top) & 7
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
