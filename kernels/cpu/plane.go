package cpu

import (
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/norm"
)

// Planes of batch and group normalization: a plane is the n elements of one channel of one image,
// contiguous in x [B, C, n]. A call of a kernel (internal/asm/norm) has the planes of several
// neighbouring channels of several images, so that small planes are read in long runs. Sums are
// kept in the element type for up to planeRun elements of a channel, about a pivot near their mean,
// and then added in float64. Planes of one element are columns, where a lane is a channel.

// Sizes of calls and of parts of the work.
const (
	planeRun   = 16 * 1024  // most elements of a channel that are added in their own type
	planeGroup = 128 * 1024 // elements of a channel that one part of the work sums
	planeTile  = 1024       // elements of an image from which on a tile has no further channels
	planeGrain = 16 * 1024  // elements of a piece of a pass without sums
	columnRun  = 1024       // most images that a lane of a column adds
	callMost   = 128 * 1024 // most elements of a summing call, which cannot be interrupted
	pivotRun   = 256        // least elements of which a pivot is the mean
)

// planes is the geometry of x [B, C, n], cut into tiles of channels and groups of images.
//
// Invariant: the cuts depend on the shape only, so the bits of sums do not depend on the number of
// threads.
type planes struct {
	b, c, n int
	tile    int // channels of a tile
	tiles   int
	images  int // of a group
	groups  int
}

// newPlanes cuts x into tiles and groups.
func newPlanes(x kernels.Shape) planes {
	p := planes{b: x[0], c: x[1], n: x[2:].Elems()}
	n := max(p.n, 1)
	p.tile = min(ceilDiv(planeTile, n), norm.MaxTile)
	p.tiles = ceilDiv(p.c, p.tile)
	p.images = max(1, planeGroup/max(n, norm.MaxTile/4))
	p.groups = ceilDiv(p.b, p.images)
	return p
}

// at returns the first element of a channel of an image.
func (p *planes) at(image, channel int) int { return (image*p.c + channel) * p.n }

// tileAt returns the first channel of a tile and how many it has.
func (p *planes) tileAt(t int) (first, channels int) {
	first = t * p.tile
	return first, min(p.tile, p.c-first)
}

// groupAt returns the first image of a group and how many it has.
func (p *planes) groupAt(g int) (first, images int) {
	first = g * p.images
	return first, min(p.images, p.b-first)
}

// runFrom returns how many elements of a plane, from off on, one call processes. It leaves no
// single element, since kernels treat planes of one element as columns.
func (p *planes) runFrom(off int) int {
	n := min(planeRun, p.n-off)
	if p.n-off == n+1 {
		n--
	}
	return n
}

// A planeWorker holds what one worker writes to.
type planeWorker[T float] struct {
	call       norm.PlaneArgs[T]
	sums       [norm.MaxTile][2]float64
	of         [norm.MaxTile * norm.Params]T // [channels][norm.Params]
	transposed [norm.MaxTile * norm.Params]T // [norm.Params][norm.MaxTile], for columns
	lanes      []T
}

// newPlaneWorkers returns a planeWorker for each thread of the pool.
func newPlaneWorkers[T float](b *binding) []planeWorker[T] {
	w := make([]planeWorker[T], b.dev.pool.threads())
	for i := range w {
		w[i].lanes = make([]T, norm.MaxTile*2*norm.LaneBytes/int(b.Out[0].Type.Size()))
	}
	return w
}

// setParams prepares the call for some channels, whose parameters are in of.
func (w *planeWorker[T]) setParams(p *planes, of []T, channels int) {
	k := &w.call
	k.Param, k.Channels, k.Stride = of, channels, p.c*p.n
	k.Sums = w.lanes[:channels*len(w.lanes)/norm.MaxTile]
	// Only kernels for planes of one element, whose lanes are channels, need a transpose.
	if p.n > 1 {
		return
	}
	k.Param, k.Sums = w.transposed[:], w.lanes[:2*norm.MaxTile]
	for i := range norm.ParamExtreme {
		to := k.Param[i*norm.MaxTile:][:channels]
		for c := range to {
			to[c] = of[c*norm.Params+i]
		}
	}
}

// accumulate adds the sums that kernel computes, over planes of channels from c on and images from
// b on, to w.sums. w.of holds the parameters.
func (w *planeWorker[T]) accumulate(p *planes, kernel func(c *norm.PlaneArgs[T]), x, dy []T, c, channels, b, images int) {
	w.setParams(p, w.of[:], channels)
	step := max(1, min(planeRun/max(p.n, planeRun/columnRun), callMost/(p.n*channels)))
	for i := b; i < b+images; i += step {
		for off, n := 0, 0; off < p.n; off += n {
			at := p.at(i, c) + off
			n = p.runFrom(off)
			w.run(kernel, x[at:], dy[at:], n, min(step, b+images-i))
		}
	}
}

// run sums planes of n elements of some images in one call.
func (w *planeWorker[T]) run(kernel func(c *norm.PlaneArgs[T]), x, dy []T, n, images int) {
	k := &w.call
	k.X, k.Dy, k.N, k.Images = x, dy, n, images
	clear(k.Sums)
	kernel(k)
	if n == 1 {
		for c := range k.Channels {
			w.sums[c][0] += float64(k.Sums[c])
			w.sums[c][1] += float64(k.Sums[norm.MaxTile+c])
		}
		return
	}
	// Partial sums of a channel are added in the order of lanes, in float64.
	half := len(w.lanes) / (2 * norm.MaxTile)
	for c := range k.Channels {
		a, b := k.Sums[2*c*half:][:half], k.Sums[(2*c+1)*half:][:half]
		s, q := 0.0, 0.0
		for i, v := range a {
			s += float64(v)
			q += float64(b[i])
		}
		w.sums[c][0] += s
		w.sums[c][1] += q
	}
}

// setPivots sets the mean of each channel to the mean of its first planes from image b on, at least
// pivotRun elements: near enough to the true mean for sums about it to keep their digits.
func (w *planeWorker[T]) setPivots(p *planes, kernel func(c *norm.PlaneArgs[T]), x []T, c, channels, b, images int) {
	for k := range channels {
		w.of[k*norm.Params+norm.ParamMean] = x[p.at(b, c+k)]
	}
	clear(w.sums[:channels])
	// The pivot starts as the first element and moves to the mean of the first elements about it.
	n := p.runFrom(0)
	images = min(images, ceilDiv(pivotRun, p.n))
	w.setParams(p, w.of[:], channels)
	w.run(kernel, x[p.at(b, c):], nil, n, images)
	for k := range channels {
		w.of[k*norm.Params+norm.ParamMean] += T(w.sums[k][0] / float64(n*images))
	}
	clear(w.sums[:channels])
}

// apply runs an elementwise kernel on planes of channels from c on and images from b on. of holds
// the parameters.
func (w *planeWorker[T]) apply(p *planes, kernel func(c *norm.PlaneArgs[T]), x, dy, y, of []T, c, channels, b, images int) {
	w.setParams(p, of, channels)
	k := &w.call
	for off, n := 0, 0; off < p.n; off += n {
		at := p.at(b, c) + off
		n = p.runFrom(off)
		k.X, k.Dy, k.Y = x[at:], dy[at:], y[at:]
		k.N, k.Images = n, images
		kernel(k)
	}
}
