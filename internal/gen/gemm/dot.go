package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/evenkeel/evenkeel/internal/gen/rounding"
)

// dots multiplies 8 rows of B, as they are stored, with one vector: products of one row and a
// transposed matrix, where packing would cost more than the sums. Lane l of a sum adds up the steps
// l, l+lanes, ...; then lanes are added.
//
// B is stored as t.kind says; the vector was rounded before.
func dots(masks Mem, e elem, r *rounding.Rounder) {
	name := "dots" + e.name
	if r != nil && r.Wide {
		name = "wideDots" + e.name
	}
	TEXT(name, NOSPLIT, "func(t "+untyped+")")
	Doc(fmt.Sprintf("%s multiplies t.a with n <= 8 rows of %s-bit floats, t.stepB bytes apart.", name, e.name))
	Pragma("noescape")
	a, k, at, t := dotA, dotCount, dotAt, RDI
	Load(Param("t"), t)
	flush(t, dotRows[0])
	MOVQ(Mem{Base: t, Disp: offB}, dotRows[0])
	MOVQ(Mem{Base: t, Disp: offStepB}, a)
	MOVQ(Mem{Base: t, Disp: offN}, at)
	rowPointers(dotRows, a, at, k)
	MOVQ(Mem{Base: t, Disp: offA}, a)
	MOVQ(Mem{Base: t, Disp: offK}, k)
	XORQ(at, at)
	for i := range dotRows {
		VXORPS(ymm[i], ymm[i], ymm[i])
	}
	if r != nil {
		choose(t)
	}
	e.dot(masks, "", e.size, func(m Mem, i int) { e.fma(m, dotX, ymm[i]) }, func(m Mem, i int) {
		e.maskMove(m, dotMask, dotValue)
		e.fma(dotValue, dotX, ymm[i])
	})
	if r != nil {
		words := AllocLocal(16)
		for _, n := range kinds {
			JMP(LabelRef("summed"))
			Label(n.label)
			if r.Wide {
				e.wideDot(n, r)
			} else {
				e.narrowDot(masks, n, r, words)
			}
		}
	}
	Label("summed")
	mask, value := dotMask, dotValue
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

// Registers of dots.
var (
	dotRows                 = []GPPhysical{RAX, RBX, RCX, RDX, R8, R9, R10, R11}
	dotA, dotCount, dotAt   = RSI, R12, R13 // dotAt counts elements
	dotX, dotMask, dotValue = Y8, Y9, Y10
)

// dot multiplies t.a with rows of elements of so many bytes. full multiplies dotX with a vector of
// row i, and some with its last elements: as many as dotMask, at dotAt, lets through, and as dotX
// has that are not 0.
func (e elem) dot(masks Mem, label string, size int, full, some func(m Mem, i int)) {
	a, k, at := dotA, dotCount, dotAt
	lanes := 32 / e.size
	SUBQ(Imm(uint64(lanes)), k)
	JL(LabelRef(label + "Rest"))
	Label(label + "Loop")
	e.load(Mem{Base: a, Index: at, Scale: uint8(e.size)}, dotX)
	for i, row := range dotRows {
		full(Mem{Base: row, Index: at, Scale: uint8(size)}, i)
	}
	ADDQ(Imm(uint64(lanes)), at)
	SUBQ(Imm(uint64(lanes)), k)
	JGE(LabelRef(label + "Loop"))
	Label(label + "Rest")
	ADDQ(Imm(uint64(lanes)), k)
	JLE(LabelRef("summed"))
	LEAQ(Mem{Base: a, Index: at, Scale: uint8(e.size)}, a)
	for _, row := range dotRows {
		LEAQ(Mem{Base: row, Index: at, Scale: uint8(size)}, row)
	}
	MOVQ(k, R14)
	maskOf(masks, e, R14, at)
	VMOVUPS(Mem{Base: at}, dotMask)
	e.maskMove(Mem{Base: a}, dotMask, dotX)
	for i, row := range dotRows {
		some(Mem{Base: row}, i)
	}
}

// narrowDot multiplies t.a with rows of a kind. words is a place for 16 bytes.
func (e elem) narrowDot(masks Mem, n kind, r *rounding.Rounder, words Mem) {
	r = n.hold(r, ymm[11:15])
	t, u := Y15, dotMask
	some := func(m Mem, i int) {
		e.maskMove(m, dotMask, dotValue)
		n.convert(r, dotValue, t, u)
		e.fma(dotValue, dotX, ymm[i])
		VMOVUPS(Mem{Base: dotAt}, dotMask)
	}
	if n.size == 2 {
		some = func(m Mem, i int) {
			copyWords(fmt.Sprintf("%sRow%d", n.label, i), m, words)
			n.load(r, words, dotValue, t, u)
			e.fma(dotValue, dotX, ymm[i])
		}
	}
	e.dot(masks, n.label, n.size, func(m Mem, i int) {
		n.load(r, m, dotValue, t, u)
		e.fma(dotValue, dotX, ymm[i])
	}, some)
}

// wideDot is narrowDot with AVX-512, which converts 16 elements at once. The sums have 8 lanes as ever.
func (e elem) wideDot(n kind, r *rounding.Rounder) {
	a, k, at := dotA, dotCount, dotAt
	r = n.hold(r, zmm[16:20])
	lower, upper := zmm[8], zmm[9] // of the vector
	value, t, half := zmm[10], zmm[11], zmm[12]
	row := func(i int) Mem { return Mem{Base: dotRows[i], Index: at, Scale: uint8(n.size)} }
	vector := Mem{Base: a, Index: at, Scale: 4}
	SUBQ(Imm(16), k)
	JL(LabelRef(n.label + "Eight"))
	Label(n.label + "Loop")
	VMOVUPS(vector, lower.AsY())
	vector.Disp = 32
	VMOVUPS(vector, upper.AsY())
	vector.Disp = 0
	for i := range dotRows {
		n.load(r, row(i), value, t, nil)
		e.fma(value.AsY(), lower.AsY(), ymm[i])
		VEXTRACTF32X8(Imm(1), value, half.AsY())
		e.fma(half.AsY(), upper.AsY(), ymm[i])
	}
	ADDQ(Imm(16), at)
	SUBQ(Imm(16), k)
	JGE(LabelRef(n.label + "Loop"))
	Label(n.label + "Eight")
	ADDQ(Imm(8), k)
	JL(LabelRef(n.label + "Rest"))
	VMOVUPS(vector, Y8)
	for i := range dotRows {
		n.load(r, row(i), Y10, Y11, nil)
		e.fma(Y10, Y8, ymm[i])
	}
	ADDQ(Imm(8), at)
	SUBQ(Imm(8), k)
	Label(n.label + "Rest")
	ADDQ(Imm(8), k)
	JLE(LabelRef("summed"))
	MOVQ(I32(-1), R14)
	BZHIQ(k, R14, R14)
	KMOVW(R14.As32(), K1)
	VMOVUPS_Z(vector, K1, Y8)
	for i := range dotRows {
		n.loadSome(row(i), K1, Y10)
		n.convert(r, Y10, Y11, nil)
		e.fma(Y10, Y8, ymm[i])
	}
}

// copyWords copies dotCount words, fewer than 8, to where they are then read as a vector, with
// zeros behind. It overwrites dotAt.
func copyWords(label string, from, to Mem) {
	left, word := R14, R15
	VXORPS(X15, X15, X15)
	VMOVUPS(X15, to)
	LEAQ(to, dotAt)
	MOVQ(dotCount, left)
	Label(label)
	MOVW(Mem{Base: from.Base, Index: left, Scale: 2, Disp: -2}, word.As16())
	MOVW(word.As16(), Mem{Base: dotAt, Index: left, Scale: 2, Disp: -2})
	DECQ(left)
	JNE(LabelRef(label))
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

// addLanes adds up the lanes of the eight sums in Y0 to Y7 and returns the vectors that hold the
// results in order.
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
