package asmtest

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// PairRounding returns the Go twins of gemm.BFloat16Pairs().BFloat16: they pack pairs of bfloat16
// on every processor, and allocate.
func PairRounding() *gemm.Rounding {
	round := func(dst, src []byte, n int) { half.At(asm.Portable, arena.BFloat16).Encode(dst, src, 1, 0, n, 0) }
	move := func(dst, src []byte, n int) { copy(dst[:2*n], src) }
	return &gemm.Rounding{
		FromFloat32: gemm.Packing{Size: 4, Along: func(dst, src []byte, rows, stride, n, pitch int) {
			for r := range rows {
				round(dst[r*pitch:], src[r*stride:], n)
				clear(dst[r*pitch:][2*n : 2*(n+n&1)])
			}
		}, Across: pairsAcross(round)},
		FromHalf: gemm.Packing{Size: 2, Along: gemm.PairsAlong16, Across: pairsAcross(move)},
	}
}

// pairsAcross returns a function that packs each two rows into one row of pairs, after encode made
// bfloat16 of them.
func pairsAcross(encode func(dst, src []byte, n int)) half.ConvertFunc {
	return func(dst, src []byte, rows, stride, n, pitch int) {
		both := make([]byte, 4*n)
		for r := 0; r < rows; r += 2 {
			clear(both)
			encode(both, src[r*stride:], n)
			if r+1 < rows {
				encode(both[2*n:], src[(r+1)*stride:], n)
			}
			from, to := asm.View[uint16](both), asm.View[uint16](dst[r/2*pitch:])
			for i := range n {
				to[2*i], to[2*i+1] = from[i], from[n+i]
			}
		}
	}
}
