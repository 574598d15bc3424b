//go:build !amd64 || purego

package norm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// planes32 returns the plane kernels of a level for float32.
func planes32(asm.Level) *PlaneKernels[float32] { return goPlanes32 }

// planes64 returns the plane kernels of a level for float64.
func planes64(asm.Level) *PlaneKernels[float64] { return goPlanes64 }

// rows32 returns the row kernels of a level for float32.
func rows32(asm.Level) *RowKernels[float32] { return goRows32 }

// rows64 returns the row kernels of a level for float64.
func rows64(asm.Level) *RowKernels[float64] { return goRows64 }
