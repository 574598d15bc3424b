package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// dots multiplies 8 rows of B, as they are stored, with one vector: products of one row and a transposed matrix, where
// packing would cost more than the sums. Lane l of a sum adds up the steps l, l+lanes, ...; then lanes are added.
func dots(masks Mem, e elem) {
	name := "dots" + e.name
	TEXT(name, NOSPLIT, "func(t "+untyped+")")
	Doc(fmt.Sprintf("%s multiplies t.a with n <= 8 rows of %s-bit floats, t.stepB bytes apart.", name, e.name))
	Pragma("noescape")
	p := []GPPhysical{RAX, RBX, RCX, RDX, R8, R9, R10, R11}
	a, k, at, t := RSI, R12, R13, RDI
	Load(Param("t"), t)
	flush(t, p[0])
	MOVQ(Mem{Base: t, Disp: offB}, p[0])
	MOVQ(Mem{Base: t, Disp: offStepB}, a)
	MOVQ(Mem{Base: t, Disp: offN}, at)
	rowPointers(p, a, at, k)
	MOVQ(Mem{Base: t, Disp: offA}, a)
	MOVQ(Mem{Base: t, Disp: offK}, k)
	XORQ(at, at)
	for i := range p {
		VXORPS(ymm[i], ymm[i], ymm[i])
	}
	x, mask, value := Y8, Y9, Y10
	lanes := 32 / e.size
	SUBQ(Imm(uint64(lanes)), k)
	JL(LabelRef("rest"))
	Label("loop")
	e.load(Mem{Base: a, Index: at, Scale: 1}, x)
	for i := range p {
		e.fma(Mem{Base: p[i], Index: at, Scale: 1}, x, ymm[i])
	}
	ADDQ(Imm(32), at)
	SUBQ(Imm(uint64(lanes)), k)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(uint64(lanes)), k)
	JLE(LabelRef("summed"))
	ADDQ(at, a)
	for i := range p {
		ADDQ(at, p[i])
	}
	maskOf(masks, e, k, at)
	VMOVUPS(Mem{Base: at}, mask)
	e.maskMove(Mem{Base: a}, mask, x)
	for i := range p {
		e.maskMove(Mem{Base: p[i]}, mask, value)
		e.fma(value, x, ymm[i])
	}
	Label("summed")
	vectors := e.addLanes()
	MOVQ(Mem{Base: t, Disp: offN}, k)
	maskOf(masks, e, k, at)
	MOVQ(Mem{Base: t, Disp: offC}, a)
	MOVQ(Mem{Base: t, Disp: offFlags}, k)
	TESTQ(U32(flagAdd), k)
	JE(LabelRef("store"))
	for v, sum := range vectors {
		VMOVUPS(Mem{Base: at, Disp: 32 * v}, mask)
		e.maskMove(Mem{Base: a, Disp: 32 * v}, mask, value)
		e.add(value, sum, sum)
	}
	Label("store")
	for v, sum := range vectors {
		VMOVUPS(Mem{Base: at, Disp: 32 * v}, mask)
		e.maskMove(sum, mask, Mem{Base: a, Disp: 32 * v})
	}
	restore(t)
	VZEROUPPER()
	RET()
}

// maskOf leaves in at where a mask of n elements starts, and spoils n.
func maskOf(masks Mem, e elem, n, at GPPhysical) {
	LEAQ(masks.Offset(128), at)
	if e.size == 8 {
		SHLQ(Imm(3), n)
	} else {
		SHLQ(Imm(2), n)
	}
	SUBQ(n, at)
}

// addLanes adds up the lanes of the eight sums in Y0 to Y7 and returns the vectors that hold the results in order.
func (e elem) addLanes() []VecPhysical {
	if e.size == 4 {
		for i := 0; i < 8; i += 2 {
			VHADDPS(ymm[i+1], ymm[i], ymm[i])
		}
		VHADDPS(Y2, Y0, Y0) // rows 0 to 3, half in the lower lanes and half in the upper
		VHADDPS(Y6, Y4, Y4) // rows 4 to 7
		VPERM2F128(Imm(0x20), Y4, Y0, Y1)
		VPERM2F128(Imm(0x31), Y4, Y0, Y2)
		VADDPS(Y2, Y1, Y0)
		return []VecPhysical{Y0}
	}
	for i := 0; i < 8; i += 2 {
		VHADDPD(ymm[i+1], ymm[i], ymm[i])
	}
	for i := 0; i < 8; i += 4 {
		VPERM2F128(Imm(0x20), ymm[i+2], ymm[i], ymm[i+1])
		VPERM2F128(Imm(0x31), ymm[i+2], ymm[i], ymm[i+3])
		VADDPD(ymm[i+3], ymm[i+1], ymm[i])
	}
	return []VecPhysical{Y0, Y4}
}
