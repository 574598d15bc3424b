package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/update"
)

// Optimizer updates, in place: one pass over parameter, gradient and states by internal/asm/update.
// Scalars are combined in float64 and rounded once. States of a parameter without gradients decay
// to denormal numbers, which assembly treats as zero. Threads split elements.

// updateGrain is the elements of a piece of an update.
const updateGrain = 16 * 1024

// An updater is a rule bound to memory, with the operands that change its coefficients from step to
// step.
type updater[T float] struct {
	update.Rule[T]
	guard    []int32
	controls []float64
	scaleBy  []float64 // nil: gradients are not scaled
	clips    bool
	setRates func(controls []float64) // sets the coefficients that depend on controls
	run      func(r *update.Rule[T], lo, hi int)
}

// bindUpdate prepares an update by a rule with states of the parameter's type.
func bindUpdate(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindUpdateOf[float32](b)
	case arena.Float64:
		return bindUpdateOf[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindUpdateOf binds the rule for T.
func bindUpdateOf[T float](b *binding) (func(), error) {
	attrs, ok := b.Attrs.(kernels.Updater)
	if !ok {
		return nil, fmt.Errorf("attributes %T: %w", b.Attrs, kernels.ErrUnsupported)
	}
	u, first := newUpdater[T](b, attrs.Common())
	for k, s := range []*[]T{&u.S, &u.V}[:len(b.In)-first] {
		*s = in[T](b, first+k)
	}
	if !u.setRule(b.Op, b.Attrs, update.At[T](b.dev.level)) {
		return nil, fmt.Errorf("%s with %T: %w", b.Op.Name, b.Attrs, kernels.ErrUnsupported)
	}
	r, run := &u.Rule, u.run
	if len(u.P) <= updateGrain {
		return func() {
			if u.beginStep() {
				run(r, 0, len(r.P))
			}
		}, nil
	}
	all := b.parallelFor(len(u.P), updateGrain, func(lo, hi, _ int) { run(r, lo, hi) })
	return func() {
		if u.beginStep() {
			all()
		}
	}, nil
}

// newUpdater binds what all rules share. first is the operand that holds the first state.
func newUpdater[T float](b *binding, common kernels.UpdateAttrs) (u *updater[T], first int) {
	u, first = &updater[T]{guard: in[int32](b, 2), controls: in[float64](b, 3), clips: common.ClipValue > 0}, 4
	u.P, u.G = in[T](b, 0), in[T](b, 1)
	u.Scale, u.Down, u.Max, u.Decay = 1, 1, T(math.Inf(1)), T(common.Decay)
	if u.clips {
		u.Max = T(common.ClipValue)
	}
	u.Min = -u.Max
	if common.Scaled {
		u.scaleBy, first = in[float64](b, 4), 5
	}
	return u, first
}

// beginStep sets what depends on the step. It returns false where the guard is set: then the update
// is skipped.
func (u *updater[T]) beginStep() bool {
	if u.guard[0] != 0 {
		return false
	}
	if u.scaleBy != nil {
		u.Scale, u.Down = factors[T](u.scaleBy[0])
	}
	u.Prepare = 0
	if u.Scale != 1 || u.clips || u.Decay != 0 {
		u.Prepare = 1
	}
	u.setRates(u.controls)
	return true
}

// factors returns two numbers whose product is scale. A single one could be denormal: gradients up to
// the largest number are scaled down to a norm of 1 by less than the smallest normal number.
func factors[T float](scale float64) (by, down T) {
	if by = T(scale); by > 0x1p-100 || by != by {
		return by, 1
	}
	const first = 0x1p-100
	return T(scale / first), first
}

// setRule sets the rule's function and coefficients, and reports whether there is one.
func (u *updater[T]) setRule(op *kernels.Op, attrs any, all *update.Kernels[T]) bool {
	own := &u.Coef
	u.setRates = func(c []float64) { own[0] = T(c[0]) }
	switch a := attrs.(type) {
	case kernels.SGDAttrs:
		u.run = all.SGD
	case kernels.MomentumAttrs:
		u.run, own[1] = all.Momentum, T(a.Momentum)
		if a.Nesterov {
			u.run = all.Nesterov
		}
	case kernels.RMSPropAttrs:
		u.run = all.RMSProp
		own[1], own[2], own[3] = T(a.Rho), T(1-a.Rho), T(a.Epsilon)
	case kernels.LionAttrs:
		u.run, u.Decay = all.Lion, 0
		own[1], own[2], own[3], own[4] = T(a.Beta1), T(1-a.Beta1), T(a.Beta2), T(1-a.Beta2)
		own[5], own[6], own[7] = T(a.Decay), 1, T(math.Copysign(0, -1))
	case kernels.AdamAttrs:
		u.run = all.Adam
		own[1], own[2], own[3], own[4] = T(a.Beta1), T(1-a.Beta1), T(a.Beta2), T(1-a.Beta2)
		own[6] = T(a.Epsilon)
		decay := 0.0
		if op == kernels.AdamW {
			u.run, u.Decay, decay = all.AdamW, 0, a.Decay
		}
		u.setRates = func(c []float64) { // bias corrections scale the rate and the mean of squares
			own[0], own[5], own[7] = T(c[0]/c[2]), T(1/c[3]), T(c[0]*decay)
		}
	default:
		return false
	}
	return true
}
