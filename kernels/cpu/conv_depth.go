package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Depthwise convolutions: a group has one channel and one output, so there is no matrix product. A
// task is a block of channels of one image; for each vector of pixels, internal/asm/conv computes
// all channels of the block, which share the vector's tables.

// Sizes of tasks.
const (
	depthChannels = 64 // channels of a task
	depthSums     = 32 // channels of a task of a gradient by the weights
	depthPixels   = 64 // pixels of dy that are converted at once
)

// depthwise reports whether each group has one channel and one output.
func (v *convolution) depthwise() bool { return v.cg == 1 && v.og == 1 }

// A convDepth is one depthwise convolution, or the gradient by the input for the pixels of one
// residue.
type convDepth struct {
	kernels             *gemm.Kernels
	packer              *conv.Kernels
	run1                func(t *conv.Depthwise)
	lanes               int
	patches             patches
	images, channels    int
	src, dst, w         []byte
	stepW               int
	layout              resultLayout
	bias                []byte
	flags               int
	act                 func(data []byte)
	norm                convNorm
	maxChannels, blocks int // channels of a task, tasks of an image
	workers             []depthWorker
}

// A depthWorker holds what one worker writes to, apart from the result.
type depthWorker struct {
	depth   conv.Depthwise
	stage   *imageStage // nil: see newPatch
	end     conv.Epilogue
	band    bandRows
	results []byte // of pixels that are not contiguous
	dy      []byte // converted, for a gradient by the weights
	_       [asm.CacheLine]byte
}

// depthBytes returns the bytes that a worker holds: results, or sums of taps.
func depthBytes(taps int) (results, sums int) {
	return depthChannels * conv.SumBytes, depthSums * taps * conv.SumBytes
}

// bind gives workers their parts of the workspace, each with stage bytes for converted pixels.
func (x *convDepth) bind(workers int, work []byte, stage int) {
	x.packer = conv.For(x.kernels)
	x.run1, x.lanes = x.packer.Depthwise(x.patches.load(x.packer), x.patches.packed, x.patches.cols.step, false)
	x.maxChannels = x.patches.channelsPerTask(depthChannels)
	x.blocks = ceilDiv(x.channels, x.maxChannels)
	x.workers = make([]depthWorker, workers)
	results, _ := depthBytes(0)
	for i := range x.workers {
		w := &x.workers[i]
		w.depth.Patch, w.stage = newPatch(&x.patches, x.lanes, work[:stage:stage])
		w.band.buf, work = work[:stage:stage], work[stage:]
		w.results, work = work[:results:results], work[results:]
	}
}

// channelsPerTask returns the channels of a task: as given, or those that are converted at once.
func (p *patches) channelsPerTask(channels int) int {
	switch {
	case p.band.convert != nil:
		return p.band.channels
	case p.convert != nil:
		return stageChannels
	}
	return channels
}

// run computes the convolution.
func (x *convDepth) run(p *pool) { runOn(p, x, len(x.workers), x.images*x.blocks) }

// do computes task i: some channels of one image.
func (x *convDepth) do(i, worker int) {
	w, size := &x.workers[worker], x.kernels.Size()
	t, q := &w.depth, &x.patches
	image, c := i/x.blocks, i%x.blocks*x.maxChannels
	channels := min(x.maxChannels, x.channels-c)
	pixels := q.pixels()
	first := x.dst[image*x.layout.image+c*x.layout.plane:]
	t.Channels, t.Taps, t.TapCount = channels, q.taps, len(q.taps)
	t.W, t.StepW = x.w[c*x.stepW:], x.stepW
	for at := 0; at < pixels; at += x.lanes {
		t.N = min(x.lanes, pixels-at)
		w.setPixels(q, x.src, image, x.channels, c, at)
		x.prefetchNext(c, image*pixels+at+x.lanes, channels)
		if t.Dst, t.Pitch = w.results, conv.SumBytes; x.layout.whole {
			t.Dst, t.Pitch = first[at*size:], x.layout.plane
		}
		x.run1(t)
		if x.flags != 0 {
			w.end = conv.Epilogue{C: t.Dst, Rows: channels, RowC: t.Pitch, N: t.N, Flags: x.flags}
			if x.bias != nil {
				w.end.Bias = x.bias[c*size:]
			}
			x.packer.Epilogue(&w.end)
		}
		if x.norm.on() {
			x.norm.run(x.packer, &w.end, c, conv.Epilogue{C: t.Dst, Rows: channels, RowC: t.Pitch, N: t.N})
		}
		if !x.layout.whole {
			x.layout.scatter(w.results, x.dst, size, conv.SumBytes, c, channels, q, image*pixels+at, t.N)
		}
	}
	// An activation without a flag follows, in pieces that stay in the cache.
	for rest := first[:channels*x.layout.plane]; x.act != nil && len(rest) > 0; {
		n := min(len(rest), cheapGrain*size)
		x.act(rest[:n])
		rest = rest[n:]
	}
}

// setPixels points the arguments at the windows of the vector of pixels from at on, in channels
// from c on, of so many, of an image.
func (w *depthWorker) setPixels(q *patches, src []byte, image, channels, c, at int) {
	t := &w.depth
	if b := &q.band; b.convert != nil {
		if at == 0 {
			w.band.reset()
		}
		q.setPixels(&t.Patch, w.stage, at, t.N)
		src = src[(image*channels+c)*b.plane:]
		w.band.load(q, &t.Patch, src, at, t.N)
		w.band.prefetchNext(q, &t.Patch, src, channels*b.plane, at)
		return
	}
	t.Src = src[c*q.plane:]
	q.setPixels(&t.Patch, w.stage, image*q.pixels()+at, t.N)
	q.convertPixels(&t.Patch, w.stage)
}

// prefetchNext prefetches what the vector from px on reads and writes.
func (x *convDepth) prefetchNext(c, px, channels int) {
	pixels := x.patches.pixels()
	if x.kernels.Prefetch == nil || px >= x.images*pixels {
		return
	}
	var h prefetcher
	if x.patches.band.convert == nil {
		h = x.patches.prefetchBelow(x.src, c, channels, px, x.lanes)
		h.advance(x.kernels, 1, 1)
	}
	if x.layout.whole {
		h = prefetcher{src: x.dst[px/pixels*x.layout.image+c*x.layout.plane+px%pixels*x.kernels.Size():], rows: channels, stride: x.layout.plane, n: asm.CacheLine}
		h.advance(x.kernels, 1, 1)
	}
}

// A depthWeights is the gradient of a depthwise convolution by its weights.
type depthWeights struct {
	convolution
	packer      *conv.Kernels
	run1        func(t *conv.Depthwise)
	lanes       int
	maxChannels int // channels of a task
	windows     patches
	x, dy, dw   []byte
	workers     []depthWorker
}

// bindDepthWeight prepares a gradient by the weights.
func (v *convolution) bindDepthWeight(b *binding, workers int) *depthWeights {
	x := &depthWeights{convolution: *v, packer: conv.For(v.kernels), windows: v.patches(),
		x: b.bytes(b.In[0]), dy: b.bytes(b.In[1]), dw: b.bytes(b.Out[0])}
	x.run1, x.lanes = x.packer.Depthwise(x.windows.load(x.packer), x.windows.packed, x.windows.cols.step, true)
	x.workers = make([]depthWorker, workers)
	work := b.work()
	_, sums := depthBytes(v.taps())
	x.maxChannels = min(x.windows.channelsPerTask(depthSums), depthSums)
	stage, dy := v.stageBytes(1), v.depthDy()
	for i := range x.workers {
		w := &x.workers[i]
		w.depth.Patch, w.stage = newPatch(&x.windows, x.lanes, work[:stage:stage])
		w.band.buf, work = work[:stage:stage], work[stage:]
		w.dy, work = work[:dy:dy], work[dy:]
		w.results, work = work[:sums:sums], work[sums:]
	}
	return x
}

// depthDy returns the bytes of converted dy.
func (v *convolution) depthDy() int {
	if !v.rounded {
		return 0
	}
	return depthSums * depthPixels * gemm.PackedSize
}

// run computes the gradient.
func (x *depthWeights) run(p *pool) { runOn(p, x, len(x.workers), ceilDiv(x.c, x.maxChannels)) }

// do computes task i: some channels. Lane l of a sum adds pixels l, l+lanes, … of each image,
// whatever the width of vectors; then lanes are added in order.
func (x *depthWeights) do(i, worker int) {
	w, size, q := &x.workers[worker], x.kernels.Size(), &x.windows
	t, c, pixels, sizeY := &w.depth, i*x.maxChannels, q.pixels(), x.sizes[1]
	t.Channels, t.Taps, t.TapCount = min(x.maxChannels, x.c-c), q.taps, len(q.taps)
	sums := w.results[:t.Channels*t.TapCount*conv.SumBytes]
	clear(sums)
	for image := range x.b {
		dy := x.dy[(image*x.c+c)*pixels*sizeY:]
		for at := 0; at < pixels; at += x.lanes {
			t.N = min(x.lanes, pixels-at)
			w.setPixels(q, x.x, image, x.c, c, at)
			if next := image*pixels + at + x.dyAhead(); x.kernels.Prefetch != nil && next < x.b*pixels {
				var h prefetcher
				if q.band.convert == nil {
					h = q.prefetchBelow(x.x, c, t.Channels, next, x.lanes)
					h.advance(x.kernels, 1, 1)
				}
				h = prefetcher{src: x.dy[((next/pixels*x.c+c)*pixels+next%pixels)*sizeY:], rows: t.Channels, stride: pixels * sizeY, n: asm.CacheLine}
				h.advance(x.kernels, 1, 1)
			}
			t.Dst, t.W, t.StepW = sums[at*size%conv.SumBytes:], dy[at*sizeY:], pixels*sizeY
			if x.rounded {
				first := at % depthPixels
				if first == 0 {
					x.packingsFloat32[1].Across(w.dy, t.W, t.Channels, t.StepW, min(depthPixels, pixels-at), depthPixels*gemm.PackedSize)
				}
				t.W, t.StepW = w.dy[first*gemm.PackedSize:], depthPixels*gemm.PackedSize
			}
			x.run1(t)
		}
	}
	dw := x.dw[c*t.TapCount*size:][:t.Channels*t.TapCount*size]
	if size == 4 {
		addLanes(asm.View[float32](dw), asm.View[float32](sums))
	} else {
		addLanes(asm.View[float64](dw), asm.View[float64](sums))
	}
}

// dyAhead returns how many pixels ahead dy is prefetched.
func (x *depthWeights) dyAhead() int {
	if x.rounded {
		return depthPixels
	}
	return x.lanes
}

// addLanes adds the lanes of each sum in order.
func addLanes[T float](dst, sums []T) {
	lanes := conv.SumBytes / asm.SizeOf[T]()
	for i := range dst {
		var s T
		for _, v := range sums[i*lanes:][:lanes] {
			s += v
		}
		dst[i] = s
	}
}
