package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// products returns the tile kernels for products with these attributes and results of type t: those
// for pairs of bfloat16 where operands are rounded to bfloat16 and the processor multiplies them.
func (d *Device) products(attrs any, t arena.DType) *gemm.Kernels {
	if s := d.bfloat16Pairs; s != nil && kernels.ComputeTypeOf(attrs) == arena.BFloat16 {
		return s
	}
	return gemm.For(d.level, t)
}
