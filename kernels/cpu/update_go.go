package cpu

import "math"

// updateRun is how many elements' gradients are prepared at once, on the stack.
const updateRun = 256

// goRules holds the rules in Go.
func goRules[T float]() *rules[T] {
	return &rules[T]{
		sgd: goSgd[T], momentum: goMomentum[T], nesterov: goNesterov[T], rmsProp: goRmsProp[T],
		adam: goAdam[T], adamW: goAdamW[T], lion: goLion[T],
		adam16: goAdam16[T], adamW16: goAdamW16[T], adam8: goAdam8[T], adamW8: goAdamW8[T],
	}
}

// grads returns the gradients of p's elements, from lo on: as they are, or prepared in tile.
func (r *rule[T]) grads(tile, p []T, lo int) []T {
	g := r.g[lo:][:len(p)]
	if r.prepare == 0 {
		return g
	}
	tile = tile[:len(p)]
	for i, v := range g {
		v *= r.scale
		if v > r.most {
			v = r.most
		}
		if v < r.least {
			v = r.least
		}
		tile[i] = v + r.decay*p[i]
	}
	return tile
}

func goSgd[T float](r *rule[T], lo, hi int) {
	rate := r.own[0]
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := r.p[lo:min(hi, lo+updateRun)]
		g := r.grads(tile[:], p, lo)[:len(p)]
		for i, x := range p {
			p[i] = x - rate*g[i]
		}
	}
}

func goMomentum[T float](r *rule[T], lo, hi int) {
	rate, mu := r.own[0], r.own[1]
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := r.p[lo:min(hi, lo+updateRun)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.s[lo:][:len(p)]
		for i, x := range p {
			v := mu*s[i] + g[i]
			s[i] = v
			p[i] = x - rate*v
		}
	}
}

func goNesterov[T float](r *rule[T], lo, hi int) {
	rate, mu := r.own[0], r.own[1]
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := r.p[lo:min(hi, lo+updateRun)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.s[lo:][:len(p)]
		for i, x := range p {
			v := mu*s[i] + g[i]
			s[i] = v
			p[i] = x - rate*(mu*v+g[i])
		}
	}
}

func goRmsProp[T float](r *rule[T], lo, hi int) {
	rate, rho, rest, eps := r.own[0], r.own[1], r.own[2], r.own[3]
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := r.p[lo:min(hi, lo+updateRun)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.s[lo:][:len(p)]
		for i, x := range p {
			d := g[i]
			v := rho*s[i] + rest*d*d
			s[i] = v
			p[i] = x - rate*d/(T(math.Sqrt(float64(v)))+eps)
		}
	}
}

func goAdam[T float](r *rule[T], lo, hi int) { r.adam(0, lo, hi) }

func goAdamW[T float](r *rule[T], lo, hi int) { r.adam(r.own[7], lo, hi) }

func (r *rule[T]) adam(shrink T, lo, hi int) {
	rate, b1, r1, b2, r2, inv, eps := r.own[0], r.own[1], r.own[2], r.own[3], r.own[4], r.own[5], r.own[6]
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := r.p[lo:min(hi, lo+updateRun)]
		g := r.grads(tile[:], p, lo)[:len(p)]
		s0, s1 := r.s[lo:][:len(p)], r.v[lo:][:len(p)]
		for i, x := range p {
			d := g[i]
			m := b1*s0[i] + r1*d
			v := b2*s1[i] + r2*d*d
			s0[i], s1[i] = m, v
			p[i] = x - shrink*x - rate*m/(T(math.Sqrt(float64(v*inv)))+eps)
		}
	}
}

func goLion[T float](r *rule[T], lo, hi int) {
	rate, b1, r1, b2, r2, decay := r.own[0], r.own[1], r.own[2], r.own[3], r.own[4], r.own[5]
	var tile [updateRun]T
	for ; lo < hi; lo += updateRun {
		p := r.p[lo:min(hi, lo+updateRun)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.s[lo:][:len(p)]
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
