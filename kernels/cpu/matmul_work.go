package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// A program for a few rows runs in the scratch that was planned for more, so a product must not need more workspace than
// a larger one. What a plan uses is not so: kc divides k evenly, blocks divide m, and rows of A are packed at some k only.
// So the workspace is a bound on what every product up to the given size uses.

// workspace returns the scratch bytes for products up to the plan's size. It needs the sizes only.
//
// Invariant: it grows or stays with each of m, n, k and batch, and is at least what the plan cut for these sizes uses.
func (p matmulPlan) workspace(threads int) int64 {
	s := p.isa
	if p.n == 1 && !p.transA && s.dots != nil && !p.rounded {
		p.m, p.rows = 1, 1 // with more rows it is flipped, and dots need nothing
	}
	if p.m*p.n*p.k*p.batch == 0 || p.rows == 1 && p.transB && s.dots != nil && !p.rounded {
		return 0
	}
	workers := 1
	if p.tasks(threads) > 1 {
		workers = min(threads, p.batch*over(p.m, min(s.rows, s.cols))*over(p.n, s.cols))
	}
	return int64(workers) * int64(p.workerBytes())
}

// workerBytes returns the most that a worker packs at once, of any product up to this size.
func (p *matmulPlan) workerBytes() int {
	s, steps := p.isa, p.isa.steps()
	kc := min(p.k, steps)
	most := s.panel(p.isa.elems(kc))
	switch {
	case p.rounded:
		most += min(p.blockOf(p.m, kc), p.packedBytes()) + p.turnBytes(kc)
		return max(most, p.loneBytes(), p.turnedBytes())
	case over(p.n, s.cols) < packPanels:
	case p.transA && p.rows*s.size() > farApart:
		most += min(p.blockOf(p.m, kc), p.packedBytes())
	case !p.transA && p.m > s.rows:
		apart := s.aliasing() / s.size()
		for k := apart; k > 0 && k <= p.k; k += apart {
			kc := stretch(k, steps)
			if kc == steps { // the longest there is, so no k after it needs more than this
				return max(most, s.panel(kc)+min(p.blockOf(p.m, kc), p.packedBytes()))
			}
			most = max(most, s.panel(kc)+p.blockOf(min(p.m, p.packedRows(kc)), kc))
		}
	}
	return most
}

// loneBytes returns the most that a worker rounds at once of a product of one row or column, of any up to this size.
func (p *matmulPlan) loneBytes() int {
	s := p.isa.single()
	kc := min(p.k, s.steps())
	most := s.panel(kc) + s.pitch(kc)
	if s.dots != nil {
		most = max(most, s.dotBytes(min(p.k, dotSteps)))
	}
	return most
}

// turnedBytes returns the most that a worker needs of a product that is computed as its transpose, of any up to this size.
func (p *matmulPlan) turnedBytes() int {
	s := p.isa
	kc := min(p.k, s.steps())
	block := max(kc*s.pitch(turnedMost), turnedMost*s.pitch(kc))
	return s.panel(kc) + block + p.turnBytes(kc) + turnedMost*turnedPanels*s.cols*s.size()
}

// packedBytes returns the most that a packed block of A takes.
func (p *matmulPlan) packedBytes() int {
	return max(packedLeast*p.isa.size(), min(packedMost, p.k*p.n*p.isa.size()/packedShare))
}

// packedRows returns how many rows of A a packed block of kc steps holds: whole tiles, in packedBytes.
func (p *matmulPlan) packedRows(kc int) int {
	s := p.isa
	rows := p.packedBytes() / s.pitch(p.isa.elems(kc))
	if p.transA {
		pitch := p.packedBytes() / p.isa.elems(kc) &^ (asm.CacheLine - 1)
		if pitch%(4*packedPitch) == 0 {
			pitch -= packedPitch
		}
		rows = pitch / s.size()
	}
	return max(1, min(blockRows, rows)/s.rows) * s.rows
}

// blockOf returns the bytes of a packed block of A.
func (p *matmulPlan) blockOf(rows, kc int) int {
	if p.transA {
		return p.isa.elems(kc) * p.isa.pitch(rows)
	}
	return rows * p.isa.pitch(p.isa.elems(kc))
}

// pitch is the bytes of a row of n elements in a packed block of A.
func (s *isa) pitch(n int) int {
	pitch := asm.AlignLine(n * s.size())
	if pitch%(4*packedPitch) == 0 {
		pitch += packedPitch
	}
	return pitch
}

// panel returns the bytes of a packed panel of B.
func (s *isa) panel(kc int) int { return asm.AlignLine(kc * s.cols * s.size()) }

// steps returns the most steps of k at once.
func (s *isa) steps() int {
	if s.size() == 8 {
		return stepsFloat64
	}
	return stepsFloat32 * s.step()
}

// stretch cuts k into even stretches of at most so many steps.
func stretch(k, steps int) int { return over(k, over(k, steps)) }

// aliases reports whether the rows of a tile of A that lie lda bytes apart compete for the same few lines of the cache.
func (s *isa) aliases(lda int) bool {
	return s.rows*min(aliasPitch, lda&-lda)/aliasPitch > aliasRows
}

// aliasing returns the bytes of which rows that alias lie a multiple apart. 0: none do.
func (s *isa) aliasing() int {
	for apart := s.size(); apart <= aliasPitch; apart *= 2 {
		if s.aliases(apart) {
			return apart
		}
	}
	return 0
}
