package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// A program for a few rows runs in the scratch that was planned for more, so a product must not need more workspace than
// a larger one. What a plan uses is not so: kc divides k evenly, blocks divide m, and rows of A are packed at some k only.
// So the workspace is a bound on what every product up to the given size uses.

// workspace returns the scratch bytes for products up to the plan's size. It needs the sizes only.
//
// Invariant: it grows or stays with each of m, n, k and batch, and is at least what the plan cut for these sizes uses.
func (p matmulPlan) workspace(threads int) int64 {
	s := p.isa
	if p.n == 1 && !p.transA && s.Dots != nil && !p.rounded {
		p.m, p.rows = 1, 1 // with more rows it is flipped, and dots need nothing
	}
	if p.m*p.n*p.k*p.batch == 0 || p.rows == 1 && p.transB && s.Dots != nil && !p.rounded {
		return 0
	}
	workers := 1
	if p.tasks(threads) > 1 {
		workers = min(threads, p.batch*ceilDiv(p.m, min(s.Rows, s.Cols))*ceilDiv(p.n, s.Cols))
	}
	return int64(workers) * int64(p.workerBytes())
}

// workerBytes returns the most that a worker packs at once, of any product up to this size.
func (p *matmulPlan) workerBytes() int {
	s, steps := p.isa, p.isa.MaxSteps()
	kc := min(p.k, steps)
	most := s.PanelBytes(p.isa.Elems(kc))
	switch {
	case p.rounded:
		most += min(p.blockOf(p.m, kc), p.packedBytes()) + p.turnStageBytes(kc)
		return max(most, p.singleRowBytes(), p.transposedWorkBytes())
	case ceilDiv(p.n, s.Cols) < packMinPanels:
	case p.transA && p.rows*s.Size() > packMinStride:
		most += min(p.blockOf(p.m, kc), p.packedBytes())
	case !p.transA && p.m > s.Rows:
		apart := s.AliasStride() / s.Size()
		for k := apart; k > 0 && k <= p.k; k += apart {
			kc := evenSplit(k, steps)
			if kc == steps { // the longest there is, so no k after it needs more than this
				return max(most, s.PanelBytes(kc)+min(p.blockOf(p.m, kc), p.packedBytes()))
			}
			most = max(most, s.PanelBytes(kc)+p.blockOf(min(p.m, p.packedRows(kc)), kc))
		}
	}
	return most
}

// singleRowBytes returns the most that a worker rounds at once of a product of one row or column, of any up to this size.
func (p *matmulPlan) singleRowBytes() int {
	s := p.isa.Single()
	kc := min(p.k, s.MaxSteps())
	most := s.PanelBytes(kc) + s.RowPitch(kc)
	if s.Dots != nil {
		most = max(most, s.DotBytes(min(p.k, maxDotSteps)))
	}
	return most
}

// transposedWorkBytes returns the most that a worker needs of a product that is computed as its transpose, of any up to this size.
func (p *matmulPlan) transposedWorkBytes() int {
	s := p.isa
	kc := min(p.k, s.MaxSteps())
	block := max(kc*s.RowPitch(transposedMaxCols), transposedMaxCols*s.RowPitch(kc))
	return s.PanelBytes(kc) + block + p.turnStageBytes(kc) + transposedMaxCols*transposedMaxPanels*s.Cols*s.Size()
}

// packedBytes returns the most that a packed block of A takes.
func (p *matmulPlan) packedBytes() int {
	return max(packedMinElems*p.isa.Size(), min(packedMaxBytes, p.k*p.n*p.isa.Size()/packedShare))
}

// packedRows returns how many rows of A a packed block of kc steps holds: whole tiles, in packedBytes.
func (p *matmulPlan) packedRows(kc int) int {
	s := p.isa
	rows := p.packedBytes() / s.RowPitch(p.isa.Elems(kc))
	if p.transA {
		pitch := p.packedBytes() / p.isa.Elems(kc) &^ (asm.CacheLine - 1)
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
		return p.isa.Elems(kc) * p.isa.RowPitch(rows)
	}
	return rows * p.isa.RowPitch(p.isa.Elems(kc))
}

// evenSplit cuts k into even stretches of at most so many steps.
func evenSplit(k, steps int) int { return ceilDiv(k, ceilDiv(k, steps)) }
