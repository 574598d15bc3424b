package update

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// runLen is the number of elements whose gradients are prepared at once, on the stack.
const runLen = 256

// goKernels returns the Go twins.
func goKernels[T asm.Float]() *Kernels[T] {
	return &Kernels[T]{
		SGD: goSgd[T], Momentum: goMomentum[T], Nesterov: goNesterov[T], RMSProp: goRmsProp[T],
		Adam: goAdam[T], AdamW: goAdamW[T], Lion: goLion[T],
		Adam16: goAdam16[T], AdamW16: goAdamW16[T], Adam8: goAdam8[T], AdamW8: goAdamW8[T],
	}
}

// grads returns the gradients of p, which is r.P from lo on: as they are, or prepared in tile.
func (r *Rule[T]) grads(tile, p []T, lo int) []T {
	g := r.G[lo:][:len(p)]
	if r.Prepare == 0 {
		return g
	}
	tile = tile[:len(p)]
	for i, v := range g {
		v = v * r.Down * r.Scale
		if v > r.Max {
			v = r.Max
		}
		if v < r.Min {
			v = r.Min
		}
		tile[i] = v + r.Decay*p[i]
	}
	return tile
}

// byType returns the limit for T.
func byType[T asm.Float](single, double float64) T {
	var t T
	if _, ok := any(t).(float32); ok {
		return T(single)
	}
	return T(double)
}

// mostSquared is numeric.MostSquared.
func mostSquared[T asm.Float]() T { return byType[T](numeric.MostSquared32, numeric.MostSquared64) }

// finite returns x, or the largest number of its sign if x is infinite. NaN stays NaN.
func finite[T asm.Float](x T) T {
	if x-x == 0 {
		return x
	}
	return within(x, byType[T](math.MaxFloat32, math.MaxFloat64))
}

// within limits the magnitude of x to most; NaN stays NaN.
func within[T asm.Float](x, most T) T {
	if x > most {
		return most
	}
	if x < -most {
		return -most
	}
	return x
}

// goSgd is Kernels.SGD.
func goSgd[T asm.Float](r *Rule[T], lo, hi int) {
	rate := r.Coef[0]
	var tile [runLen]T
	for ; lo < hi; lo += runLen {
		p := r.P[lo:min(hi, lo+runLen)]
		g := r.grads(tile[:], p, lo)[:len(p)]
		for i, x := range p {
			p[i] = x - rate*g[i]
		}
	}
}

// goMomentum is Kernels.Momentum.
func goMomentum[T asm.Float](r *Rule[T], lo, hi int) {
	rate, mu := r.Coef[0], r.Coef[1]
	var tile [runLen]T
	for ; lo < hi; lo += runLen {
		p := r.P[lo:min(hi, lo+runLen)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.S[lo:][:len(p)]
		for i, x := range p {
			v := finite(mu*s[i] + g[i])
			s[i] = v
			p[i] = x - rate*v
		}
	}
}

// goNesterov is Kernels.Nesterov.
func goNesterov[T asm.Float](r *Rule[T], lo, hi int) {
	rate, mu := r.Coef[0], r.Coef[1]
	var tile [runLen]T
	for ; lo < hi; lo += runLen {
		p := r.P[lo:min(hi, lo+runLen)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.S[lo:][:len(p)]
		for i, x := range p {
			v := finite(mu*s[i] + g[i])
			s[i] = v
			p[i] = x - rate*finite(mu*v+g[i])
		}
	}
}

// goRmsProp is Kernels.RMSProp.
func goRmsProp[T asm.Float](r *Rule[T], lo, hi int) {
	rate, rho, rest, eps := r.Coef[0], r.Coef[1], r.Coef[2], r.Coef[3]
	most := mostSquared[T]()
	var tile [runLen]T
	for ; lo < hi; lo += runLen {
		p := r.P[lo:min(hi, lo+runLen)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.S[lo:][:len(p)]
		for i, x := range p {
			d := within(g[i], most)
			v := rho*s[i] + rest*d*d
			s[i] = v
			p[i] = x - rate*d/(T(math.Sqrt(float64(v)))+eps)
		}
	}
}

// goAdam is Kernels.Adam.
func goAdam[T asm.Float](r *Rule[T], lo, hi int) { r.adam(0, mostSquared[T](), lo, hi) }

// goAdamW is Kernels.AdamW.
func goAdamW[T asm.Float](r *Rule[T], lo, hi int) { r.adam(r.Coef[7], mostSquared[T](), lo, hi) }

// adam updates elements lo..hi-1. shrink is the factor of weight decay, most the limit of gradients.
func (r *Rule[T]) adam(shrink, most T, lo, hi int) {
	rate, b1, r1, b2, r2, inv, eps := r.Coef[0], r.Coef[1], r.Coef[2], r.Coef[3], r.Coef[4], r.Coef[5], r.Coef[6]
	var tile [runLen]T
	for ; lo < hi; lo += runLen {
		p := r.P[lo:min(hi, lo+runLen)]
		g := r.grads(tile[:], p, lo)[:len(p)]
		s0, s1 := r.S[lo:][:len(p)], r.V[lo:][:len(p)]
		for i, x := range p {
			d := within(g[i], most)
			m := b1*s0[i] + r1*d
			v := b2*s1[i] + r2*d*d
			s0[i], s1[i] = m, v
			p[i] = x - shrink*x - rate*m/(T(math.Sqrt(float64(v*inv)))+eps)
		}
	}
}

// goLion is Kernels.Lion.
func goLion[T asm.Float](r *Rule[T], lo, hi int) {
	rate, b1, r1, b2, r2, decay := r.Coef[0], r.Coef[1], r.Coef[2], r.Coef[3], r.Coef[4], r.Coef[5]
	var tile [runLen]T
	for ; lo < hi; lo += runLen {
		p := r.P[lo:min(hi, lo+runLen)]
		g, s := r.grads(tile[:], p, lo)[:len(p)], r.S[lo:][:len(p)]
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
