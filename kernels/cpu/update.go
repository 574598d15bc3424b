package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Optimizer rules make one pass over parameter, gradient and states. Scalars are combined in float64 and rounded once.

const (
	updateGrain = 8 * 1024 // elements of a piece of an update
	updateRun   = 256      // elements whose gradients are prepared at once, on the stack
)

// An updater is a rule bound to memory: param, grad, guard, controls (, scale), states.
type updater[T float] struct {
	p, g     []T
	s        [2][]T // states
	guard    []int32
	controls []float64
	scale    []float64 // nil: gradients are not scaled
	common   kernels.UpdateAttrs
}

// A gradient is what happens to gradients before the rule: scaled, clipped, decayed.
type gradient[T float] struct {
	scale, clip, decay T
	plain              bool // nothing happens
}

func (u *updater[T]) gradient(decoupled bool) gradient[T] {
	c := gradient[T]{scale: 1, clip: T(math.Inf(1)), decay: T(u.common.Decay)}
	if u.scale != nil {
		c.scale = T(u.scale[0])
	}
	if u.common.ClipValue > 0 {
		c.clip = T(u.common.ClipValue)
	}
	if decoupled {
		c.decay = 0
	}
	c.plain = c.scale == 1 && u.common.ClipValue == 0 && c.decay == 0
	return c
}

// of returns the gradients that the rule sees: g itself, or tile.
func (c *gradient[T]) of(tile, g, p []T) []T {
	if c.plain {
		return g
	}
	tile, p = tile[:len(g)], p[:len(g)]
	for i, v := range g {
		v *= c.scale
		if v > c.clip {
			v = c.clip
		}
		if v < -c.clip {
			v = -c.clip
		}
		tile[i] = v + c.decay*p[i]
	}
	return tile
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
	u := &updater[T]{
		p: in[T](b, 0), g: in[T](b, 1), guard: in[int32](b, 2), controls: in[float64](b, 3), common: attrs.Common(),
	}
	first := 4
	if u.common.Scaled {
		u.scale, first = in[float64](b, 4), 5
	}
	for k := range b.In[first:] {
		u.s[k] = in[T](b, first+k)
	}
	f := u.rule(b.Op, b.Attrs)
	if f == nil {
		return nil, fmt.Errorf("%s with %T: %w", b.Op.Name, b.Attrs, kernels.ErrUnsupported)
	}
	all := b.over(len(u.p), updateGrain, func(lo, hi, _ int) { f(lo, hi) })
	return func() {
		if u.guard[0] == 0 {
			all()
		}
	}, nil
}

// rule returns the update of elements lo..hi-1, or nil.
func (u *updater[T]) rule(op *kernels.Op, attrs any) func(lo, hi int) {
	switch a := attrs.(type) {
	case kernels.SgdAttrs:
		return u.sgd
	case kernels.MomentumAttrs:
		return func(lo, hi int) { u.momentum(a, lo, hi) }
	case kernels.RmsPropAttrs:
		return func(lo, hi int) { u.rmsProp(a, lo, hi) }
	case kernels.LionAttrs:
		return func(lo, hi int) { u.lion(a, lo, hi) }
	case kernels.AdamAttrs:
		decoupled := op == kernels.AdamW
		return func(lo, hi int) { u.adam(a, decoupled, lo, hi) }
	}
	return nil
}

func (u *updater[T]) sgd(lo, hi int) {
	c, rate := u.gradient(false), T(u.controls[0])
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := u.p[lo:min(hi, lo+updateRun)]
		g := c.of(tile[:], u.g[lo:lo+len(p)], p)[:len(p)]
		for i, x := range p {
			p[i] = x - rate*g[i]
		}
	}
}

func (u *updater[T]) momentum(a kernels.MomentumAttrs, lo, hi int) {
	c, rate, mu := u.gradient(false), T(u.controls[0]), T(a.Momentum)
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := u.p[lo:min(hi, lo+updateRun)]
		g, s := c.of(tile[:], u.g[lo:lo+len(p)], p)[:len(p)], u.s[0][lo:][:len(p)]
		for i, x := range p {
			v := mu*s[i] + g[i]
			s[i] = v
			if a.Nesterov {
				v = g[i] + mu*v
			}
			p[i] = x - rate*v
		}
	}
}

func (u *updater[T]) rmsProp(a kernels.RmsPropAttrs, lo, hi int) {
	c, rate := u.gradient(false), T(u.controls[0])
	rho, rest, eps := T(a.Rho), T(1-a.Rho), T(a.Epsilon)
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := u.p[lo:min(hi, lo+updateRun)]
		g, s := c.of(tile[:], u.g[lo:lo+len(p)], p)[:len(p)], u.s[0][lo:][:len(p)]
		for i, x := range p {
			d := g[i]
			v := rho*s[i] + rest*d*d
			s[i] = v
			p[i] = x - rate*d/(T(math.Sqrt(float64(v)))+eps)
		}
	}
}

func (u *updater[T]) lion(a kernels.LionAttrs, lo, hi int) {
	c, rate, decay := u.gradient(true), T(u.controls[0]), T(a.Decay)
	b1, r1, b2, r2 := T(a.Beta1), T(1-a.Beta1), T(a.Beta2), T(1-a.Beta2)
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := u.p[lo:min(hi, lo+updateRun)]
		g, s := c.of(tile[:], u.g[lo:lo+len(p)], p)[:len(p)], u.s[0][lo:][:len(p)]
		for i, x := range p {
			d, m := g[i], s[i]
			s[i] = b2*m + r2*d
			step := b1*m + r1*d
			switch {
			case step > 0:
				step = 1
			case step < 0:
				step = -1
			}
			p[i] = x - rate*(step+decay*x)
		}
	}
}

// adam is Adam, and AdamW where decay is decoupled. The bias corrections are folded into the rate and under the root.
func (u *updater[T]) adam(a kernels.AdamAttrs, decoupled bool, lo, hi int) {
	c := u.gradient(decoupled)
	rate, inv := T(u.controls[0]/u.controls[2]), T(1/u.controls[3])
	var shrink T
	if decoupled {
		shrink = T(u.controls[0] * a.Decay)
	}
	b1, r1, b2, r2, eps := T(a.Beta1), T(1-a.Beta1), T(a.Beta2), T(1-a.Beta2), T(a.Epsilon)
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := u.p[lo:min(hi, lo+updateRun)]
		g := c.of(tile[:], u.g[lo:lo+len(p)], p)[:len(p)]
		s0, s1 := u.s[0][lo:][:len(p)], u.s[1][lo:][:len(p)]
		for i, x := range p {
			d := g[i]
			m := b1*s0[i] + r1*d
			v := b2*s1[i] + r2*d*d
			s0[i], s1[i] = m, v
			p[i] = x - rate*m/(T(math.Sqrt(float64(v*inv)))+eps) - shrink*x
		}
	}
}
