package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// Functions of float32. Range reductions and polynomials are those of Cephes (S. Moshier,
// single/expf.c, logf.c, log2f.c), with fused multiply-adds; exponents are cut out of and put into
// the bits. Errors are below 1 ulp for exp and log, 1.5 for log2, log1p, expm1 and erf, 2 for
// softplus, 2.5 for tanh and sigmoid.
const (
	log2e = math.Log2E
	ln2Hi = 0.693359375 // exact in few bits, so that its product with a small whole number is exact
	ln2Lo = -2.12194440e-4
	// magic added to a small number leaves its nearest whole number in the low bits.
	magic = 3 << 22
	// sqrtHalf are the bits of √½, one those of 1.
	sqrtHalf = 0x3f3504f3
	one      = 0x3f800000
	// Bounds of what exp is computed for. Below expLo it is under half of the smallest normal
	// number, above expHi it is Inf.
	expLo = -87.8
	expHi = 88.8
)

var (
	expPoly = []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}
	logPoly = []float64{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
		2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
	// Minimax fits of our own (Remez): erf(x)/x - 1 in x² for |x| <= 1, log(1 - erf x)/x for 1 <= x <=
	// 4, whose errors move erf by less than 0.03 ulp. From 4 on erf is 1.
	erfNear = []float64{7.853861354e-5, -8.010193627e-4, 5.188327686e-3, -2.685381194e-2, 1.128358515e-1, -3.761262582e-1, 1.283791657e-1}
	erfFar  = []float64{-1.396227600e-5, 3.505903855e-4, -3.757470224e-3, 2.401005485e-2, -1.065308496e-1, -6.349695405e-1, -1.128694335}
)

// transcendental are the functions that take a polynomial, for float32.
func transcendental() []elementwise {
	list := []elementwise{
		{name: "exp", doc: "computes dst = exp(a).", body: func(a *asm) { a.exp(a.v(0), a.v(1), a.v(2), a.v(3)) }},
		{name: "expm1", doc: "computes dst = exp(a) - 1.", body: expm1},
		{name: "log", doc: "computes dst = log(a).", body: func(a *asm) {
			a.split(a.v(0), a.v(1), a.v(2))
			a.logTail(a.v(1), a.v(2), a.v(3), a.v(4))
			a.logEdges(a.v(0), a.v(1), a.v(2))
			a.set(a.v(1), a.v(0))
		}},
		{name: "log2", doc: "computes the logarithm to base 2.", body: func(a *asm) {
			a.split(a.v(0), a.v(1), a.v(2))
			a.log2Tail(a.v(1), a.v(2), a.v(3), a.v(4))
			a.logEdges(a.v(0), a.v(1), a.v(2))
			a.set(a.v(1), a.v(0))
		}},
		{name: "log1p", doc: "computes dst = log(1 + a).", body: log1p},
		{name: "sigmoid", doc: "computes dst = 1/(1 + exp(-a)).", body: sigmoid},
		{name: "tanh", doc: "computes dst = tanh(a).", body: tanh},
		{name: "softplus", doc: "computes dst = log(1 + exp(a)).", body: softplus},
		{name: "erf", doc: "computes the error function.", body: erf},
	}
	for i := range list {
		e := &list[i]
		e.inputs, e.width, e.wide, e.flush = 1, 1, 2, true
	}
	return list
}

// clip limits x to lo..hi. NaN stays: of NaN the minimum is its first operand.
func (a *asm) clip(x, tmp vec, lo, hi float64) {
	a.set(number(hi), tmp)
	a.f("MIN", x, tmp, x)
	a.set(number(lo), tmp)
	a.f("MAX", x, tmp, x)
}

// reduce makes x = k ln 2 + r, |r| <= ln 2 / 2: r replaces x.
func (a *asm) reduce(x, k vec) {
	a.set(number(magic), k)
	a.f("FMADD231", number(log2e), x, k)
	a.f("SUB", number(magic), k, k)
	a.f("FNMADD231", number(ln2Hi), k, x)
	a.f("FNMADD231", number(ln2Lo), k, x)
}

// tail computes exp(r) - 1 for |r| <= ln 2 / 2.
func (a *asm) tail(r, p, square vec) {
	a.poly(r, p, expPoly...)
	a.f("MUL", r, r, square)
	a.f("FMADD213", r, square, p)
}

// power makes 2 to the k, plus bias, for a sum inside the exponents of normal numbers, and 0 below
// them.
func (a *asm) power(k, dst vec, bias uint32) {
	a.f("ADD", number(magic), k, dst)
	a.imm("VPSLLD", Imm(23), dst, dst)
	a.op("VPADDD", word(one+bias<<23), dst, dst)
}

// scaleDown multiplies p by 2 to the k, for -127 <= k <= 0. Results below the normal numbers are zero.
func (a *asm) scaleDown(p, k vec) {
	if a.wide {
		a.f("SCALEF", k, p, p)
		return
	}
	a.power(k, k, 0)
	a.f("MUL", k, p, p)
}

// scale multiplies p by 2 to the k, for -127 <= k <= 128: without AVX-512 in two factors, so that
// neither is out of range.
func (a *asm) scale(p, k, tmp vec) {
	if a.wide {
		a.f("SCALEF", k, p, p)
		return
	}
	a.f("ADD", number(magic), k, k)
	a.op("VPSUBD", word(math.Float32bits(magic)), k, k)
	a.imm("VPSRAD", Imm(1), k, tmp)
	a.op("VPSUBD", tmp, k, k)
	for _, half := range []vec{tmp, k} {
		a.imm("VPSLLD", Imm(23), half, half)
		a.op("VPADDD", word(one), half, half)
		a.f("MUL", half, p, p)
	}
}

// exp computes exp(x) in place.
func (a *asm) exp(x, k, p, tmp vec) {
	a.clip(x, tmp, expLo, expHi)
	a.reduce(x, k)
	a.tail(x, p, tmp)
	a.f("ADD", number(1), p, p)
	a.scale(p, k, tmp)
	a.set(p, x)
}

// expDown computes exp(x) in place for x <= 0.
func (a *asm) expDown(x, k, p, tmp vec) {
	a.set(number(expLo), tmp)
	a.f("MAX", x, tmp, x)
	a.reduce(x, k)
	a.tail(x, p, tmp)
	a.f("ADD", number(1), p, p)
	a.scaleDown(p, k)
	a.set(p, x)
}

// expm1 is 2^k (exp(r) - 1) + (2^k - 1), computed with half of that power so that it stays in
// range; where k is 0 it is exp(r) - 1, since half of that may be denormal. It has the sign of x.
func expm1(a *asm) {
	x, k, p, tmp, sign, whole := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4), a.v(5)
	a.f("AND", a.signBit(), x, sign)
	a.clip(x, tmp, -20, expHi)
	a.reduce(x, k)
	a.tail(x, p, tmp)
	a.set(p, whole)
	m := a.cmp(equal, number(0), k, 0, a.v(6))
	a.power(k, tmp, ^uint32(0))
	a.f("SUB", number(0.5), tmp, k)
	a.f("FMADD213", k, tmp, p)
	a.f("ADD", p, p, p)
	a.where(m, whole, p)
	a.f("OR", sign, p, x)
}

// sigmoid uses exp of a negative number only, so that small results keep all their digits.
func sigmoid(a *asm) {
	x, k, p, tmp, top := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4)
	a.set(x, top)
	a.f("OR", a.signBit(), x, x)
	a.expDown(x, k, p, tmp)
	a.zero(tmp)
	m := a.cmp(greaterEqual, tmp, top, 0, tmp)
	a.f("ADD", number(1), x, k)
	a.where(m, number(1), x)
	a.f("DIV", k, x, x)
}

// tanh is t/(t+2) with t = exp(2|x|) - 1, of which the 1 is taken off before rounding.
func tanh(a *asm) {
	x, k, p, tmp, sign := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4)
	a.f("AND", a.signBit(), x, sign)
	a.f("AND", a.allButSign(), x, x)
	a.set(number(10), tmp)
	a.f("MIN", x, tmp, x)
	a.f("ADD", x, x, x)
	a.reduce(x, k)
	a.tail(x, p, tmp)
	a.power(k, tmp, 0)
	a.f("SUB", number(1), tmp, k)
	a.f("FMADD213", k, tmp, p)
	a.f("ADD", number(2), p, tmp)
	a.f("DIV", tmp, p, p)
	a.f("OR", sign, p, x)
}

// softplus is max(x, 0) + log1p(exp(-|x|)).
func softplus(a *asm) {
	x, k, p, tmp, most := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4)
	a.zero(tmp)
	a.f("MAX", x, tmp, most)
	a.f("OR", a.signBit(), x, x)
	a.expDown(x, k, p, tmp)
	a.onePlus(x, k, p, tmp)
	a.logTail(k, p, tmp, x)
	a.f("ADD", k, most, x)
}

// erf is x + x·erfNear(x²) for |x| <= 1 and 1 - exp(t·erfFar(t)), t = min(|x|, 4), with the sign of
// x elsewhere.
func erf(a *asm) {
	x, t, near, far, k, p, tmp := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4), a.v(5), a.v(6)
	a.f("MUL", x, x, t)
	a.poly(t, near, erfNear...)
	a.f("FMADD213", x, x, near)
	a.f("AND", a.allButSign(), x, t)
	a.set(number(4), tmp)
	a.f("MIN", t, tmp, t)
	a.poly(t, far, erfFar...)
	a.f("MUL", t, far, far)
	a.expDown(far, k, p, tmp)
	a.set(number(1), k)
	a.f("SUB", far, k, far)
	a.f("AND", a.signBit(), x, k)
	a.f("OR", k, far, far)
	a.set(near, x)
	a.where(a.cmp(greater, number(1), t, 0, tmp), far, x) // NaN is not greater
}

// split makes x = 2^e (1 + m), with 1+m in [√½, √2), of a normal x.
func (a *asm) split(x, m, e vec) {
	a.op("VPSUBD", word(sqrtHalf), x.copy(a, m), m)
	a.imm("VPSRAD", Imm(23), m, e)
	a.op("VPAND"+a.d(), word(1<<23-1), m, m)
	a.op("VPADDD", word(sqrtHalf), m, m)
	a.f("SUB", number(1), m, m)
	a.op("VCVTDQ2PS", e, e)
}

// onePlus makes 1+x = 2^e (1 + m) as split does, without rounding 1+x first: m = 2^-e x + (2^-e -
// 1). x stays, tmp becomes 1+x.
func (a *asm) onePlus(x, m, e, tmp vec) {
	a.f("ADD", number(1), x, tmp)
	a.op("VPSUBD", word(sqrtHalf), tmp.copy(a, e), e)
	a.op("VPAND"+a.d(), word(0xff800000), e, m)
	a.imm("VPSRAD", Imm(23), e, e)
	a.set(word(one), tmp)
	a.op("VPSUBD", m, tmp, tmp) // 2^-e
	a.f("SUB", number(1), tmp, m)
	a.f("FMADD231", x, tmp, m)
	a.op("VCVTDQ2PS", e, e)
}

// copy returns dst as a copy of v.
func (v vec) copy(a *asm, dst vec) vec {
	a.set(v, dst)
	return dst
}

// d is the suffix of bitwise integer instructions.
func (a *asm) d() string {
	if a.wide {
		return "D"
	}
	return ""
}

// logRest computes log(1+m) - m, without its last term -m²/2, which is square.
func (a *asm) logRest(m, p, square vec) {
	a.f("MUL", m, m, square)
	a.poly(m, p, logPoly...)
	a.f("MUL", m, p, p)
	a.f("MUL", square, p, p)
}

// logTail replaces m by log(1+m) + e log 2.
func (a *asm) logTail(m, e, p, square vec) {
	a.logRest(m, p, square)
	a.f("FMADD231", number(ln2Lo), e, p)
	a.f("FNMADD231", number(0.5), square, p)
	a.f("ADD", p, m, m)
	a.f("FMADD231", number(ln2Hi), e, m)
}

// log2Tail replaces m by log2(1+m) + e. The factor log2(e) is taken as 1 and a rest.
func (a *asm) log2Tail(m, e, p, square vec) {
	a.logRest(m, p, square)
	a.f("FNMADD231", number(0.5), square, p)
	a.f("MUL", number(log2e-1), p, square)
	a.f("FMADD231", number(log2e-1), m, square)
	a.f("ADD", p, square, p)
	a.f("ADD", p, m, m)
	a.f("ADD", e, m, m)
}

// logEdges sets y where x is no positive finite number: -Inf of 0, NaN below, and of Inf and NaN
// themselves.
func (a *asm) logEdges(x, y, tmp vec) {
	a.where(a.cmp(notLess, inf, x, 0, tmp), x, y)
	a.where(a.cmp(less, number(0), x, 0, tmp), nan, y)
	a.where(a.cmp(equal, number(0), x, 0, tmp), -inf, y)
}

// log1p computes the logarithm of 1+x, where the 1 has no effect beyond 2^24. It has the sign of x.
func log1p(a *asm) {
	x, m, e, tmp, sum := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4)
	a.f("ADD", number(1), x, sum)
	a.onePlus(x, m, e, tmp)
	large := a.v(5)
	a.split(sum, tmp, large)
	a.where(a.cmp(greater, number(1<<24), x, 0, a.v(6)), tmp, m)
	a.logTail(m, e, tmp, large)
	a.logEdges(sum, m, tmp)
	a.f("AND", a.signBit(), x, x)
	a.f("OR", x, m, x)
}
