package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Products round their factors to 16 bits, where that is asked for, as they pack them: to float32 that 16 bits hold, or to pairs of bfloat16 where
// the processor multiplies those. Packed elements have 4 bytes either way, and the same tiles walk over both.

// products returns the kernels for products with such attributes and results of type t.
func (d *Device) products(attrs any, t arena.DType) *gemm.Kernels {
	if s := d.bfloat16Pairs; s != nil && kernels.ComputeTypeOf(attrs) == arena.BFloat16 {
		return s
	}
	return gemm.For(d.level, t)
}
