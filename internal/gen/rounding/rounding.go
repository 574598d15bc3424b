// Package rounding writes the instructions that round vectors of float32 to what the types of 16
// bits hold: to the nearest, of two to the even one, with every bit of float16.ToBFloat16 and
// float16.ToFloat16, NaNs included.
package rounding

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Constants is how many numbers rounding to bfloat16 needs.
const Constants = 4

const (
	below = iota // just below half of the last bit that is kept
	last         // AVX2: half of it; AVX-512: the bit itself, once it is moved to the end
	kept         // the bits that remain
	quiet        // AVX2: makes a NaN quiet; AVX-512: VFIXUPIMMPS's table, by which quiet NaNs take the place of NaNs and all else stays
)

var numbers = map[bool][Constants]uint32{
	false: {0x7fff, 0x8000, 0xffff0000, 0x400000},
	true:  {0x7fff, 1, 0xffff0000, 0x22},
}

const copies = 32 // bytes of each number: as many as AVX2 reads

// A Rounder rounds vectors of AVX2, or of AVX-512 where Wide.
type Rounder struct {
	Wide  bool
	table Mem
	held  []VecPhysical // registers that hold the numbers; none: they are read from memory
}

// New writes the constants of Rounders.
func New(wide bool) *Rounder {
	name := "rounding"
	if wide {
		name = "wideRounding"
	}
	r := &Rounder{Wide: wide, table: GLOBL(name, RODATA|NOPTR)}
	for i, v := range numbers[wide] {
		for at := 0; at < copies; at += 4 {
			DATA(copies*i+at, U32(v))
		}
	}
	return r
}

// Hold returns r with its numbers in registers, which it loads.
func (r *Rounder) Hold(in []VecPhysical) *Rounder {
	held := *r
	held.held = in[:Constants]
	for i, to := range held.held {
		VBROADCASTSS(r.table.Offset(copies*i), to)
	}
	return &held
}

// number is the operand that holds a number for vectors as wide as v, and whether it is one in
// memory that AVX-512 is to broadcast.
func (r *Rounder) number(i int, v VecPhysical) (from Op, broadcast bool) {
	if r.held == nil {
		return r.table.Offset(copies * i), r.Wide
	}
	switch v.Size() {
	case 16:
		return r.held[i].AsX(), false
	case 32:
		return r.held[i].AsY(), false
	}
	return r.held[i], false
}

// use calls f, or its form that broadcasts, with number i.
func (r *Rounder) use(i int, v VecPhysical, f, broadcasts func(number Op)) {
	if from, broadcast := r.number(i, v); broadcast {
		broadcasts(from)
	} else {
		f(from)
	}
}

// BFloat16 rounds v in place, and leaves t and, with AVX2, u overwritten.
func (r *Rounder) BFloat16(v, t, u VecPhysical) {
	r.nearest(v, t, u)
	if r.Wide {
		r.use(kept, v, func(n Op) { VPANDD(n, t, v) }, func(n Op) { VPANDD_BCST(n, t, v) })
		return
	}
	r.use(kept, v, func(n Op) { VPAND(n, t, v) }, nil)
}

// EncodeBFloat16 is BFloat16 that leaves the upper halves in the lower ones, and 0 there.
func (r *Rounder) EncodeBFloat16(v, t, u VecPhysical) {
	r.nearest(v, t, u)
	VPSRLD(Imm(16), t, v)
}

// nearest leaves in t what the upper halves are taken of.
func (r *Rounder) nearest(v, t, u VecPhysical) {
	if r.Wide {
		// Or does for plus: where the last bit of v is set it is no matter whether one more is added.
		const firstAndThirdOrSecond = 0xec
		VPSRLD(Imm(16), v, t)
		r.use(last, v, func(n Op) { VPTERNLOGD(U8(firstAndThirdOrSecond), n, v, t) }, func(n Op) { VPTERNLOGD_BCST(U8(firstAndThirdOrSecond), n, v, t) })
		r.use(below, v, func(n Op) { VPADDD(n, t, t) }, func(n Op) { VPADDD_BCST(n, t, t) })
		r.use(quiet, v, func(n Op) { VFIXUPIMMPS(U8(0), n, v, t) }, func(n Op) { VFIXUPIMMPS_BCST(U8(0), n, v, t) })
		return
	}
	VPSLLD(Imm(15), v, t) // the last bit that is kept becomes the sign, which a blend goes by
	r.use(below, v, func(n Op) {
		if _, register := n.(Register); !register {
			VMOVUPS(n, u)
			n = u
		}
		half, _ := r.number(last, v)
		VBLENDVPS(t, half, n, t)
	}, nil)
	VPADDD(v, t, t)
	const unordered = 3
	VCMPPS(Imm(unordered), v, v, u)
	r.use(quiet, v, func(n Op) { VPOR(n, v, v) }, nil)
	VBLENDVPS(u, v, t, t)
}

// Float16 rounds v in place, by way of narrow, which is half as wide, but as wide as v where v is
// narrowest.
func Float16(v VecPhysical, narrow Register) {
	VCVTPS2PH(Imm(0), v, narrow)
	VCVTPH2PS(narrow, v)
}

// Half is the register in which Float16 keeps what v becomes: the first half of r.
func Half(r, v VecPhysical) Register {
	if v.Size() == 64 {
		return r.AsY()
	}
	return r.AsX()
}
