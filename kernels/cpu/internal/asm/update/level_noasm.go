//go:build !amd64 || purego

package update

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// kernels32 returns the functions of a level for float32.
func kernels32(asm.Level) *Kernels[float32] { return goKernels[float32]() }

// factorPasses32 returns Adafactor's passes of a level for float32.
func factorPasses32(asm.Level) *FactorPasses[float32] { return goFactorPasses[float32]() }

// kernels64 returns the functions of a level for float64.
func kernels64(asm.Level) *Kernels[float64] { return goKernels[float64]() }
