package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A rule16 is a rule whose states are bfloat16, in place of s and v. The assembly knows the fields' offsets.
type rule16[T float] struct {
	rule[T]
	m, squares []uint16
	key        uint32 // what the number of the update adds to noise
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
	attrs, all := b.Attrs.(kernels.Adam16Attrs), rulesAt[T](b.dev.level)
	run := all.adam16
	if attrs.Decoupled {
		run = all.adamW16
	}
	u := leanAdam[T](b, attrs.AdamAttrs, attrs.Decoupled)
	r := &rule16[T]{m: out[uint16](b, 1), squares: out[uint16](b, 2)}
	pieces := b.over(len(u.p), updateGrain, func(lo, hi, _ int) { run(r, lo, hi) })
	return func() {
		if u.begin() {
			r.rule, r.key = u.rule, uint32(int64(u.controls[1]))*numeric.NoiseUpdate
			pieces()
		}
	}, nil
}

func goAdam16[T float](r *rule16[T], lo, hi int) { r.adam16(0, lo, hi) }

func goAdamW16[T float](r *rule16[T], lo, hi int) { r.adam16(r.own[7], lo, hi) }

// adam16 updates some elements at a time, whose states are on the stack meanwhile.
func (r *rule16[T]) adam16(shrink T, lo, hi int) {
	var noise [updateRun]uint32
	var s, v [updateRun]T
	for ; lo < hi; lo += updateRun {
		n := min(hi-lo, updateRun)
		some := r.rule
		some.p, some.g, some.s, some.v = r.p[lo:lo+n], r.g[lo:lo+n], s[:n], v[:n]
		m, squares := r.m[lo:lo+n], r.squares[lo:lo+n]
		for i, p := range some.p {
			noise[i] = numeric.Noise(numeric.Word(p), numeric.Word(some.g[i])+r.key, 0) // the update is in the key
			s[i], v[i] = T(numeric.FromBFloat16(m[i])), T(numeric.FromBFloat16(squares[i]))
		}
		some.adam(shrink, 0, n)
		for i, bits := range noise[:n] {
			m[i] = numeric.DitherBFloat16(float32(s[i]), uint16(bits))
			squares[i] = numeric.DitherBFloat16(float32(v[i]), uint16(bits>>16))
		}
	}
}
