package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Registers of a loop over elements.
var (
	dstPtr           = RDI
	srcPtrs          = []GPPhysical{RSI, RDX}
	left             = RCX
	ones, part, full = R8, R9, R10
)

// An elementwise function computes dst[i] from a[i], and from b[i] where it has two operands. Its
// result is vec 0, and so is the first operand; the second one is vec 1.
type elementwise struct {
	name   string
	doc    string
	inputs int
	params int  // numbers p, q that are the same for all elements, in top(0) and top(1)
	flush  bool // denormal numbers are zero: all but those that only move
	width  int  // registers that go through the calculation together, in AVX2
	wide   int  // the same in AVX-512
	body   func(a *asm)
}

// emit writes the function for the width of a.
func (e elementwise) emit(a *asm) {
	names, vars := []string{"dst", "a", "b"}[:1+e.inputs], []string{"p", "q"}[:e.params]
	signature := "func(" + strings.Join(names, ", ") + " []" + a.elem()
	if e.params > 0 {
		signature += ", " + strings.Join(vars, ", ") + " " + a.elem()
	}
	a.begin(e.name, signature+")", e.doc)
	a.width = 1
	a.Load(a.Param("dst").Base(), dstPtr)
	a.Load(a.Param("dst").Len(), left)
	for i, n := range names[1:] {
		a.Load(a.Param(n).Base(), srcPtrs[i])
	}
	for i, n := range vars {
		address, err := a.Param(n).Resolve()
		if err != nil {
			panic(err)
		}
		a.broadcast(address.Addr, a.top(i))
	}
	if e.flush {
		a.flush()
	}
	a.width = e.width
	if a.wide {
		a.width = e.wide
	}
	step := a.width * a.lanes()
	a.SUBQ(Imm(uint64(step)), left)
	a.JL(LabelRef("rest"))
	a.Label("loop")
	for i := range e.inputs {
		a.load(srcPtrs[i], a.v(i))
	}
	e.body(a)
	a.store(a.v(0), dstPtr)
	for _, p := range append([]GPPhysical{dstPtr}, srcPtrs[:e.inputs]...) {
		a.ADDQ(U32(uint32(a.width*a.bytes())), p)
	}
	a.SUBQ(Imm(uint64(step)), left)
	a.JGE(LabelRef("loop"))
	a.Label("rest")
	a.ADDQ(Imm(uint64(step)), left)
	a.JE(LabelRef("done"))
	a.width = 1
	a.MOVQ(I32(-1), ones)
	a.MOVQ(U32(uint32(a.lanes())), full)
	a.Label("tail")
	a.tailMask()
	for i := range e.inputs {
		a.loadTail(Mem{Base: srcPtrs[i]}, a.v(i))
		a.ADDQ(Imm(uint64(a.bytes())), srcPtrs[i])
	}
	e.body(a)
	a.storeTail(a.v(0), Mem{Base: dstPtr})
	a.ADDQ(Imm(uint64(a.bytes())), dstPtr)
	a.SUBQ(full, left)
	a.JG(LabelRef("tail"))
	a.Label("done")
	a.end()
}

// broadcast fills a register with one element of memory.
func (a *asm) broadcast(m Mem, s shared) {
	if a.size == 8 {
		a.VBROADCASTSD(m, s.r)
	} else {
		a.VBROADCASTSS(m, s.r)
	}
}

func (a *asm) load(p Register, dst vec) {
	for i := range dst {
		a.VMOVUPS(Mem{Base: p, Disp: i * a.bytes()}, dst[i])
	}
}

func (a *asm) store(src vec, p Register) {
	for i := range src {
		a.VMOVUPS(src[i], Mem{Base: p, Disp: i * a.bytes()})
	}
}

// tailMask makes the mask of the elements that are left, one register at most. In AVX2 part is then
// the address of the mask, which has no register of its own.
func (a *asm) tailMask() {
	if a.wide {
		a.BZHIQ(left, ones, part)
		a.KMOVW(part.As32(), K1)
		return
	}
	a.MOVQ(left, ones)
	a.CMPQ(left, full)
	a.CMOVQGT(full, ones)
	a.SHLQ(Imm(uint64(a.size/4+1)), ones) // 4 or 8 bytes each
	a.LEAQ(masksMiddle, part)
	a.SUBQ(ones, part)
}

// loadTail loads the masked elements, and zeros.
func (a *asm) loadTail(m Mem, dst vec) {
	if a.wide {
		a.emit("VMOVU"+a.suffix()+"_Z", m, K1, dst[0])
		return
	}
	a.VMOVUPS(Mem{Base: part}, dst[0])
	a.VMASKMOVPS(m, dst[0], dst[0])
}

// storeTail stores the masked elements. In AVX2 it uses the register below those on top.
func (a *asm) storeTail(src vec, m Mem) {
	if a.wide {
		a.emit("VMOVU"+a.suffix(), src[0], K1, m)
		return
	}
	a.VMOVUPS(Mem{Base: part}, a.top(2).r)
	a.VMASKMOVPS(src[0], a.top(2).r, m)
}
