//go:build amd64 && !purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../internal/gen run ./norm -dir ../../kernels/cpu

// The tables of normalizations, pooling and dropout, by level.
var (
	planes32Of = [...]*planeKernels[float32]{goPlanes32,
		{moments32, products32, scale32, gradient32,
			&planeKernels[float32]{columnMoments32, columnProducts32, columnScale32, columnGradient32, nil}},
		{wideMoments32, wideProducts32, wideScale32, wideGradient32,
			&planeKernels[float32]{wideColumnMoments32, wideColumnProducts32, wideColumnScale32, wideColumnGradient32, nil}}}
	planes64Of = [...]*planeKernels[float64]{goPlanes64,
		{moments64, products64, scale64, gradient64,
			&planeKernels[float64]{columnMoments64, columnProducts64, columnScale64, columnGradient64, nil}},
		{wideMoments64, wideProducts64, wideScale64, wideGradient64,
			&planeKernels[float64]{wideColumnMoments64, wideColumnProducts64, wideColumnScale64, wideColumnGradient64, nil}}}
	rows32Of = [...]*rowKernels[float32]{goRows32, {normRows32, normRowsGrad32}, {wideNormRows32, wideNormRowsGrad32}}
	rows64Of = [...]*rowKernels[float64]{goRows64, {normRows64, normRowsGrad64}, {wideNormRows64, wideNormRowsGrad64}}
)

var (
	poolOf = [...]*poolKernels{goPools,
		{pool2, poolGrad2, average2, averageGrad2, window2, mean2},
		{widePool, widePoolGrad, wideAverage, wideAverageGrad, wideWindow, wideMean}}
)

var (
	drop32Of = [...]func(*dropCall[float32]){goDrop[float32], drop, wideDrop}
)

func planes32(l asm.Level) *planeKernels[float32] { return planes32Of[l] }
func planes64(l asm.Level) *planeKernels[float64] { return planes64Of[l] }
func rows32(l asm.Level) *rowKernels[float32]     { return rows32Of[l] }
func rows64(l asm.Level) *rowKernels[float64]     { return rows64Of[l] }
func poolsOf(l asm.Level) *poolKernels            { return poolOf[l] }
func drop32(l asm.Level) func(*dropCall[float32]) { return drop32Of[l] }
