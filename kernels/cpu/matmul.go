package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Matrix multiplication: C [batch, M, N] = A [batch, M, K] · B [batch, K, N], either of A and B
// transposed, plus an addend or a bias, and an activation. The structure is that of Goto and van de
// Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3), 2008, with one packed
// panel of B for each thread instead of a shared block: that keeps the workspace small and costs
// one per cent.
//
//	matmul_plan.go   how a product is cut into tasks and blocks, and what is packed
//	matmul_work.go   the workspace
//	matmul_round.go  products whose operands are rounded to 16 bits
//
// A task is a block of rows and columns of one matrix of the batch. Tiles are computed by
// internal/asm/gemm.

// products returns the tile kernels for products with these attributes and results of type t: those
// for pairs of bfloat16 where operands are rounded to bfloat16 and the processor multiplies them.
func (d *Device) products(attrs any, t arena.DType) *gemm.Kernels {
	if s := d.bfloat16Pairs; s != nil && kernels.ComputeTypeOf(attrs) == arena.BFloat16 {
		return s
	}
	return gemm.For(d.level, t)
}

// matmulWorkspace returns the workspace of a product in bytes.
func matmulWorkspace(d *Device, attrs any, in, out []kernels.Spec) int64 {
	s := d.products(attrs, out[0].Type)
	t, ok := attrs.(kernels.MatMulAttrs)
	if s == nil || !ok {
		return 0
	}
	return sizedPlan(s, t, in, out).workspace(d.pool.threads())
}

// bindMatmul prepares a product.
func bindMatmul(b *binding) (func(), error) {
	x, err := newMatmul(b.dev.products(b.Attrs, b.Out[0].Type), b)
	if x == nil || err != nil {
		return nil, err
	}
	return x.launch(b.dev.pool), nil
}

// A matmul is a product bound to memory. It must not run twice at once.
type matmul struct {
	matmulPlan
	a, b, c, bias []byte
	addend        []byte                     // added to the product. Nil: nothing is
	flags         int                        // epilogue of tiles in the last k block
	addBias       func(data []byte, col int) // adds the bias to a row from col on. Nil: tiles do
	act           func(data []byte)          // activation of finished elements. Nil: tiles apply it
	workers       []matmulWorker
}

// A matmulWorker holds what one worker writes to, apart from C.
type matmulWorker struct {
	tile       gemm.Tile
	panel      []byte // packed panel of B
	block      []byte // packed block of A
	stage      []byte // rounded rows, before they are transposed or read by dots
	transposed []byte // the transpose of a block of C
	prefetch   prefetcher
	_          [asm.CacheLine]byte
}

// newMatmul prepares a product for the kernels of s, or returns nil where there is nothing to
// compute.
func newMatmul(s *gemm.Kernels, b *binding) (*matmul, error) {
	in, out := kernels.Specs(b.In), kernels.Specs(b.Out)
	if _, err := kernels.MatMul.Infer(b.Attrs, in); err != nil {
		return nil, err
	}
	t := b.Attrs.(kernels.MatMulAttrs)
	threads := b.dev.pool.threads()
	x := &matmul{matmulPlan: newMatmulPlan(s, threads, t, in, out)}
	if x.m == 0 || x.n == 0 || x.batch == 0 {
		return nil, nil
	}
	x.a, x.b, x.c = b.bytes(b.In[0]), b.bytes(b.In[1]), b.bytes(b.Out[0])
	switch {
	case x.k == 0:
	case t.TransA:
		x.a = x.a[t.Rows[0]*int(in[0].Type.Size()):]
	default:
		x.a = x.a[t.Rows[0]*x.k*int(in[0].Type.Size()):]
	}
	// The plan computes Cᵀ = Bᵀ·Aᵀ: the operands change places.
	if x.asRow || x.transposed {
		x.a, x.b = x.b, x.a
	}
	switch {
	case t.Bias:
		x.bias = b.bytes(b.In[2])
	case t.Add:
		x.addend = b.bytes(b.In[2])
	}
	x.setEpilogue(b.dev.level, out[0].Type, t)
	// Each worker gets its part of the workspace: panel of B, block of A, rounded rows, transpose
	// of C.
	x.workers = make([]matmulWorker, x.matmulPlan.workers(threads))
	work := b.work()
	for i := range x.workers {
		w := &x.workers[i]
		w.panel, work = work[:x.panel], work[x.panel:]
		w.block, work = work[:x.block], work[x.block:]
		w.stage, work = work[:x.stage], work[x.stage:]
		w.transposed, work = work[:x.transposeBytes], work[x.transposeBytes:]
		w.tile.Kind = x.packingB.Kind
	}
	return x, nil
}

// launch returns the function that runs the product.
func (x *matmul) launch(p *pool) func() {
	tasks := x.batch * x.rowBlocks * x.colBlocks
	switch {
	// Tiles add to C itself, so an addend in other memory is copied to C first.
	case x.addend != nil && !same(x.addend, x.c):
		sum := x.addend
		x.addend = x.c
		run := x.launch(p)
		return func() { copy(x.c, sum); run() }
	case x.k == 0:
		return x.runEmpty
	case len(x.workers) == 1:
		return func() { serial(x, tasks) }
	}
	return func() { p.run(x, tasks) }
}

// runEmpty computes products with K = 0: the epilogue of zeros.
func (x *matmul) runEmpty() {
	if x.addend == nil {
		clear(x.c)
	}
	x.applyEpilogue(x.c, x.n, 0, x.batch*x.m, 0, x.n)
}

// applyEpilogue applies the part of the epilogue that tiles do not: to columns c0:c1 of rows r0:r1,
// of n elements each.
func (x *matmul) applyEpilogue(c []byte, n, r0, r1, c0, c1 int) {
	size := x.kernels.Size()
	switch {
	case x.addBias == nil && x.act == nil:
	case x.addBias == nil && c1-c0 == n:
		x.act(c[r0*n*size : r1*n*size])
	default:
		for r := r0; r < r1; r++ {
			row := c[(r*n+c0)*size : (r*n+c1)*size]
			if x.addBias != nil {
				x.addBias(row, c0)
			}
			if x.act != nil {
				x.act(row)
			}
		}
	}
}

// setEpilogue decides which part of the epilogue tiles do, and which part follows.
func (x *matmul) setEpilogue(l asm.Level, typ arena.DType, t kernels.MatMulAttrs) {
	after := x.k == 0 || x.dots || x.transposed || x.asRow && t.Bias
	switch {
	case !t.Bias:
	case !after:
		x.flags |= gemm.FlagBias
	case typ == arena.Float32:
		x.addBias = addTo[float32](x.bias, x.asRow)
	default:
		x.addBias = addTo[float64](x.bias, x.asRow)
	}
	switch {
	case t.Act == nil:
	case t.Act == kernels.ReLU && !after:
		x.flags |= gemm.FlagRelu
	case typ == arena.Float32:
		x.act = inPlace(elementwise.Unary[float32](l, t.Act, t.ActAttrs))
	default:
		x.act = inPlace(elementwise.Unary[float64](l, t.Act, t.ActAttrs))
	}
}

// inPlace returns a function that applies f to the elements in data.
func inPlace[T float](f elementwise.UnaryFunc[T]) func(data []byte) {
	return func(data []byte) {
		d := asm.View[T](data)
		f(d, d)
	}
}

// addTo returns a function that adds bias to the elements in data, which begin at column col. With
// one set it adds bias[0] to all.
func addTo[T float](bias []byte, one bool) func(data []byte, col int) {
	b := asm.View[T](bias)
	return func(data []byte, col int) {
		d := asm.View[T](data)
		if one {
			for i := range d {
				d[i] += b[0]
			}
			return
		}
		for i, v := range b[col : col+len(d)] {
			d[i] += v
		}
	}
}

// do computes task i: one block of one matrix of the batch.
func (x *matmul) do(i, worker int) {
	w := &x.workers[worker]
	size := x.kernels.Size()
	// Tasks are numbered by column block, then row block, then matrix of the batch.
	col, i := i%x.colBlocks, i/x.colBlocks
	row, batch := i%x.rowBlocks, i/x.rowBlocks
	r0, c0 := row*x.rowBlock, col*x.colBlock
	r1, c1 := min(r0+x.rowBlock, x.m), min(c0+x.colBlock, x.n)
	a, b := x.a[batch*x.nextA:], x.b[batch*x.nextB:]
	c := x.c[batch*x.m*x.n*size:]
	if x.transposed {
		x.transposedBlock(w, a, b, c, c0, c1)
		return
	}
	x.multiply(w, a, b, c, r0, r1, c0, c1)
	x.applyEpilogue(c, x.n, r0, r1, c0, c1)
}

// multiply computes rows r0:r1 and columns c0:c1 of C.
func (x *matmul) multiply(w *matmulWorker, a, b, c []byte, r0, r1, c0, c1 int) {
	size := x.kernels.Size()
	// The first k block overwrites C, later ones add to it, and the last one ends with the
	// epilogue.
	for k := 0; k < x.k; k += x.kc {
		w.tile.Flags = 0
		if k > 0 || x.addend != nil {
			w.tile.Flags = gemm.FlagAdd
		}
		if k+x.kc >= x.k {
			w.tile.Flags |= x.flags
		}
		w.tile.K = min(x.kc, x.k-k)
		switch {
		case x.dots && x.rounded:
			x.roundedDot(w, a[k*x.sizeA:], b[k*x.sizeB:], c, c0, c1)
		case x.dots:
			x.dot(w, a[k*size:], b[k*size:], c, c0, c1)
		default:
			x.kBlock(w, a, b, c, k, r0, r1, c0, c1)
		}
	}
}

// dot adds w.tile.K steps to columns c0:c1 of the only row.
func (x *matmul) dot(w *matmulWorker, a, b, c []byte, c0, c1 int) {
	t, size := &w.tile, x.kernels.Size()
	t.A, t.StepB = a, x.ldb
	for col := c0; col < c1; col += maxDotRows {
		t.N = min(maxDotRows, c1-col)
		t.B, t.C = b[col*x.ldb:], c[col*size:]
		x.kernels.Dots(t)
	}
}

// kBlock adds w.tile.K steps from k on to rows r0:r1 and columns c0:c1 of C.
func (x *matmul) kBlock(w *matmulWorker, a, b, c []byte, k, r0, r1, c0, c1 int) {
	s, t, size := x.kernels, &w.tile, x.kernels.Size()
	steps := t.K
	a = x.rowsOfA(w, a, k, r0, r1)
	t.K = x.kernels.Elems(steps)
	n, shift := x.n, 0 // elements of a row of c, and the column where it begins
	if x.transposed {
		n, shift = x.colBlock, c0
	}
	t.RowC = n * size
	// Rows are split evenly over tiles: a last tile of one or two rows would run at a fraction of
	// the speed.
	tiles := ceilDiv(r1-r0, s.Rows)
	// Rows of a tile: least, and one more in the first tiles.
	least, more := (r1-r0)/tiles, (r1-r0)%tiles
	col := c0
	if x.line.Run != nil {
		col = x.rowTile(w, a, b[k*x.ldb:], c, c0, c1)
	}
	// For each panel of B: pack it, then run all tiles of rows over it while it is in the
	// first-level cache.
	for ; col < c1; col += s.Cols {
		t.N = min(s.Cols, c1-col)
		run := s.Tiles
		if t.N <= s.Cols/2 && s.HalfTiles != nil {
			run = s.HalfTiles
		}
		if x.rounded {
			x.roundB(w, b, k, steps, col)
		} else {
			x.panelOfB(w, b, k, col)
		}
		if t.Flags&gemm.FlagBias != 0 {
			t.Bias = x.bias[col*size:]
		}
		x.planPrefetch(&w.prefetch, b, k, col, c0, c1)
		// One call computes several tiles of as many rows, fewer where prefetches go in between.
		for i, row := 0, 0; i < tiles; {
			t.Rows, t.More = least, min(tiles-i, maxTilesPerCall)
			if i < more {
				t.Rows, t.More = least+1, min(more-i, maxTilesPerCall)
			}
			if t.Panel != nil {
				t.More = 1
			}
			if w.prefetch.src != nil {
				t.More = min(t.More, maxTilesPerPrefetch)
				w.prefetch.advance(s, i+t.More, tiles)
			}
			t.A = a[row*t.RowA:]
			t.C = c[((r0+row)*n+col-shift)*size:]
			i, row = i+t.More, row+t.More*t.Rows
			t.More--
			run[t.Rows](t)
			if t.Panel != nil {
				t.B, t.StepB, t.Panel = t.Panel, s.Cols*size, nil
			}
		}
	}
}

// A prefetcher prefetches what is packed next, such as the next panel of B, bit by bit between
// tiles: packing it from memory would wait for every cache line.
type prefetcher struct {
	src             []byte
	rows, stride, n int // n is in bytes
	done            int // rows that were prefetched
}

// planPrefetch sets h to the panel after the one at column col, or to nothing.
func (x *matmul) planPrefetch(h *prefetcher, b []byte, k, col, c0, c1 int) {
	h.src = nil
	if !x.prefetchB {
		return
	}
	size, steps := x.sizeB, min(x.kc, x.k-k)
	// After the last panel of a k block comes the first panel of the next one.
	if col += x.kernels.Cols; col >= c1 {
		if k += x.kc; k >= x.k {
			return
		}
		col, steps = c0, min(x.kc, x.k-k)
	}
	cols := min(x.kernels.Cols, c1-col)
	if x.transB {
		*h = prefetcher{b[col*x.ldb+k*size:], cols, x.ldb, steps * size, 0}
	} else {
		*h = prefetcher{b[k*x.ldb+col*size:], steps, x.ldb, cols * size, 0}
	}
}

// advance prefetches up to part of parts of the rows.
func (h *prefetcher) advance(s *gemm.Kernels, part, parts int) {
	if to := h.rows * part / parts; to > h.done {
		s.Prefetch(h.src[h.done*h.stride:], to-h.done, h.stride, h.n)
		h.done = to
	}
}

// rowTile adds w.tile.K steps to columns of the only row, from c0 on, as long as whole row tiles
// fit before c1. It returns the first column left.
func (x *matmul) rowTile(w *matmulWorker, a, b, c []byte, c0, c1 int) int {
	t, size := &w.tile, x.kernels.Size()
	t.A, t.More = a, 0
	for ; c1-c0 >= x.line.Cols; c0 += x.line.Cols {
		if t.Flags&gemm.FlagBias != 0 {
			t.Bias = x.bias[c0*size:]
		}
		t.B, t.StepB, t.C = b[c0*x.sizeB:], x.ldb, c[c0*size:]
		x.line.Run(t)
	}
	return c0
}

// rowsOfA points the tile at w.tile.K steps from k on of rows r0:r1 of A, packed where the plan
// says so.
func (x *matmul) rowsOfA(w *matmulWorker, a []byte, k, r0, r1 int) []byte {
	t, size := &w.tile, x.kernels.Size()
	if x.transA {
		a = a[k*x.lda+r0*x.sizeA:]
		t.RowA, t.StepA = size, x.lda
	} else {
		a = a[r0*x.lda+k*x.sizeA:]
		t.RowA, t.StepA = x.lda, size
	}
	switch {
	case !x.packA:
		return a
	case x.rounded:
		return x.roundA(w, a, r1-r0)
	}
	return x.packRowsOfA(w, a, r1-r0)
}

// packRowsOfA copies a k block of rows of A to the worker's block.
func (x *matmul) packRowsOfA(w *matmulWorker, a []byte, rows int) []byte {
	t, size := &w.tile, x.kernels.Size()
	n, lines := t.K*size, rows
	if x.transA {
		n, lines = rows*size, t.K
	}
	pitch := x.kernels.RowPitch(n / size)
	for i := range lines {
		copy(w.block[i*pitch:i*pitch+n], a[i*x.lda:i*x.lda+n])
	}
	if x.transA {
		t.StepA = pitch
	} else {
		t.RowA = pitch
	}
	return w.block
}

// panelOfB points the tile at the panel of B that starts at column col: in place, packed, or to be
// packed by the first tile.
func (x *matmul) panelOfB(w *matmulWorker, b []byte, k, col int) {
	s, t, size := x.kernels, &w.tile, x.kernels.Size()
	if !x.transB {
		b = b[k*x.ldb+col*size:]
		if !x.packB && s.HasTile(t.N) {
			t.B, t.StepB = b, x.ldb
			return
		}
		if s.PacksB && t.N == s.Cols {
			t.B, t.StepB, t.Panel = b, x.ldb, w.panel
			return
		}
		s.PackRows(w.panel, b, t.K, x.ldb, t.N*size)
	} else {
		b = b[col*x.ldb+k*size:]
		width := s.Cols
		if t.N <= width/2 && s.HalfTiles != nil {
			width /= 2
		}
		for j := 0; j < width; j += s.Lanes {
			// Past the last row, the last one again: uninitialised columns could be denormal and
			// slow.
			first := min(j, t.N-1)
			s.PackCols(w.panel[j*size:], b[first*x.ldb:], t.K, x.ldb, min(s.Lanes, t.N-first), s.Cols*size)
		}
	}
	t.B, t.StepB = w.panel, s.Cols*size
}
