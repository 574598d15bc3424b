package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Adam with states of a byte updates whole blocks of 256 elements in two passes. The first makes
// means and roots of codes, brings them up to date and leaves them on the stack; the second moves
// parameters and makes codes of them again. It waits for the largest root of the block, so it
// follows the first pass over the next one, which does not. The argument is a update.Rule8 of
// float32; see numeric.EncodeRoot and numeric.EncodeMean for the codes: they are the upper bits of
// floats.

// Offsets in update.Rule8 of float32; a test there compares them.
const (
	offCodes     = 160
	offRootCodes = 184
	offLargest   = 208
	offHalf      = 232 // 1/(2·span)
	offRootNoise = 236
	offMeanNoise = 240
)

const bytesType = "*int8" // stands for a pointer to a update.Rule8

const block = 256 // elements

// From package numeric.
const (
	rootBits = 20
	meanBits = 19
	dither   = 0xBB67AE85
)

// codeNumbers are what codes are computed with, of 32 bits each. AVX-512 has registers for the
// first of them, AVX2 reads them from memory.
var codeNumbers = []uint32{
	codeSign: 1 << 31, codeOne: 0x3f800000, codeLow: 761 << rootBits, codeZero: 1920 << meanBits, codeUnit: 0xff << 23, codeLast: 127,
	codeMagnitude: 1<<31 - 1, codeExponent: 252 << 23, codeTwice: 254 << 23, codeLeast: 0x17800000, // 2⁻⁸⁰
	codeJump: (127 + 16) << 23, codeInfinity: infinity,
	codeNarrow: dither * 8 % (1 << 32), codeWide: dither * 16 % (1 << 32),
}

const (
	codeSign = iota
	codeOne  // a float
	codeLow  // the least root, as bits
	codeZero // what a mean of 0 is, as bits
	codeUnit // the exponent of a float
	codeLast // code of a mean
	codeMagnitude
	codeExponent // of a float but for its last two bits, so that the reciprocal is no denormal number
	codeTwice    // the sum of the exponents of a power of two and its reciprocal
	codeLeast
	codeJump
	codeInfinity
	codeNarrow // what dither grows by from a vector to the next with AVX2
	codeWide   // the same with AVX-512
)

// offDither is where the dither of the elements of a vector lies, behind codeNumbers.
const offDither = 32 * (codeWide + 1)

// codeTable holds vectors of 32 bytes for each number, and the dither of 16 elements.
func codeTable() Mem {
	t := GLOBL("updateCodes", RODATA|NOPTR)
	for i, v := range codeNumbers {
		for j := range 8 {
			DATA(32*i+4*j, U32(v))
		}
	}
	for i := range uint64(16) {
		DATA(offDither+4*int(i), U32(uint32(i*dither)))
	}
	return t
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

// Registers where the first pass needs neither the rate, nor the rule's fifth number, nor a mask.
const (
	gradBits   = held     // the bits of all gradients
	wasLargest = held + 5 // the largest root before the step
	mostRoot   = edge     // the largest root so far
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
	SHLQ(U8(2), at) // the largest root of a block takes 4 bytes, codes 256, floats 1024
	MOVQ(Mem{Base: args, Disp: offLargest}, largest)
	ADDQ(at, largest)
	SHLQ(U8(6), at)
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
		for i := range codeExponent {
			VBROADCASTSS(c.table.Offset(32*i), c.reg(constants+i))
		}
		c.clear(c.reg(nothing))
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
	ADDQ(U8(4), largest)
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
	nothing   = 23 // zeros
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

// number is a vector of one of codeNumbers: a register, with AVX2 memory.
func (c *coded) number(i int) Op {
	if c.wide {
		return c.reg(constants + i)
	}
	return c.table.Offset(32 * i)
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

// update computes the new means and roots of a block, and the largest root.
func (c *coded) update() {
	for i := range c.rule.numbers {
		if r := held + i; r != gradBits && r != wasLargest && r < edge {
			c.broadcast(c.mem(own+i), c.reg(r))
		}
	}
	was := c.reg(wasLargest)
	c.broadcast(Mem{Base: largest}, was)
	c.mul(was, c.own(3), c.own(3)) // what is left of the largest root
	c.clear(c.reg(gradBits))
	c.clear(c.reg(mostRoot))
	c.each("update", func() {
		p, g, m, v, t, u := c.param(), c.grad(), c.state(), c.square(), c.temp(0), c.temp(1)
		c.move(vec(ptrs[1], 4), g)
		CMPQ(Mem{Base: args, Disp: offPrepare}, Imm(0))
		JE(LabelRef("prepared"))
		c.move(vec(ptrs[0], 4), p)
		c.prepare()
		Label("prepared")
		c.or(g, c.reg(gradBits), c.reg(gradBits))
		c.root(v)
		c.and(c.number(codeUnit), v, t)
		c.mul(was, t, t)
		VPMOVSXBD(vec(ptrs[2], 1), u)
		VPABSD(u, m)
		VPSLLD(U8(meanBits), m, m)
		VPADDD(c.number(codeZero), m, m)
		c.sub(c.number(codeZero), m, m)
		c.mul(t, m, m)
		c.signed(m, u)
		c.mul(c.own(2), g, t)
		c.fma213(t, c.own(1), m)
		c.mul(c.own(3), v, v)
		c.mul(c.own(4), g, t)
		c.mul(v, v, v)
		c.fma(t, t, v)
		c.sqrt(v, v)
		c.move(m, onStack(tile, 0))
		c.move(v, onStack(tile, 1))
		c.max(c.reg(mostRoot), v, c.reg(mostRoot)) // as it is where v is not a number
	})
}

// root loads codes of roots, as shares of the largest one.
func (c *coded) root(v VecPhysical) {
	VPMOVZXBD(vec(ptrs[3], 1), v)
	VPSLLD(U8(rootBits), v, v)
	VPADDD(c.number(codeLow), v, v)
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

// Comparisons.
const (
	equal   = 0
	atLeast = 13
)

// Registers of codes.
const (
	rootNoise = 8  // dither of roots
	meanNoise = 9  // of means
	noiseStep = 10 // what both grow by
	inverse   = 11 // 1/(2·span)
	by        = 12 // 1/largest, or 0 where the largest is below the least
)

// measure writes the largest root, or 0 where it is below the least, or the most that it may jump to
// from a number that is not 0.
func (c *coded) measure() {
	most, live := c.reg(1).AsX(), c.temp(0).AsX()
	c.fold(c.reg(mostRoot), c.reg(1))
	c.mend()
	limit, never := c.temp(0).AsX(), c.temp(1).AsX()
	VMOVSS(Mem{Base: largest}, limit)
	VXORPS(never, never, never)
	VCMPSS(U8(equal), limit, never, never)
	VANDPS(c.table.Offset(32*codeInfinity), never, never)
	VMULSS(c.table.Offset(32*codeJump), limit, limit)
	VORPS(never, limit, limit)
	VMINSS(limit, most, most)
	VCMPSS(U8(atLeast), c.table.Offset(32*codeLeast), most, live)
	VANDPS(live, most, most)
	VMOVSS(most, Mem{Base: largest})
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
	ORL(Mem{Base: largest}, EBX)
	JNE(LabelRef("unfit"))
	if bits := c.reg(gradBits); c.wide {
		VPTESTMD(bits, bits, K2)
		KORTESTW(K2, K2)
	} else {
		VPTEST(bits, bits)
	}
	JE(LabelRef("fit")) // all is 0
	Label("unfit")
	c.clear(c.reg(mostRoot))
	c.each("mend", func() {
		p, g, v, t := c.param(), c.grad(), c.square(), c.temp(0)
		c.move(vec(ptrs[0], 4), p)
		c.move(vec(ptrs[1], 4), g)
		CMPQ(Mem{Base: args, Disp: offPrepare}, Imm(0))
		JE(LabelRef("mendPrepared"))
		c.prepare()
		Label("mendPrepared")
		c.root(v)
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
	c.broadcast(c.table.Offset(32*codeMagnitude), number)
	c.and(number, t, by)
	c.max(v, by, by)
	c.broadcast(c.table.Offset(32*codeExponent), number)
	c.and(number, by, unit)
	c.broadcast(c.table.Offset(32*codeTwice), number)
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
	MOVL(Mem{Base: largest, Disp: -4}, EBX)
	CMPL(EBX, U32(huge))
	JLS(LabelRef("flush"))
	LDMXCSR(c.local.Offset(4))
	Label("flush")
	c.beginCodes()
	c.each("finish", func() {
		was, root := c.reg(1), c.reg(6)
		c.move(onStack(before, 0), was)
		c.move(onStack(before, 1), root)
		c.step(was, root)
		c.encode(was, root)
	})
	CMPL(EBX, U32(huge))
	JLS(LabelRef("finished"))
	LDMXCSR(c.local)
	Label("finished")
}

// beginCodes loads what codes are computed with.
func (c *coded) beginCodes() {
	largest, live, one := Mem{Base: largest, Disp: -4}, c.temp(0).AsX(), c.temp(1).AsX()
	VMOVSS(c.table.Offset(32*codeOne), one)
	VDIVSS(largest, one, one)
	VMOVSS(largest, live)
	VCMPSS(U8(atLeast), c.table.Offset(32*codeLeast), live, live)
	VANDPS(live, one, one)
	VBROADCASTSS(one, c.reg(by))
	c.broadcast(Mem{Base: args, Disp: offHalf}, c.reg(inverse))
	step := codeNarrow
	if c.wide {
		step = codeWide
	}
	VPBROADCASTD(c.table.Offset(32*step), c.reg(noiseStep))
	for i, off := range []int{offRootNoise, offMeanNoise} {
		r := []int{rootNoise, meanNoise}[i]
		VPBROADCASTD(Mem{Base: args, Disp: off}, c.reg(r))
		VPADDD(c.table.Offset(offDither), c.reg(r), c.reg(r))
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

// encode writes the codes of a vector of means and roots. It uses registers 0 and 2 to 5.
func (c *coded) encode(mean, root VecPhysical) {
	x, size, noise, bits := c.reg(0), c.reg(3), c.reg(4), c.reg(5)
	c.mul(c.reg(by), root, bits)
	c.min(c.number(codeOne), bits, bits) // 1 where it is not a number
	c.max(c.number(codeLow), bits, bits)
	VPSRLD(U8(32-rootBits), c.reg(rootNoise), noise)
	VPADDD(noise, bits, bits)
	VPSUBD(c.number(codeLow), bits, x)
	VPSRLD(U8(rootBits), x, x)
	c.pack(1)
	c.and(c.number(codeMagnitude), mean, size)
	c.mul(c.reg(by), size, size)
	VANDNPS(c.number(codeUnit), bits, bits) // twice the reciprocal of the unit
	c.mul(bits, size, size)
	c.fma213(c.number(codeZero), c.reg(inverse), size)
	VPSRLD(U8(32-meanBits), c.reg(meanNoise), noise)
	VPADDD(noise, size, size)
	VPSUBD(c.number(codeZero), size, x)
	VPSRLD(U8(meanBits), x, x)
	VPMINSD(c.number(codeLast), x, x) // also where it is not a number
	if c.wide {
		VPMOVD2M(mean, K2)
		VPSUBD(x, c.reg(nothing), K2, x)
	} else {
		VPSIGND(mean, x, x)
	}
	c.pack(0)
	VPADDD(c.reg(noiseStep), c.reg(rootNoise), c.reg(rootNoise))
	VPADDD(c.reg(noiseStep), c.reg(meanNoise), c.reg(meanNoise))
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
