package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Optimizer rules make one pass over parameter, gradient and states. Scalars are combined in float64 and rounded once.
// Denormal numbers, which the states of a parameter without gradients decay to, are taken for 0 by the assembly.

const updateGrain = 16 * 1024 // elements of a piece of an update

// A rule is an optimizer rule bound to memory. The assembly knows the fields' offsets.
type rule[T float] struct {
	p, g    []T // parameter and gradient
	s, v    []T // states
	prepare int // 1: gradients are prepared, 0: they are used as they are

	// A gradient is prepared by scaling it, clipping it to least..most, and adding decay·p.
	scale, most, least, decay T
	own                       [8]T // the rule's own numbers: see its function
}

// rules holds the functions of a level for one type. Each updates elements lo..hi-1.
type rules[T float] struct {
	sgd      func(r *rule[T], lo, hi int) // p -= own[0]·g
	momentum func(r *rule[T], lo, hi int) // s = own[1]·s + g; p -= own[0]·s
	nesterov func(r *rule[T], lo, hi int) // s = own[1]·s + g; p -= own[0]·(own[1]·s + g)
	rmsProp  func(r *rule[T], lo, hi int) // s = own[1]·s + own[2]·g²; p -= own[0]·g / (√s + own[3])
	adam     func(r *rule[T], lo, hi int) // s = own[1]·s + own[2]·g; v = own[3]·v + own[4]·g²; p -= own[0]·s / (√(own[5]·v) + own[6])
	adamW    func(r *rule[T], lo, hi int) // as adam, and p -= own[7]·p
	lion     func(r *rule[T], lo, hi int) // t = own[1]·s + own[2]·g; s = own[3]·s + own[4]·g; p -= own[0]·(sign(t) + own[5]·p)

	adam16, adamW16 func(r *rule16[T], lo, hi int) // as adam and adamW
	adam8, adamW8   func(r *rule8[T], lo, hi int)  // of blocks, which assembly wants whole
}

// rulesAt returns the functions of a level.
func rulesAt[T float](l asm.Level) *rules[T] {
	var t T
	if _, single := any(t).(float32); single {
		return any(rules32(l)).(*rules[T])
	}
	return any(rules64(l)).(*rules[T])
}

// An updater is a rule with what changes from step to step.
type updater[T float] struct {
	rule[T]
	guard    []int32
	controls []float64
	by       []float64 // nil: gradients are not scaled
	clips    bool
	rates    func(controls []float64) // sets the rule's own numbers that depend on them
	run      func(r *rule[T], lo, hi int)
}

func bindUpdate(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindUpdateOf[float32](b)
	case arena.Float64:
		return bindUpdateOf[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func bindUpdateOf[T float](b *binding) (func(), error) {
	attrs, ok := b.Attrs.(kernels.Updater)
	if !ok {
		return nil, fmt.Errorf("attributes %T: %w", b.Attrs, kernels.ErrUnsupported)
	}
	u, first := newUpdater[T](b, attrs.Common())
	for k, s := range []*[]T{&u.s, &u.v}[:len(b.In)-first] {
		*s = in[T](b, first+k)
	}
	if !u.choose(b.Op, b.Attrs, rulesAt[T](b.dev.level)) {
		return nil, fmt.Errorf("%s with %T: %w", b.Op.Name, b.Attrs, kernels.ErrUnsupported)
	}
	r, run := &u.rule, u.run
	if len(u.p) <= updateGrain {
		return func() {
			if u.begin() {
				run(r, 0, len(r.p))
			}
		}, nil
	}
	all := b.over(len(u.p), updateGrain, func(lo, hi, _ int) { run(r, lo, hi) })
	return func() {
		if u.begin() {
			all()
		}
	}, nil
}

// newUpdater binds what all rules share, and returns which operand is the first state.
func newUpdater[T float](b *binding, common kernels.UpdateAttrs) (u *updater[T], first int) {
	u, first = &updater[T]{guard: in[int32](b, 2), controls: in[float64](b, 3), clips: common.ClipValue > 0}, 4
	u.p, u.g = in[T](b, 0), in[T](b, 1)
	u.scale, u.most, u.decay = 1, T(math.Inf(1)), T(common.Decay)
	if u.clips {
		u.most = T(common.ClipValue)
	}
	u.least = -u.most
	if common.Scaled {
		u.by, first = in[float64](b, 4), 5
	}
	return u, first
}

// begin sets what depends on the step, and reports whether there is anything to do.
func (u *updater[T]) begin() bool {
	if u.guard[0] != 0 {
		return false
	}
	if u.by != nil {
		u.scale = T(u.by[0])
	}
	u.prepare = 0
	if u.scale != 1 || u.clips || u.decay != 0 {
		u.prepare = 1
	}
	u.rates(u.controls)
	return true
}

// choose sets the rule's function and numbers, and reports whether there is one.
func (u *updater[T]) choose(op *kernels.Op, attrs any, all *rules[T]) bool {
	own := &u.own
	u.rates = func(c []float64) { own[0] = T(c[0]) }
	switch a := attrs.(type) {
	case kernels.SgdAttrs:
		u.run = all.sgd
	case kernels.MomentumAttrs:
		u.run, own[1] = all.momentum, T(a.Momentum)
		if a.Nesterov {
			u.run = all.nesterov
		}
	case kernels.RmsPropAttrs:
		u.run = all.rmsProp
		own[1], own[2], own[3] = T(a.Rho), T(1-a.Rho), T(a.Epsilon)
	case kernels.LionAttrs:
		u.run, u.decay = all.lion, 0
		own[1], own[2], own[3], own[4] = T(a.Beta1), T(1-a.Beta1), T(a.Beta2), T(1-a.Beta2)
		own[5], own[6], own[7] = T(a.Decay), 1, T(math.Copysign(0, -1))
	case kernels.AdamAttrs:
		u.run = all.adam
		own[1], own[2], own[3], own[4] = T(a.Beta1), T(1-a.Beta1), T(a.Beta2), T(1-a.Beta2)
		own[6] = T(a.Epsilon)
		decay := 0.0
		if op == kernels.AdamW {
			u.run, u.decay, decay = all.adamW, 0, a.Decay
		}
		u.rates = func(c []float64) { // the bias corrections go into the rate and under the root
			own[0], own[5], own[7] = T(c[0]/c[2]), T(1/c[3]), T(c[0]*decay)
		}
	default:
		return false
	}
	return true
}
