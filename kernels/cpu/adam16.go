package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/update"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// bindAdam16 prepares an update of Adam or AdamW with bfloat16 states.
func bindAdam16(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindAdam16Of[float32](b)
	case arena.Float64:
		return bindAdam16Of[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindAdam16Of binds the update. The rounding noise of a step depends on its number, controls[1],
// so that a repeated run rounds alike.
func bindAdam16Of[T float](b *binding) (func(), error) {
	attrs, all := b.Attrs.(kernels.Adam16Attrs), update.At[T](b.dev.level)
	run := all.Adam16
	if attrs.Decoupled {
		run = all.AdamW16
	}
	u := newAdam[T](b, attrs.AdamAttrs, attrs.Decoupled)
	r := &update.Rule16[T]{M: out[uint16](b, 1), V: out[uint16](b, 2)}
	pieces := b.parallelFor(len(u.P), updateGrain, func(lo, hi, _ int) { run(r, lo, hi) })
	return func() {
		if u.beginStep() {
			r.Rule, r.Key = u.Rule, uint32(int64(u.controls[1]))*numeric.NoiseUpdate
			pieces()
		}
	}, nil
}
