package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// An elem is an element type and the instructions for it: of vectors, then of single elements.
type elem struct {
	name               string
	size               int // bytes
	add, sub, mul, max func(ops ...Op)
	fma, fms           func(ops ...Op) // sum += a·b, sum -= a·b
	affine             func(ops ...Op) // x = a·x + b
	move, compare      func(ops ...Op)
	loadZero           func(mem, mask, dst Op)
	subZero            func(a, b, mask, dst Op)
	keepZero           func(src, mask, dst Op)
	maskMove           func(mask, a, b Op)
	broadcast          func(a, b Op)
	add1, mul1, max1   func(a, b, dst Op)
	sqrt1, div1        func(a, b, dst Op)
	fma1, fms1         func(a, b, sum Op)
	load1              func(ops ...Op)
	one                uint64 // 1 in bits
	least, most        uint64 // norm.Regular's range in bits
}

var single = elem{
	name: "32", size: 4,
	add: VADDPS, sub: VSUBPS, mul: VMULPS, max: VMAXPS,
	fma: VFMADD231PS, fms: VFNMADD231PS, affine: VFMADD213PS,
	move: VMOVUPS, compare: VCMPPS,
	loadZero: VMOVUPS_Z, subZero: VSUBPS_Z, keepZero: VMOVAPS_Z,
	maskMove:  func(mask, a, b Op) { VMASKMOVPS(a, mask, b) },
	broadcast: func(a, b Op) { VBROADCASTSS(a, b) },
	add1:      func(a, b, dst Op) { VADDSS(a, b, dst) },
	mul1:      func(a, b, dst Op) { VMULSS(a, b, dst) },
	max1:      func(a, b, dst Op) { VMAXSS(a, b, dst) },
	sqrt1:     func(a, b, dst Op) { VSQRTSS(a, b, dst) },
	div1:      func(a, b, dst Op) { VDIVSS(a, b, dst) },
	fma1:      func(a, b, sum Op) { VFMADD231SS(a, b, sum) },
	fms1:      func(a, b, sum Op) { VFNMADD231SS(a, b, sum) },
	load1:     VMOVSS,
	one:       0x3f800000,
	least:     uint64(math.Float32bits(0x1p-40)), most: uint64(math.Float32bits(0x1p51)),
}

var double = elem{
	name: "64", size: 8,
	add: VADDPD, sub: VSUBPD, mul: VMULPD, max: VMAXPD,
	fma: VFMADD231PD, fms: VFNMADD231PD, affine: VFMADD213PD,
	move: VMOVUPD, compare: VCMPPD,
	loadZero: VMOVUPD_Z, subZero: VSUBPD_Z, keepZero: VMOVAPD_Z,
	maskMove:  func(mask, a, b Op) { VMASKMOVPD(a, mask, b) },
	broadcast: func(a, b Op) { VBROADCASTSD(a, b) },
	add1:      func(a, b, dst Op) { VADDSD(a, b, dst) },
	mul1:      func(a, b, dst Op) { VMULSD(a, b, dst) },
	max1:      func(a, b, dst Op) { VMAXSD(a, b, dst) },
	sqrt1:     func(a, b, dst Op) { VSQRTSD(a, b, dst) },
	div1:      func(a, b, dst Op) { VDIVSD(a, b, dst) },
	fma1:      func(a, b, sum Op) { VFMADD231SD(a, b, sum) },
	fms1:      func(a, b, sum Op) { VFNMADD231SD(a, b, sum) },
	load1:     VMOVSD,
	one:       0x3ff0000000000000,
	least:     math.Float64bits(0x1p-400), most: math.Float64bits(0x1p484),
}

var zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15}
var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
var xmm = []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12, X13, X14, X15}

// groupBytes is the bytes of an iteration of a loop: two vectors of 64 bytes.
const groupBytes = 128

// Registers of the kernels over runs.
var (
	args   = RDI
	x      = RSI
	dy     = R8
	y      = R9
	at     = RAX // bytes into x, dy and y
	count  = RCX
	whole  = R12 // groups of a run
	rest   = R13 // where the masks of the rest start (AVX2), or how many bytes it has
	mask   = 15  // the vector register of an AVX2 mask
	zeroes = 14  // the vector register of zeros
)

// vectors writes kernels over runs for one element type at one width.
type vectors struct {
	elem
	wide   bool
	masks  Mem
	ones   Mem // the number 1
	labels int
	state  Mem // MXCSR as it was, and as it is
}

// A part is the part of a group in one register.
type part struct {
	i      int  // which register of the group
	disp   int  // bytes
	masked bool // only the lanes that exist
}

// label makes a new label.
func (v *vectors) label() string {
	v.labels++
	return fmt.Sprintf("l%d", v.labels)
}

func (v *vectors) name(s string) string {
	if v.wide {
		return "wide" + s + v.elem.name
	}
	return lower(s) + v.elem.name
}

// lower writes a name with a small first letter.
func lower(s string) string { return string(s[0]|0x20) + s[1:] }

func (v *vectors) reg(i int) VecPhysical {
	if v.wide {
		return zmm[i]
	}
	return ymm[i]
}

// parts returns the parts of vector k of a group.
func (v *vectors) parts(k int, masked bool) []part {
	if v.wide {
		return []part{{k, 64 * k, masked}}
	}
	return []part{{2 * k, 64 * k, masked}, {2*k + 1, 64*k + 32, masked}}
}

// sums is how many registers hold the sums of a group.
func (v *vectors) sums() int {
	if v.wide {
		return 2
	}
	return 4
}

// begin starts a function and flushes denormals from here to end.
func (v *vectors) begin(name, standIn, doc string) {
	v.labels = 0
	TEXT(v.name(name), NOSPLIT, "func(c "+standIn+")")
	Doc(v.name(name) + " " + doc)
	Pragma("noescape")
	v.state = flush()
	Load(Param("c"), args)
}

// flush sets FTZ and DAZ, and returns where the former state is.
func flush() Mem {
	state := AllocLocal(16)
	VSTMXCSR(state)
	MOVL(state, EAX)
	ORL(U32(0x8040), EAX)
	MOVL(EAX, state.Offset(4))
	VLDMXCSR(state.Offset(4))
	return state
}

func (v *vectors) end() { restore(v.state) }

// restore ends a function that began with flush.
func restore(state Mem) {
	VLDMXCSR(state)
	VZEROUPPER()
	RET()
}

// measure splits runs of n elements into groups and a rest, from where n is in the arguments.
func (v *vectors) measure(offset int) {
	MOVQ(Mem{Base: args, Disp: offset}, count)
	SHLQ(Imm(uint64(v.size/4+1)), count)
	MOVQ(count, whole)
	SHRQ(Imm(7), whole)
	MOVQ(count, rest)
	ANDQ(Imm(groupBytes-1), rest)
	if !v.wide {
		LEAQ(v.masks.Offset(groupBytes), count)
		SUBQ(rest, count)
		MOVQ(count, rest)
		return
	}
	MOVQ(rest, count)
	SHRQ(Imm(uint64(v.size/4+1)), count)
	MOVQ(I32(-1), at)
	BZHIQ(count, at, at)
	KMOVW(at.As32(), K1)
	SHRQ(Imm(uint64(64/v.size)), at)
	KMOVW(at.As32(), K2)
}

// loop runs body over all parts of a run, and moves at from its start to its end.
func (v *vectors) loop(body func(p part)) {
	none, more, last, done := v.label(), v.label(), v.label(), v.label()
	MOVQ(whole, count)
	TESTQ(count, count)
	JE(LabelRef(none))
	Label(more)
	for k := range 2 {
		for _, p := range v.parts(k, false) {
			body(p)
		}
	}
	SUBQ(I8(-groupBytes), at)
	DECQ(count)
	JNE(LabelRef(more))
	Label(none)
	v.restBytes()
	JE(LabelRef(done))
	for _, p := range v.parts(0, true) {
		body(p)
	}
	CMPQ(count, Imm(64))
	JLE(LabelRef(last))
	for _, p := range v.parts(1, true) {
		body(p)
	}
	Label(last)
	ADDQ(count, at)
	Label(done)
}

// restBytes sets count to the bytes of the rest, and the flags.
func (v *vectors) restBytes() {
	if v.wide {
		MOVQ(rest, count)
		TESTQ(count, count)
		return
	}
	LEAQ(v.masks.Offset(groupBytes), count)
	SUBQ(rest, count)
}

// maskOf loads the mask of a part, where it needs one in a register.
func (v *vectors) maskOf(p part) {
	if p.masked && !v.wide {
		VMOVUPS(Mem{Base: rest, Disp: p.disp}, ymm[mask])
	}
}

// opmask is the AVX-512 mask of a part.
func opmask(p part) Register { return []Register{K1, K2}[p.i] }

// load reads a part, zeros where it has no lanes. maskOf must have been called.
func (v *vectors) load(p part, base, index GPPhysical, dst int) {
	m := Mem{Base: base, Index: index, Scale: 1, Disp: p.disp}
	switch {
	case !p.masked:
		v.move(m, v.reg(dst))
	case v.wide:
		v.loadZero(m, opmask(p), v.reg(dst))
	default:
		v.maskMove(ymm[mask], m, ymm[dst])
	}
}

// store writes a part.
func (v *vectors) store(p part, src int, base, index GPPhysical) {
	m := Mem{Base: base, Index: index, Scale: 1, Disp: p.disp}
	switch {
	case !p.masked:
		v.move(v.reg(src), m)
	case v.wide:
		v.move(v.reg(src), opmask(p), m)
	default:
		v.maskMove(ymm[mask], ymm[src], m)
	}
}

// center subtracts a vector and leaves zeros where a part has no lanes.
func (v *vectors) center(p part, mean, r int) {
	if p.masked && v.wide {
		v.subZero(v.reg(mean), v.reg(r), opmask(p), v.reg(r))
		return
	}
	v.sub(v.reg(mean), v.reg(r), v.reg(r))
	if p.masked {
		VANDPS(ymm[mask], ymm[r], ymm[r])
	}
}

// clear sets registers to zero.
func (v *vectors) clear(regs ...int) {
	for _, r := range regs {
		VXORPS(xmm[r], xmm[r], xmm[r])
	}
}

// from returns n numbers from first on.
func from(first, n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = first + i
	}
	return s
}

// join adds the two vectors of sums from first on up, so that the first is the sum of both.
func (v *vectors) join(first int) {
	half := v.sums() / 2
	for i := range half {
		v.add(v.reg(first+half+i), v.reg(first+i), v.reg(first+i))
	}
}

// total leaves the sum of all lanes of the joined sums from first on in the low element of that
// register: lane i and lane i + half, until one is left.
func (v *vectors) total(first, spare int) {
	if v.wide {
		VEXTRACTF64X4(Imm(1), zmm[first], ymm[spare])
		v.add(ymm[spare], ymm[first], ymm[first])
	} else {
		v.add(ymm[first+1], ymm[first], ymm[first])
	}
	VEXTRACTF128(Imm(1), ymm[first], xmm[spare])
	v.add(xmm[spare], xmm[first], xmm[first])
	VPERMILPD(Imm(1), xmm[first], xmm[spare])
	if v.size == 8 {
		v.add1(xmm[spare], xmm[first], xmm[first])
		return
	}
	v.add(xmm[spare], xmm[first], xmm[first])
	VMOVSHDUP(xmm[first], xmm[spare])
	v.add1(xmm[spare], xmm[first], xmm[first])
}
