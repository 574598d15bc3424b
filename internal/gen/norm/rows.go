package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in norm.RowArgs; a test there compares them.
const (
	rowX      = 0
	rowDy     = 24
	rowY      = 48
	rowGamma  = 72
	rowBeta   = 96
	rowMean   = 120
	rowRstd   = 144
	rowDgamma = 168
	rowDbeta  = 192
	rowN      = 216
	rowRows   = 224
	rowEps    = 232 // after it 1/n, then the number of extreme rows
)

// rowStandIn is the type that stands for a pointer to norm.RowArgs.
func (v *vectors) rowStandIn() string {
	if v.size == 4 {
		return "*uint32"
	}
	return "*uint64"
}

// Registers of the loops over rows, in addition to x, dy and y: gamma, beta or dgamma, mean, rstd,
// dbeta and the rows left.
var (
	gamma  = R10
	beta   = R11
	means  = RDX
	rstds  = RBX
	dbetas = R15
)

// rows runs body for each row; the place in it, at, starts at 0 for each loop. body may jump to the
// label extreme, to leave the row as it is.
func (v *vectors) rows(second int, body func()) {
	for _, p := range []struct {
		offset int
		reg    Register
	}{{rowX, x}, {rowDy, dy}, {rowY, y}, {rowGamma, gamma}, {second, beta}, {rowMean, means}, {rowRstd, rstds}} {
		MOVQ(Mem{Base: args, Disp: p.offset}, p.reg)
	}
	if second == rowDgamma {
		MOVQ(Mem{Base: args, Disp: rowDbeta}, dbetas)
	}
	v.measure(rowN)
	left := v.state.Offset(8)
	MOVQ(Mem{Base: args, Disp: rowRows}, at)
	MOVQ(at, left)
	Label("row")
	body()
	Label("next")
	MOVQ(Mem{Base: args, Disp: rowN}, count)
	SHLQ(Imm(uint64(v.size/4+1)), count)
	ADDQ(count, x)
	ADDQ(count, dy)
	ADDQ(count, y)
	ADDQ(Imm(uint64(v.size)), means)
	ADDQ(Imm(uint64(v.size)), rstds)
	DECQ(left)
	JNE(LabelRef("row"))
	v.end()
	Label("extreme")
	INCQ(Mem{Base: args, Disp: rowEps + 2*v.size})
	JMP(LabelRef("next"))
}

// over runs body over a row.
func (v *vectors) over(body func(p part)) {
	XORQ(at, at)
	v.loop(body)
}

// spread copies the low element of a register to all its lanes.
func (v *vectors) spread(r int) {
	v.broadcast(xmm[r], v.reg(r))
}

// normRows writes layer normalization: the mean, about the first element, then the variance about the
// mean, then the result. Equal elements have exactly their mean, and a variance of 0.
func (v *vectors) normRows() {
	const mean, rstd, d, g, b, s, q = 0, 1, 2, 3, 12, 4, 8
	share := Mem{Base: args, Disp: rowEps + v.size}
	v.begin("NormRows", v.rowStandIn(), "computes mean, rstd and y = (x - mean)·rstd·gamma + beta of each row.")
	v.rows(rowBeta, func() {
		v.broadcast(Mem{Base: x}, v.reg(mean))
		v.clear(from(s, v.sums())...)
		v.over(func(p part) {
			v.maskOf(p)
			v.load(p, x, at, d)
			v.center(p, mean, d)
			v.add(v.reg(d), v.reg(s+p.i), v.reg(s+p.i))
		})
		v.join(s)
		v.total(s, d)
		v.fma1(share, xmm[s], xmm[mean])
		v.spread(mean)
		v.clear(from(s, v.sums())...)
		v.clear(from(q, v.sums())...)
		v.over(func(p part) {
			v.maskOf(p)
			v.load(p, x, at, d)
			v.center(p, mean, d)
			v.add(v.reg(d), v.reg(s+p.i), v.reg(s+p.i))
			v.fma(v.reg(d), v.reg(d), v.reg(q+p.i))
		})
		v.join(s)
		v.join(q)
		v.total(s, d)
		v.total(q, d)
		v.finishRow(mean, rstd, d, s, q)
		v.over(func(p part) {
			v.maskOf(p)
			v.load(p, x, at, d)
			v.load(p, gamma, at, g)
			v.load(p, beta, at, b)
			v.sub(v.reg(mean), v.reg(d), v.reg(d))
			v.mul(v.reg(rstd), v.reg(d), v.reg(d))
			v.affine(v.reg(b), v.reg(g), v.reg(d))
			v.store(p, d, y, at)
		})
	})
}

// ifRegular ends a row without a result unless the size of its reciprocal deviation, at m, is in the
// range of norm.Regular: as integers, such numbers are in order.
func (v *vectors) ifRegular(m Mem) {
	if v.size == 4 {
		MOVL(m, at.As32())
		ANDL(U32(math.MaxInt32), at.As32())
		SUBL(U32(v.least), at.As32())
		CMPL(at.As32(), U32(v.most-v.least))
	} else {
		MOVQ(m, at)
		BTRQ(Imm(63), at)
		MOVQ(U64(v.least), count)
		SUBQ(count, at)
		MOVQ(U64(v.most-v.least), count)
		CMPQ(at, count)
	}
	JHI(LabelRef("extreme"))
}

// finishRow corrects the mean by the sum s about it, and makes of q, the sum of squares, the
// reciprocal deviation: the corrected two-pass algorithm (Chan, Golub and LeVeque 1983, equation
// 1.7).
func (v *vectors) finishRow(mean, rstd, spare, s, q int) {
	share := Mem{Base: args, Disp: rowEps + v.size}
	v.mul1(share, xmm[s], xmm[s])
	v.mul1(share, xmm[q], xmm[q])
	v.fms1(xmm[s], xmm[s], xmm[q])
	v.add1(xmm[s], xmm[mean], xmm[mean])
	v.clear(spare)
	v.max1(xmm[q], xmm[spare], xmm[q]) // q where it is not a number
	v.add1(Mem{Base: args, Disp: rowEps}, xmm[q], xmm[q])
	v.sqrt1(xmm[q], xmm[q], xmm[q])
	v.load1(v.ones, xmm[rstd])
	v.div1(xmm[q], xmm[rstd], xmm[rstd])
	v.load1(xmm[mean], Mem{Base: means})
	v.load1(xmm[rstd], Mem{Base: rstds})
	v.ifRegular(Mem{Base: rstds})
	v.spread(mean)
	v.spread(rstd)
}

// normRowsGrad writes the gradient of layer normalization: both sums of a row and the columns'
// sums, then dx.
func (v *vectors) normRowsGrad() {
	const mean, rstd, d, g, t, s, q = 0, 1, 2, 3, 12, 4, 8
	share := Mem{Base: args, Disp: rowEps + v.size}
	v.begin("NormRowsGrad", v.rowStandIn(), "computes dx of each row to y, and adds dy·x̂ and dy to dgamma and dbeta.")
	hat := func(p part) {
		v.maskOf(p)
		v.load(p, x, at, t)
		v.center(p, mean, t) // no lane may overflow
		v.mul(v.reg(rstd), v.reg(t), v.reg(t))
		v.load(p, dy, at, d)
		v.load(p, gamma, at, g)
		v.mul(v.reg(d), v.reg(g), v.reg(g))
	}
	v.rows(rowDgamma, func() {
		v.ifRegular(Mem{Base: rstds})
		v.broadcast(Mem{Base: means}, v.reg(mean))
		v.broadcast(Mem{Base: rstds}, v.reg(rstd))
		v.clear(from(s, v.sums())...)
		v.clear(from(q, v.sums())...)
		v.over(func(p part) {
			hat(p)
			v.add(v.reg(g), v.reg(s+p.i), v.reg(s+p.i))
			v.fma(v.reg(g), v.reg(t), v.reg(q+p.i))
			v.load(p, beta, at, g)
			v.fma(v.reg(d), v.reg(t), v.reg(g))
			v.store(p, g, beta, at)
			v.load(p, dbetas, at, g)
			v.add(v.reg(d), v.reg(g), v.reg(g))
			v.store(p, g, dbetas, at)
		})
		v.join(s)
		v.join(q)
		v.total(s, d)
		v.total(q, d)
		v.mul1(share, xmm[s], xmm[s])
		v.mul1(share, xmm[q], xmm[q])
		v.spread(s)
		v.spread(q)
		v.over(func(p part) {
			hat(p)
			v.sub(v.reg(s), v.reg(g), v.reg(g))
			v.fms(v.reg(t), v.reg(q), v.reg(g))
			v.mul(v.reg(rstd), v.reg(g), v.reg(g))
			v.store(p, g, y, at)
		})
	})
}
