package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in pool2d.RowArgs; a test there compares them.
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
	windowShare  = 136
)

const windowStandIn = "*int32"

// windowAhead is how far ahead rows are brought near, in bytes: too many instructions lie between
// two loads for the processor to see so far.
const windowAhead = 2048

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

// windows runs begin, then tap for every pixel of the windows of n results at a time, then finish.
// Both kernels visit pixels in the same order, the one in which the first of equals wins.
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
	for line := 0; line < 8*n; line += 64 {
		PREFETCHT0(Mem{Base: windowRow, Index: windowAt, Scale: 4, Disp: windowAhead + line})
	}
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

// The best pixel starts as -Inf at the place of the first pixel in the image, and pixels outside
// are -Inf too: they never win. A lane compares pixels until it holds NaN.

// minusInfinity broadcasts -Inf.
func minusInfinity(dst VecPhysical, low Register) {
	MOVL(U32(0xff800000), EAX)
	VMOVD(EAX, low)
	VBROADCASTSS(low, dst)
}

// firstPlaces sets dst to the place of each lane's first pixel in the image: further right where
// its window starts left of it.
func firstPlaces(lanes, zero, dst, spare VecPhysical, low Register) {
	VPBROADCASTD(Mem{Base: args, Disp: windowStep}, dst)
	VPMULLD(lanes, dst, dst)
	VMOVD(windowFrom.As32(), low)
	VPBROADCASTD(low, spare)
	VPADDD(spare, dst, dst)
	VPSUBD(dst, zero, dst)
	VPMAXSD(zero, dst, dst)
	VPBROADCASTD(Mem{Base: args, Disp: windowPlace}, spare)
	VPADDD(spare, dst, dst)
}

// wideWindow writes the maximum of any windows at distance 1 or 2 and its place, 16 results at a time.
func (t *poolTables) wideWindow() {
	TEXT("wideWindow", NOSPLIT, "func(c "+windowStandIn+")")
	Doc("wideWindow takes the maximum of a row of windows at distance 1 or 2, and its place.")
	Pragma("noescape")
	Load(Param("c"), args)
	best, place, v, more := Z0, Z1, Z2, Z3
	even, lanes, least, zero := Z16, Z17, Z18, Z19
	VMOVDQU32(t.even, even)
	VMOVDQU32(t.lanes, lanes)
	minusInfinity(least, X18)
	VPXORD(zero, zero, zero)
	pixel := Mem{Base: windowRow, Index: windowAt, Scale: 4}
	windows(16, func() {
		firstPlaces(lanes, zero, place, v, X2)
		VMOVAPS(least, best)
		KXNORW(K6, K6, K6) // the lanes that hold a number
	}, func() {
		insideBits()
		KMOVW(EAX, K2)
		VMOVAPS(least, v)
		VMOVUPS(pixel, K2, v)
		ifAdjacent(func() {}, func() {
			SHRQ(Imm(16), RAX)
			KMOVW(EAX, K3)
			VMOVAPS(least, more)
			VMOVUPS(pixel.Offset(64), K3, more)
			VPERMT2PS(more, even, v)
		})
		VCMPPS(Imm(notAtMost), best, v, K6, K4)
		VCMPPS(Imm(ordered), v, v, K5)
		KANDW(K5, K6, K6)
		VMOVAPS(v, K4, best)
		VPBROADCASTD(windowPut.As32(), K4, place)
	}, func() {
		wideLastMask()
		VMOVUPS(best, K1, Mem{Base: result})
		VPMOVDB(place, K1, Mem{Base: places})
	})
}

// insideBits sets bit k of RAX where column windowAt + k lies in the image: from -windowAt up to
// its width - windowAt.
func insideBits() {
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
}

// wideLastMask sets K1 to the lanes of those of the next 16 results that exist. BZHI counts modulo
// 256, a row may have more.
func wideLastMask() {
	MOVQ(U32(16), RCX)
	CMPQ(windowLeft, RCX)
	CMOVQLT(windowLeft, RCX)
	MOVQ(I32(-1), RAX)
	BZHIQ(RCX, RAX, RAX)
	KMOVW(EAX, K1)
}

// lastMask sets RCX to how many of the next 8 results exist, and Y7 to their lanes.
func lastMask(masks Mem) {
	MOVQ(U32(8), RCX)
	CMPQ(windowLeft, RCX)
	CMOVQLT(windowLeft, RCX)
	LEAQ(masks.Offset(128), RAX)
	MOVQ(RCX, windowSpare)
	SHLQ(Imm(2), windowSpare)
	SUBQ(windowSpare, RAX)
	VMOVUPS(Mem{Base: RAX}, Y7)
}

// An inside reads pixels of a row that may lie outside of the image, with AVX2.
type inside struct {
	mask, spare, column VecPhysical // of the last read: the lanes in the image; and spoilt
	ones, image, lanes  VecPhysical // -1; the columns of the image; 0, 1, 2, ...
}

func newInside(t *poolTables) inside {
	r := inside{mask: Y5, spare: Y7, column: Y8, ones: Y13, image: Y14, lanes: Y15}
	VMOVDQU(t.lanes, r.lanes)
	VPBROADCASTD(Mem{Base: args, Disp: windowImage}, r.image)
	VPCMPEQD(r.ones, r.ones, r.ones)
	return r
}

// read loads the pixels from column windowAt + disp on, zeros outside of the image.
func (r inside) read(disp int, dst VecPhysical) {
	LEAQ(Mem{Base: windowAt, Disp: disp}, RAX)
	VMOVD(EAX, X8)
	VPBROADCASTD(X8, r.column)
	VPADDD(r.lanes, r.column, r.column)
	VPCMPGTD(r.ones, r.column, r.mask)
	VPCMPGTD(r.column, r.image, r.spare)
	VPAND(r.spare, r.mask, r.mask)
	VMASKMOVPS(Mem{Base: windowRow, Index: windowAt, Scale: 4, Disp: 4 * disp}, r.mask, dst)
}

// window writes the same with AVX2, 8 results at a time.
func (t *poolTables) window() {
	TEXT("window2", NOSPLIT, "func(c "+windowStandIn+")")
	Doc("window2 takes the maximum of a row of windows at distance 1 or 2, and its place.")
	Pragma("noescape")
	Load(Param("c"), args)
	best, place, numbers, v, more := Y0, Y1, Y2, Y3, Y4
	spare, column, take := Y7, Y8, Y9
	zero, least := Y11, Y12
	inside := newInside(t)
	minusInfinity(least, X12)
	VPXOR(zero, zero, zero)
	read := func(disp int, dst VecPhysical) { // -Inf outside of the image
		inside.read(disp, dst)
		VBLENDVPS(inside.mask, dst, least, dst)
	}
	windows(8, func() {
		firstPlaces(inside.lanes, zero, place, v, X3)
		VMOVAPS(least, best)
		VMOVAPS(inside.ones, numbers)
	}, func() {
		read(0, v)
		ifAdjacent(func() {}, func() {
			read(8, more)
			VSHUFPS(Imm(0x88), more, v, v)
			VPERMPD(Imm(0xd8), v, v)
		})
		VCMPPS(Imm(notAtMost), best, v, take)
		VPAND(numbers, take, take)
		VCMPPS(Imm(ordered), v, v, spare)
		VPAND(spare, numbers, numbers)
		VBLENDVPS(take, v, best, best)
		VMOVD(windowPut.As32(), X8)
		VPBROADCASTD(X8, column)
		VBLENDVPS(take, column, place, place)
	}, func() {
		lastMask(t.masks)
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
