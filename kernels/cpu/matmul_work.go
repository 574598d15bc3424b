package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// A program for a small batch runs in the workspace that was planned for a larger one, so a product
// must not need more workspace than a larger product. The use of a plan is not monotone: kc divides
// k evenly, blocks divide m, and rows of A are packed at some k only. So the workspace is a bound
// on the use of every product up to the given size.

// workspace returns the bytes for products up to the plan's size. It reads the plan's sizes only.
//
// Invariant: it never shrinks as m, n, k or batch grows, and is at least what the plan for these
// sizes uses.
func (p matmulPlan) workspace(threads int) int64 {
	s := p.kernels
	if p.n == 1 && !p.transA && s.Dots != nil && !p.rounded {
		p.m, p.rows = 1, 1 // with more rows it is computed as one row, and dots need no workspace
	}
	if p.m*p.n*p.k*p.batch == 0 || p.rows == 1 && p.transB && s.Dots != nil && !p.rounded {
		return 0
	}
	// A smaller product may have fewer tasks but not more workers than the largest number of
	// blocks.
	workers := 1
	if p.tasks(threads) > 1 {
		workers = min(threads, p.batch*ceilDiv(p.m, min(s.Rows, s.Cols))*ceilDiv(p.n, s.Cols))
	}
	return int64(workers) * int64(p.workerBytes())
}

// workerBytes returns the most bytes that a worker packs at once, of any product up to this size.
func (p *matmulPlan) workerBytes() int {
	s, steps := p.kernels, p.kernels.MaxSteps()
	kc := min(p.k, steps)
	most := s.PanelBytes(p.kernels.Elems(kc))
	switch {
	case p.rounded:
		most += min(p.blockOf(p.m, kc), p.packedBytes()) + p.turnStageBytes(kc)
		return max(most, p.singleRowBytes(), p.transposedWorkBytes())
	case ceilDiv(p.n, s.Cols) < packMinPanels:
	case p.transA && p.rows*s.Size() > packMinStride:
		most += min(p.blockOf(p.m, kc), p.packedBytes())
	case !p.transA && p.m > s.Rows:
		// Rows of A are packed where they alias, which depends on k: the bound covers every such k
		// up to the plan's.
		apart := s.AliasStride() / s.Size()
		for k := apart; k > 0 && k <= p.k; k += apart {
			kc := evenSplit(k, steps)
			if kc == steps { // the longest block, so no larger k needs more
				return max(most, s.PanelBytes(kc)+min(p.blockOf(p.m, kc), p.packedBytes()))
			}
			most = max(most, s.PanelBytes(kc)+p.blockOf(min(p.m, p.packedRows(kc)), kc))
		}
	}
	return most
}

// singleRowBytes returns the most bytes that a worker rounds at once, of any product of one row or
// column up to this size.
func (p *matmulPlan) singleRowBytes() int {
	s := p.kernels.Single()
	kc := min(p.k, s.MaxSteps())
	most := s.PanelBytes(kc) + s.RowPitch(kc)
	if s.Dots != nil {
		most = max(most, s.DotBytes(min(p.k, maxDotSteps)))
	}
	return most
}

// transposedWorkBytes returns the most bytes that a worker needs, of any product up to this size
// that is computed as its transpose.
func (p *matmulPlan) transposedWorkBytes() int {
	s := p.kernels
	kc := min(p.k, s.MaxSteps())
	block := max(kc*s.RowPitch(transposedMaxCols), transposedMaxCols*s.RowPitch(kc))
	return s.PanelBytes(kc) + block + p.turnStageBytes(kc) + transposedMaxCols*transposedMaxPanels*s.Cols*s.Size()
}

// packedBytes returns the most bytes of a packed block of A.
func (p *matmulPlan) packedBytes() int {
	return max(packedMinElems*p.kernels.Size(), min(packedMaxBytes, p.k*p.n*p.kernels.Size()/packedShare))
}

// packedRows returns how many rows of A a packed block of kc steps holds: whole tiles, in
// packedBytes.
func (p *matmulPlan) packedRows(kc int) int {
	s := p.kernels
	rows := p.packedBytes() / s.RowPitch(p.kernels.Elems(kc))
	if p.transA {
		pitch := p.packedBytes() / p.kernels.Elems(kc) &^ (asm.CacheLine - 1)
		if pitch%(4*gemm.PackedPitch) == 0 {
			pitch -= gemm.PackedPitch
		}
		rows = pitch / s.Size()
	}
	return max(1, min(maxBlockRows, rows)/s.Rows) * s.Rows
}

// blockOf returns the bytes of a packed block of A.
func (p *matmulPlan) blockOf(rows, kc int) int {
	if p.transA {
		return p.kernels.Elems(kc) * p.kernels.RowPitch(rows)
	}
	return rows * p.kernels.RowPitch(p.kernels.Elems(kc))
}

// evenSplit returns the length of the blocks when k is cut evenly into blocks of at most steps.
func evenSplit(k, steps int) int { return ceilDiv(k, ceilDiv(k, steps)) }
