package cpu

import (
	"fmt"
	"iter"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/norm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Batch normalization of x [B, C, n] by channel, and its gradient. It reads x twice: for the sums
// of each channel, by tile of channels and group of images, and for the result. In between, the
// groups of a channel are combined in order. Threads split tiles and groups. Channels of an extreme
// scale are left to Go code: their moments to package numeric, their gradient to extremeGrad.
// Workspace: float64 [C][groups][2] of partial sums, then the parameters [C][norm.Params].

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
	all         *norm.PlaneKernels[T] // for planes of every length
	kernels     *norm.PlaneKernels[T] // for planes of n elements
	workers     []planeWorker[T]
	x           []T
	gamma, beta []T
	part        []float64 // [C][groups][2]
	of          []T       // [C][norm.Params]
	least, most float64   // norm.RegularVariance
}

// newBatchNorm binds the inputs and cuts the workspace.
func newBatchNorm[T float](b *binding) *batchNorm[T] {
	n := &batchNorm[T]{planes: newPlanes(b.In[0].Shape), attrs: b.Attrs.(kernels.BatchNormAttrs),
		workers: newPlaneWorkers[T](b), x: in[T](b, 0), gamma: in[T](b, 1), beta: in[T](b, 2)}
	n.all = norm.PlanesAt[T](b.dev.level)
	n.kernels = n.all.For(n.n)
	n.least, n.most = norm.RegularVariance[T]()
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
// computes the result y. extreme computes it for one channel that join marks, of images lo..hi-1.
type channelPass[T float] struct {
	sum     func(w *planeWorker[T], c, channels, image, images int)
	join    func(lo, hi int)
	kernel  func(c *norm.PlaneArgs[T])
	extreme func(w *planeWorker[T], c, lo, hi int)
	dy, y   []T
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

// applyTile computes the result of a tile of images lo..hi-1: runs of regular channels by the
// kernel, the others alone.
func (n *batchNorm[T]) applyTile(p channelPass[T], t, lo, hi, worker int) {
	w := &n.workers[worker]
	first, channels := n.tileAt(t)
	for c, end := first, first; c < first+channels; c = end {
		for end < first+channels && n.of[end*norm.Params+norm.ParamExtreme] == 0 {
			end++
		}
		if c == end {
			p.extreme(w, c, lo, hi)
			end++
			continue
		}
		w.call.Relu = n.relu
		step := n.imagesPerPiece()
		for b := lo; b < hi; b += step {
			w.apply(&n.planes, p.kernel, n.x, p.dy, p.y, n.of[c*norm.Params:], c, end-c, b, min(step, hi-b))
		}
	}
}

// bindBatchNormOf binds the forward pass. A group's sums are taken about a pivot; join combines the
// groups' means and sums of squares.
func bindBatchNormOf[T float](b *binding) func() {
	n := newBatchNorm[T](b)
	y, mean, variance := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	elements := float64(n.b * n.n)
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
			if !n.regular(v) {
				all := numeric.MomentsOf(n.channel(c))
				m, v = all.Mean(), all.Variance()
			}
			mean[c], variance[c] = T(m), numeric.StoredVariance[T](max(v, 0), elements)
			n.setLine(n.of[c*norm.Params:], c, mean[c], variance[c])
			n.of[c*norm.Params+norm.ParamExtreme] = 0
		}
	}
	return n.launch(b, channelPass[T]{sum: sum, join: join, kernel: n.kernels.Scale, dy: n.x, y: y})
}

// regular reports whether kernels can process a channel of variance v.
func (n *batchNorm[T]) regular(v float64) bool {
	v += n.attrs.Eps
	return v >= n.least && v <= n.most
}

// setLine sets the parameters of y = scale·(x - mean) + shift for channel c.
func (n *batchNorm[T]) setLine(of []T, c int, mean, variance T) {
	of[norm.ParamMean], of[norm.ParamShift] = mean, n.beta[c]
	of[norm.ParamScale] = T(n.attrs.Scale(float64(n.gamma[c]), float64(variance)))
}

// channel iterates over the planes of channel c.
func (n *batchNorm[T]) channel(c int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for b := range n.b {
			if at := n.at(b, c); !yield(n.x[at : at+n.n]) {
				return
			}
		}
	}
}

// moments returns mean and variance of a channel from the means of its groups and the sums of
// squares about them. Source: Chan, Golub and LeVeque, "Algorithms for computing the sample
// variance", 1983, equation 2.1.
func (n *batchNorm[T]) moments(c int) (mean, variance float64) {
	_, images := n.groupAt(0)
	count, squares := float64(images*n.n), n.part[2*c*n.groups+1]
	mean = n.part[2*c*n.groups]
	for g := 1; g < n.groups; g++ {
		part := n.part[2*(c*n.groups+g):][:2]
		_, images := n.groupAt(g)
		more := float64(images * n.n)
		// The merge of two groups: means are weighted by their counts, and squares gain
		// d²·count·more/(count+more). Equal means stay as they are.
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
			n.setLine(w.of[k*norm.Params:], c+k, mean[c+k], variance[c+k])
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
			rstd := norm.Rstd(float64(variance[c]), n.attrs.Eps)
			rate, of := float64(n.gamma[c])*rstd, n.of[c*norm.Params:]
			n.setLine(of, c, mean[c], variance[c])
			of[norm.ParamRate], of[norm.ParamSlope], of[norm.ParamBias] = T(rate), T(-rate*(rstd*q/count)*rstd), T(-rate*s/count)
			dgamma[c], dbeta[c] = T(q*rstd), T(s)
			if of[norm.ParamExtreme] = 0; float64(variance[c]) > n.most {
				of[norm.ParamExtreme] = 1
			}
		}
	}
	extreme := func(w *planeWorker[T], c, lo, hi int) {
		x := numeric.StandardOf(float64(mean[c]), norm.Rstd(float64(variance[c]), n.attrs.Eps))
		n.extremeGrad(w, n.of[c*norm.Params:], c, lo, hi, dy, dx, func(v, d T) T {
			return T(n.attrs.Scale(float64(n.gamma[c]), float64(variance[c])) *
				(float64(d) - float64(dbeta[c])/count - x.Of(float64(v))*float64(dgamma[c])/count))
		})
	}
	return n.launch(b, channelPass[T]{sum, join, n.kernels.Gradient, extreme, dy, dx})
}

// extremeGrad sets dx of channel c of images lo..hi-1 to grad of x and dy: the factors of of are
// denormal numbers of T. The kernel of the forward pass decides where the ReLU passes dy.
func (n *batchNorm[T]) extremeGrad(w *planeWorker[T], of []T, c, lo, hi int, dy, dx []T, grad func(x, dy T) T) {
	w.call.Relu = 0
	for b := lo; b < hi; b++ {
		for off := 0; off < n.n; off += len(w.lanes) {
			at := n.at(b, c) + off
			run := planes{b: 1, c: 1, n: min(n.n-off, len(w.lanes))}
			w.apply(&run, n.all.For(run.n).Scale, n.x[at:], n.x[at:], w.lanes, of, 0, 1, 0, 1)
			for i := at; i < at+run.n; i++ {
				d := dy[i]
				if n.relu != 0 && !(w.lanes[i-at] > 0) {
					d = 0
				}
				dx[i] = grad(n.x[i], d)
			}
		}
	}
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
