package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in cpu.windowCall; a test there compares them.
const (
	windowX      = 0
	windowY      = 24
	windowIndex  = 48
	windowRows   = 72
	windowStride = 80
	windowPlace  = 88
	windowWidth  = 96
	windowImage  = 104
	windowKernel = 112
	windowPad    = 120
	windowStep   = 128
)

const windowStandIn = "*int32"

// Registers of the kernels for rows of any windows. The column of an image is that of the first lane.
var (
	windowLeft  = RBX // results left
	windowFrom  = R15 // the column where the first lane's window starts
	windowRow   = RSI // the row of the image
	windowTall  = R8  // rows left
	windowTaps  = R11 // pixels of this row of the window left
	windowPut   = R12 // the place in the window
	windowAt    = R13 // the column of the pixel
	windowSpare = RDX
)

// windows runs begin, then tap for every pixel of the windows of n results at a time, then finish. Both kernels visit
// pixels in the same order, the one in which the first of equals wins.
func windows(n int, begin, tap, finish func()) {
	MOVQ(Mem{Base: args, Disp: windowY}, result)
	MOVQ(Mem{Base: args, Disp: windowIndex}, places)
	MOVQ(Mem{Base: args, Disp: windowWidth}, windowLeft)
	XORQ(windowFrom, windowFrom)
	SUBQ(Mem{Base: args, Disp: windowPad}, windowFrom)
	Label("results")
	begin()
	MOVQ(Mem{Base: args, Disp: windowX}, windowRow)
	MOVQ(Mem{Base: args, Disp: windowRows}, windowTall)
	MOVQ(Mem{Base: args, Disp: windowPlace}, windowPut)
	Label("rows")
	MOVQ(Mem{Base: args, Disp: windowKernel}, windowTaps)
	MOVQ(windowFrom, windowAt)
	Label("taps")
	tap()
	INCQ(windowPut)
	INCQ(windowAt)
	DECQ(windowTaps)
	JNE(LabelRef("taps"))
	MOVQ(Mem{Base: args, Disp: windowStride}, windowSpare)
	LEAQ(Mem{Base: windowRow, Index: windowSpare, Scale: 4}, windowRow)
	DECQ(windowTall)
	JNE(LabelRef("rows"))
	finish()
	MOVQ(Mem{Base: args, Disp: windowStep}, windowSpare)
	IMUL3Q(Imm(uint64(n)), windowSpare, windowSpare)
	ADDQ(windowSpare, windowFrom)
	ADDQ(Imm(uint64(4*n)), result)
	ADDQ(Imm(uint64(n)), places)
	SUBQ(Imm(uint64(n)), windowLeft)
	JG(LabelRef("results"))
	VZEROUPPER()
	RET()
}

// ifAdjacent runs one for windows at distance 1, else two.
func ifAdjacent(one, two func()) {
	CMPQ(Mem{Base: args, Disp: windowStep}, Imm(1))
	JNE(LabelRef("apart"))
	one()
	JMP(LabelRef("loaded"))
	Label("apart")
	two()
	Label("loaded")
}

// wideWindow writes the maximum of any windows at distance 1 or 2 and its place, 16 results at a time.
func (t *poolTables) wideWindow() {
	TEXT("wideWindow", NOSPLIT, "func(c "+windowStandIn+")")
	Doc("wideWindow takes the maximum of a row of windows at distance 1 or 2, and its place.")
	Pragma("noescape")
	Load(Param("c"), args)
	VMOVDQU32(t.even, Z16)
	best, place, v, more := Z0, Z1, Z2, Z3
	pixel := Mem{Base: windowRow, Index: windowAt, Scale: 4}
	windows(16, func() {
		VPXORD(best, best, best)
		VPXORD(place, place, place)
		KXNORW(K6, K6, K6) // the lanes that have seen no pixel
	}, func() {
		// RAX: of the pixels from windowAt on, those in the image: from -windowAt up to its width - windowAt.
		XORQ(RCX, RCX)
		MOVQ(Mem{Base: args, Disp: windowImage}, windowSpare)
		SUBQ(windowAt, windowSpare)
		CMOVQLT(RCX, windowSpare)
		MOVQ(U32(32), RAX)
		CMPQ(windowSpare, RAX)
		CMOVQGT(RAX, windowSpare)
		MOVQ(I32(-1), RAX)
		BZHIQ(windowSpare, RAX, RAX)
		MOVQ(windowAt, windowSpare)
		NEGQ(windowSpare)
		CMOVQLT(RCX, windowSpare)
		MOVQ(U32(32), RCX)
		CMPQ(windowSpare, RCX)
		CMOVQGT(RCX, windowSpare)
		SHRXQ(windowSpare, RAX, RAX)
		SHLXQ(windowSpare, RAX, RAX)
		KMOVW(EAX, K2)
		ifAdjacent(func() {
			VMOVUPS_Z(pixel, K2, v)
			KMOVW(EAX, K5)
		}, func() {
			MOVQ(RAX, RCX)
			SHRQ(Imm(16), RCX)
			KMOVW(ECX, K3)
			VMOVUPS_Z(pixel, K2, v)
			VMOVUPS_Z(pixel.Offset(64), K3, more)
			VPERMT2PS(more, Z16, v)
			MOVL(U32(0x55555555), ECX)
			PEXTL(ECX, EAX, EAX)
			KMOVW(EAX, K5)
		})
		VCMPPS(Imm(ordered), best, best, K4)
		VCMPPS(Imm(notAtMost), best, v, K4, K4)
		KORW(K6, K4, K4)
		KANDW(K5, K4, K4)
		KANDNW(K6, K5, K6)
		VMOVAPS(v, K4, best)
		VPBROADCASTD(windowPut.As32(), K4, place)
	}, func() {
		MOVQ(I32(-1), RAX)
		BZHIQ(windowLeft, RAX, RAX)
		KMOVW(EAX, K1)
		VMOVUPS(best, K1, Mem{Base: result})
		VPMOVDB(place, K1, Mem{Base: places})
	})
}

// window writes the same with AVX2, 8 results at a time.
func (t *poolTables) window() {
	iota := table("windowLanes", 0, 1, 2, 3, 4, 5, 6, 7)
	TEXT("window2", NOSPLIT, "func(c "+windowStandIn+")")
	Doc("window2 takes the maximum of a row of windows at distance 1 or 2, and its place.")
	Pragma("noescape")
	Load(Param("c"), args)
	best, place, started, v, more := Y0, Y1, Y2, Y3, Y4
	inside, insideMore, spare, column, take := Y5, Y6, Y7, Y8, Y9
	VMOVDQU(iota, Y15)
	VPBROADCASTD(Mem{Base: args, Disp: windowImage}, Y14)
	VPCMPEQD(Y13, Y13, Y13) // -1
	pixel := Mem{Base: windowRow, Index: windowAt, Scale: 4}
	valid := func(dst VecPhysical) { // which columns lie in the image
		VPCMPGTD(Y13, column, dst)
		VPCMPGTD(column, Y14, spare)
		VPAND(spare, dst, dst)
	}
	windows(8, func() {
		for _, r := range []VecPhysical{best, place, started} {
			VPXOR(r, r, r)
		}
	}, func() {
		VMOVD(windowAt.As32(), X8)
		VPBROADCASTD(X8, column)
		VPADDD(Y15, column, column)
		valid(inside)
		VMASKMOVPS(pixel, inside, v)
		ifAdjacent(func() {}, func() {
			LEAQ(Mem{Base: windowAt, Disp: 8}, RAX)
			VMOVD(EAX, X8)
			VPBROADCASTD(X8, column)
			VPADDD(Y15, column, column)
			valid(insideMore)
			VMASKMOVPS(pixel.Offset(32), insideMore, more)
			for _, pair := range [][2]VecPhysical{{v, more}, {inside, insideMore}} {
				VSHUFPS(Imm(0x88), pair[1], pair[0], pair[0])
				VPERMPD(Imm(0xd8), pair[0], pair[0])
			}
		})
		VCMPPS(Imm(ordered), best, best, spare)
		VCMPPS(Imm(notAtMost), best, v, take)
		VANDPS(spare, take, take)
		VPXOR(Y13, started, spare)
		VPOR(spare, take, take)
		VPAND(inside, take, take)
		VPOR(inside, started, started)
		VBLENDVPS(take, v, best, best)
		VMOVD(windowPut.As32(), X8)
		VPBROADCASTD(X8, column)
		VBLENDVPS(take, column, place, place)
	}, func() {
		MOVQ(U32(8), RCX)
		CMPQ(windowLeft, RCX)
		CMOVQLT(windowLeft, RCX)
		LEAQ(t.masks.Offset(128), RAX)
		MOVQ(RCX, windowSpare)
		SHLQ(Imm(2), windowSpare)
		SUBQ(windowSpare, RAX)
		VMOVUPS(Mem{Base: RAX}, spare)
		VMASKMOVPS(best, spare, Mem{Base: result})
		VEXTRACTI128(Imm(1), place, X8)
		VPACKUSDW(X8, X1, X1)
		VPACKUSWB(X1, X1, X1)
		VMOVQ(X1, RAX)
		XORQ(windowSpare, windowSpare)
		Label("byte")
		MOVB(AL, Mem{Base: places, Index: windowSpare, Scale: 1})
		SHRQ(Imm(8), RAX)
		INCQ(windowSpare)
		CMPQ(windowSpare, RCX)
		JLT(LabelRef("byte"))
	})
}
