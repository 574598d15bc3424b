package gemm

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// PackedSize is the bytes of a packed element of rounded operands: a float32, or a pair of bfloat16.
const PackedSize = 4

// A Rounding packs operands of products that round them to one 16-bit type.
type Rounding struct {
	FromFloat32, FromHalf Packing // of operands stored as float32, or as the 16-bit type itself
}

// A Packing packs operands that are stored in one type.
type Packing struct {
	Size   int              // bytes of a stored element
	Along  half.ConvertFunc // packs rows whose elements are steps of k
	Across half.ConvertFunc // packs rows that are each one step of k
	Kind   int              // for kernels that read this B unpacked; KindFloat: none does
	// PackCols is Kernels.PackCols for elements that are rounded as they are transposed. Nil: they
	// are rounded first.
	PackCols func(dst, src []byte, k, stride, n, pitch int)
}

// RoundToFloat32 packs operands as float32 values that the 16-bit type of c holds exactly.
func RoundToFloat32(c *half.Conversions) *Rounding {
	return &Rounding{FromFloat32: Packing{Size: 4, Along: c.Round, Across: c.Round}, FromHalf: Packing{Size: 2, Along: c.Widen, Across: c.Widen}}
}

// From returns the packing of an operand stored as t.
func (r *Rounding) From(t arena.DType) Packing {
	if t == arena.Float32 {
		return r.FromFloat32
	}
	return r.FromHalf
}

// Rounding returns how s packs operands that are rounded to t, nil where t is no 16-bit type.
func (s *Kernels) Rounding(t arena.DType) *Rounding {
	switch t {
	case arena.BFloat16:
		return s.BFloat16
	case arena.Float16:
		return s.Float16
	}
	return nil
}

// PairsAlong16 packs rows of n bfloat16 into pairs of neighbours. It adds a zero to a row of an odd
// number.
func PairsAlong16(dst, src []byte, rows, stride, n, pitch int) {
	for r := range rows {
		d := asm.View[uint16](dst[r*pitch:])[:n+n&1]
		copy(d, asm.View[uint16](src[r*stride:])[:n])
		clear(d[n:])
	}
}
