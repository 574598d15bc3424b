package main

import (
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A chain runs a program of elementwise steps on a tile, some vectors at a time, which stay in
// registers from step to step: the accumulator. A step is four words: its code, the offset of its
// operand among the slots, and two numbers. The first step is a load, and the last one, end,
// stores.

// chainCodes are the steps in the order of their codes, which package elementwise repeats: names of
// functions, and those of two operands a second time with the accumulator as the second one.
var chainCodes = []string{"end", "load", "store",
	"neg", "abs", "sign", "square", "cube", "inverse", "sqrt", "inverseSqrt", "ceil", "floor", "relu", "affine", "leakyRelu",
	"exp", "expm1", "log", "log2", "log1p", "sigmoid", "tanh", "softplus", "erf",
	"add", "sub", "mul", "div", "less", "lessEqual", "equal", "notEqual", "reluGrad", "leakyReluGrad", "sigmoidGrad", "tanhGrad", "maximum", "minimum",
	"<sub", "<div", "<less", "<lessEqual", "<reluGrad", "<leakyReluGrad", "<sigmoidGrad", "<tanhGrad", "<maximum", "<minimum",
}

// Registers of a chain.
var (
	pc, firstStep  = RBX, R12 // the present step, and the first one
	slots, operand = R11, R13
	tileAt         = RAX // bytes from the start of the tile
)

// stepBytes is the size of a step.
const stepBytes = 16

// accumulator is the number of registers of the accumulator: the others hold an operand and
// temporary values of functions.
const accumulator = 8

func chains(a *asm) {
	a.begin("chain", "func(slots [][]float32, program []uint32, n int)", "runs a program on n elements of the slots.")
	a.Load(a.Param("slots").Base(), slots)
	a.Load(a.Param("program").Base(), firstStep)
	a.Load(a.Param("n"), left)
	a.flush()
	a.XORQ(tileAt, tileAt)
	a.MOVQ(I32(-1), ones)
	a.MOVQ(U32(uint32(a.lanes())), full)
	block := accumulator * a.lanes()
	a.SUBQ(U32(uint32(block)), left)
	a.JL(LabelRef("rest"))
	a.Label("block")
	a.steps("w", accumulator, func() {
		a.ADDQ(U32(uint32(4*block)), tileAt)
		a.SUBQ(U32(uint32(block)), left)
		a.JGE(LabelRef("block"))
		a.JMP(LabelRef("rest"))
	})
	a.Label("rest")
	a.ADDQ(U32(uint32(block)), left)
	a.JE(LabelRef("done"))
	a.Label("tail")
	a.tailMask()
	a.steps("t", 1, func() {
		a.ADDQ(Imm(uint64(a.bytes())), tileAt)
		a.SUBQ(full, left)
		a.JG(LabelRef("tail"))
		a.JMP(LabelRef("done"))
	})
	a.Label("done")
	a.end()
}

// steps emits an interpreter whose accumulator has that many registers. One is for a masked tail.
func (a *asm) steps(prefix string, registers int, end func()) {
	acc := vec(a.bank()[:registers])
	a.MOVQ(firstStep, pc)
	a.pointer()
	a.fetch(acc, 0, registers == 1)
	a.Label(prefix + "next")
	a.ADDQ(Imm(stepBytes), pc)
	a.MOVL(Mem{Base: pc}, EDX)
	a.choose(prefix, 0, len(chainCodes))
	functions := slices.Concat(simple(), transcendental(), pairs())
	for code, name := range chainCodes {
		a.Label(fmt.Sprint(prefix, code))
		switch name {
		case "end":
			a.spill(acc)
			end()
			continue
		case "load":
			a.pointer()
			a.fetch(acc, 0, registers == 1)
		case "store":
			a.spill(acc)
		default:
			reversed := name[0] == '<'
			if reversed {
				name = name[1:]
			}
			i := slices.IndexFunc(functions, func(e elementwise) bool { return e.name == name })
			a.step(functions[i], acc, reversed)
		}
		a.JMP(LabelRef(prefix + "next"))
	}
}

// spill stores the accumulator to the step's operand.
func (a *asm) spill(acc vec) {
	a.pointer()
	for i, r := range acc {
		m := Mem{Base: operand, Index: tileAt, Scale: 1, Disp: i * a.bytes()}
		if len(acc) == 1 {
			a.storeTail(vec{r}, m)
		} else {
			a.VMOVUPS(r, m)
		}
	}
}

// choose jumps to the code in EDX, which is one of lo..hi-1.
func (a *asm) choose(prefix string, lo, hi int) {
	if hi-lo == 1 {
		a.JMP(LabelRef(fmt.Sprint(prefix, lo)))
		return
	}
	mid := (lo + hi) / 2
	if hi-lo == 2 {
		a.CMPL(EDX, U32(uint32(mid)))
		a.JGE(LabelRef(fmt.Sprint(prefix, mid)))
		a.JMP(LabelRef(fmt.Sprint(prefix, lo)))
		return
	}
	above := a.unique(prefix + "from")
	a.CMPL(EDX, U32(uint32(mid)))
	a.JGE(LabelRef(above))
	a.choose(prefix, lo, mid)
	a.Label(above)
	a.choose(prefix, mid, hi)
}

// pointer loads the address of the step's operand.
func (a *asm) pointer() {
	a.MOVL(Mem{Base: pc, Disp: 4}, operand.As32())
	a.MOVQ(Mem{Base: slots, Index: operand, Scale: 1}, operand)
}

// fetch loads registers of the operand that pointer found: those of the accumulator's register
// first, and on.
func (a *asm) fetch(dst vec, first int, tail bool) {
	for i, r := range dst {
		m := Mem{Base: operand, Index: tileAt, Scale: 1, Disp: (first + i) * a.bytes()}
		if tail {
			a.loadTail(m, vec{r})
		} else {
			a.VMOVUPS(m, r)
		}
	}
}

// step applies a function to the accumulator, some registers at a time.
func (a *asm) step(e elementwise, acc vec, reversed bool) {
	if e.inputs == 2 {
		a.pointer()
	}
	for i := range e.params {
		a.VBROADCASTSS(Mem{Base: pc, Disp: 8 + 4*i}, a.top(i).r)
	}
	a.width = e.width
	if a.wide {
		a.width = e.wide
	}
	tail := len(acc) == 1
	if tail {
		a.width = 1
	} else if !a.wide {
		a.width = min(a.width, 2) // fewer registers
	}
	a.free = accumulator
	for first := 0; first < len(acc); first += a.width {
		part := acc[first : first+a.width]
		a.given = nil
		if e.inputs == 2 {
			other := a.v(0)
			a.fetch(other, first, tail)
			a.given = []vec{part, other}
			a.free = accumulator + a.width
			if reversed {
				a.given = []vec{other, part}
			}
		} else {
			a.given = []vec{part}
		}
		e.body(a)
		if reversed {
			a.set(a.given[0], part)
		}
		a.free = accumulator
	}
	a.given, a.free, a.width = nil, 0, 1
}
