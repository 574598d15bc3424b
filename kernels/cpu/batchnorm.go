package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/norm"
)

// Batch normalization of x [B, C, n] by channel, and its gradient. It reads x twice: for the sums
// of each channel, by tile of channels and group of images, and for the result. In between, the
// groups of a channel are combined in order. Threads split tiles and groups. Workspace: float64
// [C][groups][2] of partial sums, then the parameters [C][norm.Params].

// batchNormWork returns the workspace in bytes. It never shrinks as a dimension grows, since larger
// planes make smaller groups of images.
func batchNormWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	p := newPlanes(in[0].Shape)
	return int64(p.c) * (16*int64(p.groups) + norm.Params*in[0].Type.Size())
}

// bindBatchNorm prepares a batch normalization or its gradient.
func bindBatchNorm(b *binding) (func(), error) {
	if b.In[0].Shape.Elems() == 0 {
		return nil, nil
	}
	grad := b.Op == kernels.BatchNormGrad
	switch {
	case b.In[0].Type == arena.Float32 && grad:
		return bindBatchNormGradOf[float32](b), nil
	case b.In[0].Type == arena.Float32:
		return bindBatchNormOf[float32](b), nil
	case b.In[0].Type == arena.Float64 && grad:
		return bindBatchNormGradOf[float64](b), nil
	case b.In[0].Type == arena.Float64:
		return bindBatchNormOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// A batchNorm holds what forward and backward pass share.
type batchNorm[T float] struct {
	planes
	attrs       kernels.BatchNormAttrs
	relu        int
	kernels     *norm.PlaneKernels[T]
	workers     []planeWorker[T]
	x           []T
	gamma, beta []T
	part        []float64 // [C][groups][2]
	of          []T       // [C][norm.Params]
}

// newBatchNorm binds the inputs and cuts the workspace.
func newBatchNorm[T float](b *binding) *batchNorm[T] {
	n := &batchNorm[T]{planes: newPlanes(b.In[0].Shape), attrs: b.Attrs.(kernels.BatchNormAttrs), kernels: norm.PlanesAt[T](b.dev.level),
		workers: newPlaneWorkers[T](b), x: in[T](b, 0), gamma: in[T](b, 1), beta: in[T](b, 2)}
	n.kernels = n.kernels.For(n.n)
	if n.attrs.ReLU {
		n.relu = 1
	}
	sums := 2 * n.c * n.groups
	n.part = asm.View[float64](b.work())[:sums]
	n.of = asm.View[T](b.work()[8*sums:])[:n.c*norm.Params]
	return n
}

// A channelPass is the part that differs between the passes. sum computes the sums of a tile and a
// group of images in w, join computes the parameters of channels from their sums, and kernel
// computes the result y.
type channelPass[T float] struct {
	sum    func(w *planeWorker[T], c, channels, image, images int)
	join   func(lo, hi int)
	kernel func(c *norm.PlaneArgs[T])
	dy, y  []T
}

// launch returns a launch of a pass. Where a tile has one group of images and there are tiles for
// all threads, a tile's result follows its sums at once, while it is in the cache. The bits are the
// same.
func (n *batchNorm[T]) launch(b *binding, p channelPass[T]) func() {
	// One pass: sums, parameters and result of a tile by the same worker.
	if n.groups == 1 && n.tiles >= b.dev.pool.threads() {
		return b.parallelFor(n.tiles, max(1, planeGrain/(n.tile*n.n*n.b)), func(lo, hi, worker int) {
			for t := lo; t < hi; t++ {
				c, channels := n.sumTile(p, t, 0, worker)
				p.join(c, c+channels)
				n.applyTile(p, t, 0, n.b, worker)
			}
		})
	}
	sums := b.parallelFor(n.tiles*n.groups, max(1, planeGrain/(n.tile*n.n*min(n.images, n.b))), func(lo, hi, worker int) {
		for u := lo; u < hi; u++ {
			n.sumTile(p, u/n.groups, u%n.groups, worker)
		}
	})
	join := b.parallelFor(n.c, planeTile, func(lo, hi, _ int) { p.join(lo, hi) })
	// Three passes, each over all threads.
	step := n.imagesPerPiece()
	results := b.parallelFor(ceilDiv(n.b, step)*n.tiles, 1, func(lo, hi, worker int) {
		for u := lo; u < hi; u++ {
			image := u / n.tiles * step
			n.applyTile(p, u%n.tiles, image, min(image+step, n.b), worker)
		}
	})
	return func() {
		sums()
		join()
		results()
	}
}

// imagesPerPiece returns how many images of a tile have about planeGrain elements.
func (n *batchNorm[T]) imagesPerPiece() int { return max(1, planeGrain/(n.tile*n.n)) }

// sumTile computes the sums of tile t of group g and stores them in part. It returns the tile's
// channels.
func (n *batchNorm[T]) sumTile(p channelPass[T], t, g, worker int) (c, channels int) {
	w := &n.workers[worker]
	c, channels = n.tileAt(t)
	image, images := n.groupAt(g)
	w.call.Relu = n.relu
	p.sum(w, c, channels, image, images)
	for k := range channels {
		copy(n.part[2*((c+k)*n.groups+g):], w.sums[k][:])
	}
	return c, channels
}

// applyTile computes the result of a tile of images lo..hi-1.
func (n *batchNorm[T]) applyTile(p channelPass[T], t, lo, hi, worker int) {
	w := &n.workers[worker]
	w.call.Relu = n.relu
	c, channels := n.tileAt(t)
	for step := n.imagesPerPiece(); lo < hi; lo += step {
		w.apply(&n.planes, p.kernel, n.x, p.dy, p.y, n.of[c*norm.Params:], c, channels, lo, min(step, hi-lo))
	}
}

// bindBatchNormOf binds the forward pass. A group's sums are taken about a pivot; join combines the
// groups' means and sums of squares.
func bindBatchNormOf[T float](b *binding) func() {
	n := newBatchNorm[T](b)
	y, mean, variance := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	sum := func(w *planeWorker[T], c, channels, image, images int) {
		w.setPivots(&n.planes, n.kernels.Moments, n.x, c, channels, image, images)
		w.accumulate(&n.planes, n.kernels.Moments, n.x, n.x, c, channels, image, images)
		count := float64(images * n.n)
		for k := range channels {
			// The group's mean, and its sum of squares about that mean.
			pivot, s := float64(w.of[k*norm.Params+norm.ParamMean]), w.sums[k][0]
			w.sums[k] = [2]float64{pivot + s/count, w.sums[k][1] - s*s/count}
		}
	}
	join := func(lo, hi int) {
		for c := lo; c < hi; c++ {
			m, v := n.moments(c)
			mean[c], variance[c] = T(m), T(max(v, 0))
			scale, shift := n.attrs.Scale(float64(n.gamma[c]), float64(n.beta[c]), float64(mean[c]), float64(variance[c]))
			of := n.of[c*norm.Params:]
			of[norm.ParamScale], of[norm.ParamShift] = T(scale), T(shift)
		}
	}
	return n.launch(b, channelPass[T]{sum, join, n.kernels.Scale, n.x, y})
}

// moments returns mean and variance of a channel from the means of its groups and the sums of
// squares about them. Source: Chan, Golub and LeVeque, "Algorithms for computing the sample
// variance", 1983, equation 2.1.
func (n *batchNorm[T]) moments(c int) (mean, variance float64) {
	count, squares := 0.0, 0.0
	for g := range n.groups {
		part := n.part[2*(c*n.groups+g):][:2]
		_, images := n.groupAt(g)
		more := float64(images * n.n)
		// The merge of two groups: means are weighted by their counts, and squares gain
		// d²·count·more/(count+more).
		d := part[0] - mean
		mean += d * more / (count + more)
		squares += part[1] + d*d*count*more/(count+more)
		count += more
	}
	return mean, squares / count
}

// bindBatchNormGradOf binds the gradient. With s = Σdy and q = Σdy·(x - mean): dbeta = s, dgamma =
// q·rstd, and dx is linear in dy and x for each channel.
func bindBatchNormGradOf[T float](b *binding) func() {
	n := newBatchNorm[T](b)
	mean, variance, dy := in[T](b, 3), in[T](b, 4), in[T](b, 5)
	dx, dgamma, dbeta := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	sum := func(w *planeWorker[T], c, channels, image, images int) {
		clear(w.sums[:channels])
		for k := range channels {
			i := c + k
			scale, shift := n.attrs.Scale(float64(n.gamma[i]), float64(n.beta[i]), float64(mean[i]), float64(variance[i]))
			of := w.of[k*norm.Params:]
			of[norm.ParamMean], of[norm.ParamScale], of[norm.ParamShift] = mean[i], T(scale), T(shift)
		}
		w.accumulate(&n.planes, n.kernels.Products, n.x, dy, c, channels, image, images)
	}
	count := float64(n.b * n.n)
	join := func(lo, hi int) {
		for c := lo; c < hi; c++ {
			s, q := 0.0, 0.0
			for g := range n.groups {
				s += n.part[2*(c*n.groups+g)]
				q += n.part[2*(c*n.groups+g)+1]
			}
			rstd := 1 / math.Sqrt(float64(variance[c])+n.attrs.Eps)
			scale, shift := n.attrs.Scale(float64(n.gamma[c]), float64(n.beta[c]), float64(mean[c]), float64(variance[c]))
			rate := float64(n.gamma[c]) * rstd
			of := n.of[c*norm.Params:]
			of[norm.ParamMean], of[norm.ParamScale], of[norm.ParamShift] = mean[c], T(scale), T(shift)
			of[norm.ParamRate], of[norm.ParamSlope], of[norm.ParamBias] = T(rate), T(-rate*rstd*rstd*q/count), T(-rate*s/count)
			dgamma[c], dbeta[c] = T(q*rstd), T(s)
		}
	}
	return n.launch(b, channelPass[T]{sum, join, n.kernels.Gradient, dy, dx})
}

// bindRunningStat prepares an update of running statistics, running = keep·running + take·batch,
// which is skipped once the guard is set.
func bindRunningStat(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindRunningStatOf[float32](b), nil
	case arena.Float64:
		return bindRunningStatOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindRunningStatOf binds the update for T.
func bindRunningStatOf[T float](b *binding) func() {
	running, batch, guard := out[T](b, 0), in[T](b, 1), in[int32](b, 2)
	a := b.Attrs.(kernels.RunningStatAttrs)
	keep, take := 1-a.Momentum, a.Momentum*a.Factor
	return func() {
		if guard[0] != 0 {
			return
		}
		for i, v := range batch {
			running[i] = T(keep*float64(running[i]) + take*float64(v))
		}
	}
}
