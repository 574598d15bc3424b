package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rules are the rules of update.Kernels except those of 8-bit states. Each names its coefficients
// in the order of update.Rule.Coef.
var rules = []rule{
	{name: "sgd", limit: unlimited, doc: "p -= own[0]·g.", states: 0, numbers: 1, body: func(k *kernel) {
		k.fnma(k.own(0), k.grad(), k.param())
	}},
	{name: "momentum", limit: limitFinite, doc: "s = own[1]·s + g; p -= own[0]·s.", states: 1, numbers: 2, body: func(k *kernel) {
		k.velocity()
		k.fnma(k.own(0), k.state(), k.param())
	}},
	{name: "nesterov", limit: limitFinite, doc: "s = own[1]·s + g; p -= own[0]·(own[1]·s + g).", states: 1, numbers: 2, body: func(k *kernel) {
		k.velocity()
		k.fma(k.own(1), k.state(), k.grad())
		k.within(k.grad())
		k.fnma(k.own(0), k.grad(), k.param())
	}},
	{name: "rmsProp", doc: "s = own[1]·s + own[2]·g²; p -= own[0]·g / (√s + own[3]).", states: 1, numbers: 4, body: func(k *kernel) {
		s, t := k.state(), k.temp(0)
		k.within(k.grad())
		k.get(2, s)
		k.mul(k.own(1), s, s)
		k.mul(k.own(2), k.grad(), t)
		k.fma(t, k.grad(), s)
		k.put(2, s)
		k.sqrt(s, s)
		k.add(k.own(3), s, s)
		k.mul(k.own(0), k.grad(), t)
		k.div(s, t, t)
		k.sub(t, k.param(), k.param())
	}},
	{name: "adam", doc: "s = own[1]·s + own[2]·g; v = own[3]·v + own[4]·g²; p -= own[0]·s / (√(own[5]·v) + own[6]).", states: 2, numbers: 7, body: (*kernel).adam},
	{name: "adamW", doc: "as adam, and p -= own[7]·p.", states: 2, numbers: 8, body: (*kernel).adamW},
	{name: "adamNarrow", doc: "as adam, with states of bfloat16.", states: 2, numbers: 7, narrow: true, body: (*kernel).adam},
	{name: "adamWNarrow", doc: "as adamW, with states of bfloat16.", states: 2, numbers: 8, narrow: true, body: (*kernel).adamW},
	{name: "lion", limit: unlimited, doc: "t = own[1]·s + own[2]·g; s = own[3]·s + own[4]·g; p -= own[0]·(sign(t) + own[5]·p).", states: 1, numbers: 8, body: func(k *kernel) {
		s, t := k.state(), k.temp(0)
		k.get(2, s)
		k.mul(k.own(1), s, t)
		k.fma(k.own(2), k.grad(), t)
		k.mul(k.own(3), s, s)
		k.fma(k.own(4), k.grad(), s)
		k.put(2, s)
		k.sign(t)
		k.fma(k.own(5), k.param(), t)
		k.fnma(k.own(0), t, k.param())
	}},
}

// adam applies Adam.
func (k *kernel) adam() {
	k.moments()
	k.sub(k.temp(0), k.param(), k.param())
}

// adamW applies AdamW.
func (k *kernel) adamW() {
	k.moments()
	p, t := k.param(), k.temp(1)
	k.mul(k.own(7), p, t)
	k.sub(t, p, p)
	k.sub(k.temp(0), p, p)
}

// Limits of magnitudes, by index in a type's part of limitTable.
const (
	limitSquared = iota // of a gradient that is squared: numeric.MostSquared
	limitFinite         // of a velocity: the largest finite number
	unlimited
)

// limits holds each limit and its negative, of float32, then of float64.
var limits Mem

func limitTable() Mem {
	t := GLOBL("updateLimits", RODATA|NOPTR)
	for i, v := range []float32{0x1p63, -0x1p63, math.MaxFloat32, -math.MaxFloat32} {
		DATA(4*i, U32(math.Float32bits(v)))
	}
	for i, v := range []float64{0x1p511, -0x1p511, math.MaxFloat64, -math.MaxFloat64} {
		DATA(16+8*i, U64(math.Float64bits(v)))
	}
	return t
}

// loadLimits loads what the rule limits numbers to, and its negative, where registers are free.
func (k *kernel) loadLimits() {
	for i, r := range k.limitRegs() {
		k.broadcast(k.limit(i), r)
	}
}

// limit is the memory of the rule's limit, i = 0, or of its negative.
func (k *kernel) limit(i int) Mem {
	at := (2*k.rule.limit + i) * k.size()
	if k.bits == 64 {
		at += 16
	}
	return limits.Offset(at)
}

// limitRegs are the registers that hold both during the loop, or none.
func (k *kernel) limitRegs() []VecPhysical {
	switch {
	case k.rule.limit == unlimited:
		return nil
	case k.wide:
		return []VecPhysical{k.reg(16), k.reg(17)}
	case held+k.rule.numbers <= edge-2:
		return []VecPhysical{k.reg(edge - 2), k.reg(edge - 1)}
	}
	return nil
}

// within limits the magnitude of x, unless it is not a number.
func (k *kernel) within(x VecPhysical) {
	most := k.limitRegs()
	if most == nil {
		most = []VecPhysical{k.reg(number), k.reg(number)}
	}
	for i, bound := range []func(...Op){k.min, k.max} {
		if most[0] == most[1] {
			k.broadcast(k.limit(i), most[i])
		}
		bound(x, most[i], x)
	}
}

// velocity moves momentum's state.
func (k *kernel) velocity() {
	k.get(2, k.state())
	k.fma213(k.grad(), k.own(1), k.state())
	k.within(k.state())
	k.put(2, k.state())
}

// moments moves Adam's states and leaves the step in temp(0).
func (k *kernel) moments() {
	m, v, g, t := k.state(), k.square(), k.grad(), k.temp(0)
	k.within(g)
	k.get(2, m)
	k.get(3, v)
	k.mul(k.own(1), m, m)
	k.fma(k.own(2), g, m)
	k.put(2, m)
	k.mul(k.own(3), v, v)
	k.mul(k.own(4), g, t)
	k.fma(t, g, v)
	k.put(3, v)
	k.mul(k.own(5), v, v)
	k.sqrt(v, v)
	k.add(k.own(6), v, v)
	k.mul(k.own(0), m, t)
	k.div(v, t, t)
}

// sign turns t into its sign: itself where it is 0 or not a number. own[6] is 1 and own[7] is -0.
func (k *kernel) sign(t VecPhysical) {
	zero, one := k.temp(1), k.square() // no rule with a sign has squares
	VXORPS(zero.AsX(), zero.AsX(), zero.AsX())
	k.and(t, k.own(7), one)
	k.or(one, k.own(6), one)
	const ordered = 12 // not equal, and both are numbers
	if k.wide {
		k.cmp(Imm(ordered), zero, t, K2)
		k.move(one, K2, t)
		return
	}
	k.cmp(Imm(ordered), zero, t, zero)
	k.blend(zero, one, t, t)
}
