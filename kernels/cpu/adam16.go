package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// An adam16 is Adam16 bound to memory: Adam or AdamW on some elements at a time, whose states lie in the workspace of a worker meanwhile.
type adam16[T float] struct {
	*updater[T]
	m, squares []uint16
	t          uint32    // the number of the update
	workers    []rule[T] // s and v have room for tile16 elements
}

const tile16 = 256 // elements

func adam16Work(d *Device, _ any, in, _ []kernels.Spec) int64 {
	return int64(d.pool.threads()) * 2 * tile16 * in[0].Type.Size()
}

func bindAdam16(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindAdam16Of[float32](b)
	case arena.Float64:
		return bindAdam16Of[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func bindAdam16Of[T float](b *binding) (func(), error) {
	attrs := b.Attrs.(kernels.Adam16Attrs)
	u := leanAdam[T](b, attrs.AdamAttrs, attrs.Decoupled)
	a := &adam16[T]{updater: u, m: out[uint16](b, 1), squares: out[uint16](b, 2), workers: leanWorkers[T](b, tile16)}
	all := b.over(len(a.p), updateGrain, a.elements)
	return func() {
		if a.begin() {
			a.t = uint32(int64(a.controls[1]))
			all()
		}
	}, nil
}

// elements updates elements lo to hi-1.
func (a *adam16[T]) elements(lo, hi, worker int) {
	r := &a.workers[worker]
	s, v := r.s, r.v
	*r = a.rule
	var noise [tile16]uint32
	for from := lo; from < hi; from += tile16 {
		to := min(from+tile16, hi)
		n := to - from
		r.p, r.g, r.s, r.v = a.p[from:to], a.g[from:to], s[:n], v[:n]
		m, squares := a.m[from:to], a.squares[from:to]
		for i, p := range r.p {
			noise[i] = kernels.Noise(kernels.Word(p), kernels.Word(r.g[i]), a.t)
			r.s[i] = T(kernels.FromBfloat16(m[i]))
			r.v[i] = T(kernels.FromBfloat16(squares[i]))
		}
		a.run(r, 0, n)
		for i, bits := range noise[:n] {
			m[i] = kernels.DitherBfloat16(float32(r.s[i]), uint16(bits))
			squares[i] = kernels.DitherBfloat16(float32(r.v[i]), uint16(bits>>16))
		}
	}
	r.s, r.v = s, v
}
