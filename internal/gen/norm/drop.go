package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in dropout.Args; a test there compares them.
const (
	dropX       = 0
	dropY       = 24
	dropN       = 48
	dropCounter = 56
	dropKeys    = 72
	dropLeast   = 232
	dropScale   = 236
)

const dropStandIn = "*int16"

// Philox4x32-10, as in package kernels.
const (
	philoxM0     = 0xD2511F53
	philoxM1     = 0xCD9E8D57
	philoxRounds = 10
)

// Words of a counter lie in the lower halves of 64-bit lanes, where VPMULUDQ wants them; the upper
// halves hold anything. Lane 2l+k holds counter lanes/2·k + l, so that unpacking words to elements
// leaves them in their order.

// dropper writes a dropout kernel at one width.
type dropper struct {
	wide    bool
	counter []VecPhysical // of the four words
	product []VecPhysical
	m0, m1  VecPhysical
	least   VecPhysical
	scale   VecPhysical
	quads   VecPhysical // the first words, of this iteration
	more    VecPhysical // their increment
	fixed   []VecPhysical
	spare   VecPhysical
}

func wideDrop() {
	d := dropper{wide: true, counter: zmm[0:4], product: zmm[4:8], m0: Z8, m1: Z9, least: Z10, scale: Z11, quads: Z12, more: Z13,
		fixed: []VecPhysical{Z14, Z15, Z16}, spare: Z17}
	d.emit("wideDrop", Mem{})
}

func drop(masks Mem) {
	d := dropper{counter: ymm[0:4], product: ymm[4:7], m0: Y7, m1: Y8, least: Y9, scale: Y10, quads: Y11, more: Y12,
		fixed: []VecPhysical{Y13, Y14, Y15}, spare: Y6}
	d.emit("drop", masks)
}

// counters is the number of counters of an iteration: four elements each.
func (d *dropper) counters() int {
	if d.wide {
		return 8
	}
	return 4
}

func (d *dropper) emit(name string, masks Mem) {
	n := d.counters()
	first := GLOBL(name+"First", RODATA|NOPTR)
	for l := range n / 2 {
		for k := range 2 {
			DATA(8*(2*l+k), U64(uint64(n/2*k+l)))
		}
	}
	TEXT(name, NOSPLIT, "func(c "+dropStandIn+")")
	Doc(fmt.Sprintf("%s clears elements whose word of the generator is too small, and scales the others; %d counters at a time.", name, n))
	Pragma("noescape")
	state := flush()
	Load(Param("c"), args)
	d.begin(first)
	MOVQ(Mem{Base: args, Disp: dropX}, x)
	MOVQ(Mem{Base: args, Disp: dropY}, y)
	MOVQ(Mem{Base: args, Disp: dropN}, count)
	Label("more")
	d.rounds()
	d.unpack()
	CMPQ(count, Imm(uint64(4*n)))
	JLT(LabelRef("rest"))
	for i := range 2 {
		d.keep(i, false)
	}
	ADDQ(U32(uint32(16*n)), x)
	ADDQ(U32(uint32(16*n)), y)
	SUBQ(Imm(uint64(4*n)), count)
	JNE(LabelRef("more"))
	JMP(LabelRef("done"))
	Label("rest")
	d.rest(masks)
	Label("done")
	restore(state)
}

// begin loads the constants.
func (d *dropper) begin(first Mem) {
	for _, m := range []struct {
		value uint32
		dst   VecPhysical
	}{{philoxM0, d.m0}, {philoxM1, d.m1}, {uint32(d.counters()), d.more}} {
		MOVL(U32(m.value), EAX)
		VMOVQ(RAX, X0)
		VPBROADCASTQ(X0, m.dst)
	}
	VPBROADCASTD(Mem{Base: args, Disp: dropCounter}, d.quads)
	if d.wide {
		VPADDD(first, d.quads, d.quads)
	} else {
		VPADDD(first, d.quads, d.quads)
	}
	for i, r := range d.fixed {
		VPBROADCASTD(Mem{Base: args, Disp: dropCounter + 4*(i+1)}, r)
	}
	VPBROADCASTD(Mem{Base: args, Disp: dropLeast}, d.least)
	VBROADCASTSS(Mem{Base: args, Disp: dropScale}, d.scale)
}

// rounds computes the words of the next counters.
func (d *dropper) rounds() {
	c := d.counter
	d.copy(d.quads, c[0])
	for i, r := range d.fixed {
		d.copy(r, c[1+i])
	}
	VPADDD(d.more, d.quads, d.quads)
	for round := range philoxRounds {
		a, b := d.product[0], d.product[1]
		VPMULUDQ(d.m0, c[0], a)
		VPMULUDQ(d.m1, c[2], b)
		key := Mem{Base: args, Disp: dropKeys + 16*round}
		// {hi b ^ c1 ^ k0, lo b, hi a ^ c3 ^ k1, lo a}
		VPSRLQ(Imm(32), b, c[0])
		VPSRLQ(Imm(32), a, c[2])
		if d.wide {
			VPTERNLOGQ_BCST(Imm(0x96), key, c[1], c[0])
			VPTERNLOGQ_BCST(Imm(0x96), key.Offset(8), c[3], c[2])
		} else {
			VPXOR(c[1], c[0], c[0])
			VPXOR(c[3], c[2], c[2])
			VPBROADCASTQ(key, d.spare)
			VPXOR(d.spare, c[0], c[0])
			VPBROADCASTQ(key.Offset(8), d.spare)
			VPXOR(d.spare, c[2], c[2])
		}
		c = []VecPhysical{c[0], b, c[2], a}
		d.product = []VecPhysical{d.counter[3], d.counter[1], nil}
		d.counter = c
	}
}

// unpack brings the words to the order of the elements: of the first half in counter[0], of the
// second in counter[1].
func (d *dropper) unpack() {
	c := d.counter
	for i := 0; i < 4; i += 2 { // both words of a pair in one lane
		VPSLLQ(Imm(32), c[i+1], c[i+1])
		VPSLLQ(Imm(32), c[i], c[i])
		VPSRLQ(Imm(32), c[i], c[i])
		if d.wide {
			VPORQ(c[i+1], c[i], c[i])
		} else {
			VPOR(c[i+1], c[i], c[i])
		}
	}
	VPUNPCKHQDQ(c[2], c[0], c[1])
	VPUNPCKLQDQ(c[2], c[0], c[0])
}

// copy moves a register of words.
func (d *dropper) copy(src, dst VecPhysical) { VMOVAPS(src, dst) }

// keep scales the elements of half i that stay. edge: only those of K1, or of the mask in spare.
func (d *dropper) keep(i int, edge bool) {
	words, v := d.counter[i], d.counter[2+i]
	size := 16 * d.counters() / 2
	from, to := Mem{Base: x, Disp: size * i}, Mem{Base: y, Disp: size * i}
	if d.wide {
		const atLeast = 5
		if edge {
			VPCMPUD(Imm(atLeast), d.least, words, K1, K2)
			VMULPS_Z(from, d.scale, K2, v)
			VMOVUPS(v, K1, to)
			return
		}
		VPCMPUD(Imm(atLeast), d.least, words, K2)
		VMULPS_Z(from, d.scale, K2, v)
		VMOVUPS(v, to)
		return
	}
	VPMAXUD(d.least, words, v)
	VPCMPEQD(v, words, words)
	if edge {
		VMASKMOVPS(from, d.spare, v)
		VMULPS(v, d.scale, v)
		VANDPS(words, v, v)
		VMASKMOVPS(v, d.spare, to)
		return
	}
	VMULPS(from, d.scale, v)
	VANDPS(words, v, v)
	VMOVUPS(v, to)
}

// rest writes the last elements, fewer than an iteration has.
func (d *dropper) rest(masks Mem) {
	half := 2 * d.counters()
	if d.wide {
		MOVQ(I32(-1), RAX)
		BZHIQ(count, RAX, RAX)
		for i := range 2 {
			KMOVW(EAX, K1)
			d.keep(i, true)
			SHRQ(Imm(uint64(half)), RAX)
		}
		return
	}
	SHLQ(Imm(2), count)
	LEAQ(masks.Offset(128), RAX)
	SUBQ(count, RAX)
	for i := range 2 {
		VMOVUPS(Mem{Base: RAX, Disp: 4 * half * i}, d.spare)
		d.keep(i, true)
	}
}
