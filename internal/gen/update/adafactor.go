package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Adafactor's passes over elements of a row of float32, as many as a multiple of 16, in float64.
// Sixteen sums are added up in the same order by both instruction sets, which so give the same
// bits.

// Offsets in update.FactorScalars; a test there compares them.
const (
	offFactorScale   = 0
	offFactorMost    = 8
	offFactorLeast   = 16
	offFactorEpsilon = 24
	offFactorDecay   = 32
)

const factorType = "*int32" // stands for a pointer to update.FactorScalars

// A factors is the kernels for one instruction set.
type factors struct {
	wide bool
}

var (
	factorGrad  = RSI
	factorOther = RDI // sums or columns
	factorParam = R8
)

func (f *factors) parts() int {
	if f.wide {
		return 2
	}
	return 4
}

func (f *factors) reg(i int) VecPhysical {
	if f.wide {
		return zmm[i]
	}
	return ymm[i]
}

// floats is the place of vector i of a block of float32.
func (f *factors) floats(base Register, i int) Mem {
	return Mem{Base: base, Index: at, Scale: 4, Disp: 64 / f.parts() * i}
}

// doubles is the place of vector i of a block of float64.
func (f *factors) doubles(base Register, i int) Mem {
	return Mem{Base: base, Index: at, Scale: 8, Disp: 128 / f.parts() * i}
}

// Registers: a sum and a vector for each part, and numbers.
const (
	factorSum     = 0
	factorScale   = 4
	factorMost    = 5
	factorLeast   = 6
	factorEpsilon = 7
	factorValue   = 8
	factorStep    = 12
	factorDecay   = 13
	factorSpare   = 14
)

// begin opens a function of a gradient and of what else signature says, and loads what prepares
// gradients.
func (f *factors) begin(name, signature, doc string) {
	if f.wide {
		name = "wide" + strings.ToUpper(name[:1]) + name[1:]
	}
	TEXT(name, NOSPLIT, signature)
	Doc(name + " " + doc)
	Pragma("noescape")
	Load(Param("by"), args)
	Load(Param("g").Base(), factorGrad)
	Load(Param("g").Len(), count)
	f.number(offFactorScale, factorScale)
	f.number(offFactorMost, factorMost)
	f.number(offFactorLeast, factorLeast)
	XORQ(at, at)
}

func (f *factors) number(off, r int) { VBROADCASTSD(Mem{Base: args, Disp: off}, f.reg(r)) }

// loop emits the loop over blocks of 16 elements; body gets their prepared gradients.
func (f *factors) loop(body func(part int, g VecPhysical)) {
	SUBQ(U8(16), count)
	JL(LabelRef("done"))
	Label("loop")
	for i := range f.parts() {
		g := f.reg(factorValue + i)
		VCVTPS2PD(f.floats(factorGrad, i), g)
		VMULPD(f.reg(factorScale), g, g)
		VMINPD(g, f.reg(factorMost), g) // g where it is not a number
		VMAXPD(g, f.reg(factorLeast), g)
		body(i, g)
	}
	ADDQ(U8(16), at)
	SUBQ(U8(16), count)
	JGE(LabelRef("loop"))
	Label("done")
}

// clear sets the sums to 0.
func (f *factors) clear() {
	for i := range f.parts() {
		VXORPD(f.reg(factorSum+i).AsX(), f.reg(factorSum+i).AsX(), f.reg(factorSum+i).AsX())
	}
}

// total returns the sum of all sums.
func (f *factors) total() {
	n := f.parts() / 2
	for i := range n {
		VADDPD(f.reg(factorSum+n+i), f.reg(factorSum+i), f.reg(factorSum+i))
	}
	sum := f.reg(factorSum)
	if f.wide {
		VEXTRACTF64X4(U8(1), sum, f.reg(factorSum+1).AsY())
	}
	VADDPD(f.reg(factorSum+1).AsY(), sum.AsY(), sum.AsY())
	VEXTRACTF128(U8(1), sum.AsY(), f.reg(factorSum+1).AsX())
	VADDPD(f.reg(factorSum+1).AsX(), sum.AsX(), sum.AsX())
	VPERMILPD(U8(1), sum.AsX(), f.reg(factorSum+1).AsX())
	VADDSD(f.reg(factorSum+1).AsX(), sum.AsX(), sum.AsX())
	Store(sum.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// squares adds up squares along the row, and into the sums of columns.
func (f *factors) squares() {
	f.begin("factorSquares32", "func(sums []float64, g []float32, by "+factorType+") float64",
		"adds g² + epsilon of each element to sums, and returns the sum of all.")
	Load(Param("sums").Base(), factorOther)
	f.number(offFactorEpsilon, factorEpsilon)
	f.clear()
	f.loop(func(i int, g VecPhysical) {
		sum, column := f.reg(factorSum+i), f.doubles(factorOther, i)
		VFMADD213PD(f.reg(factorEpsilon), g, g)
		VADDPD(g, sum, sum)
		VADDPD(column, g, g)
		VMOVUPD(g, column)
	})
	f.total()
}

// measure adds up the squares of what a row's step is but for the row's own factor.
func (f *factors) measure() {
	f.begin("factorMeasure32", "func(columns []float64, g []float32, by "+factorType+") float64", "returns the sum of (g·columns)².")
	Load(Param("columns").Base(), factorOther)
	f.clear()
	f.loop(func(i int, g VecPhysical) {
		VMULPD(f.doubles(factorOther, i), g, g)
		VFMADD231PD(g, g, f.reg(factorSum+i))
	})
	f.total()
}

// apply subtracts the step of a row.
func (f *factors) apply() {
	f.begin("factorApply32", "func(p, g []float32, columns []float64, by "+factorType+", step float64)",
		"takes step·g·columns and decay·p away from p.")
	Load(Param("columns").Base(), factorOther)
	Load(Param("p").Base(), factorParam)
	f.number(offFactorDecay, factorDecay)
	Load(Param("step"), f.reg(factorStep).AsX())
	VBROADCASTSD(f.reg(factorStep).AsX(), f.reg(factorStep))
	f.loop(func(i int, g VecPhysical) {
		p, less, to := f.reg(factorSpare), f.reg(factorSum+i), f.floats(factorParam, i)
		VCVTPS2PD(to, p)
		VMULPD(f.doubles(factorOther, i), g, g)
		VMULPD(f.reg(factorDecay), p, less)
		VFNMADD231PD(f.reg(factorStep), g, p)
		VSUBPD(less, p, p)
		if f.wide {
			VCVTPD2PS(p, p.AsY())
			VMOVUPS(p.AsY(), to)
		} else {
			VCVTPD2PSY(p, p.AsX())
			VMOVUPS(p.AsX(), to)
		}
	})
	VZEROUPPER()
	RET()
}
