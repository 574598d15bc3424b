package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in conv.WinogradInput, conv.WinogradWeight and conv.WinogradOutput.
const (
	inSrc, inDst, inPlane, inChannels = 0, 24, 48, 56

	weightSrc, weightTaps, weightDst, weightPlane, weightN = 0, 24, 48, 72, 80

	outM, outDst, outBias, outSegments, outMasks                            = 0, 24, 48, 72, 96
	outSegCount, outRows, outRowM, outPlaneM, outRowDst, outWidth, outFlags = 120, 128, 136, 144, 152, 160, 168
)

// Stand-ins for *WinogradInput, *WinogradWeight and *WinogradOutput, types that avo does not know.
const (
	inputType  = "*int8"
	weightType = "*int16"
	outputType = "*int32"
)

var zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// line transforms four values by Bᵀ: (a-c, b+c, c-b, b-d). Registers change place, two are spare.
func (e elem) line(a, b, c, d, s, t VecPhysical) (o [4]VecPhysical) {
	e.sub(c, a, a) // a - c
	e.add(c, b, s) // b + c
	e.sub(b, c, t) // c - b
	e.sub(d, b, d) // b - d
	return [4]VecPhysical{a, s, t, d}
}

// wideInput transforms tiles of 4x4 pixels, a vector of tiles at a time, by AVX-512.
func (e elem) wideInput() {
	name := "wideWinoInput" + e.name
	TEXT(name, NOSPLIT, "func(w "+inputType+")")
	Doc(name + " transforms the pixels of two vectors of tiles: Bᵀ·d·B of each channel.")
	Pragma("noescape")
	flush()
	Load(Param("w"), args)
	src, dst, plane, plane3, count := RAX, RBX, R8, R9, RSI
	MOVQ(Mem{Base: args, Disp: inSrc}, src)
	MOVQ(Mem{Base: args, Disp: inDst}, dst)
	MOVQ(Mem{Base: args, Disp: inPlane}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	MOVQ(Mem{Base: args, Disp: inChannels}, count)
	Label("channel")
	for v := range 2 {
		e.inputVector(v, src, dst, plane, plane3)
	}
	ADDQ(U32(16*128), src)
	ADDQ(U32(128), dst)
	DECQ(count)
	JNE(LabelRef("channel"))
	leave()
}

func (e elem) inputVector(v int, src, dst, plane, plane3 GPPhysical) {
	var d [4][4]VecPhysical
	spare := []VecPhysical{Z16, Z17}
	for i := range 4 {
		for j := range 4 {
			d[i][j] = zmm[4*i+j]
			e.load(Mem{Base: src, Disp: 128*(4*i+j) + 64*v}, d[i][j])
		}
	}
	difference := func(a, b, c, x *VecPhysical) {
		old := []VecPhysical{*b, *c}
		o := e.line(*a, *b, *c, *x, spare[0], spare[1])
		*a, *b, *c, *x = o[0], o[1], o[2], o[3]
		spare = old
	}
	for j := range 4 {
		difference(&d[0][j], &d[1][j], &d[2][j], &d[3][j])
	}
	at := RCX
	LEAQ(Mem{Base: dst, Disp: 64 * v}, at)
	for i := range 4 {
		difference(&d[i][0], &d[i][1], &d[i][2], &d[i][3])
		e.load(d[i][0], Mem{Base: at})
		e.load(d[i][1], Mem{Base: at, Index: plane, Scale: 1})
		e.load(d[i][2], Mem{Base: at, Index: plane, Scale: 2})
		e.load(d[i][3], Mem{Base: at, Index: plane3, Scale: 1})
		if i < 3 {
			LEAQ(Mem{Base: at, Index: plane, Scale: 4}, at)
		}
	}
}

// wideWeight transforms kernels of 3x3, a vector of kernels at a time, by AVX-512.
func (e elem) wideWeight() {
	name := "wideWinoWeight" + e.name
	half := GLOBL("half"+e.name, RODATA|NOPTR)
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
	src, taps, at, dst, plane := RAX, RBX, RCX, RDX, R8
	MOVQ(Mem{Base: args, Disp: weightSrc}, src)
	MOVQ(Mem{Base: args, Disp: weightTaps}, taps)
	MOVQ(Mem{Base: args, Disp: weightN}, at)
	MOVQ(I32(-1), dst)
	BZHIQ(at, dst, dst)
	KMOVW(dst.As32(), K1)
	MOVQ(Mem{Base: args, Disp: weightDst}, dst)
	MOVQ(Mem{Base: args, Disp: weightPlane}, plane)
	e.broadcast(half, Z30)
	var g [3][3]VecPhysical
	for i := range 3 {
		for j := range 3 {
			g[i][j] = zmm[3*i+j]
			MOVQ(Mem{Base: taps, Disp: 8 * (3*i + j)}, at)
			e.load(Mem{Base: src, Index: at, Scale: 1}, g[i][j])
		}
	}
	var u [4][3]VecPhysical // G·g
	for j := range 3 {
		s, t := zmm[9+2*j], zmm[10+2*j] // Z9 to Z14
		e.thirds(g[0][j], g[1][j], g[2][j], s, t, Z30)
		u[0][j], u[1][j], u[2][j], u[3][j] = g[0][j], s, t, g[2][j]
	}
	for i := range 4 {
		s, t := Z16, Z17
		e.thirds(u[i][0], u[i][1], u[i][2], s, t, Z30)
		for _, x := range []VecPhysical{u[i][0], s, t, u[i][2]} {
			e.load(x, K1, Mem{Base: dst})
			ADDQ(plane, dst)
		}
	}
	leave()
}

// thirds leaves (a+c+b)/2 in s and (a+c-b)/2 in t.
func (e elem) thirds(a, b, c, s, t, half VecPhysical) {
	e.add(c, a, t)
	e.add(b, t, s)
	e.sub(b, t, t)
	e.mul(half, s, s)
	e.mul(half, t, t)
}

// wideOutput transforms sums to pixels, a vector of tiles at a time, by AVX-512.
func (e elem) wideOutput() {
	name, lanes := "wideWinoOutput"+e.name, 64/e.size
	table := GLOBL("interleave"+e.name, RODATA|NOPTR)
	for i := range 2 * lanes {
		v := uint64(i/2 + i%2*lanes)
		if e.size == 4 {
			DATA(4*i, U32(uint32(v)))
		} else {
			DATA(8*i, U64(v))
		}
	}
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
	VMOVDQU32(table, Z30)
	VMOVDQU32(table.Offset(64), Z31)
	Label("row")
	y := []VecPhysical{Z8, Z9, Z10, Z11}
	e.outputSums(m, plane, plane3, zmm, Z16, y)
	e.outputEnd(bias, Z29, y)
	e.outputStore(dst, y, lanes)
	ADDQ(Mem{Base: args, Disp: outRowM}, m)
	ADDQ(Mem{Base: args, Disp: outRowDst}, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	leave()
}

// outputSums leaves Aᵀ·m·A of a vector of tiles in y, row by row. It uses eight registers and a
// spare one.
func (e elem) outputSums(m, plane, plane3 GPPhysical, registers []VecPhysical, spare VecPhysical, y []VecPhysical) {
	at := R10
	MOVQ(m, at)
	s := [2][]VecPhysical{registers[:4], registers[4:8]}
	for i := range 4 {
		for j, address := range places(at, plane, plane3) {
			switch i {
			case 0:
				e.load(address, s[0][j])
			case 1:
				e.load(address, s[1][j])
				e.add(s[1][j], s[0][j], s[0][j])
			case 2:
				e.load(address, spare)
				e.add(spare, s[0][j], s[0][j])
				e.sub(spare, s[1][j], s[1][j])
			default:
				e.sub(address, s[1][j], s[1][j])
			}
		}
		if i < 3 {
			LEAQ(Mem{Base: at, Index: plane, Scale: 4}, at)
		}
	}
	for i := range 2 {
		e.add(s[i][1], s[i][0], y[2*i])
		e.add(s[i][2], y[2*i], y[2*i])
		e.sub(s[i][2], s[i][1], y[2*i+1])
		e.sub(s[i][3], y[2*i+1], y[2*i+1])
	}
}

// outputEnd adds the row's bias and applies the activation.
func (e elem) outputEnd(bias GPPhysical, spare VecPhysical, y []VecPhysical) {
	flags := R10
	MOVQ(Mem{Base: args, Disp: outFlags}, flags)
	TESTQ(U32(flagBias), flags)
	JE(LabelRef("unbiased"))
	e.broadcast(Mem{Base: bias}, spare)
	ADDQ(Imm(uint64(e.size)), bias)
	for _, v := range y {
		e.add(spare, v, v)
	}
	Label("unbiased")
	TESTQ(U32(flagRelu), flags)
	JE(LabelRef("ended"))
	e.clear(spare)
	for _, v := range y {
		e.max(v, spare, v) // the sum where it is not a number
	}
	Label("ended")
}

// clear makes zeros.
func (e elem) clear(v VecPhysical) {
	if v.Size() == 64 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// outputStore stores both rows of pixels, segment by segment.
func (e elem) outputStore(dst GPPhysical, y []VecPhysical, lanes int) {
	pixels := []VecPhysical{Z12, Z13, Z14, Z15}
	for i := range 2 {
		for half, index := range []VecPhysical{Z30, Z31} {
			p := pixels[2*i+half]
			VMOVDQU32(index, p)
			e.permuteIndex(y[2*i+1], y[2*i], p)
		}
	}
	e.segments(dst, func(at, mask GPPhysical, i int) {
		KMOVW(mask.As32(), K1)
		SHRL(Imm(uint64(lanes)), mask.As32())
		KMOVW(mask.As32(), K2)
		e.load(pixels[2*i], K1, Mem{Base: at})
		e.load(pixels[2*i+1], K2, Mem{Base: at, Disp: 64})
	})
}

// segments emits the loop over segments: store is called for both rows, with the mask of the pixels
// that exist.
func (e elem) segments(dst GPPhysical, store func(at, mask GPPhysical, row int)) {
	seg, masks, segments, at, mask := R10, R11, R12, R13, RDX
	MOVQ(Mem{Base: args, Disp: outMasks}, masks)
	MOVQ(Mem{Base: args, Disp: outSegments}, segments)
	MOVQ(Mem{Base: args, Disp: outSegCount}, seg)
	Label("segment")
	MOVQ(Mem{Base: segments}, at)
	ADDQ(dst, at)
	for i := range 2 {
		MOVL(Mem{Base: masks, Disp: 4 * i}, mask.As32())
		store(at, mask, i)
		if i == 0 {
			ADDQ(Mem{Base: args, Disp: outWidth}, at)
		}
	}
	ADDQ(Imm(8), masks)
	ADDQ(Imm(8), segments)
	DECQ(seg)
	JNE(LabelRef("segment"))
}
