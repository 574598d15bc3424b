//go:build !amd64 || purego

package norm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

func planes32(asm.Level) *PlaneKernels[float32] { return goPlanes32 }

func planes64(asm.Level) *PlaneKernels[float64] { return goPlanes64 }

func rows32(asm.Level) *RowKernels[float32] { return goRows32 }

func rows64(asm.Level) *RowKernels[float64] { return goRows64 }
