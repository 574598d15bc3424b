package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// Products round their factors to 16 bits, where that is asked for, as they pack them: to float32 that 16 bits hold, or to pairs of bfloat16 where
// the processor multiplies those. Packed elements have 4 bytes either way, and the same tiles walk over both.

const packedSize = 4 // bytes of a packed element of rounded factors

// A rounding is how factors are packed that are rounded to one type.
type rounding struct {
	single, half factor // by how they are stored: in float32, or in the type itself
}

// A factor is how operands that are stored in one way are packed.
type factor struct {
	size   int              // bytes of a stored element
	along  half.ConvertFunc // rows of which each goes along k
	across half.ConvertFunc // rows of which each is one step of k
	kind   int              // of B, to kernels that round it as they read it; kindFloat: none do
	// cols is packCols of an isa that rounds as it transposes. Nil: none does.
	cols func(dst, src []byte, k, stride, n, pitch int)
}

// floats packs float32, for which a row is a row.
func floats(c *half.Conversions) *rounding {
	return &rounding{factor{size: 4, along: c.Round, across: c.Round}, factor{size: 2, along: c.Widen, across: c.Widen}}
}

// of returns how an operand of type t is packed.
func (r *rounding) of(t arena.DType) factor {
	if t == arena.Float32 {
		return r.single
	}
	return r.half
}

// rounding returns how s packs factors that are rounded to t, nil where they are taken as they are.
func (s *isa) rounding(t arena.DType) *rounding {
	switch t {
	case arena.Bfloat16:
		return s.bfloat16
	case arena.Float16:
		return s.float16
	}
	return nil
}

// products returns the kernels for products with such attributes and results of type t.
func (d *Device) products(attrs any, t arena.DType) *isa {
	if s := d.pairs; s != nil && kernels.OperandsOf(attrs) == arena.Bfloat16 {
		return s
	}
	return isaFor(d.level, t)
}

// pairsAlong16 copies rows of n bfloat16: neighbours in a row are pairs. The last of an odd number gets a 0 beside it.
func pairsAlong16(dst, src []byte, rows, stride, n, pitch int) {
	for r := range rows {
		d := asm.View[uint16](dst[r*pitch:])[:n+n&1]
		copy(d, asm.View[uint16](src[r*stride:])[:n])
		clear(d[n:])
	}
}
