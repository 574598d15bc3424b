//go:build amd64 && !purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../internal/gen run ./reduce -dir ../../kernels/cpu

// folder32 returns the folds of float32 of a level.
func folder32(l asm.Level) *folder[float32] {
	switch l {
	case asm.AVX512:
		return &folder[float32]{
			rows: [folds]func([]float64, []float32, int){wideRowsSum32, wideRowsMax32, wideRowsSquares32},
			cols: [folds]func([]float64, []float32, int, int){wideColsSum32, wideColsMax32, nil},
		}
	case asm.AVX2:
		return &folder[float32]{
			rows: [folds]func([]float64, []float32, int){rowsSum32, rowsMax32, rowsSquares32},
			cols: [folds]func([]float64, []float32, int, int){colsSum32, colsMax32, nil},
		}
	}
	return goFolder[float32]()
}

// folder64 returns the folds of float64 of a level.
func folder64(l asm.Level) *folder[float64] {
	switch l {
	case asm.AVX512:
		return &folder[float64]{
			rows: [folds]func([]float64, []float64, int){wideRowsSum64, wideRowsMax64, wideRowsSquares64},
			cols: [folds]func([]float64, []float64, int, int){wideColsSum64, wideColsMax64, nil},
		}
	case asm.AVX2:
		return &folder[float64]{
			rows: [folds]func([]float64, []float64, int){rowsSum64, rowsMax64, rowsSquares64},
			cols: [folds]func([]float64, []float64, int, int){colsSum64, colsMax64, nil},
		}
	}
	return goFolder[float64]()
}

// largestAt returns the function that looks for the largest of masked words.
func largestAt(l asm.Level) func(x []uint32, mask uint64) uint32 {
	switch l {
	case asm.AVX512:
		return wideLargest
	case asm.AVX2:
		return largest
	}
	return goLargest
}
