//go:build amd64 && !purego

package reduce

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./reduce -dir ../../kernels/cpu/internal/asm/reduce

// kernels32 returns the kernels of a level for float32.
func kernels32(l asm.Level) *Kernels[float32] {
	switch l {
	case asm.AVX512:
		return &Kernels[float32]{
			Rows: [folds]func([]float64, []float32, int){wideRowsSum32, wideRowsMax32, wideRowsSquares32},
			Cols: [folds]func([]float64, []float32, int, int){wideColsSum32, wideColsMax32, nil},
		}
	case asm.AVX2:
		return &Kernels[float32]{
			Rows: [folds]func([]float64, []float32, int){rowsSum32, rowsMax32, rowsSquares32},
			Cols: [folds]func([]float64, []float32, int, int){colsSum32, colsMax32, nil},
		}
	}
	return goKernels[float32]()
}

// kernels64 returns the kernels of a level for float64.
func kernels64(l asm.Level) *Kernels[float64] {
	switch l {
	case asm.AVX512:
		return &Kernels[float64]{
			Rows: [folds]func([]float64, []float64, int){wideRowsSum64, wideRowsMax64, wideRowsSquares64},
			Cols: [folds]func([]float64, []float64, int, int){wideColsSum64, wideColsMax64, nil},
		}
	case asm.AVX2:
		return &Kernels[float64]{
			Rows: [folds]func([]float64, []float64, int){rowsSum64, rowsMax64, rowsSquares64},
			Cols: [folds]func([]float64, []float64, int, int){colsSum64, colsMax64, nil},
		}
	}
	return goKernels[float64]()
}

// LargestAt returns the function of level l that returns the largest word of x after clearing the
// bits outside of mask. The lower half of mask is for even elements, its upper half for odd ones;
// the highest bit of both halves must be 0.
func LargestAt(l asm.Level) func(x []uint32, mask uint64) uint32 {
	switch l {
	case asm.AVX512:
		return wideLargest
	case asm.AVX2:
		return largest
	}
	return goLargest
}
