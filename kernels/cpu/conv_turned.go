package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Winograd's convolution of a few tiles, as when a single image is predicted: 49 tiles of 14x14
// pixels fill 64 columns. The products are turned around there: tiles are their rows, of which a
// kernel takes any number, and outputs are their columns. Panels of tiles are transformed first; then
// a task is one panel of outputs: transform its weights, unless they are prepacked (conv_prepack.go),
// multiply, transform the products to pixels of a vector of outputs, and transpose these. Every sum is
// the same as that of the other way, to the bit.

// winoFewTiles is the most tiles of which products are turned around.
const winoFewTiles = 63

// A winoTurned holds what turned products need besides.
type winoTurned struct {
	weights turnedWeights
	pack    *turnedPacking // nil: the weights are prepacked
	v       []byte         // transformed tiles: [panels, places, channels]. Nil: each worker has its own
	tiles   int
	pixels  []int64 // by tile: see conv.WinogradTurned
	// Where rows of tiles lie in the image; see conv.WinogradRows. Nil: tiles are packed. Each worker
	// transforms all rows, once a launch: that takes less time than to read what another has written.
	offsets []int64
	masks   []uint32
	launch  int // the number of launches so far
}

// turnedWeights are transformed weights: [panels, places, channels, outs].
type turnedWeights struct {
	u                 []byte
	outs              int // outputs of a panel
	row, plane, panel int // bytes from channel to channel, place to place, panel to panel
}

// at returns the transformed weights from output o on, which has size bytes.
func (t *turnedWeights) at(o, size int) []byte { return t.u[o/t.outs*t.panel+o%t.outs*size:] }

// turnedPacking transforms weights, by vectors of outputs.
type turnedPacking struct {
	kernels  *gemm.Kernels
	packer   *conv.Kernels
	w        []byte // [outputs, channels, taps]
	channels int
	taps     []int64
}

// run transforms the weights of a vector of outputs from o on. a and packed are the worker's.
func (p *turnedPacking) run(a *conv.WinogradWeight, packed []byte, dst *turnedWeights, o int) {
	size, lanes := p.kernels.Size(), p.packer.Lanes
	vector, row := lanes*size, p.channels*winoTaps*size
	src, u := p.w[o*row:], dst.at(o, size)
	a.Taps, a.Plane, a.N = p.taps, dst.plane, lanes
	for c := 0; c < p.channels; c += winoChannels {
		n := min(winoChannels, p.channels-c)
		p.kernels.PackCols(packed, src[c*winoTaps*size:], n*winoTaps, row, lanes, vector)
		for k := range n {
			a.Src, a.Dst = packed[k*winoTaps*vector:], u[(c+k)*dst.row:]
			p.packer.WinogradWeight(a)
		}
	}
}

// fewTiles returns the most tiles of which products are turned around. Their pixels, and one that
// stands for those outside of the image, fit into winoWorker.pixels.
func fewTiles(s *gemm.Kernels) int {
	return min(winoFewTiles, (winoChannels*conv.WinogradPlaces*s.Cols/conv.For(s).Lanes-1)/4)
}

// turnedBytes returns the bytes of transformed weights and tiles, and the bytes of products of a
// worker.
func turnedBytes(s *gemm.Kernels, rows, channels int) (weights, v, m int) {
	n, panel := fewTiles(s), conv.WinogradPlaces*winoPlane(s, channels)
	return ceilDiv(rows, s.Cols) * panel, ceilDiv(n, s.Cols) * panel, conv.WinogradPlaces * winoPlane(s, n)
}

// mayTurn reports whether products may be turned around.
func (v *convolution) mayTurn() bool { return v.groups == 1 && !v.rounded }

// turnedWork returns the workspace in bytes of turned products with up to that many rows and
// channels.
func (v *convolution) turnedWork(workers int64, rows, channels int) int64 {
	if !v.mayTurn() {
		return 0
	}
	weights, _, _ := turnedBytes(v.kernels, rows, channels)
	return int64(weights) + turnedWorkersBytes(v.kernels, workers, rows, channels)
}

// turnedWorkersBytes returns the workspace in bytes of turned products without their weights.
func turnedWorkersBytes(s *gemm.Kernels, workers int64, rows, channels int) int64 {
	_, tiles, m := turnedBytes(s, rows, channels)
	_, pixels, _, _ := winoBytes(s, 1, rows, channels)
	// Whether tiles are shared depends on the shape of images.
	return workers * int64(tiles+pixels+m)
}

// turns reports whether products are turned around.
func (x *winograd) turns() bool {
	return x.mayTurn && !x.norm.on() && x.act == nil && turningPays(x.kernels, x.images*x.tiles.pixels(), x.rows)
}

// turningPays reports whether an eighth of the columns would be idle otherwise, and there are as many
// panels of outputs, which are rows otherwise, as of tiles, for as many threads.
func turningPays(s *gemm.Kernels, tiles, rows int) bool {
	panels := ceilDiv(tiles, s.Cols)
	return tiles <= fewTiles(s) && rows%s.Cols == 0 && rows/s.Cols >= panels && 8*tiles <= 7*panels*s.Cols
}

// bindTurned gives turned products their parts of the workspace: transformed weights, and what workers
// use.
func (x *winograd) bindTurned(work []byte) {
	s := x.kernels
	n, _, _ := turnedBytes(s, x.rows, x.channels)
	plane := winoPlane(s, x.channels)
	x.turned = &winoTurned{
		weights: turnedWeights{u: work[:n:n], outs: s.Cols, row: s.Cols * s.Size(), plane: plane, panel: conv.WinogradPlaces * plane},
		pack:    &turnedPacking{s, x.packer, x.w, x.channels, x.taps},
	}
	x.bindTiles(work[n:])
}

// bindTiles gives the workers of turned products their parts of the workspace.
func (x *winograd) bindTiles(work []byte) {
	s, t := x.kernels, x.turned
	size, tiles := s.Size(), x.images*x.tiles.pixels()
	_, v, m := turnedBytes(s, x.rows, x.channels)
	_, pixels, _, _ := winoBytes(s, 1, x.rows, x.channels)
	t.tiles, x.panels = tiles, ceilDiv(tiles, s.Cols)
	x.findRows()
	if t.offsets == nil {
		t.v, work = work[:v:v], work[v:]
	}
	for i := range x.workers {
		w := &x.workers[i]
		if t.offsets != nil {
			w.v, work = work[:v:v], work[v:]
		} else {
			for range s.Cols / x.packer.Lanes {
				p, _ := newPatch(&x.tiles, x.packer.Lanes, nil)
				w.vectors = append(w.vectors, winoVector{patch: p})
			}
		}
		w.pixels, work = work[:pixels:pixels], work[pixels:]
		w.m, work = work[:m:m], work[m:]
	}
	vector, width := x.packer.Lanes*size, x.out[1]
	outside := x.images * x.out[0] * width
	for tile := range tiles {
		image, at := tile/x.tiles.pixels(), tile%x.tiles.pixels()
		row, col := 2*(at/x.tiles.cols.n), 2*(at%x.tiles.cols.n)
		for i := range 4 {
			r, c := row+i/2, col+i%2
			px := (image*x.out[0]+r)*width + c
			if r >= x.out[0] || c >= width {
				px = outside
			}
			t.pixels = append(t.pixels, int64(px*vector))
		}
	}
}

// findRows lists the rows of tiles, if rows are short and as few panels hold whole ones.
func (x *winograd) findRows() {
	n, rows := x.tiles.cols.n, x.images*x.tiles.rows.n
	if x.packer.WinogradRows == nil || n > conv.MaxRowTiles || ceilDiv(rows, x.kernels.Cols/n) != x.panels {
		return
	}
	q := &x.tiles
	height, width, left := q.plane/q.width, q.width/q.size, q.cols.taps[0].at
	for row := range rows {
		image, top := row/q.rows.n, row%q.rows.n*q.rows.step+q.rows.taps[0].at
		for i := range winoSide {
			var mask uint32
			for col := range 2*n + 2 {
				if y, c := top+i, left+col; y >= 0 && y < height && c >= 0 && c < width {
					mask |= 1 << col
				}
			}
			x.turned.masks = append(x.turned.masks, mask)
			x.turned.offsets = append(x.turned.offsets, int64(image*q.image+(top+i)*q.width+left*q.size))
		}
	}
}

// rowsOf returns the rows of tiles of a panel: they are shared evenly.
func (x *winograd) rowsOf(panel int) (first, n int) {
	rows := len(x.turned.offsets) / winoSide
	first = panel * rows / x.panels
	return first, (panel+1)*rows/x.panels - first
}

// tilesOf returns the tiles of a panel: they, or rows of them, are shared evenly.
func (x *winograd) tilesOf(panel int) (first, n int) {
	if x.turned.offsets != nil {
		first, n = x.rowsOf(panel)
		return first * x.tiles.cols.n, n * x.tiles.cols.n
	}
	first = panel * x.turned.tiles / x.panels
	return first, (panel+1)*x.turned.tiles/x.panels - first
}

// panelV returns the transformed tiles of a panel, as a worker reads them.
func (x *winograd) panelV(w *winoWorker, panel int) []byte {
	v := x.turned.v
	if v == nil {
		v = w.v
	}
	return v[panel*conv.WinogradPlaces*winoPlane(x.kernels, x.channels):]
}

// winoTurnedTiles is the first half of turned products: a task transforms a panel of tiles.
type winoTurnedTiles struct{ *winograd }

// do computes task i.
func (x winoTurnedTiles) do(i, worker int) {
	w := &x.workers[worker]
	first, n := x.tilesOf(i)
	x.transform(w, x.panelV(w, i), 0, first, n)
}

// transformRows transforms the rows of tiles of a panel.
func (x *winograd) transformRows(w *winoWorker, panel int) {
	first, n := x.rowsOf(panel)
	t, row := x.turned, x.kernels.Cols*x.kernels.Size()
	w.rows = conv.WinogradRows{Src: x.src, Dst: x.panelV(w, panel), Offsets: t.offsets[first*winoSide:], Masks: t.masks[first*winoSide:],
		Rows: n, Step: x.tiles.cols.n * x.kernels.Size(), Channels: x.channels, PlaneSrc: x.tiles.plane, RowDst: row,
		PlaneDst: winoPlane(x.kernels, x.channels), Tiles: x.tiles.cols.n}
	x.packer.WinogradRows(&w.rows)
}

// winoTurnedOutputs is the second half: a task is a panel of outputs.
type winoTurnedOutputs struct{ *winograd }

// do computes task i.
func (x winoTurnedOutputs) do(i, worker int) {
	w, s := &x.workers[worker], x.kernels
	if x.turned.offsets != nil && w.launch != x.turned.launch {
		for p := range x.panels {
			x.transformRows(w, p)
		}
		w.launch = x.turned.launch
	}
	size, weights := s.Size(), &x.turned.weights
	if x.turned.pack != nil {
		for lane := 0; lane < s.Cols; lane += x.packer.Lanes {
			x.turned.pack.run(&w.weight, w.pixels, weights, i*s.Cols+lane)
		}
	}
	panel, u := s.Cols*size, weights.at(i*s.Cols, size)
	planeV, planeM := winoPlane(s, x.channels), winoPlane(s, x.turned.tiles)
	t := &w.tile
	t.StepB, t.K, t.N, t.Flags = weights.row, x.channels, s.Cols, 0
	t.RowA, t.StepA, t.RowC = size, panel, panel
	for p := range x.panels {
		first, n := x.tilesOf(p)
		v := x.panelV(w, p)
		for place := range conv.WinogradPlaces {
			t.B = u[place*weights.plane:]
			multiplyRows(s, t, v[place*planeV:], w.m[place*planeM+first*panel:], n)
		}
	}
	for lane := 0; lane < s.Cols; lane += x.packer.Lanes {
		x.writeTurned(w, w.m[lane*size:], planeM, i*s.Cols+lane)
	}
}

// writeTurned transforms products to the pixels of a vector of outputs from row on.
func (x *winograd) writeTurned(w *winoWorker, m []byte, planeM, row int) {
	size, lanes := x.kernels.Size(), x.packer.Lanes
	vector, pixels := lanes*size, x.out[0]*x.out[1]
	w.turned = conv.WinogradTurned{M: m, Dst: w.pixels, Pixels: x.turned.pixels, Tiles: x.turned.tiles, RowM: x.kernels.Cols * size,
		PlaneM: planeM, Flags: x.flags}
	if x.bias != nil {
		w.turned.Bias = x.bias[row*size:]
	}
	x.packer.WinogradTurned(&w.turned)
	for image := range x.images {
		dst := x.dst[(image*x.rows+row)*pixels*size:]
		// The last pixels may be written twice: an image has a vector of them.
		for px := 0; px < pixels; px += lanes {
			at := min(px, pixels-lanes)
			x.kernels.PackCols(dst[at*size:], w.pixels[(image*pixels+at)*vector:], lanes, vector, lanes, pixels*size)
		}
	}
}

// multiplyRows computes n rows of C = A·B with tiles of about as many rows each.
func multiplyRows(s *gemm.Kernels, t *gemm.Tile, a, c []byte, n int) {
	count := ceilDiv(n, s.Rows)
	least, more := n/count, n%count
	row := 0
	for i := range count {
		t.Rows = least
		if i < more {
			t.Rows++
		}
		t.A, t.C = a[row*t.RowA:], c[row*t.RowC:]
		s.Tiles[t.Rows](t)
		row += t.Rows
	}
}
