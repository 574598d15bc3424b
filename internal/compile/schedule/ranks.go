package schedule

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// overlapSums returns order with the sums over ranks moved, so that they overlap with compute: each
// begins as soon as its operands are there, and is awaited right before the first instruction that
// reads it. They make no bytes of scratch live: the order of the rest, and the peak, stay as they are.
//
//	dw1 │ dw2 │ begin w1, w2 │ dw3 │ … │ await w1, w2 │ check w1
func overlapSums(p *ir.Program, deps *Graph, order []int32) []int32 {
	if !slices.ContainsFunc(p.Instrs, func(in ir.Instr) bool { return in.Op == kernels.AllReduce }) {
		return order
	}
	late := func(i int32) bool { op := p.Instrs[i].Op; return op == kernels.Await || op == kernels.Agree }
	made := make([]int32, 0, len(order))
	done, missing := make([]bool, len(order)), make([]int, len(order)) // missing: by beginning, instructions that it waits for
	for i := range missing {
		missing[i] = len(deps.before[i])
	}
	var add func(i int32)
	add = func(i int32) {
		if done[i] {
			return
		}
		done[i] = true
		for _, b := range deps.before[i] {
			add(b) // only what is late, or a beginning, is left
		}
		made = append(made, i)
		for _, a := range deps.after[i] {
			if missing[a]--; missing[a] == 0 && p.Instrs[a].Op == kernels.AllReduce {
				add(a)
			}
		}
	}
	for _, i := range order {
		if !late(i) {
			add(i)
		}
	}
	for _, i := range order {
		add(i)
	}
	return made
}
