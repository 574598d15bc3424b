package main

import (
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Functions of float32 that compute in float64, and so need no care for rounding. Denormal operands
// and results stay.

// A widened is such a function: its body is given float64. Its result is vec 0, and so is the first
// operand.
type widened struct {
	name, doc string
	inputs    int
	reports   bool // returns whether an operand was outside of what it computes: see outside
	body      func(a *asm)
}

func widenedFunctions(a *asm) {
	for _, w := range []widened{
		{"sin", "computes dst = sin(a). It leaves a where |a| is above 2^30 or NaN, and reports whether one was.", 1, true, func(a *asm) { sine(a, 0) }},
		{"cos", "computes dst = cos(a). It leaves a where |a| is above 2^30 or NaN, and reports whether one was.", 1, true, func(a *asm) { sine(a, 1) }},
		{"pow", "computes dst = a to the power of b.", 2, false, pow},
	} {
		w.emit(a)
	}
	for _, d := range []decoder{
		{"Uint8", "byte", 1}, {"Int32", "int32", 4}, {"Float32", "float32", 4}, {"Float64", "float64", 8},
	} {
		d.emit(a)
	}
}

func (w widened) emit(a *asm) {
	signature := "func(" + strings.Join([]string{"dst", "a", "b"}[:1+w.inputs], ", ") + " []float32)"
	if w.reports {
		signature += " bool"
	}
	a.begin(w.name, signature, w.doc)
	a.size, a.width = 8, 1
	a.Load(a.Param("dst").Base(), dstPtr)
	a.Load(a.Param("dst").Len(), left)
	for i, n := range []string{"a", "b"}[:w.inputs] {
		a.Load(a.Param(n).Base(), srcPtrs[i])
	}
	if w.reports && a.wide {
		a.KXORW(K7, K7, K7)
	} else if w.reports {
		a.VXORPS(Y15, Y15, Y15)
	}
	step := U32(uint32(4 * a.lanes()))
	a.SUBQ(Imm(uint64(a.lanes())), left)
	a.JL(LabelRef("rest"))
	a.Label("loop")
	for i := range w.inputs {
		a.VCVTPS2PD(Mem{Base: srcPtrs[i]}, a.v(i)[0])
		a.ADDQ(step, srcPtrs[i])
	}
	w.body(a)
	a.narrow(a.v(0)[0])
	a.VMOVUPS(a.half(a.v(0)[0]), Mem{Base: dstPtr})
	a.ADDQ(step, dstPtr)
	a.SUBQ(Imm(uint64(a.lanes())), left)
	a.JGE(LabelRef("loop"))
	a.Label("rest")
	a.ADDQ(Imm(uint64(a.lanes())), left)
	a.JE(LabelRef("done"))
	if a.wide {
		a.MOVQ(I32(-1), ones)
		a.BZHIQ(left, ones, part)
		a.KMOVW(part.As32(), K1)
	} else {
		a.SHLQ(Imm(2), left)
		a.LEAQ(masksMiddle, part)
		a.SUBQ(left, part)
	}
	for i := range w.inputs {
		x := a.v(i)[0]
		if a.wide {
			a.VMOVUPS_Z(Mem{Base: srcPtrs[i]}, K1, x)
		} else {
			a.VMOVUPS(Mem{Base: part}, x.AsX())
			a.VMASKMOVPS(Mem{Base: srcPtrs[i]}, x.AsX(), x.AsX())
		}
		a.VCVTPS2PD(a.half(x), x)
	}
	w.body(a)
	a.narrow(a.v(0)[0])
	if a.wide {
		a.VMOVUPS(Z0, K1, Mem{Base: dstPtr})
	} else {
		a.VMOVUPS(Mem{Base: part}, X1)
		a.VMASKMOVPS(X0, X1, Mem{Base: dstPtr})
	}
	a.Label("done")
	if w.reports {
		a.report()
	}
	a.end()
	a.size = 4
}

// outside adds m to the reported lanes.
func (a *asm) outside(m mask) {
	if a.wide {
		a.KORW(m.k[0], K7, K7)
		return
	}
	a.VORPS(m.v[0], Y15, Y15)
}

// report returns whether outside was given a lane.
func (a *asm) report() {
	if a.wide {
		a.KMOVW(K7, EAX)
	} else {
		a.VMOVMSKPD(Y15, EAX)
	}
	a.TESTL(EAX, EAX)
	a.SETNE(AL)
	a.Store(AL, a.ReturnIndex(0))
}

// half is the register of half the size of x.
func (a *asm) half(x VecPhysical) Register {
	if a.wide {
		return x.AsY()
	}
	return x.AsX()
}

// narrow makes float32 of x, in its lower half.
func (a *asm) narrow(x VecPhysical) {
	if a.wide {
		a.VCVTPD2PS(x, x.AsY())
	} else {
		a.VCVTPD2PSY(x, x.AsX())
	}
}

// A decoder computes dst = scale·src + shift of stored elements.
type decoder struct {
	name string
	typ  string
	size int
}

// emit needs whole registers of float64.
func (d decoder) emit(a *asm) {
	a.begin("decode"+d.name+"To", "func(dst []float32, src []"+d.typ+", scale, shift float64)",
		"computes dst = scale·src + shift in float64, of a multiple of 8 elements.")
	a.size = 8
	a.width = 8 / a.lanes()
	a.Load(a.Param("dst").Base(), dstPtr)
	a.Load(a.Param("dst").Len(), left)
	a.Load(a.Param("src").Base(), srcPtrs[0])
	for i, n := range []string{"scale", "shift"} {
		address, err := a.Param(n).Resolve()
		if err != nil {
			panic(err)
		}
		a.broadcast(address.Addr, a.top(i))
	}
	a.SUBQ(Imm(8), left)
	a.JL(LabelRef("done"))
	a.Label("loop")
	x := a.v(0)
	for i := range x {
		m := Mem{Base: srcPtrs[0], Disp: i * a.lanes() * d.size}
		switch d.typ {
		case "byte":
			a.VPMOVZXBD(m, a.half(x[i]))
			a.VCVTDQ2PD(a.half(x[i]), x[i])
		case "int32":
			a.VCVTDQ2PD(m, x[i])
		case "float32":
			a.VCVTPS2PD(m, x[i])
		default:
			a.VMOVUPD(m, x[i])
		}
	}
	a.f("MUL", a.top(0), x, x)
	a.f("ADD", a.top(1), x, x)
	for i := range x {
		a.narrow(x[i])
		a.VMOVUPS(a.half(x[i]), Mem{Base: dstPtr, Disp: i * a.lanes() * 4})
	}
	a.ADDQ(U32(uint32(8*d.size)), srcPtrs[0])
	a.ADDQ(Imm(32), dstPtr)
	a.SUBQ(Imm(8), left)
	a.JGE(LabelRef("loop"))
	a.Label("done")
	a.end()
	a.size = 4
}

// Polynomials of sine and cosine: FreeBSD msun, k_sinf.c and k_cosf.c, with errors below 2^-37 and
// 2^-34.
var (
	sinPoly = []float64{0.0000027183114939898219064, -0.000198393348360966317347, 0.0083333293858894631756, -0.166666666416265235595}
	cosPoly = []float64{0.0000243904487962774090654, -0.00138867637746099294692, 0.0416666233237390631894, -0.499999997251031003120}
)

const (
	largest  = 1 << 30 // of sine and cosine
	wideOne  = bits64(1023 << 52)
	halfPi   = math.Pi / 2
	halfPiLo = 6.123233995736766e-17 // π/2 less its float64
)

// wideMagic is magic in float64.
var wideMagic = number(3 << 51)

// sine computes the sine of vec 0, moved on by quarters of the circle. It takes x = k π/2 + r, |r|
// <= π/4, with π/2 in two numbers, and the sine or cosine of r by the last bit of k, with the sign
// of the one before.
func sine(a *asm, quarters uint64) {
	x, k, r, square, p, q := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4), a.v(5)
	a.set(wideMagic, k)
	a.f("FMADD231", number(2/math.Pi), x, k)
	a.f("SUB", wideMagic, k, p)
	a.set(x, r)
	a.f("FNMADD231", number(halfPi), p, r)
	a.f("FNMADD231", number(halfPiLo), p, r)
	if quarters > 0 {
		a.op("VPADDQ", bits64(quarters), k, k)
	}
	a.f("MUL", r, r, square)
	a.poly(square, p, sinPoly...)
	a.f("MUL", square, p, p)
	a.f("FMADD213", r, r, p)
	a.poly(square, q, cosPoly...)
	a.f("FMADD213", number(1), square, q)
	a.imm("VPSLLQ", Imm(63), k, r)
	a.where(a.signs(r), q, p)
	a.imm("VPSRLQ", Imm(1), k, k)
	a.imm("VPSLLQ", Imm(63), k, k)
	a.f("XOR", k, p, p)
	a.f("AND", a.allButSign(), x, k)
	out := a.cmp(notLessEqual, number(largest), k, 0, k)
	a.outside(out)
	a.where(out, x, p)
	a.set(p, x)
}

// signs is the mask of the lanes whose sign is set.
func (a *asm) signs(x vec) mask {
	if a.wide {
		a.VPMOVQ2M(x[0], K2)
		return mask{k: ks[:1]}
	}
	return mask{v: x}
}

// pow is 2 to the b log2 |a|, with the sign and the special cases of C's pow. Both series are
// Taylor's: log(m) = 2 atanh(s) with s = (m-1)/(m+1), |s| < 0.172, cut off below 2^-39, and exp(z),
// |z| < 0.35, cut off below 2^-38.
func pow(a *asm) {
	x, y, m, e, p, s, base := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4), a.v(5), a.v(6)
	a.f("AND", a.allButSign(), x, base)
	sqrtHalf := math.Float64bits(math.Sqrt(0.5))
	a.op("VPADDQ", bits64(uint64(wideOne)-sqrtHalf), base.copy(a, m), m)
	a.imm("VPSRLQ", Imm(52), m, e)
	a.f("OR", number(1<<52), e, e)
	a.f("SUB", number(1<<52+1023), e, e)
	a.f("AND", bits64(1<<52-1), m, m)
	a.op("VPADDQ", bits64(sqrtHalf), m, m)
	a.f("ADD", number(1), m, p)
	a.f("SUB", number(1), m, m)
	a.f("DIV", p, m, m) // s
	a.f("MUL", m, m, s)
	a.poly(s, p, 1./13, 1./11, 1./9, 1./7, 1./5, 1./3, 1)
	a.f("MUL", m, p, p)
	a.f("FMADD231", number(2*math.Log2E), p, e) // log2 of base
	a.where(a.cmp(equal, number(0), base, 0, s), -inf, e)
	a.where(a.cmp(equal, inf, base, 0, s), inf, e)
	a.f("MUL", y, e, e)
	a.clip(e, s, -200, 200)
	a.set(wideMagic, m)
	a.f("ADD", e, m, m)
	a.f("SUB", wideMagic, m, s)
	a.f("SUB", s, e, e)
	a.f("MUL", number(math.Ln2), e, e)
	a.poly(e, p, 1./362880, 1./40320, 1./5040, 1./720, 1./120, 1./24, 1./6, 1./2, 1, 1)
	a.imm("VPSLLQ", Imm(52), m, m)
	a.op("VPADDQ", wideOne, m, m)
	a.f("MUL", m, p, p)
	powSpecial(a)
	a.set(p, x)
}

// powSpecial sets the sign of the power, and what it is of numbers below zero, ones, zeros,
// infinity and NaN.
func powSpecial(a *asm) {
	x, y, p, base, whole, half, tmp := a.v(0), a.v(1), a.v(4), a.v(6), a.v(7), a.v(8), a.v(9)
	a.round(9, y, whole)
	a.f("MUL", number(0.5), y, half)
	a.round(9, half, tmp)
	a.f("SUB", tmp, half, half)
	odd := a.cmp(equal, number(0.5), half, 0, half)
	a.f("AND", a.signBit(), x, tmp)
	a.keep(odd, tmp, tmp)
	a.f("XOR", tmp, p, p)
	// Of a finite number below zero, a power that is not whole is NaN.
	a.keep(a.cmp(unequal, whole, y, 0, half), nan, tmp)
	a.keep(a.cmp(less, number(0), x, 0, half), tmp, tmp)
	a.keep(a.cmp(less, inf, base, 0, half), tmp, tmp)
	a.f("OR", tmp, p, p)
	a.where(a.cmp(unordered, x, x, 0, half), nan, p)
	a.where(a.cmp(equal, number(0), y, 0, half), number(1), p)
	a.where(a.cmp(equal, number(1), x, 0, half), number(1), p)
	// So is -1 to an infinite power 1.
	a.f("AND", a.allButSign(), y, tmp)
	a.keep(a.cmp(equal, inf, tmp, 0, half), base, tmp)
	a.where(a.cmp(equal, number(1), tmp, 0, half), number(1), p)
}
