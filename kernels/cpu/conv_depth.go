package cpu

import (
	"math/bits"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Depthwise convolutions: a group has one channel and one output, so that there is nothing to multiply matrices for. A
// vector of pixels walks over the channels, which share its tables, and over the taps of each.

const (
	depthChannels = 64 // of a task
	depthSums     = 32 // the same of a gradient by the weights
	depthPixels   = 64 // of dy that are converted at once
)

// sumBytes is the size of the lanes of a sum, for every instruction set.
const sumBytes = 64

// A depth is the arguments of a function that convolves each channel with its own kernel, or sums the gradients of these
// kernels. The assembly knows the fields' offsets.
type depth struct {
	patch        // dst: the pixels of the first channel, pitch apart; for gradients its sums, sumBytes a tap
	w     []byte // kernels; for gradients dy
	stepW int    // bytes from channel to channel of w
	n     int    // pixels
}

// depthwise reports whether each group has one channel and one output.
func (v *convolution) depthwise() bool { return v.cg == 1 && v.og == 1 }

// A convDepth is one depthwise convolution, or the gradient by the input for the pixels of one residue.
type convDepth struct {
	isa              *gemm.Kernels
	packer           *packer
	run1             func(t *depth)
	lanes            int
	patches          patches
	images, channels int
	src, dst, w      []byte
	stepW            int
	place            convPlace
	bias             []byte
	flags            int
	act              func(data []byte)
	most, blocks     int // channels of a task, tasks of an image
	workers          []depthWorker
}

// A depthWorker is what one worker writes to besides the result.
type depthWorker struct {
	depth   depth
	end     ending
	band    bandRows
	results []byte // of pixels that do not lie together
	dy      []byte // converted, for a gradient by the weights
	_       [asm.CacheLine]byte
}

// depthBytes returns what a worker holds: results, or sums of taps.
func depthBytes(taps int) (results, sums int) {
	return depthChannels * sumBytes, depthSums * taps * sumBytes
}

// bind gives workers their parts of the workspace, of which so many bytes are a stage.
func (x *convDepth) bind(workers int, work []byte, stage int) {
	x.packer = packerFor(x.isa)
	x.run1, x.lanes = x.packer.depth(&x.patches, false)
	x.most = x.patches.together(depthChannels)
	x.blocks = over(x.channels, x.most)
	x.workers = make([]depthWorker, workers)
	results, _ := depthBytes(0)
	for i := range x.workers {
		w := &x.workers[i]
		w.depth.patch = newPatch(&x.patches, x.lanes, work[:stage:stage])
		w.band.buf, work = work[:stage:stage], work[stage:]
		w.results, work = work[:results:results], work[results:]
	}
}

// together returns how many channels a task has: so many, or those that are converted at once.
func (p *patches) together(channels int) int {
	switch {
	case p.band.convert != nil:
		return p.band.channels
	case p.convert != nil:
		return stageChannels
	}
	return channels
}

// depth returns the function that convolves, or the one that sums gradients, and the pixels that it takes at once: a
// divisor of a sum's lanes.
func (k *packer) depth(p *patches, weights bool) (f func(t *depth), lanes int) {
	kind, size, step := k.kind(p), p.packed, p.cols.step
	switch {
	case kind >= 0 && weights:
		return k.depthWeights[kind], k.lanes
	case kind >= 0:
		return k.depths[kind], k.lanes
	case size == 4:
		return func(t *depth) { goDepth[float32](t, size, step, weights) }, sumBytes / size
	}
	return func(t *depth) { goDepth[float64](t, size, step, weights) }, sumBytes / size
}

// run computes the convolution.
func (x *convDepth) run(p *pool) { runOn(p, x, len(x.workers), x.images*x.blocks) }

// do computes task i: some channels of one image.
func (x *convDepth) do(i, worker int) {
	w, size := &x.workers[worker], x.isa.Size()
	t, q := &w.depth, &x.patches
	image, c := i/x.blocks, i%x.blocks*x.most
	channels := min(x.most, x.channels-c)
	pixels := q.pixels()
	first := x.dst[image*x.place.image+c*x.place.plane:]
	t.channels, t.taps, t.tapCount = channels, q.taps, len(q.taps)
	t.w, t.stepW = x.w[c*x.stepW:], x.stepW
	for at := 0; at < pixels; at += x.lanes {
		t.n = min(x.lanes, pixels-at)
		w.see(q, x.src, image, x.channels, c, at)
		x.lookAhead(c, image*pixels+at+x.lanes, channels)
		if t.dst, t.pitch = w.results, sumBytes; x.place.whole {
			t.dst, t.pitch = first[at*size:], x.place.plane
		}
		x.run1(t)
		if x.flags != 0 {
			w.end = ending{t.dst, nil, channels, t.pitch, t.n, x.flags}
			if x.bias != nil {
				w.end.bias = x.bias[c*size:]
			}
			x.packer.end(&w.end)
		}
		if !x.place.whole {
			x.place.scatter(w.results, x.dst, size, sumBytes, c, channels, q, image*pixels+at, t.n)
		}
	}
	for rest := first[:channels*x.place.plane]; x.act != nil && len(rest) > 0; {
		n := min(len(rest), cheapGrain*size)
		x.act(rest[:n])
		rest = rest[n:]
	}
}

// see points the worker's arguments at what the vector of pixels from at on sees of some channels, from c on of so many, of an image.
func (w *depthWorker) see(q *patches, src []byte, image, channels, c, at int) {
	t := &w.depth
	if b := &q.band; b.convert != nil {
		if at == 0 {
			w.band.begin()
		}
		t.patch.see(q, at, t.n)
		src = src[(image*channels+c)*b.plane:]
		w.band.bring(q, &t.patch, src, at, t.n)
		w.band.lookAhead(q, &t.patch, src, channels*b.plane, at)
		return
	}
	t.src = src[c*q.plane:]
	t.patch.see(q, image*q.pixels()+at, t.n)
	t.bring(q)
}

// lookAhead brings near what the vector from px on sees and writes.
func (x *convDepth) lookAhead(c, px, channels int) {
	pixels := x.patches.pixels()
	if x.isa.Prefetch == nil || px >= x.images*pixels {
		return
	}
	var h ahead
	if x.patches.band.convert == nil {
		h = x.patches.below(x.src, c, channels, px, x.lanes)
		h.bring(x.isa, 1, 1)
	}
	if x.place.whole {
		h = ahead{src: x.dst[px/pixels*x.place.image+c*x.place.plane+px%pixels*x.isa.Size():], rows: channels, stride: x.place.plane, n: asm.CacheLine}
		h.bring(x.isa, 1, 1)
	}
}

// A depthWeights is the gradient of a depthwise convolution by its weights.
type depthWeights struct {
	convolution
	packer    *packer
	run1      func(t *depth)
	lanes     int
	most      int // channels of a task
	windows   patches
	x, dy, dw []byte
	workers   []depthWorker
}

// bindDepthWeight prepares such a gradient.
func (v *convolution) bindDepthWeight(b *binding, workers int) *depthWeights {
	x := &depthWeights{convolution: *v, packer: packerFor(v.isa), windows: v.patches(),
		x: b.bytes(b.In[0]), dy: b.bytes(b.In[1]), dw: b.bytes(b.Out[0])}
	x.run1, x.lanes = x.packer.depth(&x.windows, true)
	x.workers = make([]depthWorker, workers)
	work := b.work()
	_, sums := depthBytes(v.taps())
	x.most = min(x.windows.together(depthSums), depthSums)
	stage, dy := v.stageBytes(1), v.depthDy()
	for i := range x.workers {
		w := &x.workers[i]
		w.depth.patch = newPatch(&x.windows, x.lanes, work[:stage:stage])
		w.band.buf, work = work[:stage:stage], work[stage:]
		w.dy, work = work[:dy:dy], work[dy:]
		w.results, work = work[:sums:sums], work[sums:]
	}
	return x
}

// depthDy returns the bytes of dy that are converted at once.
func (v *convolution) depthDy() int {
	if !v.rounded {
		return 0
	}
	return depthSums * depthPixels * gemm.PackedSize
}

// run computes the gradient.
func (x *depthWeights) run(p *pool) { runOn(p, x, len(x.workers), over(x.c, x.most)) }

// do computes task i: some channels. Lane l of a sum adds up the pixels l, l + lanes, ... of each image, whatever the
// vectors' width; then lanes are added in order.
func (x *depthWeights) do(i, worker int) {
	w, size, q := &x.workers[worker], x.isa.Size(), &x.windows
	t, c, pixels, sizeY := &w.depth, i*x.most, q.pixels(), x.sizes[1]
	t.channels, t.taps, t.tapCount = min(x.most, x.c-c), q.taps, len(q.taps)
	sums := w.results[:t.channels*t.tapCount*sumBytes]
	clear(sums)
	for image := range x.b {
		dy := x.dy[(image*x.c+c)*pixels*sizeY:]
		for at := 0; at < pixels; at += x.lanes {
			t.n = min(x.lanes, pixels-at)
			w.see(q, x.x, image, x.c, c, at)
			if next := image*pixels + at + x.dyAhead(); x.isa.Prefetch != nil && next < x.b*pixels {
				var h ahead
				if q.band.convert == nil {
					h = q.below(x.x, c, t.channels, next, x.lanes)
					h.bring(x.isa, 1, 1)
				}
				h = ahead{src: x.dy[((next/pixels*x.c+c)*pixels+next%pixels)*sizeY:], rows: t.channels, stride: pixels * sizeY, n: asm.CacheLine}
				h.bring(x.isa, 1, 1)
			}
			t.dst, t.w, t.stepW = sums[at*size%sumBytes:], dy[at*sizeY:], pixels*sizeY
			if x.rounded {
				first := at % depthPixels
				if first == 0 {
					x.floats[1].Across(w.dy, t.w, t.channels, t.stepW, min(depthPixels, pixels-at), depthPixels*gemm.PackedSize)
				}
				t.w, t.stepW = w.dy[first*gemm.PackedSize:], depthPixels*gemm.PackedSize
			}
			x.run1(t)
		}
	}
	dw := x.dw[c*t.tapCount*size:][:t.channels*t.tapCount*size]
	if size == 4 {
		addLanes(asm.View[float32](dw), asm.View[float32](sums))
	} else {
		addLanes(asm.View[float64](dw), asm.View[float64](sums))
	}
}

// dyAhead returns how many pixels on dy is brought near.
func (x *depthWeights) dyAhead() int {
	if x.rounded {
		return depthPixels
	}
	return x.lanes
}

// addLanes adds the lanes of each sum in order.
func addLanes[T float](dst, sums []T) {
	lanes := sumBytes / asm.SizeOf[T]()
	for i := range dst {
		var s T
		for _, v := range sums[i*lanes:][:lanes] {
			s += v
		}
		dst[i] = s
	}
}

// goDepth is the portable function of depthwise convolutions, of elements that lie step apart.
func goDepth[T float](t *depth, size, step int, weights bool) {
	dst, src, w := asm.View[T](t.dst), asm.View[T](t.src), asm.View[T](t.w)
	for c := range t.channels {
		row := dst[c*t.pitch/size:]
		if !weights {
			clear(row[:t.n])
		}
		for tap, at := range t.taps[:t.tapCount] {
			for s, start := range t.segments[:t.segCount] {
				first := c*t.plane/size + int((start+at)/int64(size))
				for m := t.masks[tap*patchLanes+s]; m != 0; m &= m - 1 {
					lane := bits.TrailingZeros16(m)
					v := src[first+lane*step]
					if weights {
						dst[(c*t.tapCount+tap)*sumBytes/size+lane] += v * w[c*t.stepW/size+lane]
					} else {
						row[lane] += v * w[c*t.stepW/size+tap]
					}
				}
			}
		}
	}
}
