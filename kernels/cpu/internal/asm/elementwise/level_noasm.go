//go:build !amd64 || purego

package elementwise

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// kernels32 returns the functions of a level for float32.
func kernels32(asm.Level) *Kernels[float32] { return goFloat32 }

// kernels64 returns the functions of a level for float64.
func kernels64(asm.Level) *Kernels[float64] { return goFloat64 }

// softmax32 returns the row functions of a level for float32.
func softmax32(asm.Level) *SoftmaxKernels[float32] { return &goSoftmax32 }
