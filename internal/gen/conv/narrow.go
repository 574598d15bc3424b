package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The transforms by AVX2, with half of the registers: columns first, whose results go to memory,
// then rows.

// input transforms tiles of 4x4 pixels, which it overwrites.
func (e elem) input() {
	name := "winoInput" + e.name
	TEXT(name, NOSPLIT, "func(w "+inputType+")")
	Doc(name + " transforms the pixels of two vectors of tiles: Bᵀ·d·B of each channel. It overwrites the packed pixels.")
	Pragma("noescape")
	flush()
	Load(Param("w"), args)
	src, dst, plane, plane3, count, at := RAX, RBX, R8, R9, RSI, RCX
	MOVQ(Mem{Base: args, Disp: inSrc}, src)
	MOVQ(Mem{Base: args, Disp: inDst}, dst)
	MOVQ(Mem{Base: args, Disp: inPlane}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	MOVQ(Mem{Base: args, Disp: inChannels}, count)
	d := []VecPhysical{Y0, Y1, Y2, Y3}
	Label("channel")
	for v := range 2 {
		place := func(i, j int) Mem { return Mem{Base: src, Disp: 64*(4*i+j) + 32*v} }
		for j := range 4 {
			for i := range 4 {
				e.load(place(i, j), d[i])
			}
			for i, x := range e.line(d[0], d[1], d[2], d[3], Y4, Y5) {
				e.load(x, place(i, j))
			}
		}
		LEAQ(Mem{Base: dst, Disp: 32 * v}, at)
		for i := range 4 {
			for j := range 4 {
				e.load(place(i, j), d[j])
			}
			o := e.line(d[0], d[1], d[2], d[3], Y4, Y5)
			for j, m := range places(at, plane, plane3) {
				e.load(o[j], m)
			}
			if i < 3 {
				LEAQ(Mem{Base: at, Index: plane, Scale: 4}, at)
			}
		}
	}
	ADDQ(U32(16*64), src)
	ADDQ(U32(64), dst)
	DECQ(count)
	JNE(LabelRef("channel"))
	leave()
}

// places addresses four places in a row.
func places(at, plane, plane3 GPPhysical) []Mem {
	return []Mem{{Base: at}, {Base: at, Index: plane, Scale: 1}, {Base: at, Index: plane, Scale: 2}, {Base: at, Index: plane3, Scale: 1}}
}

// weight transforms kernels of 3x3. It writes whole vectors.
func (e elem) weight() {
	name := "winoWeight" + e.name
	half := GLOBL("halfOf"+e.name, RODATA|NOPTR)
	if e.size == 4 {
		DATA(0, F32(0.5))
	} else {
		DATA(0, F64(0.5))
	}
	TEXT(name, NOSPLIT, "func(w "+weightType+")")
	Doc(name + " transforms the kernels of a vector: G·g·Gᵀ.")
	Pragma("noescape")
	flush()
	Load(Param("w"), args)
	src, taps, at, dst, plane, plane3 := RAX, RBX, RCX, RDX, R8, R9
	MOVQ(Mem{Base: args, Disp: weightSrc}, src)
	MOVQ(Mem{Base: args, Disp: weightTaps}, taps)
	MOVQ(Mem{Base: args, Disp: weightPlane}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	e.broadcast(half, Y13)
	g := []VecPhysical{Y0, Y1, Y2}
	for j := range 3 {
		for i := range 3 {
			MOVQ(Mem{Base: taps, Disp: 8 * (3*i + j)}, at)
			e.load(Mem{Base: src, Index: at, Scale: 1}, g[i])
		}
		e.thirds(g[0], g[1], g[2], Y3, Y4, Y13)
		MOVQ(Mem{Base: args, Disp: weightDst}, dst)
		for i, x := range []VecPhysical{g[0], Y3, Y4, g[2]} {
			e.load(x, places(dst, plane, plane3)[j])
			if i < 3 {
				LEAQ(Mem{Base: dst, Index: plane, Scale: 4}, dst)
			}
		}
	}
	MOVQ(Mem{Base: args, Disp: weightDst}, dst)
	for i := range 4 {
		row := places(dst, plane, plane3)
		for j := range 3 {
			e.load(row[j], g[j])
		}
		e.thirds(g[0], g[1], g[2], Y3, Y4, Y13)
		for j, x := range []VecPhysical{g[0], Y3, Y4, g[2]} {
			e.load(x, row[j])
		}
		if i < 3 {
			LEAQ(Mem{Base: dst, Index: plane, Scale: 4}, dst)
		}
	}
	leave()
}

// output transforms sums to pixels, a vector of tiles at a time.
func (e elem) output(table Mem) {
	name, lanes := "winoOutput"+e.name, 32/e.size
	TEXT(name, NOSPLIT, "func(w "+outputType+")")
	Doc(name + " makes the pixels of a vector of tiles: Aᵀ·m·A of each row, bias and activation, to where they belong.")
	Pragma("noescape")
	flush()
	Load(Param("w"), args)
	m, dst, bias, rows, plane, plane3 := RAX, RBX, RCX, RSI, R8, R9
	MOVQ(Mem{Base: args, Disp: outM}, m)
	MOVQ(Mem{Base: args, Disp: outDst}, dst)
	MOVQ(Mem{Base: args, Disp: outBias}, bias)
	MOVQ(Mem{Base: args, Disp: outRows}, rows)
	MOVQ(Mem{Base: args, Disp: outPlaneM}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	Label("row")
	y := []VecPhysical{Y9, Y10, Y11, Y12}
	e.outputSums(m, plane, plane3, ymm, Y8, y)
	e.outputEnd(bias, Y13, y)
	pixels := []VecPhysical{Y0, Y1, Y2, Y3}
	for i := range 2 {
		e.unpackLow(y[2*i+1], y[2*i], Y4)
		e.unpackHigh(y[2*i+1], y[2*i], Y5)
		VPERM2F128(Imm(0x20), Y5, Y4, pixels[2*i])
		VPERM2F128(Imm(0x31), Y5, Y4, pixels[2*i+1])
	}
	e.segments(dst, func(at, mask GPPhysical, i int) {
		for half := range 2 {
			MOVQ(mask, X6)
			if e.size == 4 {
				VPBROADCASTD(X6, Y6)
				VPAND(table, Y6, Y6)
				VPCMPEQD(table, Y6, Y6)
			} else {
				VPBROADCASTQ(X6, Y6)
				VPAND(table, Y6, Y6)
				VPCMPEQQ(table, Y6, Y6)
			}
			e.maskMove(pixels[2*i+half], Y6, Mem{Base: at, Disp: 32 * half})
			if half == 0 {
				SHRL(Imm(uint64(lanes)), mask.As32())
			}
		}
	})
	ADDQ(Mem{Base: args, Disp: outRowM}, m)
	ADDQ(Mem{Base: args, Disp: outRowDst}, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	leave()
}
