package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in conv.Depthwise, which starts with a patch.
const (
	offWeights = 192
	offStepW   = 216
	offN       = 224
)

// Registers of the depthwise functions, in addition to those of packing functions.
var (
	outputs      = RCX // dy of the channels at hand
	weights      = R10 // kernels of the channels at hand
	stepW        = R11
	sumPitch3    = R10 // of gradients
	depthSums    = []int{8, 9, 10, 11}
	depthOutputs = []int{12, 13, 14, 15}
)

// fourth addresses the last of four, step bytes apart, where no register holds three steps. It
// spoils temp.
func fourth(base, step GPPhysical) Mem {
	LEAQ(Mem{Base: base, Index: step, Scale: 1}, temp)
	return Mem{Base: temp, Index: step, Scale: 2}
}

// ofChannel addresses channel i of up to four.
func ofChannel(i int, base, step GPPhysical) Mem {
	switch i {
	case 0:
		return Mem{Base: base}
	case 3:
		return fourth(base, step)
	}
	return Mem{Base: base, Index: step, Scale: uint8(i)}
}

// depth emits the function that convolves channels with a kernel each: one vector of pixels.
func (l *loader) depth() {
	l.beginDepth("Depth", "convolves each channel with its own kernel.")
	x, w := l.reg(0), l.reg(5)
	MOVQ(Mem{Base: args, Disp: offWeights}, weights)
	MOVQ(Mem{Base: args, Disp: offStepW}, stepW)
	l.inFours(func(n int, name string) {
		for _, r := range depthSums[:n] {
			l.clear(l.reg(r))
		}
		l.eachTap(name, n, func(i int) {
			l.broadcast(ofChannel(i, weights, stepW), w)
			l.fma(x, w, l.reg(depthSums[i]))
		}, func() { ADDQ(Imm(uint64(l.size)), weights) })
		for i, r := range depthSums[:n] {
			to := ofChannel(i, dst, pitch)
			l.existing(func(mask Op) {
				if l.wide {
					l.load(l.reg(r), mask, to)
				} else {
					l.maskMove(l.reg(r), mask, to)
				}
			})
		}
		MOVQ(Mem{Base: args, Disp: offTapCount}, temp)
		SHLQ(Imm(uint64(l.size/2-l.size/8)), temp) // bytes: elements are 4 or 8
		SUBQ(temp, weights)
		advance(n, weights, stepW)
		advance(n, dst, pitch)
	})
}

// depthWeight emits the function that sums the gradients of such kernels: lanes of 64 bytes a tap.
func (l *loader) depthWeight() {
	l.beginDepth("DepthWeight", "adds the products of pixels and dy to the sums of each tap.")
	x, sum := l.reg(0), l.reg(5)
	MOVQ(Mem{Base: args, Disp: offStepW}, stepW)
	MOVQ(Mem{Base: args, Disp: offWeights}, outputs)
	MOVQ(Mem{Base: args, Disp: offTapCount}, pitch)
	SHLQ(Imm(6), pitch)
	LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, sumPitch3)
	l.inFours(func(n int, name string) {
		for i, r := range depthOutputs[:n] {
			dy := ofChannel(i, outputs, stepW)
			l.existing(func(mask Op) {
				if l.wide {
					l.loadZero(dy, mask, l.reg(r))
				} else {
					l.maskMove(dy, mask, l.reg(r))
				}
			})
		}
		advance(n, outputs, stepW)
		l.eachTap(name, n, func(i int) {
			to := []Mem{{Base: dst}, {Base: dst, Index: pitch, Scale: 1}, {Base: dst, Index: pitch, Scale: 2}, {Base: dst, Index: sumPitch3, Scale: 1}}[i]
			l.load(to, sum)
			l.fma(x, l.reg(depthOutputs[i]), sum)
			l.load(sum, to)
		}, func() { ADDQ(Imm(64), dst) })
		SUBQ(pitch, dst)
		advance(n, dst, pitch)
	})
}

// advance moves a pointer by n steps, 1 or 4.
func advance(n int, pointer, step GPPhysical) {
	LEAQ(Mem{Base: pointer, Index: step, Scale: uint8(n)}, pointer)
}

// beginDepth opens a function and prepares the mask of the pixels that exist.
func (l *loader) beginDepth(what, doc string) {
	name := l.called(what)
	TEXT(name, NOSPLIT, "func(p "+depthType+")")
	Doc(name + " " + doc)
	Pragma("noescape")
	flush()
	l.begin()
	Load(Param("p"), args)
	MOVQ(Mem{Base: args, Disp: offPitch}, pitch)
	if l.wide {
		MOVQ(Mem{Base: args, Disp: offN}, temp)
		MOVQ(I32(-1), from)
		BZHIQ(temp, from, from)
		KMOVW(from.As32(), K4)
	} else if l.size == 4 {
		VPBROADCASTD(Mem{Base: args, Disp: offN}, Y7)
		VPCMPGTD(l.lanes, Y7, Y7)
	} else {
		VPBROADCASTQ(Mem{Base: args, Disp: offN}, Y7)
		VPCMPGTQ(l.lanes, Y7, Y7)
	}
}

// existing calls f with the mask of the pixels that exist.
func (l *loader) existing(f func(mask Op)) {
	if l.wide {
		f(K4)
	} else {
		f(Y7)
	}
}

// inFours emits the loops over channels, four at a time and then one.
func (l *loader) inFours(body func(n int, name string)) {
	MOVQ(Mem{Base: args, Disp: offDst}, dst)
	MOVQ(Mem{Base: args, Disp: offSrc}, src)
	MOVQ(Mem{Base: args, Disp: offPlane}, plane)
	MOVQ(Mem{Base: args, Disp: offChannels}, count)
	SUBQ(Imm(4), count)
	JL(LabelRef("rest"))
	Label("four")
	body(4, "four_")
	advance(4, src, plane)
	SUBQ(Imm(4), count)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(Imm(4), count)
	JLE(LabelRef("done"))
	Label("one")
	body(1, "one_")
	ADDQ(plane, src)
	DECQ(count)
	JNE(LabelRef("one"))
	Label("done")
	leave()
}

// eachTap emits the loops over taps and segments. each is given the pixels of channel i of n in
// register 0: zeros in the lanes that are not the segment's, which add nothing.
func (l *loader) eachTap(name string, n int, each func(i int), last func()) {
	XORQ(tap, tap)
	MOVQ(Mem{Base: args, Disp: offMasks}, masks)
	Label(name + "tap")
	XORQ(seg, seg)
	Label(name + "segment")
	MOVQ(Mem{Base: args, Disp: offTaps}, from)
	MOVQ(Mem{Base: from, Index: tap, Scale: 8}, from)
	ADDQ(src, from)
	MOVQ(Mem{Base: args, Disp: offSegments}, temp)
	ADDQ(Mem{Base: temp, Index: seg, Scale: 8}, from)
	l.start()
	for i := range n {
		l.fetch(ofChannel(i, from, plane), l.reg(0))
		each(i)
	}
	INCQ(seg)
	CMPQ(seg, Mem{Base: args, Disp: offSegCount})
	JL(LabelRef(name + "segment"))
	last()
	ADDQ(Imm(maskRow), masks)
	INCQ(tap)
	CMPQ(tap, Mem{Base: args, Disp: offTapCount})
	JL(LabelRef(name + "tap"))
}
