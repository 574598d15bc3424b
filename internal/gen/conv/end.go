package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// beginEnd opens a function that adds a bias to each row of results, and clears negative values.
func beginEnd(name string) {
	TEXT(name, NOSPLIT, "func(e "+endingType+")")
	Doc(name + " ends rows of at most two vectors.")
	Pragma("noescape")
	flush()
	Load(Param("e"), args)
	MOVQ(Mem{Base: args, Disp: offC}, dst)
	MOVQ(Mem{Base: args, Disp: offBias}, src)
	MOVQ(Mem{Base: args, Disp: offRows}, count)
	MOVQ(Mem{Base: args, Disp: offRowC}, pitch)
	MOVQ(Mem{Base: args, Disp: endN}, tap)
	MOVQ(Mem{Base: args, Disp: offFlags}, masks)
}

// rows emits the loop over rows for one pair of flags; row ends the row at dst.
func rows(e elem, value VecPhysical, name string, bias bool, row func()) {
	Label(name)
	if bias {
		e.broadcast(Mem{Base: src}, value)
		ADDQ(Imm(uint64(e.size)), src)
	}
	row()
	ADDQ(pitch, dst)
	DECQ(count)
	JNE(LabelRef(name))
	leave()
}

// ways emits the loop for each pair of flags.
func ways(e elem, value VecPhysical, suffix string, row func(bias, relu bool)) {
	TESTQ(U32(flagBias), masks)
	JE(LabelRef("relu" + suffix))
	TESTQ(U32(flagRelu), masks)
	JE(LabelRef("bias" + suffix))
	rows(e, value, "both"+suffix, true, func() { row(true, true) })
	rows(e, value, "bias"+suffix, true, func() { row(true, false) })
	rows(e, value, "relu"+suffix, false, func() { row(false, true) })
}

// wideEnd ends rows by AVX-512.
func (e elem) wideEnd() {
	beginEnd("wideEndRows" + e.name)
	e.wideEdge()
	VPXORD(Z3, Z3, Z3)
	ways(e, Z2, "", func(bias, relu bool) {
		for v, k := range []Register{K1, K2} {
			m := Mem{Base: dst, Disp: 64 * v}
			e.loadZero(m, k, Z0)
			if bias {
				e.add(Z2, Z0, Z0)
			}
			if relu {
				e.max(Z0, Z3, Z0) // the sum where it is not a number
			}
			e.load(Z0, k, m)
		}
	})
}

// end ends rows by AVX2.
func (e elem) end(table Mem) {
	lanes := 32 / e.size
	beginEnd("endRows" + e.name)
	VXORPS(Y3, Y3, Y3)
	masks := []VecPhysical{Y4, Y5}
	CMPQ(tap, Imm(uint64(2*lanes)))
	JNE(LabelRef("edge"))
	emit := func(suffix string, edge bool) {
		ways(e, Y2, suffix, func(bias, relu bool) {
			for v, k := range masks {
				m := Mem{Base: dst, Disp: 32 * v}
				if edge {
					e.maskMove(m, k, Y0)
				} else {
					e.load(m, Y0)
				}
				if bias {
					e.add(Y2, Y0, Y0)
				}
				if relu {
					e.max(Y0, Y3, Y0)
				}
				if edge {
					e.maskMove(Y0, k, m)
				} else {
					e.load(Y0, m)
				}
			}
		})
	}
	emit("", false)
	Label("edge")
	e.edge(table)
	emit("_edge", true)
}

// wideEdge makes K1 and K2 the masks of the columns of two vectors.
func (e elem) wideEdge() {
	MOVQ(I32(-1), temp)
	BZHIQ(tap, temp, temp)
	KMOVW(temp.As32(), K1)
	SHRQ(Imm(uint64(64/e.size)), temp)
	KMOVW(temp.As32(), K2)
}

// edge makes Y4 and Y5 the masks of the columns of two vectors.
func (e elem) edge(table Mem) {
	MOVQ(tap, X1)
	if e.size == 4 {
		VPBROADCASTD(X1, Y1)
		VPCMPGTD(table, Y1, Y4)
		VPCMPGTD(table.Offset(32), Y1, Y5)
	} else {
		VPBROADCASTQ(X1, Y1)
		VPCMPGTQ(table, Y1, Y4)
		VPCMPGTQ(table.Offset(32), Y1, Y5)
	}
}

// laneTable holds i in lane i of two vectors.
func (e elem) laneTable() Mem {
	table := GLOBL("lanes"+e.name, RODATA|NOPTR)
	for i := range 64 / e.size {
		if e.size == 4 {
			DATA(4*i, U32(uint32(i)))
		} else {
			DATA(8*i, U64(uint64(i)))
		}
	}
	return table
}
