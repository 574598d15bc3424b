package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// beginNorm opens a function that normalizes each row of results. It leaves denormal numbers as
// they are, like the elementwise operations with the same results.
func beginNorm(name string) {
	TEXT(name, NOSPLIT, "func(e "+endingType+")")
	Doc(name + " normalizes rows of at most two vectors.")
	Pragma("noescape")
	Load(Param("e"), args)
	MOVQ(Mem{Base: args, Disp: offC}, dst)
	MOVQ(Mem{Base: args, Disp: offMean}, src)
	MOVQ(Mem{Base: args, Disp: offScale}, to)
	MOVQ(Mem{Base: args, Disp: offShift}, from)
	MOVQ(Mem{Base: args, Disp: offRows}, count)
	MOVQ(Mem{Base: args, Disp: offRowC}, pitch)
	MOVQ(Mem{Base: args, Disp: endN}, tap)
	MOVQ(Mem{Base: args, Disp: offFlags}, masks)
}

// normRows emits the loops over rows, without and with ReLU. mean, scale and shift are registers
// for the numbers of a row, zero holds zeros; each loads, stores or passes a vector to f.
func (e elem) normRows(suffix string, mean, scale, shift, zero VecPhysical, each func(f func(v VecPhysical))) {
	TESTQ(U32(flagRelu), masks)
	JNE(LabelRef("relu" + suffix))
	for _, name := range []string{"norm", "relu"} {
		Label(name + suffix)
		for _, o := range []struct {
			at GPPhysical
			v  VecPhysical
		}{{src, mean}, {to, scale}, {from, shift}} {
			e.broadcast(Mem{Base: o.at}, o.v)
			ADDQ(Imm(uint64(e.size)), o.at)
		}
		each(func(v VecPhysical) {
			e.sub(mean, v, v)
			e.mul(scale, v, v)
			e.add(shift, v, v)
			if name == "relu" {
				e.max(v, zero, v) // the sum where it is not a number
			}
		})
		ADDQ(pitch, dst)
		DECQ(count)
		JNE(LabelRef(name + suffix))
		VZEROUPPER()
		RET()
	}
}

// wideNorm normalizes rows by AVX-512.
func (e elem) wideNorm() {
	beginNorm("wideNormRows" + e.name)
	e.wideEdge()
	VPXORD(Z3, Z3, Z3)
	e.normRows("", Z4, Z5, Z6, Z3, func(f func(v VecPhysical)) {
		for i, k := range []Register{K1, K2} {
			m, v := Mem{Base: dst, Disp: 64 * i}, zmm[i]
			e.loadZero(m, k, v)
			f(v)
			e.load(v, k, m)
		}
	})
}

// norm normalizes rows by AVX2.
func (e elem) norm(table Mem) {
	beginNorm("normRows" + e.name)
	VXORPS(Y3, Y3, Y3)
	CMPQ(tap, Imm(uint64(2*32/e.size)))
	JNE(LabelRef("edge"))
	e.normRows("", Y6, Y7, Y8, Y3, func(f func(v VecPhysical)) {
		for i := range 2 {
			m, v := Mem{Base: dst, Disp: 32 * i}, ymm[i]
			e.load(m, v)
			f(v)
			e.load(v, m)
		}
	})
	Label("edge")
	e.edge(table)
	e.normRows("_edge", Y6, Y7, Y8, Y3, func(f func(v VecPhysical)) {
		for i, k := range []VecPhysical{Y4, Y5} {
			m, v := Mem{Base: dst, Disp: 32 * i}, ymm[i]
			e.maskMove(m, k, v)
			f(v)
			e.maskMove(v, k, m)
		}
	})
}
