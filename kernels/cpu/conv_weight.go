package cpu

import (
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// Targets of the plan of a gradient by the weights.
const (
	weightPixels = 1 << 10 // bytes of a row of patches: a block of pixels
	weightRows   = 288     // most rows of patches of a task
	weightOuts   = 256     // most outputs of a task
	weightApart  = 144     // rows of patches that make enough tasks by themselves
	weightParts  = 8       // most parts of the pixels where there are fewer rows
)

// A convWeights is the gradient of a convolution by its weights: dwᵀ [channels·taps, O] = patches ·
// dyᵀ, where k runs over the pixels of all images.
//
//	           dyᵀ, panels of outputs       a task is some rows x some outputs of a group, and all pixels or a part of them;
//	          ┌────┬────┬────┐              for every block of pixels:
//	pixels    │    │    │    │                pack the panels of dyᵀ, pack the rows of patches,
//	┌────────┐└────┴────┴────┘                for every panel, for every tile of rows: run the kernel
//	│patches │ channels·taps
//
// Few rows make few tasks: then the pixels are cut into parts, whose sums are added in order.
//
// Invariant: blocks and parts depend on type and shape only, so the bits of the result depend on
// neither threads nor instruction set.
type convWeights struct {
	convolution
	packer *conv.Kernels
	pack   func(t *conv.Patch)
	// Converts packed float32 to elements of tiles. Nil: they are the same.
	roundPacked half.ConvertFunc
	windows     patches
	x, dy, dw   []byte

	pixels, parts, partPixels int // of all images, and of a part
	pixelBlock                int // pixels
	rowBlocks                 []kBlock
	outBlocks                 int
	sums                      []byte // of the parts: [parts, groups, channels·taps, outputs]
	workers                   []weightWorker
}

// A weightWorker holds what one worker writes to, apart from the result.
type weightWorker struct {
	tile     gemm.Tile
	patch    conv.Patch
	stage    *imageStage   // nil: see newPatch
	prefetch [2]prefetcher // of x and of dy
	rows     []byte        // patches
	dyRows   []byte        // rounded rows of dy, before they are transposed
	panels   []byte        // of dyᵀ
	sums     []byte        // of a task
	_        [asm.CacheLine]byte
}

// newConvWeights plans a gradient for that many workers.
func newConvWeights(v convolution, workers int) *convWeights {
	x := &convWeights{convolution: v, windows: v.patches(), pixels: v.b * v.out[0] * v.out[1]}
	x.pixelBlock = weightPixels / v.kernels.Size()
	x.parts = v.weightParts()
	x.partPixels = ceilDiv(ceilDiv(x.pixels, x.parts), x.pixelBlock) * x.pixelBlock
	x.parts = ceilDiv(x.pixels, x.partPixels)
	x.outBlocks = ceilDiv(v.og, weightOuts)
	// Row blocks: at most weightRows rows, and enough blocks for every worker.
	rows := v.cg * v.taps()
	// Row blocks that give every worker a task.
	apart := ceilDiv(workers, x.parts*x.outBlocks*v.groups)
	blocks := ceilDiv(ceilDiv(rows, weightRows), apart) * apart
	x.rowBlocks = withParts(splitK(v.cg, v.taps(), max(v.kernels.Rows, ceilDiv(rows, blocks))), v.taps(), 1, v.rounded)
	return x
}

// weightParts returns the most parts in which pixels are summed.
func (v *convolution) weightParts() int {
	if v.cg*v.taps()*v.groups >= weightApart {
		return 1
	}
	return max(1, min(weightParts, v.b*v.out[0]*v.out[1]/(4*weightPixels/v.kernels.Size())))
}

// weightBytes returns the most bytes that a worker packs and sums, and the bytes of the sums of all
// parts. None shrinks as a size grows.
func (v *convolution) weightBytes() (rows, panels, sums, parts int) {
	s, size := v.kernels, v.kernels.Size()
	stretch := weightPixels / size
	all := v.cg * v.taps()
	outs := min(v.og, weightOuts)
	rows = min(all, max(weightRows, s.Rows)) * s.RowPitch(stretch)
	panels = ceilDiv(outs, s.Cols) * s.PanelBytes(s.Elems(stretch))
	sums = asm.AlignLine(min(all, max(weightRows, s.Rows)) * outs * size)
	// Parts are used for few rows only, so the bound takes the most rows that use them.
	small := *v
	if all*v.groups >= weightApart {
		small.cg, small.groups, small.kernel = weightApart-1, 1, [2]int{1, 1}
	}
	if n := small.weightParts(); n > 1 {
		parts = asm.AlignLine(n * min(all*v.groups, weightApart-1) * v.og * size)
	}
	return rows, panels, sums, parts
}

// convWeightWork returns the workspace of a gradient by the weights in bytes.
func convWeightWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	v := newConvolution(d, kernels.ConvGradWeight, attrs, in, out)
	rows, panels, sums, parts := v.weightBytes()
	_, depth := depthBytes(v.taps())
	worker := max(rows+v.dyStageBytes()+panels+sums, depth+v.depthDy()) + v.stageBytes(v.cg)
	return int64(v.workers(d.pool.threads()))*int64(worker) + int64(parts)
}

// dyStageBytes returns the bytes of the rounded rows of dy that are transposed at once.
func (v *convolution) dyStageBytes() int {
	if !v.rounded {
		return 0
	}
	return v.kernels.Lanes * v.kernels.RowPitch(stageElems)
}

// bindConvWeight prepares a gradient by the weights.
func bindConvWeight(b *binding) (func(), error) {
	v := newConvolution(b.dev, kernels.ConvGradWeight, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	dw, pool := b.bytes(b.Out[0]), b.dev.pool
	if v.b == 0 {
		return func() { clear(dw) }, nil
	}
	workers := v.workers(pool.threads())
	if v.depthwise() {
		v.useFloat32()
		x := v.bindDepthWeight(b, workers)
		return func() { x.run(pool) }, nil
	}
	x := newConvWeights(v, workers)
	x.x, x.dy, x.dw = b.bytes(b.In[0]), b.bytes(b.In[1]), dw
	x.packer = conv.For(v.kernels)
	x.pack, x.roundPacked = x.windows.pack(x.packer), v.packedRounding(0).Along
	rows, panels, sums, parts := v.weightBytes()
	work, stage, turn := b.work(), v.stageBytes(v.cg), v.dyStageBytes()
	x.sums, work = work[:parts:parts], work[parts:]
	x.workers = make([]weightWorker, workers)
	for i := range x.workers {
		w := &x.workers[i]
		w.patch, w.stage = newPatch(&x.windows, x.packer.Lanes, work[:stage:stage])
		work = work[stage:]
		w.dyRows, work = work[:turn:turn], work[turn:]
		w.rows, work = work[:rows:rows], work[rows:]
		w.panels, work = work[:panels:panels], work[panels:]
		w.sums, work = work[:sums:sums], work[sums:]
	}
	tasks := x.parts * v.groups * x.outBlocks * len(x.rowBlocks)
	all := v.groups * v.cg * v.taps()
	join := b.parallelFor(all, v.kernels.Lanes, x.join)
	return func() {
		runOn(pool, x, workers, tasks)
		if x.parts > 1 {
			join()
		}
	}, nil
}

// do computes task i: a block of rows and outputs, over a part of the pixels.
func (x *convWeights) do(i, worker int) {
	w, size := &x.workers[worker], x.kernels.Size()
	block, i := &x.rowBlocks[i%len(x.rowBlocks)], i/len(x.rowBlocks)
	out, i := i%x.outBlocks*weightOuts, i/x.outBlocks
	group, part := i%x.groups, i/x.groups
	outs := min(weightOuts, x.og-out)
	t := &w.tile
	c := w.sums
	t.RowC = outs * size
	if x.parts > 1 {
		t.RowC = x.og * size
		row := (part*x.groups+group)*x.cg*x.taps() + block.k
		c = x.sums[(row*x.og+out)*size:]
	}
	first, last := part*x.partPixels, min((part+1)*x.partPixels, x.pixels)
	// The first block of pixels overwrites the sums, later ones add to them.
	t.Flags = 0
	for px := first; px < last; px += x.pixelBlock {
		n := min(x.pixelBlock, last-px)
		if x.rounded {
			x.roundOuts(w, group*x.og+out, outs, px, n)
		} else {
			x.packOuts(w, group*x.og+out, outs, px, n)
		}
		x.packRows(w, group, block, px, n)
		x.planPrefetch(w, group, out, outs, block, px+n, last)
		x.tiles(w, c, block.n, outs, n)
		t.Flags = gemm.FlagAdd
	}
	// One part writes dw itself; several leave their sums for join.
	if x.parts == 1 {
		x.write(c, t.RowC, block.n, outs, group*x.og+out, block.k)
	}
}

// planPrefetch sets the worker's prefetch to what the block of pixels from px on packs first, of
// one image.
func (x *convWeights) planPrefetch(w *weightWorker, group, out, outs int, block *kBlock, px, last int) {
	w.prefetch = [2]prefetcher{}
	if x.kernels.Prefetch == nil || px >= last {
		return
	}
	pixels := x.windows.pixels()
	n := min(x.pixelBlock, pixels-px%pixels)
	w.prefetch[0] = x.windows.prefetchBelow(x.x, group*x.cg+block.channel, block.channels, px, n)
	row := (px/pixels*x.o+group*x.og+out)*pixels + px%pixels
	size := x.sizes[1]
	w.prefetch[1] = prefetcher{src: x.dy[row*size:], rows: outs, stride: pixels * size, n: n * size}
}

// packOuts packs dyᵀ: n pixels from px on of outs outputs from out on.
func (x *convWeights) packOuts(w *weightWorker, out, outs, px, n int) {
	s, size := x.kernels, x.kernels.Size()
	pixels := x.windows.pixels()
	pitch := s.Cols * size
	// Pixels of one image are contiguous in a row of dy.
	for done := 0; done < n; {
		image, at := (px+done)/pixels, (px+done)%pixels
		run := min(n-done, pixels-at)
		dy := x.dy[((image*x.o+out)*pixels+at)*size:]
		for o := 0; o < outs; o += s.Cols {
			cols := min(s.Cols, outs-o)
			width := s.Cols
			if cols <= width/2 && s.HalfTiles != nil {
				width /= 2
			}
			dst := w.panels[o/s.Cols*s.PanelBytes(x.pixelBlock)+done*pitch:]
			for j := 0; j < width; j += s.Lanes {
				row := min(j, cols-1) // past the last output, the last one again
				s.PackCols(dst[j*size:], dy[(o+row)*pixels*size:], run, pixels*size, min(s.Lanes, cols-row), pitch)
			}
		}
		done += run
	}
}

// roundOuts is packOuts for a dy that is rounded. A block of an odd number of pixels ends at the
// end of an image, whose last run writes the 0 that completes the last pair.
func (x *convWeights) roundOuts(w *weightWorker, out, outs, px, n int) {
	s, f, size := x.kernels, &x.packings[1], x.kernels.Size()
	pixels, most, step := x.windows.pixels(), stageElems*s.StepsPerElem(), gemm.PackedSize/s.StepsPerElem()
	pitch, turned := s.Cols*size, s.RowPitch(stageElems)
	for o := 0; o < outs; o += s.Lanes {
		rows := min(s.Lanes, outs-o)
		panel := w.panels[o/s.Cols*s.PanelBytes(s.Elems(x.pixelBlock))+o%s.Cols*size:]
		for at := 0; at < n; at += most {
			steps := min(most, n-at)
			for done := 0; done < steps; {
				image, first := (px+at+done)/pixels, (px+at+done)%pixels
				run := min(steps-done, pixels-first)
				f.Along(w.dyRows[done*step:], x.dy[((image*x.o+out+o)*pixels+first)*f.Size:], rows, pixels*f.Size, run, turned)
				done += run
			}
			s.PackCols(panel[s.Elems(at)*pitch:], w.dyRows, s.Elems(steps), turned, rows, pitch)
		}
	}
}

// packRows packs a block of rows of the patches of n pixels from px on.
func (x *convWeights) packRows(w *weightWorker, group int, block *kBlock, px, n int) {
	t, size := &w.patch, x.kernels.Size()
	t.Pitch = x.kernels.RowPitch(x.pixelBlock)
	masks := t.Masks
	for v := 0; v < n; v += x.packer.Lanes {
		x.windows.setPixels(t, w.stage, px+v, min(x.packer.Lanes, n-v))
		for i := range block.parts {
			p := &block.parts[i]
			t.Src = x.x[(group*x.cg+p.channel)*x.windows.plane:]
			t.Channels, t.TapCount, t.Taps, t.Masks = p.channels, p.tapCount, x.windows.taps[p.tap:], masks[p.tap*conv.MaxLanes:]
			t.Dst = w.rows[(p.k-block.k)*t.Pitch+v*size:]
			x.windows.convertPixels(t, w.stage)
			x.pack(t)
		}
		t.Masks = masks
	}
	if x.roundPacked != nil { // in place: a row of pairs has half the length
		x.roundPacked(w.rows, w.rows, block.n, t.Pitch, n, t.Pitch)
	}
}

// tiles adds n pixels to rows x outs sums.
func (x *convWeights) tiles(w *weightWorker, c []byte, rows, outs, n int) {
	s, t, size := x.kernels, &w.tile, x.kernels.Size()
	t.K, t.RowA, t.StepA, t.StepB = s.Elems(n), s.RowPitch(x.pixelBlock), size, s.Cols*size
	count := ceilDiv(rows, s.Rows)
	least, more := rows/count, rows%count
	part, parts := 0, ceilDiv(outs, s.Cols)*count
	for o := 0; o < outs; o += s.Cols {
		t.N, t.B = min(s.Cols, outs-o), w.panels[o/s.Cols*s.PanelBytes(s.Elems(x.pixelBlock)):]
		run := s.Tiles
		if t.N <= s.Cols/2 && s.HalfTiles != nil {
			run = s.HalfTiles
		}
		row := 0
		for i := range count {
			t.Rows = least
			if i < more {
				t.Rows++
			}
			t.A, t.C = w.rows[row*t.RowA:], c[row*t.RowC+o*size:]
			run[t.Rows](t)
			row += t.Rows
			part++
			for j := range w.prefetch {
				if h := &w.prefetch[j]; h.src != nil {
					h.advance(s, part, parts)
				}
			}
		}
	}
}

// write transposes sums of rows from row on into the result.
func (x *convWeights) write(sums []byte, rowC, rows, outs, out, row int) {
	s, size := x.kernels, x.kernels.Size()
	pitch := x.cg * x.taps() * size
	dw := x.dw[out*pitch+row*size:]
	r := 0
	for ; r+s.Lanes <= rows; r += s.Lanes {
		s.PackCols(dw[r*size:], sums[r*rowC:], outs, rowC, s.Lanes, pitch)
	}
	for ; r < rows; r++ {
		for o := range outs {
			copy(dw[o*pitch+r*size:][:size], sums[r*rowC+o*size:])
		}
	}
}

// join adds the parts of rows lo:hi, counted over all groups, and writes them.
func (x *convWeights) join(lo, hi, _ int) {
	rows, size := x.cg*x.taps(), x.kernels.Size()
	rowC := x.og * size
	for lo < hi {
		n := min(hi-lo, rows-lo%rows)
		sum := x.sums[lo*rowC : (lo+n)*rowC]
		// Parts are added in order.
		for part := 1; part < x.parts; part++ {
			at := part * x.groups * rows * rowC
			addBytes(sum, x.sums[at+lo*rowC:][:n*rowC], size)
		}
		x.write(sum, rowC, n, x.og, lo/rows*x.og, lo%rows)
		lo += n
	}
}

// addBytes adds elements of size bytes.
func addBytes(dst, src []byte, size int) {
	if size == 4 {
		addElements(asm.View[float32](dst), asm.View[float32](src))
	} else {
		addElements(asm.View[float64](dst), asm.View[float64](src))
	}
}

// addElements adds src to dst.
func addElements[T float](dst, src []T) {
	for i, v := range src {
		dst[i] += v
	}
}
