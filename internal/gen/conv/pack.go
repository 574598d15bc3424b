package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// An elem is an element type and the instructions for vectors of it.
type elem struct {
	name      string
	size      int // bytes
	load      func(ops ...Op)
	loadZero  func(mem, mask, dst Op)
	maskMove  func(ops ...Op)
	permute   func(ops ...Op) // two vectors by indices
	broadcast func(src, dst Op)
	add, max  func(ops ...Op)
	sub, mul  func(ops ...Op)
	// permuteIndex picks from two vectors by indices, which it overwrites.
	permuteIndex func(ops ...Op)
	unpackLow    func(ops ...Op)
	unpackHigh   func(ops ...Op)
}

var single = elem{
	name: "32", size: 4, load: VMOVUPS,
	loadZero:  func(m, k, dst Op) { VMOVUPS_Z(m, k, dst) },
	maskMove:  func(ops ...Op) { VMASKMOVPS(ops[0], ops[1], ops[2]) },
	permute:   VPERMT2PS,
	broadcast: func(src, dst Op) { VBROADCASTSS(src, dst) },
	add:       VADDPS, max: VMAXPS, sub: VSUBPS, mul: VMULPS, permuteIndex: VPERMI2PS,
	unpackLow: VUNPCKLPS, unpackHigh: VUNPCKHPS,
}

var double = elem{
	name: "64", size: 8, load: VMOVUPD,
	loadZero:  func(m, k, dst Op) { VMOVUPD_Z(m, k, dst) },
	maskMove:  func(ops ...Op) { VMASKMOVPD(ops[0], ops[1], ops[2]) },
	permute:   VPERMT2PD,
	broadcast: func(src, dst Op) { VBROADCASTSD(src, dst) },
	add:       VADDPD, max: VMAXPD, sub: VSUBPD, mul: VMULPD, permuteIndex: VPERMI2PD,
	unpackLow: VUNPCKLPD, unpackHigh: VUNPCKHPD,
}

// wideRuns packs vectors whose lanes are neighbours in the image, by AVX-512.
func (e elem) wideRuns() {
	begin("widePatchRuns"+e.name, "packs pixels that are neighbours.")
	walk(true,
		func() { KMOVW(Mem{Base: masks, Index: seg, Scale: 2}, K1) },
		func(from, to Mem, first bool) {
			e.loadZero(from, K1, Z0)
			if first {
				e.load(Z0, to)
			} else {
				e.load(Z0, K1, to)
			}
		})
}

// widePairs packs vectors whose lanes are every second element of the image, by AVX-512.
func (e elem) widePairs() {
	lanes := 64 / e.size
	table := GLOBL("every2nd"+e.name, RODATA|NOPTR)
	for i := range lanes {
		if e.size == 4 {
			DATA(4*i, U32(uint32(2*i)))
		} else {
			DATA(8*i, U64(uint64(2*i)))
		}
	}
	DATA(64, U32(0x5555_5555>>(32-2*lanes))) // every second bit of two vectors
	begin("widePatchPairs"+e.name, "packs every second of neighbouring pixels.")
	VMOVDQU32(table, Z3)
	walk(true,
		func() {
			KMOVW(Mem{Base: masks, Index: seg, Scale: 2}, K1)
			MOVWLZX(Mem{Base: masks, Index: seg, Scale: 2}, temp.As32())
			PDEPL(table.Offset(64), temp.As32(), temp.As32())
			KMOVW(temp.As32(), K2)
			SHRL(Imm(uint64(lanes)), temp.As32())
			KMOVW(temp.As32(), K3)
		},
		func(from, to Mem, first bool) {
			e.loadZero(from, K2, Z0)
			from.Disp += 64
			e.loadZero(from, K3, Z1)
			e.permute(Z1, Z3, Z0)
			if first {
				e.load(Z0, to)
			} else {
				e.load(Z0, K1, to)
			}
		})
}

// wideGathers packs vectors whose lanes lie anywhere, by AVX-512. One segment has all of them.
func (e elem) wideGathers() {
	begin("widePatchGathers"+e.name, "packs pixels that lie anywhere.")
	Load(Param("p"), args)
	MOVQ(Mem{Base: args, Disp: offLanes}, temp)
	if e.size == 4 {
		VMOVDQU32(Mem{Base: temp}, Z3)
	} else {
		VMOVDQU(Mem{Base: temp}, Y3)
	}
	walk(false,
		func() { KMOVW(Mem{Base: masks, Index: seg, Scale: 2}, K1) },
		func(from, to Mem, _ bool) {
			KMOVW(K1, K2)
			VPXORD(Z0, Z0, Z0)
			m := from
			if m.Index != nil {
				LEAQ(from, temp)
				m = Mem{Base: temp}
			}
			m.Scale = uint8(e.size)
			if e.size == 4 {
				m.Index = Z3
				VGATHERDPS(m, K2, Z0)
			} else {
				m.Index = Y3
				VGATHERDPD(m, K2, Z0)
			}
			e.load(Z0, to)
		})
}

// bits makes lanes of ones in Y1 of the bits of a mask.
func (e elem) bits(table Mem) {
	if e.size == 4 {
		VPBROADCASTW(Mem{Base: masks, Index: seg, Scale: 2}, X1)
		VPMOVZXWD(X1, Y1)
		VPAND(table, Y1, Y1)
		VPCMPEQD(table, Y1, Y1)
		return
	}
	VPBROADCASTW(Mem{Base: masks, Index: seg, Scale: 2}, X1)
	VPMOVZXWQ(X1, Y1)
	VPAND(table, Y1, Y1)
	VPCMPEQQ(table, Y1, Y1)
}

// bitTable holds bit i in lane i.
func (e elem) bitTable() Mem {
	table := GLOBL("bits"+e.name, RODATA|NOPTR)
	for i := range 32 / e.size {
		if e.size == 4 {
			DATA(4*i, U32(1<<i))
		} else {
			DATA(8*i, U64(1<<i))
		}
	}
	return table
}

// runs packs vectors whose lanes are neighbours in the image, by AVX2. The lanes of segments differ and the rest of each
// is zeros, so that all are joined by OR.
func (e elem) runs(table Mem) {
	begin("patchRuns"+e.name, "packs pixels that are neighbours.")
	walk(true,
		func() { e.bits(table) },
		func(from, to Mem, first bool) {
			e.maskMove(from, Y1, Y0)
			if !first {
				VORPS(to, Y0, Y0)
			}
			e.load(Y0, to)
		})
}

// gathers packs vectors whose lanes lie anywhere, by AVX2. One segment has all of them.
func (e elem) gathers(table Mem) {
	begin("patchGathers"+e.name, "packs pixels that lie anywhere.")
	Load(Param("p"), args)
	MOVQ(Mem{Base: args, Disp: offLanes}, temp)
	index := VecPhysical(Y3)
	if e.size == 4 {
		VMOVDQU(Mem{Base: temp}, Y3)
	} else {
		index = X3
		VMOVDQU(Mem{Base: temp}, X3)
	}
	walk(false,
		func() { e.bits(table) },
		func(from, to Mem, _ bool) {
			VMOVUPS(Y1, Y2)
			VXORPS(Y0, Y0, Y0)
			m := from
			if m.Index != nil {
				LEAQ(from, temp)
				m = Mem{Base: temp}
			}
			m.Index, m.Scale = index, uint8(e.size)
			if e.size == 4 {
				VGATHERDPS(Y2, m, Y0)
			} else {
				VGATHERDPD(Y2, m, Y0)
			}
			e.load(Y0, to)
		})
}
