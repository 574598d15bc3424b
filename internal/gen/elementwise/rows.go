package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Functions of rows of n float32 that follow one another. A vec is 16 lanes: sums over a row are
// held in them, and the 16 are added up as a tree. The last 1 to 16 elements of a row are masked,
// so that a row of up to 16 stays in a register.

// Registers of a loop over rows.
var (
	rowDst, rowX, rowY = RDI, RSI, RDX // the present row
	rowLabel, rowScale = R8, R9        // the present row's label, and the gradient of its result
	rowBytes, rowFull  = R10, R11      // bytes of a row, and of its vecs that are not masked
	rowAt, rowEnd      = RAX, R13      // bytes from the start of the row, and the end of the last row
	rowMask            = R12           // address of the mask, in AVX2
)

// A rows is a function of rows: its body computes one of them. Where it is short, the row is one
// masked vec.
type rows struct {
	name, doc string
	params    []string // slices in addition to dst: of x, y, label, dy
	one       bool     // dst has one element a row
	body      func(a *asm, short bool)
}

// rowFunctions writes them all.
func rowFunctions(a *asm) {
	for _, r := range []rows{
		{"softmax", "computes exp(x - max x), divided by its sum.", []string{"x"}, false, softmax},
		{"logSoftmax", "computes x - max x - log Σ exp(x - max x).", []string{"x"}, false, logSoftmax},
		{"softmaxGrad", "computes y (dy - y·dy), of a softmax y.", []string{"x", "y"}, false, softmaxGrad},
		{"logSoftmaxGrad", "computes dy - exp(y) Σdy, of a log softmax y.", []string{"x", "y"}, false, logSoftmaxGrad},
		{"crossEntropy", "computes log Σ exp(x - x[label]), NaN of a label below 0.", []string{"x", "label"}, true, crossEntropy},
		{"crossEntropyGrad", "computes dy (softmax(x) - onehot(label)), NaN of a label below 0.", []string{"x", "label", "dy"}, false, crossEntropyGrad},
		{"crossEntropyDense", "computes -Σ y logsoftmax(x).", []string{"x", "y"}, true, crossEntropyDense},
		{"crossEntropyDenseGrad", "computes dy (softmax(x) Σy - y).", []string{"x", "y", "dy"}, false, crossEntropyDenseGrad},
	} {
		r.emit(a)
	}
}

func (r rows) emit(a *asm) {
	registers := map[string]GPPhysical{"x": rowX, "y": rowY, "label": rowLabel, "dy": rowScale}
	types := map[string]string{"label": "int32"}
	signature := "func(dst []float32"
	for _, p := range r.params {
		t := types[p]
		if t == "" {
			t = "float32"
		}
		signature += ", " + p + " []" + t
	}
	a.begin(r.name+"Rows", signature+", n int)", r.doc)
	a.width = 64 / a.bytes()
	a.Load(a.Param("dst").Base(), rowDst)
	for _, p := range r.params {
		a.Load(a.Param(p).Base(), registers[p])
	}
	a.Load(a.Param("x").Len(), rowEnd)
	a.LEAQ(Mem{Base: rowX, Index: rowEnd, Scale: 4}, rowEnd)
	a.Load(a.Param("n"), rowBytes)
	a.LEAQ(Mem{Base: rowBytes, Disp: -1}, rowFull)
	a.ANDQ(I8(-16), rowFull)
	a.MOVQ(rowBytes, RCX)
	a.SUBQ(rowFull, RCX)
	a.SHLQ(Imm(2), rowBytes)
	a.SHLQ(Imm(2), rowFull)
	a.rowMask()
	a.flush()
	a.TESTQ(rowFull, rowFull)
	a.JE(LabelRef("short"))
	for _, short := range []bool{false, true} {
		loop := map[bool]string{false: "long", true: "short"}[short]
		a.Label(loop)
		r.body(a, short)
		r.next(a)
		a.CMPQ(rowX, rowEnd)
		a.JLT(LabelRef(loop))
		if !short {
			a.JMP(LabelRef("done"))
		}
	}
	a.Label("done")
	a.end()
}

// next goes on to the next row.
func (r rows) next(a *asm) {
	for _, p := range r.params {
		switch p {
		case "x":
			a.ADDQ(rowBytes, rowX)
		case "y":
			a.ADDQ(rowBytes, rowY)
		case "label":
			a.ADDQ(Imm(4), rowLabel)
		case "dy":
			a.ADDQ(Imm(4), rowScale)
		}
	}
	if r.one {
		a.ADDQ(Imm(4), rowDst)
	} else {
		a.ADDQ(rowBytes, rowDst)
	}
}

// rowMask makes the mask of the last RCX elements of a row.
func (a *asm) rowMask() {
	if a.wide {
		a.MOVQ(I32(-1), RBX)
		a.BZHIQ(RCX, RBX, RBX)
		a.KMOVW(EBX, K1)
		return
	}
	a.SHLQ(Imm(2), RCX)
	a.LEAQ(masksMiddle, rowMask)
	a.SUBQ(RCX, rowMask)
}

// each writes body for the vecs of a row: for all but the last one in a loop, and for the last one.
func (a *asm) each(short bool, body func(last bool)) {
	if !short {
		loop := a.unique("loop")
		a.XORQ(rowAt, rowAt)
		a.Label(loop)
		body(false)
		a.ADDQ(Imm(64), rowAt)
		a.CMPQ(rowAt, rowFull)
		a.JLT(LabelRef(loop))
	}
	body(true)
}

// at addresses the present vec of a row.
func at(row Register, short bool) Mem {
	if short {
		return Mem{Base: row}
	}
	return Mem{Base: row, Index: rowAt, Scale: 1}
}

// get loads the present vec, and zeros where it is masked.
func (a *asm) get(row Register, dst vec, short, last bool) {
	for i := range dst {
		m := at(row, short).Offset(i * a.bytes())
		switch {
		case !last:
			a.VMOVUPS(m, dst[i])
		case a.wide:
			a.VMOVUPS_Z(m, K1, dst[i])
		default:
			a.VMOVUPS(Mem{Base: rowMask, Disp: 32 * i}, dst[i])
			a.VMASKMOVPS(m, dst[i], dst[i])
		}
	}
}

// put stores the present vec. tmp is for the mask.
func (a *asm) put(src, tmp vec, row Register, short, last bool) {
	for i := range src {
		m := at(row, short).Offset(i * a.bytes())
		switch {
		case !last:
			a.VMOVUPS(src[i], m)
		case a.wide:
			a.VMOVUPS(src[i], K1, m)
		default:
			a.VMOVUPS(Mem{Base: rowMask, Disp: 32 * i}, tmp[i])
			a.VMASKMOVPS(src[i], tmp[i], m)
		}
	}
}

// exist clears the lanes past the end of a row.
func (a *asm) exist(x vec) {
	if a.wide {
		a.VMOVAPS_Z(x[0], K1, x[0])
		return
	}
	a.op("VANDPS", Mem{Base: rowMask}, x, x)
}

// fold makes every lane of x the sum or the maximum of all, tmp being changed.
func (a *asm) fold(name string, x, tmp vec) {
	if a.wide {
		a.VSHUFF32X4(U8(0x4e), x[0], x[0], tmp[0])
		a.f(name, tmp, x, x)
		a.VSHUFF32X4(U8(0xb1), x[0], x[0], tmp[0])
	} else {
		a.f(name, vec{x[1]}, vec{x[0]}, vec{x[0]})
		a.VPERM2F128(U8(1), x[0], x[0], tmp[0])
	}
	x0, t0 := x[:1], tmp[:1]
	a.f(name, t0, x0, x0)
	for _, order := range []uint8{0x4e, 0xb1} {
		a.VPERMILPS(U8(order), x0[0], t0[0])
		a.f(name, t0, x0, x0)
	}
	for i := 1; i < len(x); i++ {
		a.VMOVAPS(x[0], x[i])
	}
}

// all fills x with one element of memory.
func (a *asm) all(m Mem, x vec) {
	for i := range x {
		a.VBROADCASTSS(m, x[i])
	}
}

// scalar stores lane 0.
func (a *asm) scalar(x vec, m Mem) {
	a.VMOVSS(x[0].AsX(), m)
}

// most makes every lane of m the row's maximum, NaN aside. A short row stays in x.
func (a *asm) most(x, m, tmp vec, short bool) {
	infinity := number(-inf)
	if !short {
		a.set(infinity, m)
	}
	a.each(short, func(last bool) {
		a.get(rowX, x, short, last)
		behind := x
		if last {
			behind = tmp
			if a.wide {
				a.set(infinity, tmp)
				a.VMOVAPS(x[0], K1, tmp[0])
			} else {
				for i := range tmp {
					a.VMOVUPS(Mem{Base: rowMask, Disp: 32 * i}, tmp[i])
				}
				a.op("VANDNPS", infinity, tmp, tmp)
				a.f("OR", x, tmp, tmp)
			}
		}
		if short {
			a.set(behind, m)
		} else {
			a.f("MAX", behind, m, m)
		}
	})
	a.fold("MAX", m, tmp)
}

// exps goes over exp(x - m), with f for each vec, and leaves their sum in every lane of sum. A
// short row is in x, and stays there as its exponentials.
func (a *asm) exps(x, sum, m vec, short bool, f func(last bool)) {
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
		a.f("ADD", x, sum, sum)
		f(last)
	})
	a.fold("ADD", sum, a.v(1))
}

func softmax(a *asm, short bool) {
	x, tmp, sum, m := a.v(0), a.v(1), a.v(4), a.v(5)
	a.most(x, m, tmp, short)
	a.exps(x, sum, m, short, func(last bool) {
		if !short {
			a.put(x, tmp, rowDst, short, last)
		}
	})
	a.set(number(1), tmp)
	a.f("DIV", sum, tmp, sum)
	a.each(short, func(last bool) {
		if !short {
			a.get(rowDst, x, short, last)
		}
		a.f("MUL", sum, x, x)
		a.put(x, tmp, rowDst, short, last)
	})
}

// logOf replaces a sum, which is not below 1 or NaN, by its logarithm.
func (a *asm) logOf(sum vec) {
	m, e, p, tmp := a.v(0), a.v(1), a.v(2), a.v(3)
	a.split(sum, m, e)
	a.logTail(m, e, p, tmp)
	a.where(a.cmp(notLess, inf, sum, 0, tmp), sum, m)
	a.set(m, sum)
}

func logSoftmax(a *asm, short bool) {
	x, tmp, sum, m, kept := a.v(0), a.v(1), a.v(4), a.v(5), a.v(6)
	a.most(x, m, tmp, short)
	if short {
		a.set(x, kept)
	}
	a.exps(x, sum, m, short, func(bool) {})
	a.logOf(sum)
	a.each(short, func(last bool) {
		if !short {
			a.get(rowX, kept, short, last)
		}
		a.f("SUB", m, kept, kept)
		a.f("SUB", sum, kept, kept)
		a.put(kept, tmp, rowDst, short, last)
	})
}

func softmaxGrad(a *asm, short bool) {
	y, dy, dot, tmp := a.v(0), a.v(1), a.v(2), a.v(3)
	a.zero(dot)
	a.each(short, func(last bool) {
		a.get(rowX, y, short, last)
		a.get(rowY, dy, short, last)
		a.f("FMADD231", y, dy, dot)
	})
	a.fold("ADD", dot, tmp)
	a.each(short, func(last bool) {
		if !short {
			a.get(rowX, y, short, last)
			a.get(rowY, dy, short, last)
		}
		a.f("SUB", dot, dy, dy)
		a.f("MUL", y, dy, dy)
		a.put(dy, tmp, rowDst, short, last)
	})
}

func logSoftmaxGrad(a *asm, short bool) {
	y, dy, sum := a.v(0), a.v(4), a.v(5)
	a.zero(sum)
	a.each(short, func(last bool) {
		a.get(rowY, dy, short, last)
		a.f("ADD", dy, sum, sum)
	})
	a.fold("ADD", sum, y)
	a.each(short, func(last bool) {
		a.get(rowX, y, short, last)
		if !short {
			a.get(rowY, dy, short, last)
		}
		a.exp(y, a.v(1), a.v(2), a.v(3))
		a.f("FNMADD231", y, sum, dy)
		a.put(dy, y, rowDst, short, last)
	})
}
