package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// Programs of chains: a chain of float32 whose ops all have a code (elementwise.ChainCodes) is run
// by assembly, one tile at a time. The result of a step stays in registers for the next step: the
// accumulator.

// newProgram returns the words of a chain's program, nil where a step has no code. Operand k is
// slot k.
func newProgram(r *chainPlan, inputs int) []uint32 {
	steps := 0
	for _, s := range r.operations {
		if _, ok := elementwise.ChainCodes[s.op]; !ok && s.op != kernels.Fill {
			return nil
		} else if ok {
			steps++
		}
	}
	last := len(r.operations) - 1
	if steps < 2 || r.operations[last].op == kernels.Fill {
		return nil
	}
	read := make([]bool, inputs+len(r.operations)) // operands that a later step reads from memory
	emitSteps(r, inputs, func(_ uint32, k int, _ operation) {
		if k >= 0 {
			read[k] = true
		}
	}, func(int) {})
	var program []uint32
	emitSteps(r, inputs, func(code uint32, k int, s operation) {
		p, q := chainNumbers(s)
		program = append(program, code, uint32(max(k, 0)*elementwise.SlotBytes), math.Float32bits(p), math.Float32bits(q))
	}, func(k int) {
		switch {
		case k == inputs+last:
			program = append(program, elementwise.CodeEnd, uint32(k*elementwise.SlotBytes), 0, 0)
		case read[k]:
			program = append(program, elementwise.CodeStore, uint32(k*elementwise.SlotBytes), 0, 0)
		}
	})
	return program
}

// emitSteps calls step for each instruction with the operand that it reads from memory (-1: none),
// and computed after each operation with the operand that the accumulator then holds.
func emitSteps(r *chainPlan, inputs int, step func(code uint32, k int, s operation), computed func(k int)) {
	held := -1
	for i, s := range r.operations {
		if s.op == kernels.Fill {
			continue // fillConstant fills its tile
		}
		c := elementwise.ChainCodes[s.op]
		if s.b >= 0 && s.a != s.b && held == s.b && c.Reversed != 0 {
			step(c.Reversed, s.a, s)
		} else {
			if held != s.a {
				step(elementwise.CodeLoad, s.a, s)
			}
			step(c.Code, s.b, s)
		}
		held = inputs + i
		computed(held)
	}
}

// chainNumbers returns the two numbers of an operation's instruction.
func chainNumbers(s operation) (p, q float32) {
	switch a := s.attrs.(type) {
	case kernels.AffineAttrs:
		return float32(a.Scale), float32(a.Shift)
	case kernels.LeakyReLUAttrs:
		return float32(a.Slope), 0
	}
	return 0, 0
}
