package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// label jumps to other where the row's label is below 0, and leaves it in RBX.
func (a *asm) label(other string) {
	a.MOVLQSX(Mem{Base: rowLabel}, RBX)
	a.TESTQ(RBX, RBX)
	a.JLT(LabelRef(other))
}

// indexed sets ids to the label less the indices of the first vec: the label's lane is where it is 0.
func (a *asm) indexed(ids vec) {
	for i := range ids {
		a.VPBROADCASTD(Mem{Base: rowLabel}, ids[i])
	}
	a.op("VPSUBD", NewDataAddr(NewStaticSymbol(indicesName), 0), ids, ids)
}

// further moves ids on by a vec.
func (a *asm) further(ids vec) { a.op("VPSUBD", word(16), ids, ids) }

// own returns the mask of the label's lane.
func (a *asm) own(ids, tmp vec) mask {
	if a.wide {
		a.VPTESTNMD(ids[0], ids[0], K2)
		return mask{k: ks[:1]}
	}
	a.zero(tmp)
	a.op("VPCMPEQD", tmp, ids, tmp)
	return mask{v: tmp}
}

// without clears x in the lanes of m.
func (a *asm) without(m mask, x vec) {
	if a.wide {
		a.KNOTW(m.k[0], K3)
		a.VMOVAPS_Z(x[0], K3, x[0])
		return
	}
	a.op("VANDNPS", x, m.v, x)
}

// others computes the sum of exp(x - m) without the label's, in every lane of sum, with f for each vec
// and the label's mask. The label's is cleared in a short row, which stays in x, and in what is
// stored of a long one.
func (a *asm) others(x, sum, m, ids vec, short, store bool, f func(own mask)) {
	a.indexed(ids)
	a.zero(sum)
	a.each(short, func(last bool) {
		if !short {
			a.get(rowX, x, short, last)
		}
		a.f("SUB", m, x, x)
		a.expDown(x, a.v(1), a.v(2), a.v(3))
		if last {
			a.exist(x)
		}
		own := a.own(ids, a.v(1))
		f(own)
		a.without(own, x)
		a.f("ADD", x, sum, sum)
		if !short && store {
			a.put(x, a.v(2), rowDst, short, last)
		}
		if !last {
			a.further(ids)
		}
	})
	a.fold("ADD", sum, a.v(1))
}

// crossEntropy is log1p(z) - shift with d = x[label] - max x. Where d >= -1, z is the others'
// exponentials times exp(-d) and shift is 0, so that a small loss keeps its digits. Elsewhere z is
// the sum of all exponentials less 1, which is that of the largest, one of the others, and shift is
// d.
func crossEntropy(a *asm, short bool) {
	x, m, ids := a.v(0), a.v(5), a.v(6)
	none, stored := a.unique("none"), a.unique("stored")
	a.label(none)
	a.most(x, m, a.v(1), short)
	a.others(x, a.v(4), m, ids, short, false, func(mask) {})
	// From here on all lanes are the same: one register a vec will do.
	first := func(i int) vec { return a.v(i)[:1] }
	z, k, p, tmp, sum, most, test, d := first(0), first(1), first(2), first(3), first(4), first(5), first(6), first(7)
	a.all(Mem{Base: rowX, Index: RBX, Scale: 4}, d)
	a.f("SUB", most, d, d)
	a.set(d, z)
	a.f("XOR", a.signBit(), d, tmp)
	a.where(a.cmp(greaterEqual, number(-1), d, 0, test), tmp, z)
	a.expDown(z, k, p, tmp)
	a.f("SUB", number(1), sum, tmp)
	a.f("ADD", z, tmp, tmp)
	a.f("MUL", sum, z, z)
	far := a.cmp(less, number(-1), d, 0, test)
	a.where(far, tmp, z)
	a.keep(far, d, d)
	a.onePlus(z, most, k, tmp)
	a.logTail(most, k, p, tmp)
	a.f("SUB", d, most, most)
	a.scalar(most, Mem{Base: rowDst})
	a.JMP(LabelRef(stored))
	a.Label(none)
	a.set(nan, most)
	a.scalar(most, Mem{Base: rowDst})
	a.Label(stored)
}

// crossEntropyGrad gives the label's element minus the sum of the others, which does not cancel.
func crossEntropyGrad(a *asm, short bool) {
	x, tmp, sum, m, ids, own := a.v(0), a.v(1), a.v(4), a.v(5), a.v(6), a.v(7)
	none, stored := a.unique("none"), a.unique("stored")
	a.label(none)
	a.most(x, m, tmp, short)
	a.zero(own)
	a.others(x, sum, m, ids, short, true, func(m mask) {
		a.keep(m, x, a.v(2))
		a.f("ADD", a.v(2), own, own)
	})
	a.fold("ADD", own, tmp)
	a.f("ADD", sum, own, own)
	scale, label := m, sum
	a.all(Mem{Base: rowScale}, scale)
	a.f("DIV", own, scale, scale)
	a.f("MUL", scale, sum, label)
	a.f("XOR", a.signBit(), label, label)
	if !short {
		a.indexed(ids)
	}
	a.each(short, func(last bool) {
		if !short {
			a.get(rowDst, x, short, last)
		}
		a.f("MUL", scale, x, x)
		a.where(a.own(ids, tmp), label, x)
		a.put(x, tmp, rowDst, short, last)
		if !last {
			a.further(ids)
		}
	})
	a.JMP(LabelRef(stored))
	a.Label(none)
	a.set(nan, x)
	a.each(short, func(last bool) { a.put(x, tmp, rowDst, short, last) })
	a.Label(stored)
}

func crossEntropyDense(a *asm, short bool) {
	x, y, log, m, kept, sum := a.v(0), a.v(1), a.v(4), a.v(5), a.v(6), a.v(7)
	a.most(x, m, y, short)
	if short {
		a.set(x, kept)
	}
	a.exps(x, log, m, short, func(bool) {})
	a.logOf(log)
	a.zero(sum)
	a.each(short, func(last bool) {
		if !short {
			a.get(rowX, kept, short, last)
		}
		a.get(rowY, y, short, last)
		a.f("SUB", m, kept, kept)
		a.f("SUB", kept, log, kept)
		a.f("FMADD231", y, kept, sum)
	})
	a.fold("ADD", sum, x)
	a.scalar(sum, Mem{Base: rowDst})
}

// crossEntropyDenseGrad computes the exponentials of a long row twice: dst may be y, so they cannot
// be kept there.
func crossEntropyDenseGrad(a *asm, short bool) {
	x, y, sum, m, scale, of := a.v(0), a.v(1), a.v(4), a.v(5), a.v(6), a.v(7)
	a.most(x, m, y, short)
	a.zero(of)
	a.exps(x, sum, m, short, func(last bool) {
		a.get(rowY, y, short, last)
		a.f("ADD", y, of, of)
	})
	a.fold("ADD", of, y)
	a.f("DIV", sum, of, scale)
	a.all(Mem{Base: rowScale}, of)
	a.each(short, func(last bool) {
		if !short {
			a.get(rowX, x, short, last)
			a.f("SUB", m, x, x)
			a.expDown(x, a.v(1), a.v(2), a.v(3))
		}
		a.get(rowY, y, short, last)
		a.f("MUL", scale, x, x)
		a.f("SUB", y, x, x)
		a.f("MUL", of, x, x)
		a.put(x, y, rowDst, short, last)
	})
}

// unique returns a label that no other is.
func (a *asm) unique(name string) string {
	a.labels++
	return fmt.Sprint(name, a.labels)
}
