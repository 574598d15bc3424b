package cpu

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/norm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Group normalization of x [B, C, n] by groups of channels of an image, and its gradient. A task is
// one group of one image, which stays in the cache between its sums and its result. Groups of an
// extreme scale are left to norm.ExtremePlanes. Workspace of the gradient: float64 [B][C][2], each
// plane's share of dbeta and dgamma.

// groupNormGradWork returns the workspace of the gradient in bytes.
func groupNormGradWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	s := in[0].Shape
	return 16 * int64(s[0]) * int64(s[1])
}

// bindGroupNorm prepares a group normalization or its gradient.
func bindGroupNorm(b *binding) (func(), error) {
	grad := b.Op == kernels.GroupNormGrad
	switch {
	case b.In[0].Type == arena.Float32 && grad:
		return bindGroupNormGradOf[float32](b), nil
	case b.In[0].Type == arena.Float32:
		return bindGroupNormOf[float32](b), nil
	case b.In[0].Type == arena.Float64 && grad:
		return bindGroupNormGradOf[float64](b), nil
	case b.In[0].Type == arena.Float64:
		return bindGroupNormOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// A groupNorm holds what forward and backward pass share.
type groupNorm[T float] struct {
	planes
	attrs   kernels.GroupNormAttrs
	size    int // channels of a group
	kernels *norm.PlaneKernels[T]
	workers []planeWorker[T]
	x       []T
	gamma   []T
}

// newGroupNorm binds the inputs that both passes share.
func newGroupNorm[T float](b *binding) *groupNorm[T] {
	n := &groupNorm[T]{planes: newPlanes(b.In[0].Shape), attrs: b.Attrs.(kernels.GroupNormAttrs), kernels: norm.PlanesAt[T](b.dev.level),
		workers: newPlaneWorkers[T](b), x: in[T](b, 0), gamma: in[T](b, 1)}
	n.size = n.c / n.attrs.Groups
	return n
}

// forGroups returns a launch that calls f with every group of every image: its index, its image and
// its first channel.
func (n *groupNorm[T]) forGroups(b *binding, f func(w *planeWorker[T], place, image, c int)) func() {
	return b.parallelFor(n.b*n.attrs.Groups, max(1, planeGrain/(n.size*n.n)), func(lo, hi, worker int) {
		for u := lo; u < hi; u++ {
			f(&n.workers[worker], u, u/n.attrs.Groups, u%n.attrs.Groups*n.size)
		}
	})
}

// forTiles calls f with each tile of the group that starts at channel c.
func (n *groupNorm[T]) forTiles(c int, f func(c, channels int)) {
	for k := 0; k < n.size; k += n.tile {
		f(c+k, min(n.tile, n.size-k))
	}
}

// bindGroupNormOf binds the forward pass: mean and variance of the group as one plane, then its
// result by channel.
func bindGroupNormOf[T float](b *binding) func() {
	n := newGroupNorm[T](b)
	beta := in[T](b, 2)
	y, mean, rstd := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	whole := planes{b: n.b * n.attrs.Groups, c: 1, n: n.size * n.n} // a group as one plane
	return n.forGroups(b, func(w *planeWorker[T], g, image, c int) {
		w.call.Relu = 0
		// The sums of the group are taken as if it were one plane of one channel.
		w.setPivots(&whole, n.kernels.For(whole.n).Moments, n.x, 0, 1, g, 1)
		w.accumulate(&whole, n.kernels.For(whole.n).Moments, n.x, n.x, 0, 1, g, 1)
		// mean = pivot + s/count, variance = (q - s²/count)/count with q = Σ(x - pivot)².
		pivot, s, count := float64(w.of[norm.ParamMean]), w.sums[0][0], float64(whole.n)
		m, r := pivot+s/count, norm.Rstd((w.sums[0][1]-s*s/count)/count, n.attrs.Eps)
		mean[g], rstd[g] = T(m), T(r)
		if at := g * whole.n; !norm.Regular(rstd[g]) {
			x := n.x[at : at+whole.n]
			all := numeric.MomentsOf(slices.Values([][]T{x}))
			mean[g], rstd[g] = T(all.Mean()), T(all.Rstd(n.attrs.Eps))
			norm.ExtremePlanes(all.Standard(n.attrs.Eps), x, y[at:at+whole.n], n.gamma[c:], beta[c:], n.n)
			return
		}
		n.forTiles(c, func(c, channels int) {
			for k := range channels {
				// What the rounding of the mean leaves is part of the shift.
				scale, of := float64(n.gamma[c+k])*r, w.of[k*norm.Params:]
				of[norm.ParamMean], of[norm.ParamScale] = mean[g], T(scale)
				of[norm.ParamShift] = T(float64(beta[c+k]) - (m-float64(mean[g]))*scale)
			}
			w.apply(&n.planes, n.kernels.For(n.n).Scale, n.x, n.x, y, w.of[:], c, channels, image, 1)
		})
	})
}

// bindGroupNormGradOf binds the gradient: sums of each channel, combined with gamma to the group's,
// then dx; join adds the shares of dgamma and dbeta over images.
func bindGroupNormGradOf[T float](b *binding) func() {
	n := newGroupNorm[T](b)
	mean, rstd, dy := in[T](b, 2), in[T](b, 3), in[T](b, 4)
	dx, dgamma, dbeta := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	part := asm.View[float64](b.work())[:2*n.b*n.c]
	count := float64(n.size * n.n)
	groups := n.forGroups(b, func(w *planeWorker[T], g, image, c int) {
		w.call.Relu = 0
		if at, size := g*n.size*n.n, n.size*n.n; size == 1 || !norm.Regular(rstd[g]) {
			norm.ExtremePlanesGrad(n.x[at:at+size], dy[at:at+size], dx[at:at+size], n.gamma[c:], mean[g], rstd[g], n.n,
				func(k int, s, q float64) { copy(part[2*(image*n.c+c+k):], []float64{s, q}) })
			return
		}
		r := float64(rstd[g])
		sum, dot := 0.0, 0.0
		n.forTiles(c, func(c, channels int) {
			clear(w.sums[:channels])
			for k := range channels {
				w.of[k*norm.Params+norm.ParamMean] = mean[g]
			}
			w.accumulate(&n.planes, n.kernels.For(n.n).Products, n.x, dy, c, channels, image, 1)
			for k := range channels {
				s, q := w.sums[k][0], w.sums[k][1]*r
				at := 2 * (image*n.c + c + k)
				// Each plane's share of dbeta and dgamma, which join adds over images.
				part[at], part[at+1] = s, q
				sum += float64(n.gamma[c+k]) * s
				dot += float64(n.gamma[c+k]) * q
			}
		})
		n.forTiles(c, func(c, channels int) {
			for k := range channels {
				of := w.of[k*norm.Params:]
				of[norm.ParamMean], of[norm.ParamRate] = mean[g], T(r*float64(n.gamma[c+k]))
				of[norm.ParamSlope], of[norm.ParamBias] = T(-r*r*dot/count), T(-r*sum/count)
			}
			w.apply(&n.planes, n.kernels.For(n.n).Gradient, n.x, dy, dx, w.of[:], c, channels, image, 1)
		})
	})
	join := b.parallelFor(n.c, planeTile, func(lo, hi, _ int) {
		for c := lo; c < hi; c++ {
			s, q := 0.0, 0.0
			// Images are added in order.
			for image := range n.b {
				s += part[2*(image*n.c+c)]
				q += part[2*(image*n.c+c)+1]
			}
			dgamma[c], dbeta[c] = T(q), T(s)
		}
	})
	return func() {
		groups()
		join()
	}
}
