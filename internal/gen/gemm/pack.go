package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/evenkeel/evenkeel/internal/gen/rounding"
)

// packRows copies k rows of n bytes, stride apart, to rows of width bytes, and fills up with zeros.
func packRows(masks Mem, width int) {
	TEXT(fmt.Sprintf("packRows%d", width), NOSPLIT, "func(dst, src []byte, k, stride, n int)")
	Doc(fmt.Sprintf("packRows%d copies k rows of n bytes, stride apart, to rows of %d bytes, filled up with zeros.", width, width))
	Pragma("noescape")
	dst, src, k, stride, mask := RDI, RSI, RCX, RDX, RAX
	Load(Param("dst").Base(), dst)
	Load(Param("src").Base(), src)
	Load(Param("k"), k)
	Load(Param("stride"), stride)
	LEAQ(masks.Offset(128), mask)
	Load(Param("n"), RBX)
	SUBQ(RBX, mask)
	vectors := width / 32
	for v := range vectors {
		VMOVUPS(Mem{Base: mask, Disp: 32 * v}, ymm[8+v])
	}
	TESTQ(k, k)
	JLE(LabelRef("done"))
	Label("loop")
	for v := range vectors {
		VMASKMOVPS(Mem{Base: src, Disp: 32 * v}, ymm[8+v], ymm[v])
		VMOVUPS(ymm[v], Mem{Base: dst, Disp: 32 * v})
	}
	PREFETCHT0(Mem{Base: src, Index: stride, Scale: 8})
	ADDQ(stride, src)
	ADDQ(U32(uint32(width)), dst)
	DECQ(k)
	JNE(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// rowPointers leaves the addresses of rows 0.. in p: row n-1 stands in for those from n on.
func rowPointers(p []GPPhysical, stride, n, zero GPPhysical) {
	XORQ(zero, zero)
	for i := 1; i < len(p); i++ {
		CMPQ(n, Imm(uint64(i)))
		CMOVQLE(zero, stride)
		MOVQ(p[i-1], p[i])
		ADDQ(stride, p[i])
	}
}

// packCols transposes rows, as many as a vector has lanes, 16 bytes of each at a time. transpose makes
// columns of the halves that were loaded into ymm[0], ymm[1], …, and returns their registers. Where n
// is a kind that is rounded, elements are rounded first.
func packCols(e elem, transpose func(y []VecPhysical) []VecPhysical, n kind, r *rounding.Rounder) {
	name, half := "packCols"+e.name+n.title(), 16/e.size
	lanes := 2 * half
	TEXT(name, NOSPLIT, "func(dst, src []byte, k, stride, n, pitch int)")
	Doc(fmt.Sprintf("%s transposes n <= %d rows of k %d-byte elements, stride bytes apart, to k rows of %d, pitch bytes apart.",
		name, lanes, e.size, lanes), fmt.Sprintf("k is a multiple of %d. Where n is below %d the last row is repeated.%s", half, lanes, n.doc()))
	Pragma("noescape")
	p := []GPPhysical{RAX, RBX, RCX, RDX, R8, R9, R10, R11}[:lanes]
	dst, k, stride, rows, pitch := RDI, RSI, R12, R13, R12
	Load(Param("dst").Base(), dst)
	Load(Param("src").Base(), p[0])
	Load(Param("stride"), stride)
	Load(Param("n"), rows)
	rowPointers(p, stride, rows, k)
	Load(Param("k"), k)
	Load(Param("pitch"), pitch)
	SHRQ(Imm(uint64(half/2)), k) // halves are 2 or 4: this divides by them
	JE(LabelRef("done"))
	r = n.hold(r, ymm[12:])
	Label("loop")
	for i := range half {
		e.load(Mem{Base: p[i]}, xmm[i])
	}
	for i := range half {
		VINSERTF128(Imm(1), Mem{Base: p[half+i]}, ymm[i], ymm[i])
	}
	n.round(r, ymm[:half], ymm[8:])
	for _, column := range transpose(ymm) {
		e.load(column, Mem{Base: dst})
		ADDQ(pitch, dst)
	}
	for i := range p {
		ADDQ(Imm(16), p[i])
	}
	DECQ(k)
	JNE(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// packWideCols is packCols with 512 bits: lane j of the register that loads row i holds row 4j+i
// (2j+i with 8 bytes an element), so that transposing inside of lanes puts all rows in order.
func packWideCols(e elem, transpose func(z []VecPhysical) []VecPhysical, n kind, r *rounding.Rounder) {
	name, half := "packWideCols"+e.name+n.title(), 16/e.size
	TEXT(name, NOSPLIT, "func(dst, src []byte, k, stride, pitch int)")
	Doc(fmt.Sprintf("%s transposes %d rows of k %d-byte elements, stride bytes apart, to k rows of %d, pitch bytes apart.",
		name, 4*half, e.size, 4*half), fmt.Sprintf("k is a multiple of %d.%s", half, n.doc()))
	Pragma("noescape")
	p := []GPPhysical{RAX, RBX, RCX, RDX}
	dst, k, stride, stride3, pitch := RDI, RSI, R12, R8, R13
	Load(Param("dst").Base(), dst)
	Load(Param("src").Base(), p[0])
	Load(Param("stride"), stride)
	Load(Param("k"), k)
	Load(Param("pitch"), pitch)
	for j := 1; j < 4; j++ {
		LEAQ(Mem{Base: p[j-1], Index: stride, Scale: uint8(half)}, p[j])
	}
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	SHRQ(Imm(uint64(half/2)), k) // halves are 2 or 4: this divides by them
	JE(LabelRef("done"))
	r = n.hold(r, zmm[12:])
	Label("loop")
	for i := range half {
		for j := range p {
			m := []Mem{{Base: p[j]}, {Base: p[j], Index: stride, Scale: 1}, {Base: p[j], Index: stride, Scale: 2},
				{Base: p[j], Index: stride3, Scale: 1}}[i]
			if j == 0 {
				e.load(m, xmm[i])
			} else {
				VINSERTF32X4(Imm(uint64(j)), m, zmm[i], zmm[i])
			}
		}
	}
	n.round(r, zmm[:half], zmm[8:])
	for _, column := range transpose(zmm) {
		e.load(column, Mem{Base: dst})
		ADDQ(pitch, dst)
	}
	for j := range p {
		ADDQ(Imm(16), p[j])
	}
	DECQ(k)
	JNE(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// transpose4 transposes 4x4 elements of 4 bytes in each lane of y[0] to y[3].
func transpose4(y []VecPhysical) []VecPhysical {
	VUNPCKLPS(y[1], y[0], y[4])
	VUNPCKHPS(y[1], y[0], y[5])
	VUNPCKLPS(y[3], y[2], y[6])
	VUNPCKHPS(y[3], y[2], y[7])
	VUNPCKLPD(y[6], y[4], y[0])
	VUNPCKHPD(y[6], y[4], y[1])
	VUNPCKLPD(y[7], y[5], y[2])
	VUNPCKHPD(y[7], y[5], y[3])
	return y[:4]
}

// transpose2 transposes 2x2 elements of 8 bytes in each lane of y[0] and y[1].
func transpose2(y []VecPhysical) []VecPhysical {
	VUNPCKLPD(y[1], y[0], y[2])
	VUNPCKHPD(y[1], y[0], y[3])
	return y[2:4]
}
