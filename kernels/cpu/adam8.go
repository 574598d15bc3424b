package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/update"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// bindAdam8 prepares an update of Adam or AdamW with 8-bit states.
func bindAdam8(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindAdam8Of[float32](b)
	case arena.Float64:
		return bindAdam8Of[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// Adam and AdamW with 8-bit states in blocks of kernels.Block8 elements. Threads split blocks.

// vectorEpsilon8 is the least Epsilon for assembly, which treats roots below 2⁻⁶³ as 0.
const vectorEpsilon8 = 0x1p-36

// bindAdam8Of updates whole blocks at the device's level, and a shorter last block in Go.
func bindAdam8Of[T float](b *binding) (func(), error) {
	attrs, all := b.Attrs.(kernels.Adam8Attrs), update.At[T](b.dev.level)
	portable := update.At[T](asm.Portable)
	run, last := all.Adam8, portable.Adam8
	if attrs.Decoupled {
		run, last = all.AdamW8, portable.AdamW8
	}
	if attrs.Epsilon < vectorEpsilon8 {
		run = last
	}
	u := newAdam[T](b, attrs.AdamAttrs, attrs.Decoupled)
	span := numeric.MeanSpan(attrs.Beta1, attrs.Beta2)
	u.Coef[1], u.Coef[3], u.Coef[4] = T(attrs.Beta1*span), T(math.Sqrt(attrs.Beta2)), T(math.Sqrt(1-attrs.Beta2))
	rates := u.setRates
	// The root's bias correction scales the rate and ε: the root itself might overflow its type.
	u.setRates = func(c []float64) {
		rates(c)
		unbias := math.Sqrt(c[3])
		u.Coef[0], u.Coef[6] = T(c[0]*unbias/c[2]), T(attrs.Epsilon*unbias)
	}
	r := &update.Rule8[T]{M: out[int8](b, 1), Root: out[uint8](b, 2), Largest: out[T](b, 3), HalfInverse: T(0.5 / span)}
	// Assembly updates whole blocks; pieces are multiples of a block, so only the last one has a
	// tail.
	whole := len(u.P) / kernels.Block8
	pieces := b.parallelFor(len(r.Largest), updateGrain/kernels.Block8, func(lo, hi, _ int) {
		run(r, lo, min(hi, whole))
		last(r, max(lo, whole), hi)
	})
	return func() {
		if u.beginStep() {
			r.Rule = u.Rule
			r.RootNoise, r.MeanNoise = numeric.Dither(uint32(int64(u.controls[1])))
			pieces()
		}
	}, nil
}

// newAdam binds Adam, or AdamW where decoupled, without its states and function.
func newAdam[T float](b *binding, attrs kernels.AdamAttrs, decoupled bool) *updater[T] {
	u, _ := newUpdater[T](b, attrs.Common())
	op := kernels.Adam
	if decoupled {
		op = kernels.AdamW
	}
	u.setRule(op, attrs, update.At[T](asm.Portable))
	return u
}
