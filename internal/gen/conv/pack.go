package main

import (
	"fmt"
	"strings"

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
	fma       func(b, a, sum Op)
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
	fma:       func(b, a, sum Op) { VFMADD231PS(b, a, sum) },
	add:       VADDPS, max: VMAXPS, sub: VSUBPS, mul: VMULPS, permuteIndex: VPERMI2PS,
	unpackLow: VUNPCKLPS, unpackHigh: VUNPCKHPS,
}

var double = elem{
	name: "64", size: 8, load: VMOVUPD,
	loadZero:  func(m, k, dst Op) { VMOVUPD_Z(m, k, dst) },
	maskMove:  func(ops ...Op) { VMASKMOVPD(ops[0], ops[1], ops[2]) },
	permute:   VPERMT2PD,
	broadcast: func(src, dst Op) { VBROADCASTSD(src, dst) },
	fma:       func(b, a, sum Op) { VFMADD231PD(b, a, sum) },
	add:       VADDPD, max: VMAXPD, sub: VSUBPD, mul: VMULPD, permuteIndex: VPERMI2PD,
	unpackLow: VUNPCKLPD, unpackHigh: VUNPCKHPD,
}

// A loader is a way of loading one vector of pixels: of neighbours, of every second element, or of
// elements anywhere.
type loader struct {
	elem
	name     string // without the element's
	wide     bool   // by AVX-512
	segments bool   // else one segment has all lanes
	begin    func() // loads constants
	start    func() // prepares the masks of a tap and a segment
	fetch    func(from Mem, dst VecPhysical)
	bits     Mem
	lanes    Mem
}

// reg returns vector register i of the loader's width.
func (l *loader) reg(i int) VecPhysical {
	if l.wide {
		return zmm[i]
	}
	return ymm[i]
}

// or joins vectors whose lanes differ, and the rest of which is zeros.
func (l *loader) or(a Op, b VecPhysical) {
	if l.wide {
		VPORD(a, b, b)
	} else {
		VORPS(a, b, b)
	}
}

// mask returns the memory of the mask of the current tap and segment.
func mask() Mem { return Mem{Base: masks, Index: seg, Scale: 2} }

// loaders returns the ways for one element type.
func (e elem) loaders(bits, lanes Mem) []*loader {
	none := func() {}
	return []*loader{
		{elem: e, name: "wide%sRuns", wide: true, segments: true, begin: none,
			start: func() { KMOVW(mask(), K1) },
			fetch: func(from Mem, dst VecPhysical) { e.loadZero(from, K1, dst) }},
		e.widePairs(),
		{elem: e, name: "wide%sGathers", wide: true, begin: e.wideIndex,
			start: func() { KMOVW(mask(), K1) },
			fetch: e.wideGather},
		{elem: e, name: "%sRuns", segments: true, begin: none, bits: bits, lanes: lanes,
			start: func() { e.maskBits(bits) },
			fetch: func(from Mem, dst VecPhysical) { e.maskMove(from, Y1, dst) }},
		{elem: e, name: "%sGathers", begin: e.index, bits: bits, lanes: lanes,
			start: func() { e.maskBits(bits) },
			fetch: e.gather},
	}
}

// called returns the name of a function of the loader's.
func (l *loader) called(what string) string {
	if !l.wide {
		what = strings.ToLower(what[:1]) + what[1:]
	}
	return fmt.Sprintf(l.name, what) + l.elem.name
}

// pack emits the packing function of the loader.
func (l *loader) pack() {
	begin(l.called("Patch"), "packs pixels.")
	l.begin()
	packLoop(l.segments, l.start, func(from, to Mem, first bool) {
		x := l.reg(0)
		l.fetch(from, x)
		switch {
		case first:
			l.load(x, to)
		case l.wide:
			l.load(x, K1, to)
		default:
			l.or(to, x)
			l.load(x, to)
		}
	})
}

// widePairs loads every second element by AVX-512.
func (e elem) widePairs() *loader {
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
	return &loader{elem: e, name: "wide%sPairs", wide: true, segments: true,
		begin: func() { VMOVDQU32(table, Z3) },
		start: func() {
			KMOVW(mask(), K1)
			MOVWLZX(mask(), temp.As32())
			PDEPL(table.Offset(64), temp.As32(), temp.As32())
			KMOVW(temp.As32(), K2)
			SHRL(Imm(uint64(lanes)), temp.As32())
			KMOVW(temp.As32(), K3)
		},
		fetch: func(from Mem, dst VecPhysical) {
			e.loadZero(from, K2, dst)
			from.Disp += 64
			e.loadZero(from, K3, Z1)
			e.permute(Z1, Z3, dst)
		}}
}

// wideIndex loads the elements from lane 0 to each lane.
func (e elem) wideIndex() {
	Load(Param("p"), args)
	MOVQ(Mem{Base: args, Disp: offLanes}, temp)
	if e.size == 4 {
		VMOVDQU32(Mem{Base: temp}, Z3)
	} else {
		VMOVDQU(Mem{Base: temp}, Y3)
	}
}

func (e elem) wideGather(from Mem, dst VecPhysical) {
	KMOVW(K1, K2)
	VPXORD(dst, dst, dst)
	m := simple(from)
	m.Scale = uint8(e.size)
	if e.size == 4 {
		m.Index = Z3
		VGATHERDPS(m, K2, dst)
	} else {
		m.Index = Y3
		VGATHERDPD(m, K2, dst)
	}
}

// simple returns an address without an index.
func simple(m Mem) Mem {
	if m.Index == nil {
		return m
	}
	LEAQ(m, temp)
	return Mem{Base: temp}
}

// index is wideIndex by AVX2.
func (e elem) index() {
	Load(Param("p"), args)
	MOVQ(Mem{Base: args, Disp: offLanes}, temp)
	if e.size == 4 {
		VMOVDQU(Mem{Base: temp}, Y3)
	} else {
		VMOVDQU(Mem{Base: temp}, X3)
	}
}

func (e elem) gather(from Mem, dst VecPhysical) {
	VMOVUPS(Y1, Y2)
	VXORPS(dst, dst, dst)
	m := simple(from)
	m.Scale = uint8(e.size)
	if e.size == 4 {
		m.Index = Y3
		VGATHERDPS(Y2, m, dst)
	} else {
		m.Index = X3
		VGATHERDPD(Y2, m, dst)
	}
}

// maskBits makes lanes of ones in Y1 of the bits of a mask.
func (e elem) maskBits(table Mem) {
	VPBROADCASTW(mask(), X1)
	if e.size == 4 {
		VPMOVZXWD(X1, Y1)
		VPAND(table, Y1, Y1)
		VPCMPEQD(table, Y1, Y1)
	} else {
		VPMOVZXWQ(X1, Y1)
		VPAND(table, Y1, Y1)
		VPCMPEQQ(table, Y1, Y1)
	}
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
