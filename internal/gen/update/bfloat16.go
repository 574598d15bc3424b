package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Rules whose states are bfloat16 widen them as they load, and round them by chance as they store.
// Their arguments are a update.Rule16.

// Offsets in update.Rule16 of float32; a test there compares them.
const (
	offNarrow       = 160
	offNarrowSquare = 184
	offKey          = 208
)

const narrowType = "*int16" // stands for a pointer to a update.Rule16

// mixers are the numbers of numeric.Noise and the quiet bit of a NaN.
var mixers Mem

const (
	mixParam = 4 * iota
	mixFirst
	mixSecond
	mixQuiet
)

func mixerTable() Mem {
	t := GLOBL("updateMixers", RODATA|NOPTR)
	for i, v := range []uint32{0x9E3779B1, 0x7FEB352D, 0x846CA68B, 0x400000} {
		DATA(4*i, U32(v))
	}
	return t
}

// half is where narrow states lie that are at at.
var half = R10

// locals is how many bytes of the stack a rule needs: two for MXCSR, and one narrow vector at an edge.
func (k *kernel) locals() int {
	if k.rule.narrow && !k.wide {
		return 24
	}
	return 8
}

// noise leaves numeric.Noise of parameter and gradient in temp(2).
func (k *kernel) noise() {
	x, t, c := k.temp(2), k.temp(0), k.reg(number)
	VPBROADCASTD(mixers.Offset(mixParam), c)
	VPMULLD(k.param(), c, x)
	VPADDD(k.grad(), x, x)
	VPBROADCASTD(Mem{Base: args, Disp: offKey}, c)
	VPADDD(c, x, x)
	for i, by := range []uint64{16, 15} {
		VPSRLD(U8(by), x, t)
		k.xor(x, t, x)
		VPBROADCASTD(mixers.Offset(mixFirst+4*i), c)
		VPMULLD(c, x, x)
	}
	VPSRLD(U8(16), x, t)
	k.xor(x, t, x)
}

func (k *kernel) xor(a, b, dst VecPhysical) {
	if k.wide {
		VPXORD(a, b, dst)
		return
	}
	VPXOR(a, b, dst)
}

// place returns the memory of the vector of narrow tensor t.
func (k *kernel) place(t int) Mem {
	MOVQ(at, half)
	SHRQ(U8(1), half)
	return Mem{Base: ptrs[t], Index: half, Scale: 1}
}

// copied returns the place on the stack for a vector of a narrow tensor at an edge: AVX2 has no
// masks for words.
func (k *kernel) copied() Mem { return k.local.Offset(8) }

// words copies what an edge has of a narrow tensor, a word at a time. count is four times as many.
func (k *kernel) words(what string, from, to Mem) {
	k.edges++
	label := fmt.Sprintf("%s%d", what, k.edges)
	left := R11
	MOVQ(count, left)
	SHRQ(U8(1), left)
	from.Base, to.Base = k.based(from, R12), k.based(to, R13)
	from.Index, from.Disp, from.Scale = left, 0, 1
	to.Index, to.Disp, to.Scale = left, 0, 1
	Label(label)
	SUBQ(U8(2), left)
	MOVW(from, BX)
	MOVW(BX, to)
	JNE(LabelRef(label))
}

// based returns a register that points to m.
func (k *kernel) based(m Mem, r GPPhysical) Register {
	LEAQ(m, r)
	return r
}

// widen loads narrow tensor t.
func (k *kernel) widen(t int, dst VecPhysical) {
	from := k.place(t)
	switch {
	case !k.masked:
		VPMOVZXWD(from, dst)
	case k.wide:
		VPMOVZXWD_Z(from, K1, dst)
	default:
		k.words("load", from, k.copied())
		VPMOVZXWD(k.copied(), dst)
	}
	VPSLLD(U8(16), dst, dst)
}

// dither stores narrow tensor t, rounded as float16.DitherBFloat16 does: tensor 2 by the lower half
// of temp(2), tensor 3 by the upper one. It leaves src as it is, and temp(0) and temp(1) in use.
func (k *kernel) dither(t int, src VecPhysical) {
	quiet, sum, c := k.temp(0), k.temp(1), k.reg(number)
	if t == 2 {
		VPSLLD(U8(16), k.temp(2), sum)
		VPSRLD(U8(16), sum, sum)
	} else {
		VPSRLD(U8(16), k.temp(2), sum)
	}
	VPADDD(src, sum, sum)
	k.broadcast(mixers.Offset(mixQuiet), c)
	k.or(src, c, quiet)
	const unordered = 3
	if k.wide {
		k.cmp(Imm(unordered), src, src, K2)
		k.move(quiet, K2, sum)
	} else {
		k.cmp(Imm(unordered), src, src, c)
		k.blend(c, quiet, sum, sum)
	}
	VPSRLD(U8(16), sum, sum)
	to := k.place(t)
	switch {
	case k.wide && k.masked:
		VPMOVDW(sum, K1, to)
	case k.wide:
		VPMOVDW(sum, to)
	default:
		VEXTRACTI128(U8(1), sum, quiet.AsX())
		VPACKUSDW(quiet.AsX(), sum.AsX(), sum.AsX())
		if !k.masked {
			VMOVDQU(sum.AsX(), to)
			return
		}
		VMOVDQU(sum.AsX(), k.copied())
		k.words("store", k.copied(), to)
	}
}
