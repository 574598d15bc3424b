package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// Targets of the plan of an implicit product.
const (
	// A larger A does not stay in the second-level cache, so panels share its k blocks.
	convSharedBytes  = 256 << 10
	convSharedPanels = 4          // panels that share a k block
	convRows         = 512        // most rows of a task
	convTask         = 10_000_000 // flops of a task, some 100 µs
	// Steps of a k block, times those of a matmul: fewer sums are read again, and the second-level
	// cache delivers panels in time.
	convStepsFactor = 2
	// Most bytes of tables of an image.
	convTableBytes = 64 << 10
	// Most flops of an image of which each worker computes some planes: the next operation finds them
	// in the worker's cache. They take some 40 µs.
	convFewFlops = 4_000_000
	// Images of as many bytes in all stay in the first-level cache: nothing is prefetched.
	convCachedBytes = 16 << 10
	// Panels of an image from which on a panel has pixels of one image only.
	convMaxJoined = 16
)

// A convMatmul is one implicit product for each image and group: C [rows, pixels] = A [rows,
// channels·taps] · patches.
//
//	            panel of pixels, packed from the image as it is needed
//	          ┌──┬──┬──┬──┐
//	channels  │  │  │  │  │   a task is some panels x some rows of a group;
//	 x taps   ├──┼──┼──┼──┤   k is cut into blocks of whole channels, or of taps of one channel:
//	    k     │  │  │  │  │     for every panel: pack, for every tile of rows: run the kernel
//	┌──┬──┐   └──┴──┴──┴──┘
//	│A │  │ rows
//
// Invariant: the k blocks depend on type and shape only, so the bits of the result depend on
// neither threads nor instruction set.
type convMatmul struct {
	kernels *gemm.Kernels
	packer  *conv.Kernels
	pack    func(t *conv.Patch)
	patches patches
	images  int

	groups, rows, channels int // rows and channels are of a group
	kBlocks                []kBlock
	a                      []byte // rows of all groups
	rowA                   int    // bytes from row to row
	rounded                bool   // pixels are converted and packed in parts
	// Converts packed float32 to elements of tiles. Nil: they are the same.
	roundPacked         half.ConvertFunc
	src, dst            []byte
	layout              resultLayout
	bias                []byte
	act                 func(data []byte)
	norm                convNorm
	tileFlags, endFlags int // on the last k block

	perImage            int // panels of an image; 0: a panel can have pixels of two images
	panels              int
	sharedPanels        int // panels that share a k block
	taskPanels, blocks  int
	rowBlock, rowBlocks int
	workers             []convWorker
	// By vector of pixels of an image: how it is packed, the same for each image. Nil: the tables are
	// too large, and each panel fills those of the worker.
	vectors []conv.Patch
}

// A kBlock is some steps of k: all taps of some channels, or some taps of one.
type kBlock struct {
	k, n          int      // steps before it, steps
	at            int      // elements before it in packed rows of A
	parts         []kBlock // parts that are packed at once
	channel       int
	channels      int
	tap, tapCount int
}

// A resultLayout says where the pixels of a product lie in its result.
type resultLayout struct {
	plane, image int    // bytes from row to row of C, and from image to image
	first, step  [2]int // pixels in the plane: height, width
	width        int    // elements of a row of the plane
	whole        bool   // the pixels are all of a plane, in order
}

// A convWorker holds what one worker writes to, apart from C.
type convWorker struct {
	tile     gemm.Tile
	patch    conv.Patch
	stage    *imageStage // nil: see newPatch
	prefetch prefetcher
	end      conv.Epilogue
	panel    []byte // packed patches
	part     []byte // packed float32 of one vector of pixels and one part, which become pairs
	results  []byte // of panels whose pixels are not contiguous in C
	_        [asm.CacheLine]byte
}

// splitK cuts k into even blocks of at most steps steps: of whole channels, or of the taps of one
// channel.
func splitK(channels, taps, steps int) []kBlock {
	var all []kBlock
	if taps <= steps {
		n := ceilDiv(channels, ceilDiv(channels, steps/taps))
		for c := 0; c < channels; c += n {
			m := min(n, channels-c)
			all = append(all, kBlock{k: c * taps, n: m * taps, channel: c, channels: m, tapCount: taps})
		}
		return all
	}
	n := evenSplit(taps, steps)
	for c := range channels {
		for t := 0; t < taps; t += n {
			m := min(n, taps-t)
			all = append(all, kBlock{k: c*taps + t, n: m, channel: c, channels: 1, tap: t, tapCount: m})
		}
	}
	return all
}

// cut chooses the panels and the tasks.
func (x *convMatmul) cut(workers int) {
	s, pixels := x.kernels, x.patches.pixels()
	taps := len(x.patches.taps)
	x.kBlocks = splitPackedK(s, x.channels, taps, x.rounded)
	// Panels of one image each waste columns of the last panel. Where that is more than a tenth,
	// and images are small, panels cross images.
	x.perImage = ceilDiv(pixels, s.Cols)
	whole := pixels / s.Cols * s.Cols
	if rest := pixels - whole; rest > 0 {
		whole += s.Cols
		if rest <= s.Cols/2 && s.HalfTiles != nil {
			whole -= s.Cols / 2
		}
	}
	x.panels = x.images * x.perImage
	if x.perImage < convMaxJoined && 10*pixels < 9*whole {
		x.perImage, x.panels = 0, ceilDiv(x.images*pixels, s.Cols)
	}
	x.sharedPanels = convPanels(s, x.rows, x.channels*taps)
	// Rows are cut only where images, groups and panels do not make enough tasks.
	want := 1
	if workers > 1 {
		want = tasksPerThread * workers
	}
	x.rowBlocks = ceilDiv(x.rows, convRows)
	if have := x.groups * x.panels; have < want {
		x.rowBlocks = max(x.rowBlocks, min(ceilDiv(x.rows, s.Rows), ceilDiv(want, have)))
	}
	x.rowBlock = ceilDiv(ceilDiv(x.rows, x.rowBlocks), s.Rows) * s.Rows
	if x.rowBlocks == 1 {
		x.rowBlock = x.rows
	}
	x.rowBlocks = ceilDiv(x.rows, x.rowBlock)
	// A task has as many panels as make convTask flops, but not so many that threads wait.
	panel := 2 * float64(min(x.rows, x.rowBlock)*x.channels*taps*s.Cols)
	x.taskPanels = max(1, min(int(convTask/panel), x.panels*x.groups*x.rowBlocks/want))
	x.blocks = ceilDiv(x.panels, x.taskPanels)
	if work := panel * float64(x.panels*x.rowBlocks); x.images*x.groups == 1 && workers > 1 && work < convFewFlops && x.rows >= workers*x.kernels.Rows/2 {
		x.rowBlock, x.taskPanels, x.blocks = ceilDiv(x.rows, workers), x.panels, 1
		x.rowBlocks = ceilDiv(x.rows, x.rowBlock)
	}
}

// convPanels returns how many panels share a k block of A.
func convPanels(s *gemm.Kernels, rows, k int) int {
	if rows*s.Elems(k)*s.Size() > convSharedBytes {
		return convSharedPanels
	}
	return 1
}

// convWorkerBytes returns the most bytes that a worker packs and holds at once, of any product up
// to this size.
func convWorkerBytes(s *gemm.Kernels, rows, k int) (panel, results int) {
	return s.PanelBytes(s.Elems(min(k, convStepsFactor*s.MaxSteps()))), asm.AlignLine(convPanels(s, rows, k) * min(rows, convRows+s.Rows) * s.Cols * s.Size())
}

// bind gives workers their parts of the workspace, each with stage bytes for converted pixels.
func (x *convMatmul) bind(workers int, work []byte, stage int) {
	x.packer = conv.For(x.kernels)
	x.pack = x.patches.pack(x.packer)
	panel, results := convWorkerBytes(x.kernels, x.rows, x.channels*len(x.patches.taps))
	part := partBytes(x.kernels, len(x.patches.taps))
	x.workers = make([]convWorker, workers)
	for i := range x.workers {
		w := &x.workers[i]
		w.patch, w.stage = newPatch(&x.patches, x.packer.Lanes, work[:stage:stage])
		work = work[stage:]
		w.part, work = work[:part:part], work[part:]
		w.panel, work = work[:panel:panel], work[panel:]
		w.results, work = work[:results:results], work[results:]
	}
	x.fillTables()
}

// fillTables makes the tables of the vectors of an image, if they are small and pixels are packed as
// they are stored.
func (x *convMatmul) fillTables() {
	q, lanes := &x.patches, x.packer.Lanes
	count := x.perImage * x.kernels.Cols / lanes
	if q.convert != nil || count == 0 || count*(len(q.taps)*maskBytes+laneBytes) > convTableBytes {
		return
	}
	x.vectors = make([]conv.Patch, count)
	for i := range x.vectors {
		t, _ := newPatch(q, lanes, nil)
		q.setPixels(&t, nil, min(i*lanes, q.pixels()-1), max(0, min(lanes, q.pixels()-i*lanes)))
		x.vectors[i] = t
	}
}

// usePixels gives t the tables of the vector at column of the panel of n pixels from px on, counted
// over all images, and returns the bytes of the images before it.
func (x *convMatmul) usePixels(t *conv.Patch, stage *imageStage, px, column, n int) int {
	q, pixels, lanes := &x.patches, x.patches.pixels(), x.packer.Lanes
	if x.vectors == nil {
		q.setPixels(t, stage, px+column, max(0, min(lanes, n-column)))
		return 0
	}
	v := &x.vectors[(px%pixels+column)/lanes]
	t.Masks, t.Segments, t.Lanes, t.SegCount = v.Masks, v.Segments, v.Lanes, v.SegCount
	return px / pixels * q.image
}

// setEpilogue decides which part of the epilogue tile kernels do, and which part follows.
func (x *convMatmul) setEpilogue(bias []byte, flags int, act func(data []byte)) {
	x.bias, x.act = bias, act
	if flags == gemm.FlagRelu {
		x.tileFlags = flags
	} else {
		x.endFlags = flags
	}
}

// run computes the product.
func (x *convMatmul) run(p *pool) { runOn(p, x, len(x.workers), x.groups*x.rowBlocks*x.blocks) }

// runOn runs n tasks on a pool, or in the caller where there is one worker.
func runOn(p *pool, t task, workers, n int) {
	if workers == 1 {
		serial(t, n)
	} else {
		p.run(t, n)
	}
}

// do computes task i: some panels and rows of one group.
func (x *convMatmul) do(i, worker int) {
	w := &x.workers[worker]
	block, i := i%x.blocks, i/x.blocks
	rowBlock, group := i%x.rowBlocks, i/x.rowBlocks
	r0 := group*x.rows + rowBlock*x.rowBlock
	rows := min(x.rowBlock, x.rows-rowBlock*x.rowBlock)
	for p, last := block*x.taskPanels, min((block+1)*x.taskPanels, x.panels); p < last; p += x.sharedPanels {
		x.computePanels(w, group, r0, rows, p, min(p+x.sharedPanels, last))
	}
}

// computePanels computes rows from r0 on of panels p0:p1, one k block after another.
func (x *convMatmul) computePanels(w *convWorker, group, r0, rows, p0, p1 int) {
	size := x.kernels.Size()
	bytes := rows * x.kernels.Cols * size
	// The first k block overwrites the results, later ones add to them.
	for i := range x.kBlocks {
		s, t := &x.kBlocks[i], &w.tile
		t.Flags = 0
		if i > 0 {
			t.Flags = gemm.FlagAdd
		}
		final := i == len(x.kBlocks)-1
		if final {
			t.Flags |= x.tileFlags
		}
		// Panels that share a k block of A go one after another, while it is in the second-level
		// cache.
		for p := p0; p < p1; p++ {
			px, n := x.pixelsOf(p)
			c := w.results[(p-p0)*bytes:]
			t.RowC = x.kernels.Cols * size
			at, inOrder := x.inOrder(px, n)
			if inOrder {
				c, t.RowC = x.dst[at+r0*x.layout.plane:], x.layout.plane
			}
			x.panel(w, s, group, px, n)
			x.planPrefetch(&w.prefetch, i, group, p, p0, p1)
			x.tiles(w, s, c, r0, rows, n)
			if !final {
				continue
			}
			if x.endFlags != 0 {
				e := &w.end // set by field: of one image, the whole struct takes a tenth of the time
				e.C, e.Bias, e.Rows, e.RowC, e.N, e.Flags = c, x.bias[r0*size:], rows, t.RowC, n, x.endFlags
				x.packer.Epilogue(e)
			}
			if x.norm.on() {
				x.norm.run(x.packer, &w.end, r0, conv.Epilogue{C: c, Rows: rows, RowC: t.RowC, N: n})
			}
			x.activate(c, t.RowC, rows, n)
			if !inOrder {
				x.layout.scatter(c, x.dst, size, t.RowC, r0, rows, &x.patches, px, n)
			}
		}
	}
}

// pixelsOf returns the first pixel of a panel, counted over all images, and how many it has.
func (x *convMatmul) pixelsOf(panel int) (px, n int) {
	pixels, cols := x.patches.pixels(), x.kernels.Cols
	if x.perImage == 0 {
		px = panel * cols
		return px, min(cols, x.images*pixels-px)
	}
	at := panel % x.perImage * cols
	return panel/x.perImage*pixels + at, min(cols, pixels-at)
}

// inOrder returns the offset of n pixels from px on in row 0 of C, and whether they are contiguous
// there.
func (x *convMatmul) inOrder(px, n int) (at int, ok bool) {
	pixels := x.patches.pixels()
	at = px % pixels
	return px/pixels*x.layout.image + at*x.kernels.Size(), x.layout.whole && at+n <= pixels
}

// panel packs a k block of the windows of n pixels.
func (x *convMatmul) panel(w *convWorker, s *kBlock, group, px, n int) {
	t, q, size := &w.patch, &x.patches, x.kernels.Size()
	lanes, pitch := x.packer.Lanes, x.kernels.Cols*size
	// A panel with few pixels is computed by tiles of half the width.
	width := x.kernels.Cols
	if n <= width/2 && x.kernels.HalfTiles != nil {
		width /= 2
	}
	for v := 0; v < width; v += lanes {
		image := x.usePixels(t, w.stage, px, v, n)
		masks := t.Masks
		for i := range s.parts {
			p := &s.parts[i]
			t.Src = x.src[image+(group*x.channels+p.channel)*q.plane:]
			t.Channels, t.TapCount, t.Taps, t.Masks = p.channels, p.tapCount, q.taps[p.tap:], masks[p.tap*conv.MaxLanes:]
			q.convertPixels(t, w.stage)
			dst := w.panel[x.kernels.Elems(p.k-s.k)*pitch+v*size:]
			if t.Dst, t.Pitch = dst, pitch; x.kernels.StepsPerElem() == 2 {
				t.Dst, t.Pitch = w.part, lanes*size
			}
			x.pack(t)
			if x.roundPacked != nil {
				x.roundPacked(dst, t.Dst, p.n, t.Pitch, lanes, pitch)
			}
		}
		t.Masks = masks
	}
	w.tile.B, w.tile.StepB, w.tile.K = w.panel, pitch, x.kernels.Elems(s.n)
}

// planPrefetch sets h to what is packed after k block i of panel p, one of p0:p1. Only the lowest
// row of taps needs it: pixels above have loaded the other rows.
func (x *convMatmul) planPrefetch(h *prefetcher, i, group, p, p0, p1 int) {
	h.src = nil
	if x.kernels.Prefetch == nil || len(x.src) <= convCachedBytes {
		return
	}
	// After the last panel comes the next k block of the first one, or the first panel of the next
	// group.
	if p++; p == p1 {
		if i++; i < len(x.kBlocks) {
			p = p0
		} else if i = 0; p == x.panels {
			return
		}
	}
	s, px, n := &x.kBlocks[i], 0, 0
	px, n = x.pixelsOf(p)
	*h = x.patches.prefetchBelow(x.src, group*x.channels+s.channel, s.channels, px, n)
}

// tiles adds a k block to rows of C, which start at c.
func (x *convMatmul) tiles(w *convWorker, s *kBlock, c []byte, r0, rows, n int) {
	t, run := &w.tile, x.kernels.Tiles
	if n <= x.kernels.Cols/2 && x.kernels.HalfTiles != nil {
		run = x.kernels.HalfTiles
	}
	t.N, t.RowA, t.StepA = n, x.rowA, x.kernels.Size()
	a := x.a[r0*x.rowA+s.at*t.StepA:]
	count := ceilDiv(rows, x.kernels.Rows)
	least, more := rows/count, rows%count
	row := 0
	for i := range count {
		t.Rows = least
		if i < more {
			t.Rows++
		}
		t.A, t.C = a[row*t.RowA:], c[row*t.RowC:]
		run[t.Rows](t)
		row += t.Rows
		if w.prefetch.src != nil {
			w.prefetch.advance(x.kernels, i+1, count)
		}
	}
}

// activate applies the activation that is no flag.
func (x *convMatmul) activate(c []byte, rowC, rows, n int) {
	if x.act == nil {
		return
	}
	for r := range rows {
		x.act(c[r*rowC : r*rowC+n*x.kernels.Size()])
	}
}

// scatter moves rows of results for n pixels from px on, counted over all images, to their places
// in dst. Rows lie pitch bytes apart, and the first is plane r0 of each image.
func (p *resultLayout) scatter(c, dst []byte, size, pitch, r0, rows int, q *patches, px, n int) {
	pixels := q.pixels()
	image, at := px/pixels, px%pixels
	// Runs of pixels that are evenly apart: the rest of the plane, or of the row.
	for n > 0 {
		run := pixels - at
		to := dst[image*p.image+r0*p.plane:]
		step := 1
		if p.whole {
			to = to[at*size:]
		} else {
			row, col := at/q.cols.n, at%q.cols.n
			run, step = q.cols.n-col, p.step[1]
			to = to[((p.first[0]+row*p.step[0])*p.width+p.first[1]+col*step)*size:]
		}
		run = min(run, n)
		for r := range rows {
			spread(to[r*p.plane:], c[r*pitch:][:run*size], size, step)
		}
		c = c[run*size:]
		n -= run
		if at += run; at == pixels {
			at, image = 0, image+1
		}
	}
}

// spread copies elements of size bytes to places step elements apart.
func spread(dst, src []byte, size, step int) {
	switch {
	case step == 1:
		copy(dst, src)
	case size == 4:
		spreadOf(asm.View[uint32](dst), asm.View[uint32](src), step)
	default:
		spreadOf(asm.View[uint64](dst), asm.View[uint64](src), step)
	}
}

// spreadOf is spread for one size of element.
func spreadOf[T asm.Word](dst, src []T, step int) {
	for i, v := range src {
		dst[i*step] = v
	}
}
