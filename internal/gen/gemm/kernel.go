package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/evenkeel/evenkeel/internal/gen/rounding"
)

// An elem is an element type and the instructions for vectors of it.
type elem struct {
	name      string
	size      int // bytes
	fma       func(b, a, sum Op)
	fmaBcst   func(mem, b, sum Op) // nil: none
	broadcast func(src, dst Op)
	add       func(ops ...Op)
	max       func(ops ...Op)
	load      func(ops ...Op)
	loadZero  func(mem, mask, dst Op)
	maskMove  func(ops ...Op)
}

var single = elem{
	name: "32", size: 4,
	fma:       func(b, a, sum Op) { VFMADD231PS(b, a, sum) },
	fmaBcst:   func(m, b, sum Op) { VFMADD231PS_BCST(m, b, sum) },
	broadcast: func(src, dst Op) { VBROADCASTSS(src, dst) },
	add:       VADDPS, max: VMAXPS, load: VMOVUPS,
	loadZero: func(m, k, dst Op) { VMOVUPS_Z(m, k, dst) },
	maskMove: func(ops ...Op) { VMASKMOVPS(ops[0], ops[1], ops[2]) },
}

var double = elem{
	name: "64", size: 8,
	fma:       func(b, a, sum Op) { VFMADD231PD(b, a, sum) },
	fmaBcst:   func(m, b, sum Op) { VFMADD231PD_BCST(m, b, sum) },
	broadcast: func(src, dst Op) { VBROADCASTSD(src, dst) },
	add:       VADDPD, max: VMAXPD, load: VMOVUPD,
	loadZero: func(m, k, dst Op) { VMOVUPD_Z(m, k, dst) },
	maskMove: func(ops ...Op) { VMASKMOVPD(ops[0], ops[1], ops[2]) },
}

// Registers of a tile kernel. The three bases address rows 0, 5 and 10 of A, and later of C.
var (
	bases               = []GPPhysical{RAX, RBX, RCX}
	args                = RDI
	row, row3           = R8, R9 // bytes from row to row, and three times that
	stepA               = R10
	ptrB, stepB, stepB3 = R11, R12, R13
	count               = RSI
	temp                = RDX
	ptrA, ptrC          = R14, R15 // first rows of the tile
)

// A kernel is one tile kernel: rows x vectors of sums.
type kernel struct {
	elem
	vector  int // bytes of a vector register: 32 or 64
	rows    int
	vectors int  // 1 or 2, or more in a line
	line    bool // one row of full vectors, whose columns all exist, multiplied with an unpacked B
	masks   Mem
	rounder *rounding.Rounder
	convert *kind // how the current step converts B to float32. Nil: B is float32
}

func (k *kernel) wide() bool { return k.vector == 64 }
func (k *kernel) cols() int  { return k.vectors * k.vector / k.size }

func (k *kernel) reg(i int) VecPhysical {
	if k.wide() {
		return zmm[i]
	}
	return ymm[i]
}

// sum is the register of row i, vector v; spare are the four that are no sums.
func (k *kernel) sum(i, v int) VecPhysical { return k.reg(i*k.vectors + v) }
func (k *kernel) spare(i int) VecPhysical {
	if k.wide() {
		return zmm[28+i]
	}
	return ymm[12+i]
}

func (k *kernel) emit() {
	name := fmt.Sprintf("tile%dx%dx%s", k.rows, k.cols(), k.name)
	if k.wide() {
		name = fmt.Sprintf("wideTile%dx%dx%s", k.rows, k.cols(), k.name)
	}
	if k.line {
		name = strings.Replace(strings.Replace(name, "tile", "line", 1), "Tile", "Line", 1)
	}
	TEXT(name, NOSPLIT, "func(t "+untyped+")")
	Doc(fmt.Sprintf("%s computes a tile of up to %d columns of %s-bit floats.", name, k.cols(), k.name))
	Pragma("noescape")
	Load(Param("t"), args)
	flush(args, temp)
	if k.wide() && !k.line {
		k.loadMasks()
	}
	MOVQ(Mem{Base: args, Disp: offA}, ptrA)
	MOVQ(Mem{Base: args, Disp: offC}, ptrC)
	Label("tile")
	k.begin()
	k.loop()
	k.address(ptrC, offRowC)
	MOVQ(Mem{Base: args, Disp: offFlags}, temp)
	if k.wide() || k.line {
		k.finish(false)
	} else {
		MOVQ(Mem{Base: args, Disp: offN}, count)
		CMPQ(count, Imm(uint64(k.cols())))
		JNE(LabelRef("edge"))
		k.finish(false)
		JMP(LabelRef("next"))
		Label("edge")
		k.finish(true)
		Label("next")
	}
	k.next()
}

// next goes on to the tile below, if there is one.
func (k *kernel) next() {
	SUBQ(Imm(1), Mem{Base: args, Disp: offMore})
	JL(LabelRef("done"))
	IMUL3Q(Imm(uint64(k.rows)), row, temp)
	ADDQ(temp, ptrC)
	MOVQ(Mem{Base: args, Disp: offRowA}, temp)
	IMUL3Q(Imm(uint64(k.rows)), temp, temp)
	ADDQ(temp, ptrA)
	JMP(LabelRef("tile"))
	Label("done")
	restore(args)
	VZEROUPPER()
	RET()
}

// begin clears the sums and prefetches the rows of C.
func (k *kernel) begin() {
	k.address(ptrC, offRowC)
	for i := range k.rows {
		for v := range k.vectors {
			if k.wide() {
				VPXORD(k.sum(i, v), k.sum(i, v), k.sum(i, v))
			} else {
				VXORPS(k.sum(i, v), k.sum(i, v), k.sum(i, v))
			}
		}
		PREFETCHT0(k.at(i, 0))
		for at := 64; at < k.vectors*k.vector; at += 64 {
			PREFETCHT0(k.at(i, at))
		}
	}
	k.address(ptrA, offRowA)
	MOVQ(Mem{Base: args, Disp: offStepA}, stepA)
	MOVQ(Mem{Base: args, Disp: offB}, ptrB)
	MOVQ(Mem{Base: args, Disp: offStepB}, stepB)
	LEAQ(Mem{Base: stepB, Index: stepB, Scale: 2}, stepB3)
	MOVQ(Mem{Base: args, Disp: offK}, count)
}

// address points the bases at rows 0, 5 and 10 of an operand.
func (k *kernel) address(pointer GPPhysical, stride int) {
	MOVQ(pointer, bases[0])
	MOVQ(Mem{Base: args, Disp: stride}, row)
	LEAQ(Mem{Base: row, Index: row, Scale: 2}, row3)
	for i := 1; i < k.bases(); i++ {
		LEAQ(Mem{Base: bases[i-1], Index: row, Scale: 4}, bases[i])
		ADDQ(row, bases[i])
	}
}

func (k *kernel) bases() int { return (k.rows + 4) / 5 }

// at addresses row i of the operand that the bases point at.
func (k *kernel) at(i, disp int) Mem {
	m := Mem{Base: bases[i/5], Disp: disp}
	switch i % 5 {
	case 1, 2, 4:
		m.Index, m.Scale = row, uint8(i%5)
	case 3:
		m.Index, m.Scale = row3, 1
	}
	return m
}

// loop emits the loop over k: four steps at a time, then one.
func (k *kernel) loop() {
	switch {
	case k.line && k.converts():
		choose(args)
	case k.packs():
		MOVQ(Mem{Base: args, Disp: offPanel}, temp)
		TESTQ(temp, temp)
		JNE(LabelRef("packing"))
	}
	SUBQ(Imm(4), count)
	JL(LabelRef("rest"))
	Label("four")
	for u := range 4 {
		k.step(u)
	}
	LEAQ(Mem{Base: ptrB, Index: stepB, Scale: 4}, ptrB)
	SUBQ(Imm(4), count)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(Imm(4), count)
	JLE(LabelRef("summed"))
	Label("one")
	k.step(0)
	ADDQ(stepB, ptrB)
	DECQ(count)
	JNE(LabelRef("one"))
	if k.packs() {
		JMP(LabelRef("summed"))
		Label("packing")
		if k.converts() {
			choose(args)
		}
		k.packing(nil)
	}
	if k.converts() {
		for i := range kinds {
			JMP(LabelRef("summed"))
			Label(kinds[i].label)
			k.packing(&kinds[i])
		}
	}
	Label("summed")
}

// converts reports whether the kernel converts B to float32 as it reads it.
func (k *kernel) converts() bool { return k.size == 4 && (k.packs() || k.line) }

// packs reports whether the kernel can store the rows of B that it reads to a panel: the
// multiplications hide it. Pairs were packed before.
func (k *kernel) packs() bool { return k.vectors == 2 && !k.line && k.fmaBcst != nil }

// packing is the loop of a kernel that packs, or converts, B. Its rows are new and far apart, so it
// asks for them some steps before.
func (k *kernel) packing(n *kind) {
	label, size := "pack", k.size
	if n != nil {
		label, size = n.label+"Loop", n.size
	}
	TESTQ(count, count)
	JLE(LabelRef("summed"))
	before := k.rounder
	if n != nil && n.rounds() && k.rows*k.vectors+rounding.Constants <= k.registers()-4 {
		var held []VecPhysical
		for i := range rounding.Constants {
			held = append(held, k.reg(k.registers()-4-rounding.Constants+i))
		}
		k.rounder = before.Hold(held)
	}
	Label(label)
	if !k.line {
		for at := 0; at < k.cols()*size; at += 64 {
			PREFETCHT0(Mem{Base: ptrB, Index: stepB, Scale: 8, Disp: at})
		}
	}
	k.convert = n
	k.step(0)
	k.convert, k.rounder = nil, before
	ADDQ(stepB, ptrB)
	if !k.line {
		for v := range k.vectors {
			k.load(k.spare(v), Mem{Base: temp, Disp: k.vector * v})
		}
		ADDQ(U32(uint32(k.vectors*k.vector)), temp)
	}
	DECQ(count)
	JNE(LabelRef(label))
}

// registers is how many vector registers there are.
func (k *kernel) registers() int {
	if k.wide() {
		return 32
	}
	return 16
}

// rowOfB addresses vector v of row u of B.
func (k *kernel) rowOfB(u, v int) Mem {
	m := Mem{Base: ptrB, Disp: k.vector * v}
	switch u {
	case 1, 2:
		m.Index, m.Scale = stepB, uint8(u)
	case 3:
		m.Index, m.Scale = stepB3, 1
	}
	return m
}

// loadB loads vector v of row u of B to b, as float32, and may overwrite the temporary ones.
func (k *kernel) loadB(u, v int, b, temp1, temp2 VecPhysical) {
	if n := k.convert; n != nil {
		n.load(k.rounder, n.at(k.rowOfB(u, 0), k.vector*v), b, temp1, temp2)
		return
	}
	k.load(k.rowOfB(u, v), b)
}

// step adds the product of one column of A and row u of B.
func (k *kernel) step(u int) {
	if k.line {
		k.broadcast(k.at(0, 0), k.spare(u))
		for v := range k.vectors {
			if k.convert != nil {
				k.loadB(u, v, k.spare(1), k.spare(2), k.spare(3))
				k.fma(k.spare(1), k.spare(u), k.sum(0, v))
				continue
			}
			k.fma(k.rowOfB(u, v), k.spare(u), k.sum(0, v))
		}
		ADDQ(stepA, bases[0])
		return
	}
	for v := range k.vectors {
		k.loadB(u, v, k.spare(v), k.spare(2), k.spare(3))
	}
	for i := range k.rows {
		if k.wide() && k.vectors == 1 && k.fmaBcst != nil {
			k.fmaBcst(k.at(i, 0), k.spare(0), k.sum(i, 0))
			continue
		}
		a := k.spare(2 + i%2)
		k.broadcast(k.at(i, 0), a)
		for v := range k.vectors {
			k.fma(k.spare(v), a, k.sum(i, v))
		}
	}
	for i := range k.bases() {
		ADDQ(stepA, bases[i])
	}
}

// loadMasks sets K1 and K2 to the columns that exist.
func (k *kernel) loadMasks() {
	MOVQ(Mem{Base: args, Disp: offN}, count)
	MOVQ(I32(-1), stepA)
	BZHIQ(count, stepA, stepA)
	KMOVW(stepA.As32(), K1)
	if k.vectors == 2 {
		SHRQ(Imm(uint64(k.vector/k.size)), stepA)
		KMOVW(stepA.As32(), K2)
	}
}

// finish adds the old C and the bias, applies the activation and stores. edge: only the columns
// that exist.
func (k *kernel) finish(edge bool) {
	label := func(s string) string {
		if edge {
			return "edge_" + s
		}
		return s
	}
	mask, value := k.spare(0), k.spare(1)
	masked := func(v int) {
		if edge {
			k.load(Mem{Base: ptrB, Disp: 32 * v}, mask)
		}
	}
	if edge {
		maskOf(k.masks, k.elem, count, ptrB)
	}
	TESTQ(U32(flagAdd), temp)
	JE(LabelRef(label("fresh")))
	for v := range k.vectors {
		masked(v)
		for i := range k.rows {
			k.addFrom(k.at(i, k.vector*v), v, edge, mask, value, k.sum(i, v))
		}
	}
	Label(label("fresh"))
	TESTQ(U32(flagBias), temp)
	JE(LabelRef(label("unbiased")))
	MOVQ(Mem{Base: args, Disp: offBias}, stepB)
	for v := range k.vectors {
		masked(v)
		k.read(Mem{Base: stepB, Disp: k.vector * v}, v, edge, mask, value)
		for i := range k.rows {
			k.add(value, k.sum(i, v), k.sum(i, v))
		}
	}
	Label(label("unbiased"))
	TESTQ(U32(flagRelu), temp)
	JE(LabelRef(label("store")))
	if k.wide() {
		VPXORD(value, value, value)
	} else {
		VXORPS(value, value, value)
	}
	for i := range k.rows {
		for v := range k.vectors {
			k.max(k.sum(i, v), value, k.sum(i, v)) // the sum where it is not a number
		}
	}
	Label(label("store"))
	for v := range k.vectors {
		masked(v)
		for i := range k.rows {
			k.write(k.sum(i, v), v, edge, mask, k.at(i, k.vector*v))
		}
	}
}

// opmask is the AVX-512 mask of vector v.
func opmask(v int) Register { return []Register{K1, K2}[v] }

// read loads vector v.
func (k *kernel) read(m Mem, v int, edge bool, mask, dst VecPhysical) {
	switch {
	case k.wide() && !k.line:
		k.loadZero(m, opmask(v), dst)
	case edge:
		k.maskMove(m, mask, dst)
	default:
		k.load(m, dst)
	}
}

// addFrom adds vector v in memory to a sum.
func (k *kernel) addFrom(m Mem, v int, edge bool, mask, value, sum VecPhysical) {
	if k.line || !k.wide() && !edge {
		k.add(m, sum, sum)
		return
	}
	k.read(m, v, edge, mask, value)
	k.add(value, sum, sum)
}

// write stores vector v.
func (k *kernel) write(sum VecPhysical, v int, edge bool, mask VecPhysical, m Mem) {
	switch {
	case k.wide() && !k.line:
		k.load(sum, opmask(v), m)
	case edge:
		k.maskMove(sum, mask, m)
	default:
		k.load(sum, m)
	}
}
