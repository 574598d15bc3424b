//go:build amd64 && !purego

package norm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./norm -package norm -dir ../../kernels/cpu/internal/asm/norm

// The kernels by level.
var (
	planes32At = [...]*PlaneKernels[float32]{goPlanes32,
		{moments32, products32, scale32, gradient32,
			&PlaneKernels[float32]{columnMoments32, columnProducts32, columnScale32, columnGradient32, nil}},
		{wideMoments32, wideProducts32, wideScale32, wideGradient32,
			&PlaneKernels[float32]{wideColumnMoments32, wideColumnProducts32, wideColumnScale32, wideColumnGradient32, nil}}}
	planes64At = [...]*PlaneKernels[float64]{goPlanes64,
		{moments64, products64, scale64, gradient64,
			&PlaneKernels[float64]{columnMoments64, columnProducts64, columnScale64, columnGradient64, nil}},
		{wideMoments64, wideProducts64, wideScale64, wideGradient64,
			&PlaneKernels[float64]{wideColumnMoments64, wideColumnProducts64, wideColumnScale64, wideColumnGradient64, nil}}}
	rows32At = [...]*RowKernels[float32]{goRows32, {normRows32, normRowsGrad32}, {wideNormRows32, wideNormRowsGrad32}}
	rows64At = [...]*RowKernels[float64]{goRows64, {normRows64, normRowsGrad64}, {wideNormRows64, wideNormRowsGrad64}}
)

// planes32 returns the plane kernels of a level for float32.
func planes32(l asm.Level) *PlaneKernels[float32] { return planes32At[l] }

// planes64 returns the plane kernels of a level for float64.
func planes64(l asm.Level) *PlaneKernels[float64] { return planes64At[l] }

// rows32 returns the row kernels of a level for float32.
func rows32(l asm.Level) *RowKernels[float32] { return rows32At[l] }

// rows64 returns the row kernels of a level for float64.
func rows64(l asm.Level) *RowKernels[float64] { return rows64At[l] }
