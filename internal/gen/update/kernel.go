package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in update.Rule; a test there compares them. The numbers from offNumbers on are of the
// element type.
const (
	offParam   = 0
	offGrad    = 24
	offState   = 48
	offSquare  = 72
	offPrepare = 96
	offNumbers = 104
)

// Numbers of a rule, by index from offNumbers on. The rule's own come after the five that prepare
// gradients.
const (
	scale = iota
	most
	least
	decay
	down
	own
)

const flush = 0x8040 // FTZ and DAZ in MXCSR

// An elem is an element type and the instructions for vectors of it.
type elem struct {
	bits                     int
	broadcast                func(...Op)
	move                     func(...Op)
	moveZero                 func(mem, mask, dst Op)
	moveMask                 func(...Op)
	mul, add, sub, div, sqrt func(...Op)
	min, max, cmp            func(...Op)
	fma, fnma                func(...Op) // dst += a·b, dst -= a·b
	fma213                   func(...Op) // dst = b·dst + a
	and, or                  func(...Op)
	blend                    func(mask, on, off, dst Op)
}

var single = elem{
	bits: 32, broadcast: VBROADCASTSS, move: VMOVUPS,
	moveZero: func(m, k, dst Op) { VMOVUPS_Z(m, k, dst) }, moveMask: func(o ...Op) { VMASKMOVPS(o[0], o[1], o[2]) },
	mul: VMULPS, add: VADDPS, sub: VSUBPS, div: VDIVPS, sqrt: VSQRTPS, min: VMINPS, max: VMAXPS, cmp: VCMPPS,
	fma: VFMADD231PS, fnma: VFNMADD231PS, fma213: VFMADD213PS, and: VANDPS, or: VORPS,
	blend: func(mask, on, off, dst Op) { VBLENDVPS(mask, on, off, dst) },
}

var double = elem{
	bits: 64, broadcast: VBROADCASTSD, move: VMOVUPD,
	moveZero: func(m, k, dst Op) { VMOVUPD_Z(m, k, dst) }, moveMask: func(o ...Op) { VMASKMOVPD(o[0], o[1], o[2]) },
	mul: VMULPD, add: VADDPD, sub: VSUBPD, div: VDIVPD, sqrt: VSQRTPD, min: VMINPD, max: VMAXPD, cmp: VCMPPD,
	fma: VFMADD231PD, fnma: VFNMADD231PD, fma213: VFMADD213PD, and: VANDPD, or: VORPD,
	blend: func(mask, on, off, dst Op) { VBLENDVPD(mask, on, off, dst) },
}

func (e *elem) size() int { return e.bits / 8 }

// A rule computes one vector: k.param() and k.grad() are loaded. It stores states itself and leaves
// the new parameter in k.param().
type rule struct {
	name    string
	doc     string
	states  int
	numbers int  // of its own
	narrow  bool // states are bfloat16: see bfloat16.go
	limit   int  // limitSquared, limitFinite or unlimited
	body    func(k *kernel)
}

// A kernel is one rule for one type and instruction set.
type kernel struct {
	elem
	wide   bool
	rule   rule
	masks  Mem
	masked bool // at the edge
	local  Mem  // on the stack: MXCSR as it was and as it is, and a rule's own values
	edges  int  // labels of loops at edges
}

var (
	zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

	args  = RAX
	at    = RDX // bytes from the start of each tensor
	count = RCX
	ptrs  = []GPPhysical{RDI, RSI, R8, R9} // parameter, gradient, states
)

func (k *kernel) bytes() int {
	if k.wide {
		return 64
	}
	return 32
}

func (k *kernel) lanes() int { return k.bytes() / k.size() }

func (k *kernel) reg(i int) VecPhysical {
	if k.wide {
		return zmm[i]
	}
	return ymm[i]
}

func (k *kernel) param() VecPhysical     { return k.reg(0) }
func (k *kernel) grad() VecPhysical      { return k.reg(1) }
func (k *kernel) state() VecPhysical     { return k.reg(2) }
func (k *kernel) square() VecPhysical    { return k.reg(3) }
func (k *kernel) temp(i int) VecPhysical { return k.reg(4 + i) } // three

const (
	number = 7  // the register of a number that is loaded when it is used
	held   = 8  // registers of a rule's coefficients: seven with AVX2
	edge   = 15 // the mask, with AVX2
)

// mem returns the memory of a coefficient of the rule.
func (k *kernel) mem(i int) Mem { return Mem{Base: args, Disp: offNumbers + i*k.size()} }

// load loads a number into its register.
func (k *kernel) load(i int) VecPhysical {
	r := k.reg(number)
	k.broadcast(k.mem(i), r)
	return r
}

// own is a register that holds the rule's own number i.
func (k *kernel) own(i int) VecPhysical {
	if k.wide || held+i < edge {
		return k.reg(held + i)
	}
	return k.load(own + i)
}

// get loads tensor t of ptrs.
func (k *kernel) get(t int, dst VecPhysical) {
	if k.rule.narrow && t >= 2 {
		k.widen(t, dst)
		return
	}
	m := Mem{Base: ptrs[t], Index: at, Scale: 1}
	switch {
	case !k.masked:
		k.move(m, dst)
	case k.wide:
		k.moveZero(m, K1, dst)
	default:
		k.moveMask(m, k.reg(edge), dst)
	}
}

// put stores tensor t of ptrs.
func (k *kernel) put(t int, src VecPhysical) {
	if k.rule.narrow && t >= 2 {
		k.dither(t, src)
		return
	}
	m := Mem{Base: ptrs[t], Index: at, Scale: 1}
	switch {
	case !k.masked:
		k.move(src, m)
	case k.wide:
		k.move(src, K1, m)
	default:
		k.moveMask(src, k.reg(edge), m)
	}
}

func (k *kernel) emit() {
	name := k.rule.name
	if k.wide {
		name = "wide" + strings.ToUpper(name[:1]) + name[1:]
	}
	name = fmt.Sprintf("%s%d", name, k.bits)
	places, typ := []int{offParam, offGrad, offState, offSquare}, untyped[k.bits]
	if k.rule.narrow {
		places, typ = []int{offParam, offGrad, offNarrow, offNarrowSquare}, narrowType
	}
	TEXT(name, NOSPLIT, "func(r "+typ+", lo, hi int)")
	Doc(name + " updates elements lo to hi-1: " + k.rule.doc)
	Pragma("noescape")
	Load(Param("r"), args)
	Load(Param("lo"), at)
	Load(Param("hi"), count)
	SUBQ(at, count)
	for s := 1; s < k.size(); s *= 2 {
		ADDQ(at, at)
	}
	for i, off := range places[:2+k.rule.states] {
		MOVQ(Mem{Base: args, Disp: off}, ptrs[i])
	}
	for i := range k.rule.numbers {
		if k.wide || held+i < edge {
			k.broadcast(k.mem(own+i), k.reg(held+i))
		}
	}
	k.loadLimits()
	k.local = AllocLocal(k.locals())
	k.flushed()
	CMPQ(Mem{Base: args, Disp: offPrepare}, Imm(0))
	JNE(LabelRef("prepared"))
	k.loop("plain", false)
	Label("prepared")
	k.loop("prepared", true)
	Label("done")
	LDMXCSR(k.local.Offset(4))
	VZEROUPPER()
	RET()
}

// loop emits the loop over elements. prepare: gradients are scaled, clipped and decayed first.
func (k *kernel) loop(label string, prepare bool) {
	lanes := uint64(k.lanes())
	SUBQ(Imm(lanes), count)
	JL(LabelRef(label + "Edge"))
	Label(label + "Loop")
	k.vector(prepare)
	ADDQ(Imm(uint64(k.bytes())), at)
	SUBQ(Imm(lanes), count)
	JGE(LabelRef(label + "Loop"))
	Label(label + "Edge")
	ADDQ(Imm(lanes), count)
	JE(LabelRef("done"))
	k.masked = true
	if k.wide {
		MOVQ(I32(-1), RBX)
		BZHIQ(count, RBX, RBX)
		KMOVW(EBX, K1)
	} else {
		LEAQ(k.masks.Offset(64), RBX)
		for s := 1; s < k.size(); s *= 2 {
			ADDQ(count, count)
		}
		SUBQ(count, RBX)
		k.move(Mem{Base: RBX}, k.reg(edge))
	}
	k.vector(prepare)
	k.masked = false
	if !prepare {
		JMP(LabelRef("done"))
	}
}

// vector updates one vector of elements.
func (k *kernel) vector(prepare bool) {
	p, g := k.param(), k.grad()
	k.get(0, p)
	k.get(1, g)
	if k.rule.narrow {
		k.noise()
	}
	if prepare {
		k.prepare()
	}
	k.rule.body(k)
	k.put(0, p)
}

// prepare scales, clips and decays the gradient.
func (k *kernel) prepare() {
	g := k.grad()
	k.mul(k.load(down), g, g)
	k.mul(k.load(scale), g, g)
	k.min(g, k.load(most), g) // g where it is not a number
	k.max(g, k.load(least), g)
	k.fma(k.load(decay), k.param(), g)
}

// flushed makes the processor take denormal numbers for 0, and keeps how it was at k.local.Offset(4).
func (k *kernel) flushed() {
	STMXCSR(k.local)
	MOVL(k.local, EBX)
	MOVL(EBX, k.local.Offset(4))
	ORL(U32(flush), EBX)
	MOVL(EBX, k.local)
	LDMXCSR(k.local)
}
