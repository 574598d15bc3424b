package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/evenkeel/evenkeel/internal/gen/rounding"
)

// A kind is how B becomes float32, where it is not taken as it lies: it is rounded, or stored in 16
// bits.
type kind struct {
	number  int // in gemm.Tile
	label   string
	size    int // bytes of an element as stored
	float16 bool
}

var kinds = []kind{{1, "roundBFloat16", 4, false}, {2, "roundFloat16", 4, true}, {3, "widenBFloat16", 2, false}, {4, "widenFloat16", 2, true}}

// rounds reports whether numbers of the kind are rounded to bfloat16, for which a Rounder needs its
// numbers.
func (n kind) rounds() bool { return n.size == 4 && !n.float16 }

// at returns the memory of the vector that is at the given byte offset in float32, from m on.
func (n kind) at(m Mem, bytes int) Mem {
	m.Disp += bytes * n.size / 4
	return m
}

// load loads a vector to v, and may overwrite t and u.
func (n kind) load(r *rounding.Rounder, m Mem, v, t, u VecPhysical) {
	switch {
	case n.size == 2 && n.float16:
		VCVTPH2PS(m, v)
	case n.size == 2:
		VPMOVZXWD(m, v)
	default:
		VMOVUPS(m, v)
	}
	n.convert(r, v, t, u)
}

// loadSome loads the elements of a vector that mask lets through, with zeros for the others, to be
// converted.
func (n kind) loadSome(m Mem, mask, v Op) {
	switch {
	case n.size == 2 && n.float16:
		VCVTPH2PS_Z(m, mask, v)
	case n.size == 2:
		VPMOVZXWD_Z(m, mask, v)
	default:
		VMOVUPS_Z(m, mask, v)
	}
}

// convert converts loaded elements to float32; bfloat16 was loaded as words.
func (n kind) convert(r *rounding.Rounder, v, t, u VecPhysical) {
	switch {
	case n.size == 2 && !n.float16:
		VPSLLD(Imm(16), v, v)
	case n.size == 4 && n.float16:
		rounding.Float16(v, rounding.Half(t, v))
	case n.size == 4:
		r.BFloat16(v, t, u)
	}
}

// choose jumps to where the kind of B in args is dealt with, or goes on where it lies as it is.
func choose(args GPPhysical) {
	for _, n := range kinds {
		CMPQ(Mem{Base: args, Disp: offKind}, Imm(uint64(n.number)))
		JE(LabelRef(n.label))
	}
}

// title is the end of the name of a function that rounds.
func (n kind) title() string {
	switch {
	case n.size == 0:
		return ""
	case n.float16:
		return "Float16"
	}
	return "BFloat16"
}

// doc returns the sentence about kinds in a function's doc comment.
func (n kind) doc() string {
	if n.size == 0 {
		return ""
	}
	return " Elements are rounded to " + strings.ToLower(n.title()) + "."
}

// hold loads the constants of rounding into registers.
func (n kind) hold(r *rounding.Rounder, in []VecPhysical) *rounding.Rounder {
	if n.size == 0 || !n.rounds() {
		return r
	}
	return r.Hold(in)
}

// round rounds vectors, where they are to be.
func (n kind) round(r *rounding.Rounder, vectors, temps []VecPhysical) {
	for i, v := range vectors {
		if n.size != 0 {
			n.convert(r, v, temps[i%2*2], temps[i%2*2+1])
		}
	}
}
