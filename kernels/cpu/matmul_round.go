package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/transpose"
)

// Products whose factors are rounded. Rounding is part of packing, so all of B is packed but for dots and lines, and A unless it lies as tiles read
// it. Where the kernels know how B is stored they round it as they read it.

const (
	stageElems              = 64 // elements of a row that is rounded before columns are made of it: so many rows stay in the first-level cache
	transposedMaxCols       = 14 // most columns of a product that is computed as its transpose: a tile of as many is nearly whole
	transposedMaxPanels     = 8  // most panels of a block of its transpose
	transposedMinPanels     = 2  // fewest panels of all of it
	transposedMinPanelsTall = 16 // the same where A has to be transposed
)

// readable reports whether A lies as tiles read it, in rows that do not compete for the same lines of the cache: pairs side by side.
func (p *matmulPlan) readable() bool {
	return p.isa.StepsPerElem() == 2 && p.sizeA == 2 && !p.transA && p.k%2 == 0 && !p.isa.Aliases(p.lda)
}

// turnStageBytes returns the bytes of the rows of a transposed B that are turned at once. It grows or stays with kc.
func (p *matmulPlan) turnStageBytes(kc int) int {
	return p.isa.Lanes * p.isa.RowPitch(min(p.isa.Elems(kc), stageElems))
}

// dense reports whether rows of A are packed as they lie, without anything between them.
func (p *matmulPlan) dense() bool {
	return !p.transA && p.kc == p.k && p.isa.StepsPerElem() == 1 && !p.isa.Aliases(p.k*p.isa.Size())
}

// roundA packs w.tile.k steps of rows of A.
func (x *matmul) roundA(w *matmulWorker, a []byte, rows int) []byte {
	t, size, f := &w.tile, x.isa.Size(), &x.factorA
	steps := t.K
	switch {
	case x.transA && rows == x.rows && x.isa.StepsPerElem() == 1:
		t.RowA, t.StepA = size, rows*size
		f.Along(w.block, a, 1, 0, steps*rows, 0)
	case x.dense():
		t.RowA, t.StepA = x.k*size, size
		f.Along(w.block, a, 1, 0, rows*x.k, 0)
	case x.transA:
		t.RowA, t.StepA = size, x.isa.RowPitch(rows)
		f.Across(w.block, a, steps, x.lda, rows, t.StepA)
	default:
		t.RowA, t.StepA = x.isa.RowPitch(x.isa.Elems(steps)), size
		f.Along(w.block, a, rows, x.lda, steps, t.RowA)
	}
	return w.block
}

// roundB packs so many steps from k on of the panel of B that starts at column col, and points the tile at it. What lies beside the columns that
// exist is of no account.
func (x *matmul) roundB(w *matmulWorker, b []byte, k, steps, col int) {
	s, t, size, f := x.isa, &w.tile, x.isa.Size(), &x.factorB
	t.B, t.StepB = w.panel, s.Cols*size
	if !x.transB {
		b = b[k*x.ldb+col*x.sizeB:]
		if f.Kind != gemm.KindFloat && t.N == s.Cols {
			t.B, t.StepB, t.Panel = b, x.ldb, w.panel
			return
		}
		if x.n == t.N && s.StepsPerElem() == 1 && x.ldb == x.n*x.sizeB { // rows lie as they are: a tile reads what is beside them in vain
			t.StepB = x.n * size
			f.Across(w.panel, b, 1, 0, steps*x.n, 0)
			return
		}
		f.Across(w.panel, b, steps, x.ldb, t.N, t.StepB)
		return
	}
	if f.PackCols != nil {
		for j := 0; j < t.N; j += s.Lanes {
			f.PackCols(w.panel[j*size:], b[(col+j)*x.ldb+k*x.sizeB:], steps, x.ldb, min(s.Lanes, t.N-j), t.StepB)
		}
		return
	}
	pitch := len(w.stage) / s.Lanes
	for j := 0; j < t.N; j += s.Lanes {
		rows := min(s.Lanes, t.N-j)
		for at := 0; at < steps; at += stageElems * s.StepsPerElem() {
			n := min(stageElems*s.StepsPerElem(), steps-at)
			f.Along(w.stage, b[(col+j)*x.ldb+(k+at)*x.sizeB:], rows, x.ldb, n, pitch)
			s.PackCols(w.panel[x.isa.Elems(at)*t.StepB+j*size:], w.stage, x.isa.Elems(n), pitch, rows, t.StepB)
		}
	}
}

// computesTransposed reports whether the product is computed as its transpose: where C has few columns and many rows, its tiles are then whole, and A is rounded
// as it is multiplied, or transposed.
func (p *matmulPlan) computesTransposed(t kernels.MatMulAttrs, in []kernels.Spec) bool {
	s := p.isa
	if !p.rounded || p.n < 2 || p.n > transposedMaxCols || p.k == 0 || s.Rounding(t.ComputeType).FromFloat32.Kind == gemm.KindFloat {
		return false
	}
	if t.TransA {
		return p.m >= transposedMinPanels*s.Cols
	}
	return p.m >= transposedMinPanelsTall*s.Cols && in[0].Type == arena.Float32
}

// transposedBlock computes rows r0:r1 of C, which are columns of what is computed.
func (x *matmul) transposedBlock(w *matmulWorker, a, b, c []byte, r0, r1 int) {
	if x.addend != nil {
		transpose.Portable(asm.View[uint32](w.transposed), asm.View[uint32](c[r0*x.m*4:]), x.m, r1-r0, x.colBlock, x.m)
	}
	x.multiply(w, a, b, w.transposed, 0, x.m, r0, r1)
	transpose.Portable(asm.View[uint32](c[r0*x.m*4:]), asm.View[uint32](w.transposed), r1-r0, x.m, x.m, x.colBlock)
	x.applyEpilogue(c, x.m, r0, r1, 0, x.m)
}

// roundedDot adds w.tile.k steps to columns c0:c1 of the only row.
func (x *matmul) roundedDot(w *matmulWorker, a, b, c []byte, c0, c1 int) {
	x.factorA.Along(w.stage, a, 1, 0, w.tile.K, 0)
	x.dot(w, w.stage, b, c, c0, c1)
}
