package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in conv.WinogradRows.
const (
	rowsSrc, rowsDst, rowsOffsets, rowsMasks        = 0, 24, 48, 72
	rowsCount, rowsStep, rowsChannels, rowsPlaneSrc = 96, 104, 112, 120
	rowsRowDst, rowsPlaneDst                        = 128, 136
	rowsType                                        = "*uint32" // stands for *WinogradRows
)

// rowPixels lists, for the vectors a, b, c and d that make the sums of a row of pixels, the pixels of
// their lower and upper half: a-b, a+b, then c-d, c-d. Tile t has the pixels 2t to 2t+3.
var rowPixels = [4][2]int{{0, 1}, {2, 2}, {2, 1}, {1, 3}}

// wideRows transforms rows of tiles straight from the image by AVX-512: a vector is a row of pixels,
// and halves of vectors are tiles.
func wideRows() {
	table := GLOBL("rowPixels", RODATA|NOPTR)
	for v, halves := range rowPixels {
		for lane := range 16 {
			DATA(64*v+4*lane, U32(uint32((halves[lane/8]+2*(lane%8))%16)))
		}
	}
	name := "wideWinoRows32"
	TEXT(name, NOSPLIT, "func(w "+rowsType+")")
	Doc(name + " transforms rows of tiles: Bᵀ·d·B of each channel.")
	Pragma("noescape")
	flush()
	Load(Param("w"), args)
	src, dst, offsets, masks, rows := RAX, RBX, RCX, RDX, RSI
	plane, plane3, channels, at, to := R8, R9, R10, R11, R12
	MOVQ(Mem{Base: args, Disp: rowsSrc}, src)
	MOVQ(Mem{Base: args, Disp: rowsDst}, dst)
	MOVQ(Mem{Base: args, Disp: rowsPlaneDst}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	MOVQ(Mem{Base: args, Disp: rowsChannels}, channels)
	index := zmm[28:32]
	for i, v := range index {
		VMOVDQU32(table.Offset(64*i), v)
	}
	MOVL(U32(0xFF00), at.As32())
	KMOVW(at.As32(), K2)
	Label("channel")
	MOVQ(Mem{Base: args, Disp: rowsOffsets}, offsets)
	MOVQ(Mem{Base: args, Disp: rowsMasks}, masks)
	MOVQ(Mem{Base: args, Disp: rowsCount}, rows)
	MOVQ(dst, to)
	Label("row")
	for i := range 4 {
		KMOVW(Mem{Base: masks, Disp: 4 * i}, K1)
		MOVQ(Mem{Base: offsets, Disp: 8 * i}, at)
		VMOVUPS_Z(Mem{Base: src, Index: at, Scale: 1}, K1, zmm[i])
	}
	lines := single.line(Z0, Z1, Z2, Z3, Z4, Z5)
	MOVQ(to, at)
	for i, line := range lines {
		a, b, c, d, sum := zmm[8], zmm[9], zmm[10], zmm[11], zmm[12]
		for k, v := range []VecPhysical{a, b, c, d} {
			VPERMPS(line, index[k], v)
		}
		VSUBPS(b, a, sum)
		VADDPS(b, a, K2, sum)
		VSUBPS(d, c, c)
		VMOVUPS(sum.AsY(), Mem{Base: at})
		VEXTRACTF32X8(Imm(1), sum, Mem{Base: at, Index: plane, Scale: 1})
		VMOVUPS(c.AsY(), Mem{Base: at, Index: plane, Scale: 2})
		VEXTRACTF32X8(Imm(1), c, Mem{Base: at, Index: plane3, Scale: 1})
		if i < 3 {
			LEAQ(Mem{Base: at, Index: plane, Scale: 4}, at)
		}
	}
	ADDQ(Imm(32), offsets)
	ADDQ(Imm(16), masks)
	ADDQ(Mem{Base: args, Disp: rowsStep}, to)
	DECQ(rows)
	JNE(LabelRef("row"))
	ADDQ(Mem{Base: args, Disp: rowsPlaneSrc}, src)
	ADDQ(Mem{Base: args, Disp: rowsRowDst}, dst)
	DECQ(channels)
	JNE(LabelRef("channel"))
	leave()
}
