package main

import (
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Adam with states of a byte updates whole blocks of 256 elements in two passes. The first makes
// means and roots of codes, brings them up to date and leaves them on the stack; the second moves
// parameters and makes codes of them again. It waits for the largest of the block, so it follows
// the first pass over the next one, which does not. The argument is a update.Rule8 of float32; see
// package kernels, Adam8, for the codes.

// Offsets in update.Rule8 of float32 and in its coders; a test there compares them.
const (
	offCodes     = 152
	offRootCodes = 176
	offLargest   = 200
	offMeans     = 224
	offRoots     = 1316
	offSlope     = 0 // in a coder
	offStart     = 32
)

const bytesType = "*int8" // stands for a pointer to a update.Rule8

const (
	block       = 256 // elements
	topSigned   = 6
	topUnsigned = 7
)

// codeNumbers are what codes are computed with, of 32 bits each. AVX-512 has registers for the
// first of them.
var codeNumbers = []uint32{
	codeSign: 1 << 31, codeOne: 0x3f800000, codeUnit: 1, codeSmall: (126 - 29) << 23, codeMagnitude: 1<<31 - 1, codeBelowOne: 126,
	codeSignedLast: 3*topSigned + 2, codeUnsignedLast: 3*topUnsigned + 2, codeThird: 21846, codeLeast: 0x17800000, // 2⁻⁸⁰
	codeExponent: 252 << 23, codeTwice: 254 << 23,
}

const (
	codeSign  = iota
	codeOne   // a float
	codeUnit  // an integer
	codeSmall // a float whose code is 0, and which is on the line of what is smaller
	codeMagnitude
	codeBelowOne
	codeSignedLast
	codeUnsignedLast
	codeThird // times less than 98, shifted right by 16, is a third
	codeLeast
	codeExponent // of a float but for its last two bits, so that the reciprocal is no denormal number
	codeTwice    // the sum of the exponents of a power of two and its reciprocal
)

// Tables from codeNumbers on: slope and start of means, then of roots.
const (
	offDecode = 64
	offEncode = offDecode + 2*2*8*4 // by the last five bits of an exponent
)

func codeTable() Mem {
	t := GLOBL("updateCodes", RODATA|NOPTR)
	all := append(make([]uint32, 0, offDecode/4), codeNumbers...)[:offDecode/4]
	for _, top := range []int{topSigned, topUnsigned} {
		slope, start := decoding(top)
		for _, line := range [][8]float32{slope, start} {
			for _, v := range line {
				all = append(all, math.Float32bits(v))
			}
		}
	}
	for _, top := range []int{topSigned, topUnsigned} {
		slope, start := encoding(top)
		for _, line := range [][32]float32{slope, start} {
			for _, v := range line {
				all = append(all, math.Float32bits(v))
			}
		}
	}
	for i, v := range all {
		DATA(4*i, U32(v))
	}
	return t
}

// decoding returns the lines by which codes are decoded. With n = code + 1, from 2ᵏ to 2·2ᵏ, a code
// stands for 8^(k-top-1)·(7n/2ᵏ - 6), or for 0 where k is 0. The line of k is at the last three
// bits of its exponent, k + 127. With eight bits n may be 2⁸, alone on its line, which is also that
// of 1: it leads from 0 at 1 to 1 at 2⁸. All of this is exact in a float32, and so is the rounding
// of the last one.
func decoding(top int) (slope, start [8]float32) {
	for k := 1; k <= 7; k++ {
		unit := math.Pow(8, float64(k-top-1))
		slope[(k+127)%8], start[(k+127)%8] = float32(7*unit/math.Ldexp(1, k)), float32(-6*unit)
	}
	if top == 7 {
		slope[7], start[7] = 1.0/255, -1.0/255
	}
	return slope, start
}

// encoding returns the lines by which numbers get codes, of update.Codec, for exponents from 96 to
// 127, which is that of 1 alone.
func encoding(top int) (slope, start [32]float32) {
	for i := range slope {
		d := min(max(0, (126-(96+i))/3), top)
		n := math.Ldexp(1, top-d)
		slope[i] = float32(n / 7 * math.Pow(8, float64(d+1)))
		start[i] = float32(n - 1 - n/7 + 0.5)
	}
	return slope, start
}

// A coded is the kernel for one instruction set, of Adam or of AdamW.
type coded struct {
	*kernel
	table Mem
}

var (
	blocks  = RCX // left
	largest = R10
	tile    = R11 // on the stack, at a cache line: means, then roots
	before  = R12 // the same of the block before
	means   = R13 // blocks whose means are up to date
)

// Registers where a step needs neither its fifth number nor a mask: the largest magnitudes so far.
const (
	mostMean = held + 5
	mostRoot = edge
)

func (c *coded) emit() {
	name := c.rule.name
	if c.wide {
		name = "wide" + strings.ToUpper(name[:1]) + name[1:]
	}
	TEXT(name, 0, "func(r "+bytesType+", lo, hi int)")
	Doc(name + " updates blocks lo to hi-1, all of which are whole: " + c.rule.doc)
	Pragma("noescape")
	const bytes = 2 * 4 * block
	c.local = AllocLocal(8 + 64 + 2*bytes)
	LEAQ(c.local.Offset(8+63), tile)
	ANDQ(I8(-64), tile)
	LEAQ(Mem{Base: tile, Disp: bytes}, before)
	XORQ(means, means)
	Load(Param("r"), args)
	Load(Param("lo"), at)
	Load(Param("hi"), blocks)
	SUBQ(at, blocks)
	JLE(LabelRef("end"))
	SHLQ(U8(3), at) // the largest of a block take 8 bytes, codes 256, floats 1024
	MOVQ(Mem{Base: args, Disp: offLargest}, largest)
	ADDQ(at, largest)
	SHLQ(U8(5), at)
	for i, off := range []int{offCodes, offRootCodes} {
		MOVQ(Mem{Base: args, Disp: off}, ptrs[2+i])
		ADDQ(at, ptrs[2+i])
	}
	SHLQ(U8(2), at)
	for i, off := range []int{offParam, offGrad} {
		MOVQ(Mem{Base: args, Disp: off}, ptrs[i])
		ADDQ(at, ptrs[i])
	}
	c.flushed()
	if c.wide {
		for i := range codeMagnitude {
			VBROADCASTSS(c.table.Offset(4*i), c.reg(constants+i))
		}
		for i := range 4 {
			VBROADCASTF32X8(c.table.Offset(offDecode+32*i), c.reg(lines+i))
		}
		for i, m := range c.stepNumbers() {
			c.broadcast(m, c.reg(ofStep+i))
		}
	}
	Label("block")
	TESTQ(blocks, blocks)
	JE(LabelRef("last"))
	c.update()
	c.measure()
	TESTQ(means, means)
	JE(LabelRef("next"))
	Label("last")
	c.finish()
	Label("next")
	for i, by := range []int{4 * block, 4 * block, block, block} {
		ADDQ(U32(uint32(by)), ptrs[i])
	}
	ADDQ(U8(8), largest)
	XCHGQ(tile, before)
	INCQ(means)
	DECQ(blocks)
	JGE(LabelRef("block"))
	LDMXCSR(c.local.Offset(4))
	VZEROUPPER()
	Label("end")
	RET()
}

// Registers of AVX-512.
const (
	constants = 16
	encoders  = 20 // starts: slopes are from tables on
	lines     = 24 // decoding
	ofStep    = 28 // stepNumbers
)

// Numbers of a parameter's step.
const (
	stepEpsilon = iota
	stepRate
	stepShrink // of AdamW
)

// stepNumbers are the places of these numbers.
func (c *coded) stepNumbers() []Mem {
	return []Mem{c.mem(own + 6), c.mem(own), c.mem(own + 7)}[:c.rule.numbers-5]
}

// ofStep is a register that holds one of them, with AVX2 the one given.
func (c *coded) ofStep(i int, r VecPhysical) VecPhysical {
	if c.wide {
		return c.reg(ofStep + i)
	}
	c.broadcast(c.stepNumbers()[i], r)
	return r
}

// number is a register that holds one of codeNumbers.
func (c *coded) number(i int) VecPhysical {
	if c.wide {
		return c.reg(constants + i)
	}
	r := c.reg(number)
	VBROADCASTSS(c.table.Offset(4*i), r)
	return r
}

// each emits the loop over the vectors of a block.
func (c *coded) each(label string, body func()) {
	XORQ(at, at)
	Label(label)
	body()
	ADDQ(Imm(uint64(c.lanes())), at)
	CMPQ(at, U32(block))
	JLT(LabelRef(label))
}

// vec is the place of a vector of a block, of elements of so many bytes.
func vec(base Register, size uint8) Mem { return Mem{Base: base, Index: at, Scale: size} }

// onStack is where means or roots of the vector lie, of this block or of the one before.
func onStack(tile Register, roots int) Mem {
	return Mem{Base: tile, Disp: 4 * block * roots, Index: at, Scale: 4}
}

// update computes the new means and roots of a block, and the largest of each.
func (c *coded) update() {
	for i := range c.rule.numbers {
		if r := held + i; r != mostMean && r < edge {
			c.broadcast(c.mem(own+i), c.reg(r))
		}
	}
	// What is left of the largest mean and of the largest root takes the place of their shares.
	for i, r := range []VecPhysical{c.own(1), c.own(3)} {
		was := c.temp(0)
		c.broadcast(Mem{Base: largest, Disp: 4 * i}, was)
		c.mul(was, r, r)
	}
	for _, i := range []int{mostMean, mostRoot} {
		c.clear(c.reg(i))
	}
	c.each("update", func() {
		p, g, m, v, t, u := c.param(), c.grad(), c.state(), c.square(), c.temp(0), c.temp(1)
		c.move(vec(ptrs[1], 4), g)
		CMPQ(Mem{Base: args, Disp: offPrepare}, Imm(0))
		JE(LabelRef("prepared"))
		c.move(vec(ptrs[0], 4), p)
		c.prepare()
		Label("prepared")
		VPMOVSXBD(vec(ptrs[2], 1), u)
		VPABSD(u, m)
		c.decode(m, 0)
		c.signed(m, u)
		c.mul(c.own(2), g, t)
		c.fma213(t, c.own(1), m)
		VPMOVZXBD(vec(ptrs[3], 1), v)
		c.decode(v, 1)
		c.mul(c.own(3), v, v)
		c.mul(c.own(4), g, t)
		c.mul(v, v, v)
		c.fma(t, t, v)
		c.sqrt(v, v)
		c.move(m, onStack(tile, 0))
		c.move(v, onStack(tile, 1))
		if c.wide {
			const largerMagnitude = 0xb
			VRANGEPS(U8(largerMagnitude), m, c.reg(mostMean), c.reg(mostMean)) // as it is where m is not a number
		} else {
			c.and(c.number(codeMagnitude), m, t)
			c.max(c.reg(mostMean), t, c.reg(mostMean)) // the same
		}
		c.max(c.reg(mostRoot), v, c.reg(mostRoot))
	})
}

// decode turns codes x, of means, k = 0, or of roots, into shares of the largest, on the line of
// each: see decoding.
func (c *coded) decode(x VecPhysical, k int) {
	line, slope := c.temp(0), c.temp(2)
	VPADDD(c.number(codeUnit), x, x)
	VCVTDQ2PS(x, x)
	VPSRLD(U8(23), x, line)
	if c.wide {
		VPERMPS(c.reg(lines+2*k), line, slope)
		VPERMPS(c.reg(lines+2*k+1), line, line)
	} else {
		VPERMPS(c.table.Offset(offDecode+64*k), line, slope)
		VPERMPS(c.table.Offset(offDecode+64*k+32), line, line)
	}
	c.fma213(line, slope, x)
}

// signed gives x, which is not below 0, the sign of the integers in by, which it overwrites.
func (c *coded) signed(x, by VecPhysical) {
	if c.wide {
		const orAnd = 0xf8 // of the first, and the second and the third
		VPTERNLOGD(U8(orAnd), c.number(codeSign), by, x)
		return
	}
	c.and(c.number(codeSign), by, by)
	c.or(by, x, x)
}

// clear sets r to 0.
func (c *coded) clear(r VecPhysical) {
	if c.wide {
		VPXORD(r, r, r)
		return
	}
	VPXOR(r, r, r)
}

const atLeast = 13 // of comparisons

// Registers of codes.
const (
	tables = 8  // slope and start of means, then of roots
	by     = 12 // 1/largest of means, then of roots
	lowest = 14 // the least code of a root that is not 0: 1, or 0 where the largest is below the least
)

// measure writes the largest mean and root, or 0 for one that is below the least.
func (c *coded) measure() {
	for k, from := range []int{mostMean, mostRoot} {
		most, live := c.reg(k).AsX(), c.temp(0).AsX()
		c.fold(c.reg(from), c.reg(k))
		if k == 1 {
			c.mend()
		}
		VCMPSS(U8(atLeast), c.table.Offset(4*codeLeast), most, live)
		VANDPS(live, most, most)
		VMOVSS(most, Mem{Base: largest, Disp: 4 * k})
	}
}

// Of roots from tiny to infinity, excluded, the squares were in range. Reciprocals of what is above
// huge are denormal.
const (
	tiny     = 0x2b800000 // 2⁻⁴⁰, as bits
	huge     = 0x7e800000 // 2¹²⁶
	infinity = 0x7f800000
)

// mend makes all roots of a block anew where the largest, in register 1, says that squares may have
// left the range of a float.
func (c *coded) mend() {
	VMOVD(c.reg(1).AsX(), EBX)
	LEAL(Mem{Base: RBX, Disp: -tiny}, EDX)
	CMPL(EDX, U32(infinity-tiny))
	JCS(LabelRef("fit"))
	ORL(Mem{Base: largest}, EBX) // the mean, as it is
	ORL(Mem{Base: largest, Disp: 4}, EBX)
	JE(LabelRef("fit")) // all is 0
	c.clear(c.reg(mostRoot))
	c.each("mend", func() {
		p, g, v, t := c.param(), c.grad(), c.square(), c.temp(0)
		c.move(vec(ptrs[0], 4), p)
		c.move(vec(ptrs[1], 4), g)
		CMPQ(Mem{Base: args, Disp: offPrepare}, Imm(0))
		JE(LabelRef("mendPrepared"))
		c.prepare()
		Label("mendPrepared")
		VPMOVZXBD(vec(ptrs[3], 1), v)
		c.decode(v, 1)
		c.mul(c.own(3), v, v)
		c.mul(c.own(4), g, t)
		c.hypot()
		c.move(v, onStack(tile, 1))
		c.max(c.reg(mostRoot), v, c.reg(mostRoot))
	})
	c.fold(c.reg(mostRoot), c.reg(1))
	Label("fit")
}

// hypot leaves √(v² + t²) in v, of t in temp(0). Both are first divided by a power of 16 that is in
// the larger one, so that squares stay in range; 0 where that is below 2⁻¹²³.
func (c *coded) hypot() {
	v, t, by, unit, number := c.square(), c.temp(0), c.temp(1), c.temp(2), c.reg(number)
	c.broadcast(c.table.Offset(4*codeMagnitude), number)
	c.and(number, t, by)
	c.max(v, by, by)
	c.broadcast(c.table.Offset(4*codeExponent), number)
	c.and(number, by, unit)
	c.broadcast(c.table.Offset(4*codeTwice), number)
	VPSUBD(unit, number, by)
	c.mul(by, v, v)
	c.mul(by, t, t)
	c.mul(v, v, v)
	c.fma(t, t, v)
	c.sqrt(v, v)
	c.mul(unit, v, v)
}

// finish moves the parameters of the block before, and writes its codes. Where the largest is huge
// denormal numbers are computed with meanwhile.
func (c *coded) finish() {
	MOVL(Mem{Base: largest, Disp: -8}, EBX)
	CMPL(EBX, Mem{Base: largest, Disp: -4})
	CMOVLCS(Mem{Base: largest, Disp: -4}, EBX)
	CMPL(EBX, U32(huge))
	JLS(LabelRef("flush"))
	LDMXCSR(c.local.Offset(4))
	Label("flush")
	c.beginCodes()
	c.each("finish", func() {
		x, was, t, root := c.reg(0), c.reg(1), c.reg(2), c.reg(6)
		c.move(onStack(before, 0), was)
		c.move(onStack(before, 1), root)
		c.step(was, root)
		c.encode(was, 0)
		if c.wide {
			const orAnd = 0xf8 // of the first, and the second and the third
			VPTERNLOGD(U8(orAnd), c.number(codeSign), was, x)
			VCVTTPS2DQ(x, x)
		} else {
			VCVTTPS2DQ(x, x)
			VPSIGND(was, x, x)
		}
		c.pack(0)
		c.encode(root, 1)
		VCVTTPS2DQ(x, x)
		VPMINUD(c.reg(lowest), root, t) // 0 where the root is
		VPMAXSD(t, x, x)
		c.pack(1)
	})
	CMPL(EBX, U32(huge))
	JLS(LabelRef("finished"))
	LDMXCSR(c.local)
	Label("finished")
}

// beginCodes loads what codes of means, then of roots, are computed with: zeros where the largest
// is below the least.
func (c *coded) beginCodes() {
	for k := range 2 {
		largest, live, one := Mem{Base: largest, Disp: 4*k - 8}, c.temp(0), c.temp(1).AsX()
		VMOVSS(c.table.Offset(4*codeOne), one)
		VDIVSS(largest, one, one)
		VBROADCASTSS(one, c.reg(by+k))
		VBROADCASTSS(c.table.Offset(4*codeLeast), live)
		VBROADCASTSS(largest, c.temp(2))
		if c.wide {
			VCMPPS(U8(atLeast), live, c.temp(2), K2)
			for i := range 2 {
				from := c.table.Offset(offEncode + 256*k + 128*i)
				VMOVUPS_Z(from, K2, c.reg([]int{tables, encoders}[i]+2*k))
				VMOVUPS_Z(from.Offset(64), K2, c.reg([]int{tables, encoders}[i]+2*k+1))
			}
			VMOVDQA32_Z(c.number(codeUnit), K2, c.reg(lowest)) // of roots, the last
			continue
		}
		VCMPPS(U8(atLeast), live, c.temp(2), live)
		c.and(c.number(codeUnit), live, c.reg(lowest))
		for i, off := range []int{offSlope, offStart} {
			VANDPS(Mem{Base: args, Disp: []int{offMeans, offRoots}[k] + off}, live, c.reg(tables+2*k+i))
		}
	}
}

// step moves the parameters of a vector by their means and roots. It uses registers 2 to 5.
func (c *coded) step(mean, root VecPhysical) {
	t, p, u, v := c.reg(2), c.reg(3), c.reg(4), c.reg(5)
	at := vec(ptrs[0], 4)
	at.Disp -= 4 * block
	c.move(at, p)
	c.add(c.ofStep(stepEpsilon, t), root, v)
	c.mul(c.ofStep(stepRate, u), mean, t)
	c.div(v, t, t)
	if c.rule.numbers > 7 { // of AdamW
		c.mul(c.ofStep(stepShrink, u), p, u)
		c.sub(u, p, p)
	}
	c.sub(t, p, p)
	c.move(p, at)
}

// fold leaves the largest number of from, none of which is below 0, in the first place of to.
func (c *coded) fold(from, to VecPhysical) {
	t := c.temp(0)
	if c.wide {
		VEXTRACTF64X4(U8(1), from, to.AsY())
		VMAXPS(from.AsY(), to.AsY(), from.AsY())
	}
	VEXTRACTF128(U8(1), from.AsY(), to.AsX())
	VMAXPS(from.AsX(), to.AsX(), to.AsX())
	VMOVHLPS(to.AsX(), to.AsX(), t.AsX())
	VMAXPS(t.AsX(), to.AsX(), to.AsX())
	VMOVSHDUP(to.AsX(), t.AsX())
	VMAXSS(t.AsX(), to.AsX(), to.AsX())
}

// encode leaves in register 0 what truncated is the code of the magnitude of x, of means, k = 0, or
// of roots. It uses registers 2, 4 and 5.
func (c *coded) encode(x VecPhysical, k int) {
	y, d, slope, start := c.reg(0), c.reg(2), c.reg(4), c.reg(5)
	if c.wide {
		const smallerMagnitude = 0xa
		c.mul(c.reg(by+k), x, y)
		VRANGEPS(U8(smallerMagnitude), c.number(codeOne), y, y) // 1 where it is not a number
		c.max(c.number(codeSmall), y, y)
		VPSRLD(U8(23), y, slope)
		c.move(slope, start)
		VPERMI2PS(c.reg(tables+2*k+1), c.reg(tables+2*k), slope)
		VPERMI2PS(c.reg(encoders+2*k+1), c.reg(encoders+2*k), start)
	} else {
		if k == 0 {
			c.and(c.number(codeMagnitude), x, y)
			x = y
		}
		c.mul(c.reg(by+k), x, y)
		c.min(c.number(codeOne), y, y) // the same
		VPSRLD(U8(23), y, d)
		VPSUBUSW(d, c.number(codeBelowOne), d) // 0 where y is 1
		VPMINSD(c.number([]int{codeSignedLast, codeUnsignedLast}[k]), d, d)
		VPMULHUW(c.number(codeThird), d, d)
		VPERMPS(c.reg(tables+2*k), d, slope)
		VPERMPS(c.reg(tables+2*k+1), d, start)
	}
	c.mul(slope, y, y)
	c.add(start, y, y)
}

// pack stores the codes in register 0.
func (c *coded) pack(k int) {
	x, t, to := c.reg(0), c.reg(2), vec(ptrs[2+k], 1)
	to.Disp -= block
	if c.wide {
		VPMOVDB(x, to)
		return
	}
	VEXTRACTI128(U8(1), x, t.AsX())
	VPACKSSDW(t.AsX(), x.AsX(), x.AsX())
	if k == 0 {
		VPACKSSWB(x.AsX(), x.AsX(), x.AsX())
	} else {
		VPACKUSWB(x.AsX(), x.AsX(), x.AsX())
	}
	VMOVQ(x.AsX(), to)
}
