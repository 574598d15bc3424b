package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in conv.WinogradTurned.
const (
	turnM, turnDst, turnBias, turnPixels       = 0, 24, 48, 72
	turnTiles, turnRowM, turnPlaneM, turnFlags = 96, 104, 112, 120
	turnedType                                 = "*int64" // stands for *WinogradTurned
)

// turnedOutput transforms sums that lie by output to pixels, a tile of a vector of outputs at a time.
func (e elem) turnedOutput(name string, v []VecPhysical) {
	name += e.name
	TEXT(name, NOSPLIT, "func(w "+turnedType+")")
	Doc(name + " makes the pixels of tiles for a vector of outputs: Aᵀ·m·A of each tile, bias and activation.")
	Pragma("noescape")
	flush()
	Load(Param("w"), args)
	m, dst, pixels, tiles, plane, plane3 := RAX, RBX, RCX, RSI, R8, R9
	flags, rowM, at := R11, R12, R13
	MOVQ(Mem{Base: args, Disp: turnM}, m)
	MOVQ(Mem{Base: args, Disp: turnDst}, dst)
	MOVQ(Mem{Base: args, Disp: turnPixels}, pixels)
	MOVQ(Mem{Base: args, Disp: turnTiles}, tiles)
	MOVQ(Mem{Base: args, Disp: turnRowM}, rowM)
	MOVQ(Mem{Base: args, Disp: turnPlaneM}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	MOVQ(Mem{Base: args, Disp: turnFlags}, flags)
	bias, zero, y := v[13], v[14], v[9:13]
	e.clear(zero)
	TESTQ(U32(flagBias), flags)
	JE(LabelRef("tile"))
	MOVQ(Mem{Base: args, Disp: turnBias}, at)
	e.load(Mem{Base: at}, bias)
	Label("tile")
	e.outputSums(m, plane, plane3, v, v[8], y)
	TESTQ(U32(flagBias), flags)
	JE(LabelRef("unbiased"))
	for _, x := range y {
		e.add(bias, x, x)
	}
	Label("unbiased")
	TESTQ(U32(flagRelu), flags)
	JE(LabelRef("ended"))
	for _, x := range y {
		e.max(x, zero, x) // the sum where it is not a number
	}
	Label("ended")
	for i, x := range y {
		MOVQ(Mem{Base: pixels, Disp: 8 * i}, at)
		e.load(x, Mem{Base: dst, Index: at, Scale: 1})
	}
	ADDQ(Imm(32), pixels)
	ADDQ(rowM, m)
	DECQ(tiles)
	JNE(LabelRef("tile"))
	leave()
}
