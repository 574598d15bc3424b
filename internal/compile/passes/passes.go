// Package passes rewrites programs: each pass is a function from a program to one with the same
// results that takes less time or memory. A file holds a pass and its helpers.
//
// A pass knows nothing of the graph. It runs after lowering and gradients ([Round] before
// gradients), and before recomputation and scheduling; package compile holds the order. All passes
// but [Sums], [Round] and [Narrow] keep every bit of every result.
package passes

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// uses lists the instructions that make and read each value of a program.
type uses struct {
	p          *ir.Program
	maker      []int32 // instruction that makes it, -1 for homes
	readCount  []int32 // number of operands that read it; x·x reads x twice
	lastReader []int32 // the last instruction that reads it
	needed     []bool  // it must exist after the step
}

func usesOf(p *ir.Program) uses {
	n := len(p.Values)
	u := uses{p: p, maker: make([]int32, n), readCount: make([]int32, n), lastReader: make([]int32, n), needed: make([]bool, n)}
	for i := range u.maker {
		u.maker[i] = -1
	}
	for i, in := range p.Instrs {
		for _, v := range in.In {
			u.readCount[v]++
			u.lastReader[v] = int32(i)
		}
		for _, o := range in.Out {
			u.maker[o] = int32(i)
		}
	}
	for _, v := range p.Needed {
		u.needed[v] = true
	}
	return u
}

// private reports whether v is a value of scratch with one reader: a pass may fuse its maker into
// its reader.
func (u uses) private(v kernels.Value) bool {
	return u.readCount[v] == 1 && !u.needed[v] && !u.p.Values[v].Home && u.maker[v] >= 0
}

// next returns the only reader of v, or -1.
func (u uses) next(v kernels.Value) int {
	if !u.private(v) {
		return -1
	}
	return int(u.lastReader[v])
}

// Prune removes instructions whose results are not needed: neither in p.Needed nor an operand of an
// instruction that stays.
func Prune(p *ir.Program) {
	live := make([]bool, len(p.Values))
	for _, v := range p.Needed {
		live[v] = true
	}
	gone := make([]bool, len(p.Instrs))
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		in := p.Instrs[i]
		if gone[i] = !slices.ContainsFunc(in.Out, func(o kernels.Value) bool { return live[o] }); gone[i] {
			continue
		}
		for _, v := range in.In {
			live[v] = true
		}
	}
	remove(p, gone)
}

// remove removes the marked instructions.
func remove(p *ir.Program, gone []bool) {
	kept := p.Instrs[:0]
	for i, in := range p.Instrs {
		if !gone[i] {
			kept = append(kept, in)
		}
	}
	p.Instrs = kept
}
