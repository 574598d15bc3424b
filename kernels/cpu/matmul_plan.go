package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Targets of the plan of a product.
const (
	// Most steps of k of a dots kernel: a bound on the time in assembly.
	maxDotSteps = 1 << 14
	maxDotRows  = 8 // rows of B of a dots kernel
	// Bytes of a block of A that is read in place: it stays in the second-level cache.
	blockBytes = 256 << 10
	// Most elements of a packed block of A with a small B: it costs workspace.
	packedMinElems = 32 << 10
	// Most bytes of it with a large B, which every block packs again: half of the second-level
	// cache.
	packedMaxBytes = 384 << 10
	packedShare    = 16   // in between, this fraction of B
	maxBlockRows   = 1024 // most rows of a block of A
	// Most tiles of a call of assembly, which the scheduler cannot interrupt.
	maxTilesPerCall = 32
	// Most tiles of a call where the next panel is prefetched in between.
	maxTilesPerPrefetch = 4
	// A task below this is not worth handing to another thread.
	minTaskFlops = 250_000
	// Tasks for each thread, so that a thread that starts late does little harm.
	tasksPerThread = 4
	// A matrix larger than this does not stay in the second-level cache.
	prefetchMinBytes = 512 << 10
	// Most steps for which B and a transposed A are read in place: for more, packing pays.
	unpackedMaxSteps = 128
	// Bytes after which addresses share sets of the second-level cache.
	cacheWayBytes = 64 << 10
	cacheWays     = 8 // lines of a set
	packCost      = 4 // multiplications in the time of packing one element
	packMinPanels = 3 // panels of B from which on packing A pays
	// Bytes between rows of a transposed A from which on packing it pays.
	packMinStride = 8 * asm.CacheLine
)

// A matmulPlan says how a product is cut into tasks and blocks. Sizes are in elements, or in bytes
// where it says so.
//
//	          col block                 a task is one row block x one col block of one matrix of the batch;
//	       ┌────┬────┬────┐             for every block of kc steps of k:
//	 k  kc │ B  │    │    │               pack the rows of A if they are slow to read
//	       ├────┼────┼────┤               for every panel of cols columns: pack that panel of B,
//	┌──┬──┐│    │    │    │                 for every tile of rows: run the kernel
//	│A │  │├────┼────┼────┤ row block
//
// Invariant: kc depends on type and shape only, so the bits of the result depend on neither threads
// nor instruction set.
type matmulPlan struct {
	kernels        *gemm.Kernels
	m, n, k, batch int
	rows           int // of the whole product; m may be fewer of them
	transA, transB bool
	lda, ldb       int          // bytes from row to row as stored
	nextA, nextB   int          // bytes from matrix to matrix of the batch
	dots           bool         // computes one row from rows of B, which are read as stored: Kernels.Dots
	line           gemm.RowTile // computes one row, most of it by this. Without a function: not
	// Computes the transposed product: C has one column, whose transpose is the same memory.
	asRow bool
	// Computes the transposed product: C has few columns, and is transposed afterwards.
	transposed bool

	kc                   int
	rowBlock, colBlock   int // of a task
	rowBlocks, colBlocks int
	packA                bool
	// B does not stay in the second-level cache: it is prefetched before it is packed.
	prefetchB bool
	// Pack B. Otherwise panels are read in place, except an edge narrower than any tile.
	packB        bool
	panel, block int // bytes of the packed panel of B and block of A, for each worker

	// One row of rounded operands: they are rounded to float32, never to pairs.
	singleRow bool
	// Operands are rounded, so they are packed unless they are stored as tiles read them.
	rounded            bool
	packingA, packingB gemm.Packing // how they are packed
	sizeA, sizeB       int          // bytes of their elements as stored
	stage              int          // bytes for rounded rows, for each worker
	transposeBytes     int          // bytes for the transpose of a block of C, for each worker
}

// newMatmulPlan plans a product for that many threads. Infer must have checked the operands.
func newMatmulPlan(s *gemm.Kernels, threads int, t kernels.MatMulAttrs, in, out []kernels.Spec) matmulPlan {
	p := sizedPlan(s, t, in, out)
	cols := p.n // as stored
	// A product with one column is computed as its transpose, a product with one row: both C are
	// the same memory.
	p.asRow = p.n == 1 && p.rows > 1
	p.transposed = p.computesTransposed(t, in)
	if p.asRow || p.transposed {
		p.m, p.n, p.transA, p.transB = p.n, p.m, p.n > 1 && !p.transB, !p.transA
		p.rows, cols = cols, p.rows
		in = []kernels.Spec{in[1], in[0]}
	}
	if p.rows == 1 {
		p.transA = false // a column is stored like a row
	}
	p.dots = p.rows == 1 && p.transB && s.WithDots() != nil
	p.singleRow = p.rounded && p.rows == 1
	if p.singleRow {
		p.kernels = s.Single()
	}
	p.sizeA, p.sizeB = int(in[0].Type.Size()), int(in[1].Type.Size())
	if p.rounded {
		r := p.kernels.Rounding(t.ComputeType)
		p.packingA, p.packingB = r.From(in[0].Type), r.From(in[1].Type)
	}
	p.lda, p.ldb = p.k*p.sizeA, cols*p.sizeB
	if p.transA {
		p.lda = p.rows * p.sizeA
	}
	if p.transB {
		p.ldb = p.k * p.sizeB
	}
	p.nextA, p.nextB = p.rows*p.k*p.sizeA, cols*p.k*p.sizeB
	if p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0 {
		p.cut(threads)
	}
	return p
}

// sizedPlan returns a plan with its sizes only.
func sizedPlan(s *gemm.Kernels, t kernels.MatMulAttrs, in, out []kernels.Spec) matmulPlan {
	y, a := out[0].Shape, in[0].Shape
	r := len(y) - 2
	p := matmulPlan{kernels: s, rounded: t.ComputeType.Half(), m: y[r], n: y[r+1], k: a[r+1], rows: a[r], batch: y[:r].Elems(), transA: t.TransA, transB: t.TransB}
	if t.TransA {
		p.rows, p.k = p.k, p.rows
	}
	return p
}

// cut chooses the blocks.
func (p *matmulPlan) cut(threads int) {
	s, size := p.kernels, p.kernels.Size()
	steps := s.MaxSteps()
	if p.dots {
		steps = maxDotSteps
	}
	p.kc = ceilDiv(evenSplit(p.k, steps), s.StepsPerElem()) * s.StepsPerElem() // whole pairs
	panels := ceilDiv(p.n, s.Cols)
	// What is packed: B unless tiles read it in place as fast; A where its rows compete for cache
	// sets, or are short and far apart.
	p.packB = !p.dots && (p.rounded || p.transB || !p.fastUnpacked())
	p.prefetchB = !p.dots && s.Prefetch != nil && p.k*p.n*p.sizeB > prefetchMinBytes
	p.packA = p.rounded && !p.dots && !p.readable() || !p.rounded && panels >= packMinPanels && p.m > 1 && p.k > 1 &&
		(p.transA && p.lda > packMinStride && !p.staysCached(p.lda) || !p.transA && s.Aliases(p.lda) && p.m > s.Rows)
	// The most rows of a block: A in place is bounded by the second-level cache, a packed A by the
	// workspace.
	rows := min(maxBlockRows, max(s.Rows, blockBytes/(p.kernels.Elems(p.kc)*size)))
	if p.packA {
		rows = p.packedRows(p.kc)
	}
	unit := s.Cols
	if p.m == 1 && p.rounded == p.singleRow && !p.transB {
		p.line, unit = p.widestRowTile(threads)
	}
	p.split(threads, ceilDiv(p.m, rows), unit)
	if p.transposed {
		p.colBlock = min(p.colBlock, transposedMaxPanels*s.Cols)
		p.rowBlock, p.rowBlocks, p.colBlocks = p.m, 1, ceilDiv(p.n, p.colBlock)
		p.transposeBytes = p.m * p.colBlock * size
	}
	if p.packB || !s.HasTile(p.n%s.Cols) && !p.dots {
		p.panel = s.PanelBytes(p.kernels.Elems(p.kc))
	}
	switch {
	case !p.rounded:
	case p.dots:
		p.stage = s.DotBytes(p.kc)
	case p.transB && p.packingB.PackCols == nil:
		p.stage = p.turnStageBytes(p.kc)
	}
	if p.packA {
		p.block = p.blockOf(min(p.rowBlock, p.m), p.kc)
	}
}

// widestRowTile returns the widest row tile of which each thread gets one, and its columns; if there
// is none the narrowest one that fits, or the zero value if none does, and the columns of a panel.
func (p *matmulPlan) widestRowTile(threads int) (t gemm.RowTile, unit int) {
	for _, t = range p.kernels.RowTiles {
		if t.Cols*min(threads, p.tasks(threads)) <= p.n {
			return t, t.Cols
		}
	}
	if t.Cols > p.n {
		t = gemm.RowTile{}
	}
	return t, p.kernels.Cols
}

// fastUnpacked reports whether tiles read B in place as fast as packed: because few tiles read it,
// because its rows have exactly cols columns and lie as if packed, or because a k block stays in
// the second-level cache, whose latency multiplications hide.
func (p *matmulPlan) fastUnpacked() bool {
	s := p.kernels
	if p.m <= 2*s.Rows || p.n == s.Cols {
		return true
	}
	// Otherwise every vector crosses a cache line.
	return p.ldb%asm.CacheLine == 0 && p.staysCached(p.ldb)
}

// staysCached reports whether a k block is short and its rows, apart bytes apart, stay in the
// second-level cache.
func (p *matmulPlan) staysCached(apart int) bool {
	return p.kc <= min(unpackedMaxSteps, cacheWays*(cacheWayBytes/min(cacheWayBytes, apart&-apart)))
}

// split chooses the tasks: at least rowsLeast row blocks, and column blocks of whole units. Every
// row block packs all of B and every column block all of A, so it weighs that cost against threads
// that wait for the last task.
func (p *matmulPlan) split(threads, rowsLeast, unit int) {
	s, want, panels := p.kernels, p.tasks(threads), ceilDiv(p.n, unit)
	if want == 1 {
		threads = 1
	}
	rowsMost := max(rowsLeast, min(want, p.m/s.Rows))
	// All splits of r row blocks and c column blocks that make enough tasks are compared by their
	// cost.
	best := math.Inf(1)
	for r := rowsLeast; r <= rowsMost; r++ {
		// As many column blocks as make enough tasks, and up to one more for each thread.
		least := min(panels, ceilDiv(want, p.batch*r))
		for c := least; c <= min(panels, least+threads); c++ {
			rowBlock, colBlock := ceilDiv(ceilDiv(p.m, r), s.Rows)*s.Rows, ceilDiv(panels, c)*unit
			rows, cols := ceilDiv(p.m, rowBlock), ceilDiv(p.n, colBlock)
			if cost := p.cost(threads, rows, cols); cost < best {
				best = cost
				p.rowBlock, p.rowBlocks, p.colBlock, p.colBlocks = rowBlock, rows, colBlock, cols
			}
		}
	}
}

// cost estimates the time of a split into row and column blocks, in multiplications.
func (p *matmulPlan) cost(threads, rows, cols int) float64 {
	m, n, k := float64(p.m), float64(p.n), float64(p.k)
	tasks := rows * cols * p.batch
	packing := float64(packCost)
	if p.rounded {
		packing *= 2
	}
	// Multiplications of the busiest thread, times threads: tasks that do not divide evenly leave
	// threads idle.
	cost := m * n * k * float64(ceilDiv(tasks, threads)*threads) / float64(tasks)
	if p.packB {
		b := packing * k * n * float64(rows)
		if p.transB {
			b *= 2
		}
		cost += b
	}
	if p.packA {
		cost += packing * m * k * float64(cols)
	}
	return cost
}

// tasks returns how many tasks are worth having.
func (p *matmulPlan) tasks(threads int) int {
	if threads < 2 {
		return 1
	}
	flops := 2 * float64(p.batch) * float64(p.m) * float64(p.n) * float64(p.k)
	return int(max(1, min(flops/minTaskFlops, float64(tasksPerThread*threads))))
}

// workers returns how many workers take part.
func (p *matmulPlan) workers(threads int) int {
	if p.tasks(threads) == 1 {
		return 1
	}
	return max(1, min(threads, p.batch*p.rowBlocks*p.colBlocks))
}

// ceilDiv returns a/b rounded up.
func ceilDiv(a, b int) int { return (a + b - 1) / b }
