package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/transpose"
)

// Products whose operands are rounded to bfloat16 or float16. Operands are rounded as they are
// packed, so B is packed except for dots and row tiles, which round it as they read it, and A is
// packed unless it is stored as tiles read it.

// Targets of the plan.
const (
	// Elements of a row that is rounded and then transposed: Lanes such rows stay in the
	// first-level cache.
	stageElems = 64
	// Most columns of a product that is computed as its transpose: a tile of as many rows is nearly
	// whole.
	transposedMaxCols       = 14
	transposedMaxPanels     = 8  // most panels of a block of its transpose
	transposedMinPanels     = 2  // least panels of its transpose
	transposedMinPanelsTall = 16 // least panels of its transpose where A has to be transposed
)

// readable reports whether tiles of pairs read A as stored: pairs are contiguous, and rows do not
// compete for the same cache sets.
func (p *matmulPlan) readable() bool {
	return p.kernels.StepsPerElem() == 2 && p.sizeA == 2 && !p.transA && p.k%2 == 0 && !p.kernels.Aliases(p.lda)
}

// turnStageBytes returns the bytes of the rounded rows of a transposed B that are transposed at
// once. It never shrinks as kc grows.
func (p *matmulPlan) turnStageBytes(kc int) int {
	return p.kernels.Lanes * p.kernels.RowPitch(min(p.kernels.Elems(kc), stageElems))
}

// dense reports whether rows of A are packed without padding between them.
func (p *matmulPlan) dense() bool {
	return !p.transA && p.kc == p.k && p.kernels.StepsPerElem() == 1 && !p.kernels.Aliases(p.k*p.kernels.Size())
}

// roundA packs w.tile.K steps of rows of A.
func (x *matmul) roundA(w *matmulWorker, a []byte, rows int) []byte {
	t, size, f := &w.tile, x.kernels.Size(), &x.packingA
	steps := t.K
	switch {
	// All rows of a transposed A: its k block is contiguous, and is converted in one call.
	case x.transA && rows == x.rows && x.kernels.StepsPerElem() == 1:
		t.RowA, t.StepA = size, rows*size
		f.Along(w.block, a, 1, 0, steps*rows, 0)
	// Rows without padding are contiguous too.
	case x.dense():
		t.RowA, t.StepA = x.k*size, size
		f.Along(w.block, a, 1, 0, rows*x.k, 0)
	// A row of A as stored is one step of k.
	case x.transA:
		t.RowA, t.StepA = size, x.kernels.RowPitch(rows)
		f.Across(w.block, a, steps, x.lda, rows, t.StepA)
	default:
		t.RowA, t.StepA = x.kernels.RowPitch(x.kernels.Elems(steps)), size
		f.Along(w.block, a, rows, x.lda, steps, t.RowA)
	}
	return w.block
}

// roundB packs steps steps from k on of the panel of B that starts at column col, and points the
// tile at it. Columns past the last one can hold any value.
func (x *matmul) roundB(w *matmulWorker, b []byte, k, steps, col int) {
	s, t, size, f := x.kernels, &w.tile, x.kernels.Size(), &x.packingB
	t.B, t.StepB = w.panel, s.Cols*size
	if !x.transB {
		b = b[k*x.ldb+col*x.sizeB:]
		// The first tile rounds B as it reads it, and stores the panel.
		if f.Kind != gemm.KindFloat && t.N == s.Cols {
			t.B, t.StepB, t.Panel = b, x.ldb, w.panel
			return
		}
		// Rows need no pitch: a tile reads past their end and ignores it.
		if x.n == t.N && s.StepsPerElem() == 1 && x.ldb == x.n*x.sizeB {
			t.StepB = x.n * size
			f.Across(w.panel, b, 1, 0, steps*x.n, 0)
			return
		}
		f.Across(w.panel, b, steps, x.ldb, t.N, t.StepB)
		return
	}
	// Assembly rounds as it transposes.
	if f.PackCols != nil {
		for j := 0; j < t.N; j += s.Lanes {
			f.PackCols(w.panel[j*size:], b[(col+j)*x.ldb+k*x.sizeB:], steps, x.ldb, min(s.Lanes, t.N-j), t.StepB)
		}
		return
	}
	// Otherwise rows are rounded to the stage, some elements at a time, and transposed from there.
	pitch := len(w.stage) / s.Lanes
	for j := 0; j < t.N; j += s.Lanes {
		rows := min(s.Lanes, t.N-j)
		for at := 0; at < steps; at += stageElems * s.StepsPerElem() {
			n := min(stageElems*s.StepsPerElem(), steps-at)
			f.Along(w.stage, b[(col+j)*x.ldb+(k+at)*x.sizeB:], rows, x.ldb, n, pitch)
			s.PackCols(w.panel[x.kernels.Elems(at)*t.StepB+j*size:], w.stage, x.kernels.Elems(n), pitch, rows, t.StepB)
		}
	}
}

// computesTransposed reports whether the product is computed as its transpose: C has few columns
// and many rows, so tiles of the transpose are whole. A is then rounded as tiles read it, or
// transposed as it is packed.
func (p *matmulPlan) computesTransposed(t kernels.MatMulAttrs, in []kernels.Spec) bool {
	s := p.kernels
	if !p.rounded || p.n < 2 || p.n > transposedMaxCols || p.k == 0 || s.Rounding(t.ComputeType).FromFloat32.Kind == gemm.KindFloat {
		return false
	}
	if t.TransA {
		return p.m >= transposedMinPanels*s.Cols
	}
	return p.m >= transposedMinPanelsTall*s.Cols && in[0].Type == arena.Float32
}

// transposedBlock computes rows r0:r1 of C, which are columns of the computed product.
func (x *matmul) transposedBlock(w *matmulWorker, a, b, c []byte, r0, r1 int) {
	if x.addend != nil {
		transpose.Portable(asm.View[uint32](w.transposed), asm.View[uint32](c[r0*x.m*4:]), x.m, r1-r0, x.colBlock, x.m)
	}
	x.multiply(w, a, b, w.transposed, 0, x.m, r0, r1)
	transpose.Portable(asm.View[uint32](c[r0*x.m*4:]), asm.View[uint32](w.transposed), r1-r0, x.m, x.m, x.colBlock)
	x.applyEpilogue(c, x.m, r0, r1, 0, x.m)
}

// roundedDot is dot for operands that are rounded.
func (x *matmul) roundedDot(w *matmulWorker, a, b, c []byte, c0, c1 int) {
	x.packingA.Along(w.stage, a, 1, 0, w.tile.K, 0)
	x.dot(w, w.stage, b, c, c0, c1)
}
