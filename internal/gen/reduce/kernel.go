package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

type fold int

const (
	sum fold = iota
	max
	squares
)

func (f fold) String() string { return [...]string{"Sum", "Max", "Squares"}[f] }

// A kernel folds elements of 4 or 8 bytes.
type kernel struct {
	size   int
	wide   bool
	fold   fold
	tables table
}

// A vector of 8 lanes is one part, or two of 4 lanes.
func (k *kernel) parts() int {
	if k.wide {
		return 1
	}
	return 2
}

func (k *kernel) lanes() int { return 8 / k.parts() }

func (k *kernel) reg(i int) VecPhysical {
	if k.wide {
		return zmm[i]
	}
	return ymm[i]
}

// acc is part p of vector v of results; value, spare, odd (lanes that were NaN) and least (-Inf)
// are beside them.
func (k *kernel) acc(v, p int) VecPhysical { return k.reg(v*k.parts() + p) }
func (k *kernel) value() VecPhysical       { return k.reg(12) }
func (k *kernel) spare() VecPhysical       { return k.reg(13) }
func (k *kernel) odd() VecPhysical         { return k.reg(14) }
func (k *kernel) least() VecPhysical       { return k.reg(15) }
func (k *kernel) one() VecPhysical         { return k.reg(15) } // in a sum

// name is the kernel's in the assembly: wide ones are AVX-512.
func (k *kernel) name(what string) string {
	if k.wide {
		what = "wide" + strings.ToUpper(what[:1]) + what[1:]
	}
	return fmt.Sprintf("%s%v%d", what, k.fold, 8*k.size)
}

func (k *kernel) float() string { return fmt.Sprintf("float%d", 8*k.size) }

// flushes reports whether denormal numbers are taken for 0. Squares of float32 and sums are never
// denormal themselves, and a maximum must be an element.
func (k *kernel) flushes() bool { return k.size == 4 && k.fold != max }

// begin loads constants, and sets MXCSR where denormal numbers would be slow; end sets it back.
func (k *kernel) begin() (end func()) {
	switch k.fold {
	case max:
		VBROADCASTSD(k.tables.infinity, k.least())
	case sum:
		VBROADCASTSD(k.tables.one, k.one())
	}
	if !k.flushes() {
		return func() { VZEROUPPER(); RET() }
	}
	local := AllocLocal(8)
	STMXCSR(local)
	MOVL(local, EAX)
	MOVL(EAX, local.Offset(4))
	ORL(U32(flush), EAX)
	MOVL(EAX, local)
	LDMXCSR(local)
	return func() { LDMXCSR(local.Offset(4)); VZEROUPPER(); RET() }
}

// load loads lanes at m as float64.
func (k *kernel) load(m Mem, dst VecPhysical) {
	if k.size == 4 {
		VCVTPS2PD(m, dst)
	} else {
		VMOVUPD(m, dst)
	}
}

// loadTail loads those lanes at m that K1 or the mask at at name; others are 0.
func (k *kernel) loadTail(m, at Mem, dst VecPhysical) {
	switch {
	case k.wide && k.size == 4:
		VCVTPS2PD_Z(m, K1, dst)
	case k.wide:
		VMOVUPD_Z(m, K1, dst)
	case k.size == 4:
		x := xmm[12] // as value
		VMOVUPS(at, xmm[13])
		VMASKMOVPS(m, xmm[13], x)
		VCVTPS2PD(x, dst)
	default:
		VMOVUPD(at, k.spare())
		VMASKMOVPD(m, k.spare(), dst)
	}
}

// into folds value into dst.
func (k *kernel) into(dst VecPhysical) {
	v := k.value()
	switch k.fold {
	case sum:
		k.plus(v, dst, true)
	case squares:
		VFMADD231PD(v, v, dst)
	case max:
		k.note(v)
		VMAXPD(v, dst, dst) // v where both are equal, or one is NaN
	}
}

// plus adds v to dst. Zen 5 has other units for fused products than for sums and conversions, so
// where elements are converted and enough sums are under way to hide that a product takes a cycle
// longer, v is multiplied by one: the same bits.
func (k *kernel) plus(v, dst VecPhysical, many bool) {
	if k.size == 4 && many {
		VFMADD231PD(k.one(), v, dst)
	} else {
		VADDPD(v, dst, dst)
	}
}

// note remembers lanes that are NaN.
func (k *kernel) note(v VecPhysical) {
	if k.wide {
		VCMPPD(Imm(3), v, v, K2)
		KORW(K2, K3, K3)
		return
	}
	VCMPPD(Imm(3), v, v, k.spare())
	VORPD(k.spare(), k.odd(), k.odd())
}

// rows writes the kernel that folds rows, tile by tile.
func (k *kernel) rows() {
	name := k.name("rows")
	TEXT(name, NOSPLIT, fmt.Sprintf("func(acc []float64, x []%s, n int)", k.float()))
	Doc(fmt.Sprintf("%s folds len(acc) rows of n elements each into its element of acc.", name))
	Pragma("noescape")
	acc, rows, x, n, left, count := RDI, RCX, RSI, RDX, R8, R9
	Load(Param("acc").Base(), acc)
	Load(Param("acc").Len(), rows)
	Load(Param("x").Base(), x)
	Load(Param("n"), n)
	end := k.begin()
	TESTQ(rows, rows)
	JE(LabelRef("done"))
	Label("row")
	MOVQ(n, left)
	Label("tile")
	MOVQ(left, count)
	CMPQ(count, U32(tileLen))
	JLE(LabelRef("last"))
	MOVQ(U32(tileLen), count)
	Label("last")
	SUBQ(count, left)
	k.clear()
	SUBQ(Imm(8*sums), count)
	JL(LabelRef("rest"))
	Label("loop")
	for g := range sums {
		k.group(x, g, g*8*k.size)
	}
	ADDQ(U32(uint32(8*sums*k.size)), x)
	SUBQ(Imm(8*sums), count)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(8*sums), count)
	k.rest(x, count)
	Label("tree")
	k.tree()
	k.join(acc)
	TESTQ(left, left)
	JNE(LabelRef("tile"))
	ADDQ(Imm(8), acc)
	DECQ(rows)
	JNE(LabelRef("row"))
	Label("done")
	end()
}

// clear starts a tile.
func (k *kernel) clear() {
	for i := range sums * k.parts() {
		switch {
		case k.fold == max:
			VMOVAPD(k.least(), k.reg(i))
		default:
			VXORPD(ymm[i], ymm[i], ymm[i]) // clears the whole register
		}
	}
	if k.fold == max {
		if k.wide {
			KXORW(K3, K3, K3)
		} else {
			VXORPD(k.odd(), k.odd(), k.odd())
		}
	}
}

// group folds 8 elements at x into vector g.
func (k *kernel) group(x GPPhysical, g, disp int) {
	for p := range k.parts() {
		k.load(Mem{Base: x, Disp: disp + p*k.lanes()*k.size}, k.value())
		k.into(k.acc(g, p))
	}
}

// rest folds the last count < 32 elements of a tile, and advances x past them.
func (k *kernel) rest(x, count GPPhysical) {
	for g := range sums {
		SUBQ(Imm(8), count)
		JL(LabelRef(fmt.Sprintf("part%d", g)))
		if g == sums-1 {
			break
		}
		k.group(x, g, 0)
		ADDQ(Imm(uint64(8*k.size)), x)
	}
	for g := sums - 1; g >= 0; g-- {
		Label(fmt.Sprintf("part%d", g))
		ADDQ(Imm(8), count)
		JE(LabelRef("tree"))
		k.mask(count)
		for p := range k.parts() {
			lanes := p * k.lanes()
			m, at := Mem{Base: x, Disp: lanes * k.size}, Mem{Base: RBX, Disp: lanes * k.size}
			k.loadTail(m, at, k.value())
			k.intoTail(k.acc(g, p), at)
		}
		LEAQ(Mem{Base: x, Index: count, Scale: uint8(k.size)}, x)
		if g > 0 {
			JMP(LabelRef("tree"))
		}
	}
}

// mask prepares a tail of count lanes: K1, or the address of a mask in RBX.
func (k *kernel) mask(count GPPhysical) {
	if k.wide {
		opmask(count, RBX)
	} else {
		maskOf(k.tables.masks, k.size, count, RBX)
	}
}

// intoTail folds the lanes of value that exist into dst. Zeros change no sum.
func (k *kernel) intoTail(dst VecPhysical, at Mem) {
	switch {
	case k.fold != max:
		k.into(dst)
	case k.wide:
		k.note(k.value())
		VMAXPD(k.value(), dst, K1, dst)
	default:
		if k.size == 4 {
			VPMOVSXDQ(at, k.spare())
		} else {
			VMOVUPD(at, k.spare())
		}
		VBLENDVPD(k.spare(), k.value(), k.least(), k.value())
		k.into(dst)
	}
}

// tree folds all lanes into X0: vectors first, then halves.
func (k *kernel) tree() {
	op := VADDPD
	if k.fold == max {
		op = VMAXPD
	}
	for p := range k.parts() {
		op(k.acc(1, p), k.acc(0, p), k.acc(0, p))
		op(k.acc(3, p), k.acc(2, p), k.acc(2, p))
		op(k.acc(2, p), k.acc(0, p), k.acc(0, p))
	}
	if k.wide {
		VEXTRACTF64X4(Imm(1), Z0, Y1)
	}
	op(Y1, Y0, Y0)
	VEXTRACTF128(Imm(1), Y0, X1)
	op(X1, X0, X0)
	VPERMILPD(Imm(1), X0, X1)
	op(X1, X0, X0)
}

// join folds X0 into the result at acc.
func (k *kernel) join(acc GPPhysical) {
	m := Mem{Base: acc}
	if k.fold != max {
		VADDSD(m, X0, X0)
		VMOVSD(X0, m)
		return
	}
	if k.wide {
		KORTESTW(K3, K3)
	} else {
		VPTEST(k.odd(), k.odd())
	}
	JE(LabelRef("numbers"))
	VMOVSD(k.tables.nan, X0)
	Label("numbers")
	VMOVSD(m, X1)
	VUCOMISD(X1, X1)
	JPS(LabelRef("joined"))
	VMAXSD(X0, X1, X0)
	VMOVSD(X0, m)
	Label("joined")
}

// cols writes the kernel that folds rows into each other, up to 8 registers of columns at a time.
func (k *kernel) cols() {
	name := k.name("cols")
	TEXT(name, NOSPLIT, fmt.Sprintf("func(acc []float64, x []%s, rows, stride int)", k.float()))
	Doc(fmt.Sprintf("%s folds rows of len(acc) elements, stride apart, into acc.", name))
	Pragma("noescape")
	acc, left, x, rows, stride := RDI, RCX, RSI, RDX, R8
	Load(Param("acc").Base(), acc)
	Load(Param("acc").Len(), left)
	Load(Param("x").Base(), x)
	Load(Param("rows"), rows)
	Load(Param("stride"), stride)
	for s := k.size; s > 1; s /= 2 {
		ADDQ(stride, stride)
	}
	end := k.begin()
	const regs = 8
	lanes := k.lanes() // of a register
	TESTQ(rows, rows)
	JLE(LabelRef("done"))
	Label("block")
	CMPQ(left, Imm(uint64(regs*lanes)))
	JL(LabelRef("edge"))
	k.block(acc, x, rows, stride, regs, false)
	ADDQ(U32(uint32(regs*lanes*8)), acc)
	ADDQ(U32(uint32(regs*lanes*k.size)), x)
	SUBQ(Imm(uint64(regs*lanes)), left)
	JMP(LabelRef("block"))
	Label("edge")
	TESTQ(left, left)
	JE(LabelRef("done"))
	for v := 1; v < regs; v++ {
		CMPQ(left, Imm(uint64(v*lanes)))
		JLE(LabelRef(fmt.Sprintf("edge%d", v)))
	}
	for v := regs; v >= 1; v-- {
		Label(fmt.Sprintf("edge%d", v))
		SUBQ(Imm(uint64((v-1)*lanes)), left) // lanes of the last register
		k.block(acc, x, rows, stride, v, true)
		if v > 1 {
			JMP(LabelRef("done"))
		}
	}
	Label("done")
	end()
}

// block folds so many registers of columns; the last one has as many lanes as left says where it is
// an edge.
func (k *kernel) block(acc, x, rows, stride GPPhysical, regs int, edge bool) {
	at, count, lanes := R9, R10, k.lanes()
	if edge {
		MOVQ(RCX, R11)
		if k.wide {
			opmask(R11, RBX)
		} else {
			maskOf(k.tables.masks, 8, R11, RAX)
			VMOVUPD(Mem{Base: RAX}, k.odd())
			maskOf(k.tables.masks, k.size, R11, RBX)
		}
	}
	last := func(v int) bool { return edge && v == regs-1 }
	for v := range regs {
		m := Mem{Base: acc, Disp: v * lanes * 8}
		switch {
		case last(v) && k.wide:
			VMOVUPD_Z(m, K1, k.reg(v))
		case last(v):
			VMASKMOVPD(m, k.odd(), k.reg(v))
		default:
			VMOVUPD(m, k.reg(v))
		}
	}
	MOVQ(x, at)
	MOVQ(rows, count)
	label := "rows"
	if edge {
		label = fmt.Sprintf("rows%d", regs)
	}
	Label(label)
	for v := range regs {
		m := Mem{Base: at, Disp: v * lanes * k.size}
		if last(v) {
			k.loadTail(m, Mem{Base: RBX}, k.value())
		} else {
			k.load(m, k.value())
		}
		k.column(k.reg(v), regs > 4)
	}
	if regs == 8 { // the processor does not foresee the next rows
		for line := 0; line < regs*lanes*k.size; line += 64 {
			PREFETCHT0(Mem{Base: at, Index: stride, Scale: 8, Disp: line})
		}
	}
	ADDQ(stride, at)
	DECQ(count)
	JNE(LabelRef(label))
	for v := range regs {
		m := Mem{Base: acc, Disp: v * lanes * 8}
		switch {
		case last(v) && k.wide:
			VMOVUPD(k.reg(v), K1, m)
		case last(v):
			VMASKMOVPD(k.reg(v), k.odd(), m)
		default:
			VMOVUPD(k.reg(v), m)
		}
	}
}

// column folds value into dst, lane by lane: a lane that is NaN stays NaN.
func (k *kernel) column(dst VecPhysical, many bool) {
	switch {
	case k.fold == sum:
		k.plus(k.value(), dst, many)
	case k.wide:
		VCMPPD(Imm(3), dst, dst, K2)
		KNOTW(K2, K2)
		VMAXPD(k.value(), dst, K2, dst)
	default:
		VCMPPD(Imm(3), dst, dst, k.spare())
		VMAXPD(k.value(), dst, k.value())
		VBLENDVPD(k.spare(), dst, k.value(), dst)
	}
}
