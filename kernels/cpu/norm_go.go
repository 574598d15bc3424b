//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

func planes32(asm.Level) *planeKernels[float32] { return goPlanes32 }
func planes64(asm.Level) *planeKernels[float64] { return goPlanes64 }
func rows32(asm.Level) *rowKernels[float32]     { return goRows32 }
func rows64(asm.Level) *rowKernels[float64]     { return goRows64 }
func poolsOf(asm.Level) *poolKernels            { return goPools }
func drop32(asm.Level) func(*dropCall[float32]) { return goDrop[float32] }
