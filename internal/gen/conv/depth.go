package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in cpu.depth, which starts with a patch.
const (
	offWeights = 192
	offStepW   = 216
	offN       = 224
)

// depth emits the function that convolves channels with a kernel each: one vector of pixels.
func (l *loader) depth() {
	l.beginDepth("Depth", "convolves each channel with its own kernel.")
	sum, x, w := l.reg(6), l.reg(0), l.reg(5)
	weights := R10
	l.eachChannel(func() {
		l.clear(sum)
		MOVQ(Mem{Base: args, Disp: offWeights}, weights)
		ADDQ(R11, weights)
	}, func() {
		l.broadcast(Mem{Base: weights}, w)
		l.fma(x, w, sum)
		ADDQ(Imm(uint64(l.size)), weights)
	}, func() {
		l.existing(func(mask Op) {
			if l.wide {
				l.load(sum, mask, Mem{Base: dst})
			} else {
				l.maskMove(sum, mask, Mem{Base: dst})
			}
		})
		ADDQ(Mem{Base: args, Disp: offStepW}, R11)
		ADDQ(pitch, dst)
	})
}

// depthWeight emits the function that sums the gradients of such kernels: lanes of 64 bytes a tap.
func (l *loader) depthWeight() {
	l.beginDepth("DepthWeight", "adds the products of pixels and dy to the sums of each tap.")
	x, dy, sum := l.reg(0), l.reg(5), l.reg(6)
	l.eachChannel(func() {
		MOVQ(Mem{Base: args, Disp: offWeights}, R10)
		ADDQ(R11, R10)
		l.existing(func(mask Op) {
			if l.wide {
				l.loadZero(Mem{Base: R10}, mask, dy)
			} else {
				l.maskMove(Mem{Base: R10}, mask, dy)
			}
		})
	}, func() {
		l.load(Mem{Base: dst}, sum)
		l.fma(x, dy, sum)
		l.load(sum, Mem{Base: dst})
		ADDQ(Imm(64), dst)
	}, func() { ADDQ(Mem{Base: args, Disp: offStepW}, R11) })
}

// beginDepth opens a function and prepares the mask of the pixels that exist.
func (l *loader) beginDepth(what, doc string) {
	name := l.called(what)
	TEXT(name, NOSPLIT, "func(p "+depthType+")")
	Doc(name + " " + doc)
	Pragma("noescape")
	l.begin()
	Load(Param("p"), args)
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

// eachChannel emits the loops over channels and taps; each is given the pixels in register 0.
func (l *loader) eachChannel(first, each, last func()) {
	MOVQ(Mem{Base: args, Disp: offDst}, dst)
	MOVQ(Mem{Base: args, Disp: offSrc}, src)
	MOVQ(Mem{Base: args, Disp: offPlane}, plane)
	MOVQ(Mem{Base: args, Disp: offPitch}, pitch)
	MOVQ(Mem{Base: args, Disp: offChannels}, count)
	XORQ(R11, R11)
	Label("channel")
	first()
	XORQ(tap, tap)
	MOVQ(Mem{Base: args, Disp: offMasks}, masks)
	Label("tap")
	address(0, l.start)
	l.fetch(Mem{Base: from}, l.reg(0))
	if l.segments {
		MOVQ(U32(1), seg)
		CMPQ(seg, Mem{Base: args, Disp: offSegCount})
		JGE(LabelRef("whole"))
		Label("segment")
		address(1, l.start)
		l.fetch(Mem{Base: from}, l.reg(4))
		l.or(l.reg(4), l.reg(0))
		INCQ(seg)
		CMPQ(seg, Mem{Base: args, Disp: offSegCount})
		JL(LabelRef("segment"))
		Label("whole")
	}
	each()
	ADDQ(Imm(maskRow), masks)
	INCQ(tap)
	CMPQ(tap, Mem{Base: args, Disp: offTapCount})
	JL(LabelRef("tap"))
	last()
	ADDQ(plane, src)
	DECQ(count)
	JNE(LabelRef("channel"))
	VZEROUPPER()
	RET()
}
