package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Products of bfloat16 by AVX512-BF16, whose multiplication adds the products of two pairs to a
// float32. An element of A and of B is then a pair, of two steps of k, and all else is as with
// float32.

// bfloats writes one of the three instructions of AVX512-BF16 on full registers, which neither avo
// nor Go's assembler knows. Intel 64 and IA-32 Architectures Software Developer's Manual, 2.7: the
// EVEX prefix.
func bfloats(prefix, opcode byte, right, left, dst int) {
	const (
		map0F38 = 2
		full    = 2 << 5 // 512 bits
	)
	not := func(bit int) byte { return byte(^bit & 1) }
	p0 := not(dst>>3)<<7 | not(right>>4)<<6 | not(right>>3)<<5 | not(dst>>4)<<4 | map0F38
	p1 := byte(^left&15)<<3 | 1<<2 | prefix
	p2 := full | not(left>>4)<<3
	modRM := byte(3<<6 | dst&7<<3 | right&7)
	first := 0x62 | uint32(p0)<<8 | uint32(p1)<<16 | uint32(p2)<<24
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(first)}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(uint16(opcode) | uint16(modRM)<<8)}})
}

// number is the number of a 512-bit register.
func number(r Op) int {
	for i, z := range zmm {
		if z == r {
			return i
		}
	}
	panic(fmt.Sprintf("%v is no zmm register", r))
}

// VDPBF16PS adds to each float32 of sum the products of both bfloat16s in the same place of a and b.
func VDPBF16PS(b, a, sum Op) { bfloats(2, 0x52, number(b), number(a), number(sum)) }

// VCVTNE2PS2BF16 rounds 32 float32 to bfloat16: those of high fill the upper half of dst.
func VCVTNE2PS2BF16(low, high, dst Op) { bfloats(3, 0x72, number(low), number(high), number(dst)) }

// pairs are the elements of bfloat16 products.
var pairs = elem{
	name: "Pairs", size: 4,
	fma:       func(b, a, sum Op) { VDPBF16PS(b, a, sum) },
	broadcast: single.broadcast,
	add:       VADDPS, max: VMAXPS, load: VMOVUPS,
	loadZero: single.loadZero,
}

// onesOf sets mask to as many ones as n, of at most 64.
func onesOf(n, temp GPPhysical, mask Register) {
	MOVQ(I32(-1), temp)
	BZHIQ(n, temp, temp)
	KMOVQ(temp, mask)
}

// pairsAlong rounds rows of float32 to bfloat16: neighbours in a row are pairs. The last of an odd
// number gets a 0 beside it.
func pairsAlong() {
	TEXT("pairsAlong", NOSPLIT, "func(dst, src []byte, rows, stride, n, pitch int)")
	Doc("pairsAlong rounds rows of n float32, stride bytes apart, to pairs of bfloat16 in a row, rows pitch bytes apart.")
	Pragma("noescape")
	dst, src, rows, stride, n, pitch := RDI, RSI, RCX, RDX, RBX, R8
	to, from, left, temp := R9, R10, R11, R12
	low, high, stored := K1, K2, K3
	Load(Param("dst").Base(), dst)
	Load(Param("src").Base(), src)
	Load(Param("rows"), rows)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	Load(Param("pitch"), pitch)
	MOVQ(n, left)
	ANDQ(Imm(31), left)
	onesOf(left, temp, low) // a vector takes the lower 16
	SHRQ(Imm(16), temp)
	KMOVQ(temp, high)
	INCQ(left)
	ANDQ(I32(-2), left)
	onesOf(left, temp, stored)
	TESTQ(rows, rows)
	JLE(LabelRef("done"))
	Label("row")
	MOVQ(dst, to)
	MOVQ(src, from)
	MOVQ(n, left)
	SUBQ(Imm(32), left)
	JL(LabelRef("rest"))
	Label("loop")
	VMOVUPS(Mem{Base: from}, Z0)
	VMOVUPS(Mem{Base: from, Disp: 64}, Z1)
	VCVTNE2PS2BF16(Z0, Z1, Z2)
	VMOVDQU16(Z2, Mem{Base: to})
	ADDQ(Imm(128), from)
	ADDQ(Imm(64), to)
	SUBQ(Imm(32), left)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(32), left)
	JLE(LabelRef("next"))
	VMOVUPS_Z(Mem{Base: from}, low, Z0)
	VMOVUPS_Z(Mem{Base: from, Disp: 64}, high, Z1)
	VCVTNE2PS2BF16(Z0, Z1, Z2)
	VMOVDQU16(Z2, stored, Mem{Base: to})
	Label("next")
	ADDQ(stride, src)
	ADDQ(pitch, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	Label("done")
	VZEROUPPER()
	RET()
}

// pairsAcross pairs each row with the next: what lies one below the other becomes a pair. stored is
// the bytes of an element of src.
func pairsAcross(stored int) {
	name, what := "pairsAcross32", "float32"
	if stored == 2 {
		name, what = "pairsAcross16", "bfloat16"
	}
	order := GLOBL(name+"Order", RODATA|NOPTR) // of words: one from the lower half, one from the upper, ...
	for i := range 16 {
		DATA(4*i, U32(i|(16+i)<<16))
	}
	TEXT(name, NOSPLIT, "func(dst, src []byte, rows, stride, n, pitch int)")
	Doc(fmt.Sprintf("%s makes pairs of two rows of n %s, stride bytes apart, for rows 0 and 1, 2 and 3, ..., and writes them in rows pitch bytes apart.", name, what))
	Pragma("noescape")
	dst, src, rows, stride, n, pitch := RDI, RSI, RCX, RDX, RBX, R8
	to, from, left, temp := R9, R10, R11, R12
	tail, whole2, tail2 := K1, K2, K3 // the last two are of the second row
	Load(Param("dst").Base(), dst)
	Load(Param("src").Base(), src)
	Load(Param("rows"), rows)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	Load(Param("pitch"), pitch)
	MOVQ(n, left)
	ANDQ(Imm(15), left)
	onesOf(left, temp, tail)
	KMOVQ(tail, tail2)
	MOVQ(I32(-1), temp)
	KMOVQ(temp, whole2)
	if stored == 4 {
		VMOVDQU16(order, Z3)
	}
	TESTQ(rows, rows)
	JLE(LabelRef("done"))
	Label("row")
	CMPQ(rows, Imm(1))
	JNE(LabelRef("both"))
	KXORQ(tail2, tail2, tail2)
	KXORQ(whole2, whole2, whole2)
	Label("both")
	MOVQ(dst, to)
	MOVQ(src, from)
	MOVQ(n, left)
	SUBQ(Imm(16), left)
	JL(LabelRef("rest"))
	upper, lower := Mem{Base: from}, Mem{Base: from, Index: stride, Scale: 1}
	join := func() {
		if stored == 4 {
			VCVTNE2PS2BF16(Z0, Z1, Z2)
			VPERMW(Z2, Z3, Z2)
		} else {
			VPSLLD(Imm(16), Z1, Z1)
			VPORD(Z0, Z1, Z2)
		}
	}
	load := func(m Mem, mask, dst Op) {
		if stored == 4 {
			VMOVUPS_Z(m, mask, dst)
		} else {
			VPMOVZXWD_Z(m, mask, dst)
		}
	}
	Label("loop")
	if stored == 4 {
		VMOVUPS(upper, Z0)
	} else {
		VPMOVZXWD(upper, Z0)
	}
	load(lower, whole2, Z1)
	join()
	VMOVUPS(Z2, Mem{Base: to})
	ADDQ(Imm(uint64(16*stored)), from)
	ADDQ(Imm(64), to)
	SUBQ(Imm(16), left)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(16), left)
	JLE(LabelRef("next"))
	load(upper, tail, Z0)
	load(lower, tail2, Z1)
	join()
	VMOVUPS(Z2, tail, Mem{Base: to})
	Label("next")
	LEAQ(Mem{Base: src, Index: stride, Scale: 2}, src)
	ADDQ(pitch, dst)
	SUBQ(Imm(2), rows)
	JG(LabelRef("row"))
	Label("done")
	VZEROUPPER()
	RET()
}
