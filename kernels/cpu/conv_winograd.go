package cpu

import (
	"math/bits"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// Convolutions of 3x3 kernels at stride 1 by Winograd's minimal algorithm F(2x2, 3x3) (Lavin and
// Gray, Fast Algorithms for Convolutional Neural Networks, 2015, §4.1): y = Aᵀ·[(G·g·Gᵀ) ⊙
// (Bᵀ·d·B)]·A for each tile of 2x2 pixels, with 16 multiplications instead of 36. Sums over
// channels are products of matrices, one for each of the 16 places of a tile. Weights are
// transformed first, by rows of outputs; then a task is some panels of tiles of one group:
// transform the panel, multiply at each place, transform the products to pixels.
//
// Errors are a few times those of plain sums: an element of Bᵀ·d·B is a sum of four pixels, and a
// result a sum of nine products of matrices. An infinity makes its whole tile NaN.

// Targets of the plan.
const (
	winoMinChannels  = 32      // least channels and outputs of a group for which it pays
	winoMinPixels    = 16      // least pixels of an image
	winoRows         = 64      // rows of products at once: they stay in the second-level cache
	winoSharedBytes  = 1 << 20 // bytes of transformed weights from which on panels share them
	winoSharedPanels = 2       // panels that share them
	winoChannels     = 8       // channels packed at once: they stay in the first-level cache
	winoTaps         = 9
	winoSide         = 4 // rows and columns of a tile's pixels
	winoWeightRows   = 8 // rows whose weights a task transforms
	// Bytes between planes of transformed values, whose sizes are often powers of two: 16 places at
	// such distances would share one set of the first-level cache.
	winoPad = asm.CacheLine
)

// A winograd is one convolution for each image and group, or its gradient by the input: the
// convolution of dy with kernels rotated by 180°.
type winograd struct {
	kernels *gemm.Kernels
	packer  *conv.Kernels
	pack    func(t *conv.Patch)
	tiles   patches // of 4x4 pixels, two apart
	images  int

	groups, rows, channels int // rows and channels are of a group
	src, dst               []byte
	out                    [2]int // pixels of the result
	w                      []byte
	taps                   []int64 // by tap: bytes in packed kernels
	rowW, channelW, groupW int     // bytes between kernels
	// Rounds packed pixels. Nil: they need no rounding.
	roundPacked half.ConvertFunc
	// Converts weights to rounded float32. Nil: they are used as stored.
	convertW half.ConvertFunc
	// Transformed weights: [groups, places, rows, channels].
	u                            []byte
	rowU, planeU                 int // bytes
	bias                         []byte
	flags                        int
	act                          func(data []byte)
	norm                         convNorm
	panels, sharedPanels, blocks int
	workers                      []winoWorker
	mayTurn                      bool        // products may be turned around
	turned                       *winoTurned // nil: they are not
}

// A winoWorker holds what one worker writes to, apart from the result.
type winoWorker struct {
	tile     gemm.Tile
	vectors  []winoVector // of a panel
	prefetch prefetcher
	input    conv.WinogradInput
	weight   conv.WinogradWeight
	output   conv.WinogradOutput
	turned   conv.WinogradTurned
	rows     conv.WinogradRows
	launch   int // the last one for which it has transformed rows of tiles
	end      conv.Epilogue
	w        []byte // converted weights of a row
	packed   []byte // weights by tap, of a vector of channels
	pixels   []byte // packed, of some channels
	v        []byte // transformed: [panels, places, channels]
	m        []byte // products: [panels, places, rows]
	_        [asm.CacheLine]byte
}

// A winoVector holds the tables of a vector of tiles.
type winoVector struct {
	patch conv.Patch
	stage *imageStage // nil: see newPatch
}

// winograd reports whether the convolution and its gradient by the input use this algorithm. It
// depends on the shape but not on the batch. Products of pairs of bfloat16 are as fast without it,
// and need less workspace.
func (v *convolution) winograd() bool {
	one := [2]int{1, 1}
	return v.kernels.StepsPerElem() == 1 && v.kernel == [2]int{3, 3} && v.stride == one && v.dilation == one && min(v.cg, v.og) >= winoMinChannels &&
		v.out[0]*v.out[1] >= winoMinPixels
}

// winoBytes returns the bytes of transformed weights of that many rows and channels, and the bytes
// that a worker packs.
func winoBytes(s *gemm.Kernels, groups, rows, channels int) (weights, pixels, v, m int) {
	weights = groups * conv.WinogradPlaces * (rows*s.RowPitch(channels) + winoPad)
	pixels = winoChannels * conv.WinogradPlaces * s.Cols * s.Size()
	places := winoPanels(s, rows, channels) * conv.WinogradPlaces
	return weights, pixels, places * winoPlane(s, channels), places * winoPlane(s, min(rows, winoRows))
}

// winoPlane returns the bytes from place to place of a panel of n rows.
func winoPlane(s *gemm.Kernels, n int) int { return n*s.Cols*s.Size() + winoPad }

// winoWork returns the workspace in bytes of convolutions with up to that many rows and channels.
func (v *convolution) winoWork(workers int64, rows, channels int) int64 {
	one := [2]int{1, 1}
	if v.kernels.StepsPerElem() == 2 || min(v.kernel[0], v.kernel[1]) < 3 || v.stride != one || v.dilation != one || min(rows, channels) < winoMinChannels {
		return 0
	}
	weights, pixels, panels, m := winoBytes(v.kernels, v.groups, rows, channels)
	extra := 0
	if v.rounded {
		extra = v.winoStage() + winoRow(channels)
	}
	return max(int64(weights)+workers*int64(pixels+panels+m+extra), v.turnedWork(workers, rows, channels))
}

// winoStage returns the bytes of a stage for tiles of the channels that are packed at once.
func (v *convolution) winoStage() int {
	if !v.rounded {
		return 0
	}
	return winoChannels * 4 * stageRowBytes(2, 4)
}

// winoRow returns the bytes of the converted weights of a row.
func winoRow(channels int) int { return asm.AlignLine(channels * winoTaps * gemm.PackedSize) }

// winoTiles returns the 4x4 tiles over images of size, operand i, for results of out pixels.
func (v *convolution) winoTiles(i int, size, out, pad [2]int, channels int) patches {
	var a [2]axis
	for k := range a {
		a[k] = newAxis(size[k], ceilDiv(out[k], 2), 2, []int{-pad[k], 1 - pad[k], 2 - pad[k], 3 - pad[k]})
	}
	q := newPatches(a[0], a[1], v.sizes[i], size[1], size[0], channels)
	v.setConversion(&q, i)
	return q
}

// winoForward plans the convolution.
func (v *convolution) winoForward(b *binding) *winograd {
	size := v.sizes[1]
	x := &winograd{
		kernels: v.kernels, tiles: v.winoTiles(0, v.in, v.out, v.pad, v.c), images: v.b, groups: v.groups, rows: v.og, channels: v.cg,
		src: b.bytes(b.In[0]), w: b.bytes(b.In[1]), dst: b.bytes(b.Out[0]), out: v.out, roundPacked: v.packedRounding(0).Across,
		convertW: v.packingsFloat32[1].Across, channelW: winoTaps * size, rowW: v.cg * winoTaps * size, groupW: v.og * v.cg * winoTaps * size,
		mayTurn: v.mayTurn(),
	}
	for i := range winoTaps {
		x.taps = append(x.taps, int64(i))
	}
	return x
}

// winoInput plans the gradient by the input.
func (v *convolution) winoInput(b *binding) *winograd {
	size := v.sizes[0]
	pad := [2]int{2 - v.pad[0], 2 - v.pad[1]}
	x := &winograd{
		kernels: v.kernels, tiles: v.winoTiles(1, v.out, v.in, pad, v.o), images: v.b, groups: v.groups, rows: v.cg, channels: v.og,
		src: b.bytes(b.In[1]), w: b.bytes(b.In[0]), dst: b.bytes(b.Out[0]), out: v.in, roundPacked: v.packedRounding(1).Across,
		convertW: v.packingsFloat32[0].Across, rowW: winoTaps * size, channelW: v.cg * winoTaps * size, groupW: v.og * v.cg * winoTaps * size,
	}
	for i := range winoTaps {
		x.taps = append(x.taps, int64(winoTaps-1-i))
	}
	return x
}

// winoPanels returns how many panels share the transformed weights.
func winoPanels(s *gemm.Kernels, rows, channels int) int {
	if conv.WinogradPlaces*rows*channels*s.Size() > winoSharedBytes {
		return winoSharedPanels
	}
	return 1
}

// setWorkers makes that many workers, and the tables that do not depend on the workspace. It returns
// the bytes of a vector.
func (x *winograd) setWorkers(workers int) (vector int) {
	x.packer = conv.For(x.kernels)
	x.pack = x.tiles.pack(x.packer)
	vector = x.packer.Lanes * x.kernels.Size()
	for i := range x.taps {
		x.taps[i] *= int64(vector)
	}
	x.workers = make([]winoWorker, workers)
	return vector
}

// bind cuts the product and gives workers their parts of the workspace, each with stage bytes for
// converted pixels.
func (x *winograd) bind(workers int, work []byte, stage int) {
	vector := x.setWorkers(workers)
	if x.turns() {
		x.bindTurned(work)
		return
	}
	weights, pixels, v, m := winoBytes(x.kernels, x.groups, x.rows, x.channels)
	x.rowU = x.kernels.RowPitch(x.channels)
	x.planeU = x.rows*x.rowU + winoPad
	x.u, work = work[:weights:weights], work[weights:]
	x.panels = ceilDiv(x.images*x.tiles.pixels(), x.kernels.Cols)
	x.sharedPanels = winoPanels(x.kernels, x.rows, x.channels)
	x.blocks = ceilDiv(x.panels, x.sharedPanels)
	for i := range x.workers {
		w := &x.workers[i]
		for range x.kernels.Cols / x.packer.Lanes {
			t, s := newPatch(&x.tiles, x.packer.Lanes, work[:stage:stage])
			w.vectors = append(w.vectors, winoVector{t, s})
		}
		work = work[stage:]
		if x.convertW != nil {
			row := winoRow(x.channels)
			w.w, work = work[:row:row], work[row:]
		}
		w.output.Segments, w.output.Masks = make([]int64, conv.MaxLanes), make([]uint32, 2*conv.MaxLanes)
		w.packed = make([]byte, winoTaps*vector)
		w.pixels, work = work[:pixels:pixels], work[pixels:]
		w.v, work = work[:v:v], work[v:]
		w.m, work = work[:m:m], work[m:]
	}
}

// run computes the convolution.
func (x *winograd) run(p *pool) {
	if x.turned != nil {
		if x.turned.launch++; x.turned.offsets == nil {
			runOn(p, winoTurnedTiles{x}, len(x.workers), x.panels)
		}
		runOn(p, winoTurnedOutputs{x}, len(x.workers), x.rows/x.kernels.Cols)
		return
	}
	runOn(p, winoWeights{x}, len(x.workers), ceilDiv(x.groups*x.rows, winoWeightRows))
	runOn(p, x, len(x.workers), x.groups*x.blocks)
}

// do computes task i: some panels of tiles of one group.
func (x *winograd) do(i, worker int) {
	w := &x.workers[worker]
	group, first := i/x.blocks, i%x.blocks*x.sharedPanels
	last := min(first+x.sharedPanels, x.panels)
	planeV := winoPlane(x.kernels, x.channels)
	// The products prefetch the pixels of the next panels.
	w.prefetch = prefetcher{}
	if next := last * x.kernels.Cols; x.kernels.Prefetch != nil && last < x.panels {
		w.prefetch = x.tiles.prefetchBelow(x.src, group*x.channels, x.channels, next, x.kernels.Cols)
	}
	for p := first; p < last; p++ {
		px := p * x.kernels.Cols
		n := min(x.kernels.Cols, x.images*x.tiles.pixels()-px)
		x.transform(w, w.v[(p-first)*conv.WinogradPlaces*planeV:], group, px, n)
	}
	// Blocks of rows: multiply at all 16 places, then transform to pixels while the products are in
	// the cache.
	for r := 0; r < x.rows; r += winoRows {
		rows := min(winoRows, x.rows-r)
		planeM := winoPlane(x.kernels, rows)
		for place := range conv.WinogradPlaces {
			u := x.u[(group*conv.WinogradPlaces+place)*x.planeU+r*x.rowU:]
			for p := range last - first {
				at := p*conv.WinogradPlaces + place
				x.multiply(&w.tile, u, w.v[at*planeV:], w.m[at*planeM:], rows)
			}
			if w.prefetch.src != nil {
				w.prefetch.advance(x.kernels, r/winoRows*conv.WinogradPlaces+place+1, ceilDiv(x.rows, winoRows)*conv.WinogradPlaces)
			}
		}
		for p := first; p < last; p++ {
			x.write(w, w.m[(p-first)*conv.WinogradPlaces*planeM:], group*x.rows+r, rows, p)
		}
	}
}

// transform packs and transforms a panel of n tiles from px on.
func (x *winograd) transform(w *winoWorker, v []byte, group, px, n int) {
	in, size, lanes, cols := &w.input, x.kernels.Size(), x.packer.Lanes, x.kernels.Cols
	for i := range w.vectors {
		t := &w.vectors[i].patch
		x.tiles.setPixels(t, w.vectors[i].stage, px+i*lanes, max(0, min(lanes, n-i*lanes)))
		t.TapCount, t.Taps, t.Pitch = conv.WinogradPlaces, x.tiles.taps, cols*size
	}
	for c := 0; c < x.channels; c += winoChannels {
		channels := min(winoChannels, x.channels-c)
		for i := range w.vectors {
			t := &w.vectors[i].patch
			t.Channels, t.Src, t.Dst = channels, x.src[(group*x.channels+c)*x.tiles.plane:], w.pixels[i*lanes*size:]
			x.tiles.convertPixels(t, w.vectors[i].stage)
			x.pack(t)
			if x.roundPacked != nil {
				x.roundPacked(t.Dst, t.Dst, channels*conv.WinogradPlaces, t.Pitch, lanes, t.Pitch)
			}
		}
		*in = conv.WinogradInput{Src: w.pixels, Dst: v[c*cols*size:], Plane: winoPlane(x.kernels, x.channels), Channels: channels, Row: cols * size}
		x.packer.WinogradInput(in)
	}
}

// multiply computes rows of the products at one place.
func (x *winograd) multiply(t *gemm.Tile, u, v, m []byte, rows int) {
	s, size := x.kernels, x.kernels.Size()
	t.B, t.StepB, t.K, t.N, t.Flags = v, s.Cols*size, x.channels, s.Cols, 0
	t.RowA, t.StepA, t.RowC = x.rowU, size, s.Cols*size
	multiplyRows(s, t, u, m, rows)
}

// write transforms products to the pixels of rows of a panel.
func (x *winograd) write(w *winoWorker, m []byte, row, rows, panel int) {
	o, size := &w.output, x.kernels.Size()
	plane := x.out[0] * x.out[1] * size
	o.Dst, o.Rows, o.RowM, o.RowDst, o.Width = x.dst[row*plane:], rows, x.kernels.Cols*size, plane, x.out[1]*size
	o.PlaneM, o.Flags = winoPlane(x.kernels, rows), x.flags
	if x.bias != nil {
		o.Bias = x.bias[row*size:]
	}
	px := panel * x.kernels.Cols
	for lane := 0; lane < x.kernels.Cols; lane += x.packer.Lanes {
		n := min(x.packer.Lanes, x.images*x.tiles.pixels()-px-lane)
		if n <= 0 {
			return
		}
		x.setTiles(o, px+lane, n)
		o.M = m[lane*size:]
		x.packer.WinogradOutput(o)
		if x.norm.on() || x.act != nil {
			x.finish(w, row)
		}
	}
}

// setTiles fills the tables of o for n tiles from px on, counted over all images.
func (x *winograd) setTiles(o *conv.WinogradOutput, px, n int) {
	pixels, cols, size := x.tiles.pixels(), x.tiles.cols.n, x.kernels.Size()
	image, at := px/pixels, px%pixels
	row, col := at/cols, at%cols
	planes := x.groups * x.rows
	o.SegCount = 0
	for lane := 0; lane < n; {
		run := min(n-lane, cols-col)
		first := ((image*planes*x.out[0]+2*row)*x.out[1] + 2*col) * size
		o.Segments[o.SegCount] = int64(first - 2*lane*size)
		// Two pixels a tile, cut at the right edge of the image; the lower row may not exist
		// either.
		mask := uint32((uint64(1)<<(min(2*run, x.out[1]-2*col)) - 1) << (2 * lane))
		o.Masks[2*o.SegCount], o.Masks[2*o.SegCount+1] = mask, mask
		if 2*row+1 == x.out[0] {
			o.Masks[2*o.SegCount+1] = 0
		}
		o.SegCount++
		lane += run
		if col += run; col == cols {
			col = 0
			if row++; row == x.tiles.rows.n {
				row = 0
				image++
			}
		}
	}
}

// finish normalizes the pixels of rows from row on that w has just written, and applies an
// activation without a flag.
func (x *winograd) finish(w *winoWorker, row int) {
	o, size := &w.output, x.kernels.Size()
	for i, mask := range o.Masks[:2*o.SegCount] {
		if mask == 0 {
			continue
		}
		from, n := bits.TrailingZeros32(mask), bits.OnesCount32(mask)
		at := int(o.Segments[i/2]) + i%2*o.Width + from*size
		if x.norm.on() {
			x.norm.run(x.packer, &w.end, row, conv.Epilogue{C: o.Dst[at:], Rows: o.Rows, RowC: o.RowDst, N: n})
		}
		for r := 0; x.act != nil && r < o.Rows; r++ {
			x.act(o.Dst[r*o.RowDst+at:][:n*size])
		}
	}
}
