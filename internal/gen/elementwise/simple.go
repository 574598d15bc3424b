package main

import (
	. "github.com/mmcloughlin/avo/operand"
)

// simple are the functions of one operand that are a few instructions, for either element type.
func simple() []elementwise {
	list := []elementwise{
		{name: "neg", doc: "computes dst = -a.", body: func(a *asm) { a.f("XOR", a.signBit(), a.v(0), a.v(0)) }},
		{name: "abs", doc: "computes dst = |a|.", body: func(a *asm) { a.f("AND", a.allButSign(), a.v(0), a.v(0)) }},
		{name: "sign", doc: "computes -1, 0 or 1, NaN of NaN.", body: signOf},
		{name: "square", doc: "computes dst = a².", body: func(a *asm) { a.f("MUL", a.v(0), a.v(0), a.v(0)) }},
		{name: "cube", doc: "computes dst = a³.", body: func(a *asm) {
			a.f("MUL", a.v(0), a.v(0), a.v(1))
			a.f("MUL", a.v(0), a.v(1), a.v(0))
		}},
		{name: "inverse", doc: "computes dst = 1/a.", body: func(a *asm) {
			a.set(number(1), a.v(1))
			a.f("DIV", a.v(0), a.v(1), a.v(0))
		}},
		{name: "sqrt", doc: "computes dst = √a.", body: func(a *asm) { a.f("SQRT", a.v(0), a.v(0)) }},
		{name: "inverseSqrt", doc: "computes dst = 1/√a.", body: func(a *asm) {
			a.set(number(1), a.v(1))
			a.f("SQRT", a.v(0), a.v(0))
			a.f("DIV", a.v(0), a.v(1), a.v(0))
		}},
		{name: "ceil", doc: "rounds up.", body: func(a *asm) { a.round(10, a.v(0), a.v(0)) }},
		{name: "floor", doc: "rounds down.", body: func(a *asm) { a.round(9, a.v(0), a.v(0)) }},
		{name: "affine", doc: "computes dst = p·a + q, rounding the product.", params: 2, body: func(a *asm) {
			a.f("MUL", a.top(0), a.v(0), a.v(0))
			a.f("ADD", a.top(1), a.v(0), a.v(0))
		}},
		{name: "relu", doc: "computes dst = max(a, 0). NaN and -0 stay.", body: func(a *asm) {
			a.zero(a.v(1))
			a.f("MAX", a.v(0), a.v(1), a.v(0)) // of NaN and of two zeros it returns the first operand
		}},
		{name: "leakyRelu", doc: "computes dst = a where a > 0, p·a elsewhere.", params: 1, body: func(a *asm) {
			a.set(a.v(0), a.v(1))
			a.zero(a.v(2))
			m := a.cmp(greater, a.v(2), a.v(1), 0, a.v(2))
			a.f("MUL", a.top(0), a.v(0), a.v(0))
			a.where(m, a.v(1), a.v(0))
		}},
	}
	for i := range list {
		e := &list[i]
		e.inputs, e.width, e.wide, e.flush = 1, 4, 4, true
	}
	return list
}

// signOf is 1 for above zero, -1 for below, and otherwise the operand.
func signOf(a *asm) {
	x, y, tmp := a.v(0), a.v(1), a.v(2)
	a.set(x, y)
	a.zero(tmp)
	m := a.cmp(greater, tmp, x, 0, tmp)
	a.where(m, number(1), y)
	a.zero(tmp)
	m = a.cmp(less, tmp, x, 0, tmp)
	a.where(m, number(-1), y)
	a.set(y, x)
}

// signBit is the constant with only the sign set.
func (a *asm) signBit() any {
	if a.size == 8 {
		return bits64(1 << 63)
	}
	return word(1 << 31)
}

// allButSign is its complement.
func (a *asm) allButSign() any {
	if a.size == 8 {
		return bits64(1<<63 - 1)
	}
	return word(1<<31 - 1)
}

// round rounds to a whole number: 8 nearest, 9 down, 10 up.
func (a *asm) round(mode uint64, src, dst vec) {
	if a.wide {
		a.imm("VRNDSCALE"+a.suffix(), Imm(mode), src, dst)
		return
	}
	a.imm("VROUND"+a.suffix(), Imm(mode), src, dst)
}

// fill sets every element to p.
var fill = elementwise{name: "fill", doc: "sets every element to p.", params: 1, width: 4, wide: 4, body: func(a *asm) {
	a.set(a.top(0), a.v(0))
}}

// pairs are the functions of two operands.
func pairs() []elementwise {
	arithmetic := func(name string) func(a *asm) {
		return func(a *asm) { a.f(name, a.v(1), a.v(0), a.v(0)) }
	}
	truth := func(predicate int) func(a *asm) {
		return func(a *asm) { a.keep(a.cmp(predicate, a.v(1), a.v(0), 0, a.v(0)), number(1), a.v(0)) }
	}
	extreme := func(name string) func(a *asm) { // MAX and MIN return b where either is NaN
		return func(a *asm) {
			a.set(a.v(0), a.v(2))
			a.f(name, a.v(1), a.v(0), a.v(0))
			a.where(a.cmp(unordered, a.v(2), a.v(2), 0, a.v(3)), a.v(2), a.v(0))
		}
	}
	list := []elementwise{
		{name: "add", doc: "computes dst = a + b.", body: arithmetic("ADD")},
		{name: "sub", doc: "computes dst = a - b.", body: arithmetic("SUB")},
		{name: "mul", doc: "computes dst = a·b.", body: arithmetic("MUL")},
		{name: "div", doc: "computes dst = a/b.", body: arithmetic("DIV")},
		{name: "max", doc: "computes the larger of both, b where one is NaN.", body: arithmetic("MAX")},
		{name: "maximum", doc: "computes the larger of both, b where they are equal, NaN where one is.", body: extreme("MAX")},
		{name: "minimum", doc: "computes the smaller of both, b where they are equal, NaN where one is.", body: extreme("MIN")},
		{name: "less", doc: "computes 1 where a < b, else 0.", body: truth(less)},
		{name: "lessEqual", doc: "computes 1 where a <= b, else 0.", body: truth(lessEqual)},
		{name: "equal", doc: "computes 1 where a = b, else 0.", body: truth(equal)},
		{name: "notEqual", doc: "computes 1 where a and b differ, else 0.", body: truth(unequal)},
		{name: "reluGrad", doc: "computes dst = b where a > 0, else 0.", body: func(a *asm) {
			a.zero(a.v(2))
			a.keep(a.cmp(greater, a.v(2), a.v(0), 0, a.v(2)), a.v(1), a.v(0))
		}},
		{name: "leakyReluGrad", doc: "computes dst = b where a > 0, p·b elsewhere.", params: 1, body: func(a *asm) {
			a.zero(a.v(2))
			m := a.cmp(greater, a.v(2), a.v(0), 0, a.v(2))
			a.f("MUL", a.top(0), a.v(1), a.v(0))
			a.where(m, a.v(1), a.v(0))
		}},
		{name: "sigmoidGrad", doc: "computes dst = b·a·(1 - a).", body: func(a *asm) {
			a.set(number(1), a.v(2))
			a.f("SUB", a.v(0), a.v(2), a.v(2))
			a.f("MUL", a.v(2), a.v(0), a.v(0))
			a.f("MUL", a.v(1), a.v(0), a.v(0))
		}},
		{name: "tanhGrad", doc: "computes dst = b·(1 - a²).", body: func(a *asm) {
			a.set(number(1), a.v(2))
			a.f("MUL", a.v(0), a.v(0), a.v(0))
			a.f("SUB", a.v(0), a.v(2), a.v(2))
			a.f("MUL", a.v(1), a.v(2), a.v(0))
		}},
	}
	for i := range list {
		e := &list[i]
		e.inputs, e.width, e.wide, e.flush = 2, 4, 4, true
	}
	return list
}
