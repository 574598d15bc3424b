package conv

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// An Epilogue is the arguments of a function that adds a bias to each of Rows rows of C and applies
// ReLU, as Flags say: gemm.FlagBias, gemm.FlagRelu or both. They are also the arguments of a
// function that makes each element (c - mean)·scale + shift, by row, and applies ReLU with
// gemm.FlagRelu. The assembly reads the fields at fixed offsets.
type Epilogue struct {
	C, Bias []byte // of the first row
	Rows    int    // at least 1
	RowC    int    // bytes from row to row of C
	N       int    // columns, at most those of a panel
	Flags   int

	Mean, Scale, Shift []byte // of the first row
}

// goEpilogue is the Go twin.
func goEpilogue[T asm.Float](e *Epilogue) {
	c, bias := asm.View[T](e.C), asm.View[T](e.Bias)
	size := asm.SizeOf[T]()
	for r := range e.Rows {
		row := c[r*e.RowC/size:][:e.N]
		for i, v := range row {
			if e.Flags&gemm.FlagBias != 0 {
				v += bias[r]
			}
			if e.Flags&gemm.FlagRelu != 0 && v < 0 {
				v = 0
			}
			row[i] = v
		}
	}
}

// goNormalize is the Go twin.
func goNormalize[T asm.Float](e *Epilogue) {
	c, mean, scale, shift := asm.View[T](e.C), asm.View[T](e.Mean), asm.View[T](e.Scale), asm.View[T](e.Shift)
	size := asm.SizeOf[T]()
	for r := range e.Rows {
		row := c[r*e.RowC/size:][:e.N]
		for i, v := range row {
			v -= mean[r]
			// The conversion keeps Go from fusing product and sum on other processors.
			v = T(v*scale[r]) + shift[r]
			if e.Flags&gemm.FlagRelu != 0 && v < 0 {
				v = 0
			}
			row[i] = v
		}
	}
}
