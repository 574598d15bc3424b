package cpu

// Products whose factors are rounded. Rounding is part of packing, so all of B is packed, and A unless it lies as tiles read it.

const (
	stageElems = 64 // elements of a row that is rounded before columns are made of it: so many rows stay in the first-level cache
	lineSteps  = 16 // steps of a line, whose rows of B are rounded before: they stay there too
)

// dotting returns the isa that computes dots, nil where none does.
func (s *isa) dotting() *isa {
	if s = s.single(); s.dots == nil {
		return nil
	}
	return s
}

// readable reports whether A lies as tiles read it, in rows that do not compete for the same lines of the cache: pairs side by side.
func (p *matmulPlan) readable() bool {
	return p.isa.step() == 2 && p.sizeA == 2 && !p.transA && p.k%2 == 0 && !p.isa.aliases(p.lda)
}

// dotBytes returns the bytes of the rows that dots read in a stretch of kc steps.
func (s *isa) dotBytes(kc int) int { return (dotRows + 1) * s.pitch(kc) }

// lineBytes returns the bytes of the rows of B that a line reads.
func (s *isa) lineBytes() int { return lineSteps * s.lineCols * s.size() }

// turnBytes returns the bytes of the rows of a transposed B that are turned at once. It grows or stays with kc.
func (p *matmulPlan) turnBytes(kc int) int {
	return p.isa.lanes * p.isa.pitch(min(p.isa.elems(kc), stageElems))
}

// roundA packs w.tile.k steps of rows of A.
func (x *matmul) roundA(w *matmulWorker, a []byte, rows int) []byte {
	t, size, f := &w.tile, x.isa.size(), &x.factorA
	steps := t.k
	if x.transA {
		t.rowA, t.stepA = size, x.isa.pitch(rows)
		f.across(w.block, a, steps, x.lda, rows, t.stepA)
	} else {
		t.rowA, t.stepA = x.isa.pitch(x.isa.elems(steps)), size
		f.along(w.block, a, rows, x.lda, steps, t.rowA)
	}
	return w.block
}

// roundB packs so many steps from k on of the panel of B that starts at column col, and points the tile at it. What lies beside the columns that
// exist is of no account.
func (x *matmul) roundB(w *matmulWorker, b []byte, k, steps, col int) {
	s, t, size, f := x.isa, &w.tile, x.isa.size(), &x.factorB
	t.b, t.stepB = w.panel, s.cols*size
	if !x.transB {
		f.across(w.panel, b[k*x.ldb+col*x.sizeB:], steps, x.ldb, t.n, t.stepB)
		return
	}
	pitch := len(w.stage) / s.lanes
	for j := 0; j < t.n; j += s.lanes {
		rows := min(s.lanes, t.n-j)
		for at := 0; at < steps; at += stageElems * s.step() {
			n := min(stageElems*s.step(), steps-at)
			f.along(w.stage, b[(col+j)*x.ldb+(k+at)*x.sizeB:], rows, x.ldb, n, pitch)
			s.packCols(w.panel[x.isa.elems(at)*t.stepB+j*size:], w.stage, x.isa.elems(n), pitch, rows, t.stepB)
		}
	}
}

// roundLine rounds w.tile.k steps of the columns of B of a line, and points the tile at them.
func (x *matmul) roundLine(w *matmulWorker, b []byte) {
	t := &w.tile
	t.b, t.stepB = w.stage, x.isa.lineCols*x.isa.size()
	x.factorB.across(w.stage, b, t.k, x.ldb, x.isa.lineCols, t.stepB)
}

// roundedDot adds w.tile.k steps to columns c0:c1 of the only row.
func (x *matmul) roundedDot(w *matmulWorker, a, b, c []byte, c0, c1 int) {
	t, size := &w.tile, x.isa.size()
	t.stepB = len(w.stage) / (dotRows + 1)
	rows, row := w.stage[:dotRows*t.stepB], w.stage[dotRows*t.stepB:]
	x.factorA.along(row, a, 1, 0, t.k, 0)
	t.a, t.b = row, rows
	for col := c0; col < c1; col += dotRows {
		t.n, t.c = min(dotRows, c1-col), c[col*size:]
		x.factorB.along(rows, b[col*x.ldb:], t.n, x.ldb, t.k, t.stepB)
		x.isa.dots(t)
	}
}
