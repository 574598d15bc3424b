//go:build amd64 && !purego

package pool2d

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./norm -package pool2d -dir ../../kernels/cpu/internal/asm/pool2d

// kernels holds the kernels by level.
var kernels = [...]*Kernels{portable,
	{pool2, poolGrad2, average2, averageGrad2, window2, mean2},
	{widePool, widePoolGrad, wideAverage, wideAverageGrad, wideWindow, wideMean}}

// At returns the kernels of level l.
func At(l asm.Level) *Kernels { return kernels[l] }
