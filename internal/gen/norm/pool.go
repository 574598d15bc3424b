package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in pool2d.Args2x2; a test there compares them.
const (
	poolX      = 0
	poolY      = 24
	poolIndex  = 48
	poolRows   = 72
	poolWidth  = 80
	poolStride = 88
)

const poolStandIn = "*int8"

// Registers of the kernels for windows of 2x2: the two rows of the image, the result, and the count
// of elements left.
var (
	top    = RSI
	bottom = R8
	result = R9
	places = R10
	width  = R11
	stride = R12
	rows   = RBX
	left   = RDX
)

// Comparisons that keep the first of equals and let NaN win: not at most, and both numbers.
const (
	notAtMost = 6
	ordered   = 7
)

// poolTables are the tables that the kernels share.
type poolTables struct {
	masks     Mem
	even, odd Mem // of two vectors of 16, which elements
	pairs     Mem // every element twice, of 16 and of 8
	lanes     Mem // 0, 1, 2, ... 15
}

func newPoolTables(masks Mem) *poolTables {
	var even, odd, pairs, lanes []uint32
	for i := range uint32(16) {
		even, odd, lanes = append(even, 2*i), append(odd, 2*i+1), append(lanes, i)
	}
	for i := range uint32(32) {
		pairs = append(pairs, i/2)
	}
	return &poolTables{masks: masks, even: table("poolEven", even...), odd: table("poolOdd", odd...),
		pairs: table("poolPairs", pairs...), lanes: table("poolLanes", lanes...)}
}

// table is read-only data of 32-bit words.
func table(name string, words ...uint32) Mem {
	t := GLOBL(name, RODATA|NOPTR)
	for i, w := range words {
		DATA(4*i, U32(w))
	}
	return t
}

// poolLoop loads the arguments and runs body for each row of results: top, bottom, result and
// places are where it starts and left its results, and are where it ends afterwards.
func poolLoop(body func()) {
	Load(Param("c"), args)
	for _, p := range []struct {
		offset int
		reg    Register
	}{{poolX, top}, {poolY, result}, {poolIndex, places}, {poolRows, rows}, {poolWidth, width}, {poolStride, stride}} {
		MOVQ(Mem{Base: args, Disp: p.offset}, p.reg)
	}
	LEAQ(Mem{Base: top, Index: stride, Scale: 4}, bottom)
	MOVQ(stride, R13) // from the end of two rows of windows to the next two, in bytes: 8·(stride - width)
	SUBQ(width, R13)
	SHLQ(Imm(3), R13)
	Label("row")
	MOVQ(width, left)
	body()
	ADDQ(R13, top)
	ADDQ(R13, bottom)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// wideMasks sets K1 to the lanes of the left results, and K2, K3 to those of the pixels, up to 16
// and 32.
func wideMasks() {
	MOVQ(I32(-1), RAX)
	BZHIQ(left, RAX, RCX)
	KMOVW(ECX, K1)
	LEAQ(Mem{Base: left, Index: left, Scale: 1}, RCX)
	BZHIQ(RCX, RAX, RCX)
	KMOVW(ECX, K2)
	SHRQ(Imm(16), RCX)
	KMOVW(ECX, K3)
}

// poolSteps runs body for n results at a time, then edge for the rest, which must be fewer.
func poolSteps(n int, body, edge func()) {
	SUBQ(Imm(uint64(n)), left)
	JL(LabelRef("edge"))
	Label("more")
	body()
	ADDQ(Imm(uint64(8*n)), top)
	ADDQ(Imm(uint64(8*n)), bottom)
	ADDQ(Imm(uint64(4*n)), result)
	ADDQ(Imm(uint64(n)), places)
	SUBQ(Imm(uint64(n)), left)
	JGE(LabelRef("more"))
	Label("edge")
	ADDQ(Imm(uint64(n)), left)
	JE(LabelRef("next"))
	edge()
	LEAQ(Mem{Base: top, Index: left, Scale: 8}, top)
	LEAQ(Mem{Base: bottom, Index: left, Scale: 8}, bottom)
	LEAQ(Mem{Base: result, Index: left, Scale: 4}, result)
	ADDQ(left, places)
	Label("next")
}

// widePool writes the maximum of windows of 2x2 and its place, 16 windows at a time.
func (t *poolTables) widePool() {
	TEXT("widePool", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("widePool takes the maximum of windows of 2x2, and its place.")
	Pragma("noescape")
	VMOVDQU32(t.even, Z16)
	VMOVDQU32(t.odd, Z17)
	for i, z := range []VecPhysical{Z18, Z19, Z20} {
		MOVL(U32(uint32(i+1)), EAX)
		VPBROADCASTD(EAX, z)
	}
	read := func(m Mem, k Register, edge bool, dst VecPhysical) {
		if edge {
			VMOVUPS_Z(m, k, dst)
			return
		}
		VMOVUPS(m, dst)
	}
	step := func(edge bool) {
		if edge {
			wideMasks()
		}
		for i, base := range []GPPhysical{top, bottom} {
			a, b, o := zmm[3*i], zmm[3*i+1], zmm[3*i+2]
			read(Mem{Base: base}, K2, edge, a)
			read(Mem{Base: base, Disp: 64}, K3, edge, b)
			VMOVAPS(a, o)
			VPERMT2PS(b, Z16, a)
			VPERMT2PS(b, Z17, o)
		}
		best, place := Z0, Z7
		VPXORD(place, place, place)
		for i, v := range []VecPhysical{Z2, Z3, Z5} {
			VCMPPS(Imm(ordered), best, best, K4)
			VCMPPS(Imm(notAtMost), best, v, K4, K5)
			VMOVAPS(v, K5, best)
			VMOVDQA32([]VecPhysical{Z18, Z19, Z20}[i], K5, place)
		}
		if edge {
			VMOVUPS(best, K1, Mem{Base: result})
			VPMOVDB(place, K1, Mem{Base: places})
			return
		}
		VMOVUPS(best, Mem{Base: result})
		VPMOVDB(place, Mem{Base: places})
	}
	poolLoop(func() { poolSteps(16, func() { step(false) }, func() { step(true) }) })
}

// widePoolGrad writes each gradient to the place that won, and zeros beside it, 16 windows at a time.
func (t *poolTables) widePoolGrad() {
	TEXT("widePoolGrad", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("widePoolGrad writes gradients of windows of 2x2 to the places that won, and zeros elsewhere.")
	Pragma("noescape")
	VMOVDQU32(t.pairs, Z16)
	VMOVDQU32(t.pairs.Offset(64), Z17)
	placesOfRows(Z18, Z19)
	step := func(edge bool) {
		if edge {
			wideMasks()
			VMOVUPS_Z(Mem{Base: result}, K1, Z0)
			VPMOVZXBD_Z(Mem{Base: places}, K1, Z1)
		} else {
			VMOVUPS(Mem{Base: result}, Z0)
			VPMOVZXBD(Mem{Base: places}, Z1)
		}
		for i, pair := range []VecPhysical{Z16, Z17} {
			VPERMPS(Z0, pair, Z2)
			VPERMD(Z1, pair, Z3)
			for j, row := range []VecPhysical{Z18, Z19} {
				VPCMPEQD(row, Z3, K4)
				VMOVAPS_Z(Z2, K4, Z4)
				m := Mem{Base: []GPPhysical{top, bottom}[j], Disp: 64 * i}
				if edge {
					VMOVUPS(Z4, []Register{K2, K3}[i], m)
				} else {
					VMOVUPS(Z4, m)
				}
			}
		}
	}
	poolLoop(func() { poolSteps(16, func() { step(false) }, func() { step(true) }) })
}

// placesOfRows sets two registers to the places of pixels in windows: 0, 1, 0, 1, ... in the upper
// row, 2, 3, ... in the lower.
func placesOfRows(upper, lower VecPhysical) {
	for i, r := range []VecPhysical{upper, lower} {
		MOVQ(U64(uint64(2*i+1)<<32|uint64(2*i)), RAX)
		VMOVQ(RAX, X0)
		VPBROADCASTQ(X0, r)
	}
}

// edgeMasks leaves in RCX where the masks of 2·left pixels start, and in RAX those of left results.
func edgeMasks(masks Mem) {
	LEAQ(masks.Offset(128), RAX)
	MOVQ(left, RCX)
	SHLQ(Imm(2), RCX)
	SUBQ(RCX, RAX)
	NEGQ(RCX)
	ADDQ(RAX, RCX)
}

// pool writes the maximum of windows of 2x2 and its place with AVX2, 8 windows at a time.
func (t *poolTables) pool() {
	TEXT("pool2", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("pool2 takes the maximum of windows of 2x2, and its place.")
	Pragma("noescape")
	for i, y := range []VecPhysical{Y13, Y14, Y15} {
		MOVL(U32(uint32(i+1)), EAX)
		VMOVD(EAX, xmm[13+i])
		VPBROADCASTD(xmm[13+i], y)
	}
	step := func(edge bool) {
		if edge {
			edgeMasks(t.masks)
		}
		for i, base := range []GPPhysical{top, bottom} {
			a, b, e, o := ymm[4*i], ymm[4*i+1], ymm[4*i+2], ymm[4*i+3]
			for j, r := range []VecPhysical{a, b} {
				m := Mem{Base: base, Disp: 32 * j}
				if edge {
					VMOVUPS(Mem{Base: RCX, Disp: 32 * j}, Y12)
					VMASKMOVPS(m, Y12, r)
				} else {
					VMOVUPS(m, r)
				}
			}
			VSHUFPS(Imm(0x88), b, a, e)
			VSHUFPS(Imm(0xdd), b, a, o)
		}
		best, place := Y2, Y8
		VPXOR(place, place, place)
		for i, v := range []VecPhysical{Y3, Y6, Y7} {
			VCMPPS(Imm(ordered), best, best, Y9)
			VCMPPS(Imm(notAtMost), best, v, Y10)
			VANDPS(Y9, Y10, Y10)
			VBLENDVPS(Y10, v, best, best)
			VBLENDVPS(Y10, []VecPhysical{Y13, Y14, Y15}[i], place, place)
		}
		VPERMPD(Imm(0xd8), best, best) // out of the order that the shuffles left
		VPERMQ(Imm(0xd8), place, place)
		VEXTRACTI128(Imm(1), place, X9)
		VPACKUSDW(X9, X8, X8)
		VPACKUSWB(X8, X8, X8)
		if !edge {
			VMOVUPS(best, Mem{Base: result})
			VMOVQ(X8, Mem{Base: places})
			return
		}
		VMOVUPS(Mem{Base: RAX}, Y12)
		VMASKMOVPS(best, Y12, Mem{Base: result})
		VMOVQ(X8, RAX)
		XORQ(RCX, RCX)
		Label("byte")
		MOVB(AL, Mem{Base: places, Index: RCX, Scale: 1})
		SHRQ(Imm(8), RAX)
		INCQ(RCX)
		CMPQ(RCX, left)
		JLT(LabelRef("byte"))
	}
	poolLoop(func() { poolSteps(8, func() { step(false) }, func() { step(true) }) })
}

// poolGrad writes each gradient to the place that won, and zeros beside it, with AVX2, 8 windows at
// a time.
func (t *poolTables) poolGrad() {
	TEXT("poolGrad2", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("poolGrad2 writes gradients of windows of 2x2 to the places that won, and zeros elsewhere.")
	Pragma("noescape")
	VMOVDQU(t.pairs, Y12)
	VMOVDQU(t.pairs.Offset(32), Y13)
	placesOfRows(Y14, Y15)
	step := func(edge bool) {
		if edge {
			XORQ(RAX, RAX) // the places, byte by byte from the last on
			MOVQ(left, RCX)
			Label("byte")
			SHLQ(Imm(8), RAX)
			MOVBQZX(Mem{Base: places, Index: RCX, Scale: 1, Disp: -1}, RDI)
			ORQ(RDI, RAX)
			DECQ(RCX)
			JNE(LabelRef("byte"))
			VMOVQ(RAX, X1)
			VPMOVZXBD(X1, Y1)
			edgeMasks(t.masks)
			VMOVUPS(Mem{Base: RAX}, Y5)
			VMASKMOVPS(Mem{Base: result}, Y5, Y0)
		} else {
			VMOVUPS(Mem{Base: result}, Y0)
			VPMOVZXBD(Mem{Base: places}, Y1)
		}
		for i, pair := range []VecPhysical{Y12, Y13} {
			VPERMPS(Y0, pair, Y2)
			VPERMD(Y1, pair, Y3)
			if edge {
				VMOVUPS(Mem{Base: RCX, Disp: 32 * i}, Y5)
			}
			for j, row := range []VecPhysical{Y14, Y15} {
				VPCMPEQD(row, Y3, Y4)
				VANDPS(Y2, Y4, Y4)
				m := Mem{Base: []GPPhysical{top, bottom}[j], Disp: 32 * i}
				if edge {
					VMASKMOVPS(Y4, Y5, m)
				} else {
					VMOVUPS(Y4, m)
				}
			}
		}
	}
	poolLoop(func() { poolSteps(8, func() { step(false) }, func() { step(true) }) })
}
