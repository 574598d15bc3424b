package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// An ending is the arguments of a function that ends rows of a convolution's result, for which a bias is one number: up
// to a panel's columns of each. The assembly knows the fields' offsets. flagBias and flagRelu count, at least one is set.
type ending struct {
	c, bias []byte // of the first row
	rows    int    // at least 1
	rowC    int    // bytes from row to row of c
	n       int    // columns
	flags   int
}

// goEnd is the portable ending.
func goEnd[T float](e *ending) {
	c, bias := asm.View[T](e.c), asm.View[T](e.bias)
	size := asm.SizeOf[T]()
	for r := range e.rows {
		row := c[r*e.rowC/size:][:e.n]
		for i, v := range row {
			if e.flags&gemm.FlagBias != 0 {
				v += bias[r]
			}
			if e.flags&gemm.FlagRelu != 0 && v < 0 {
				v = 0
			}
			row[i] = v
		}
	}
}

// goPacker returns the portable functions beside the tiles of s.
func goPacker(s *gemm.Kernels) *packer {
	if s.Size() == 8 {
		return goPackerOf[float64](s)
	}
	return goPackerOf[float32](s)
}

func goPackerOf[T float](s *gemm.Kernels) *packer {
	return &packer{lanes: min(s.Cols, patchLanes), end: goEnd[T],
		input: goWinoInput[T], weight: goWinoWeight[T], output: goWinoOutput[T]}
}
