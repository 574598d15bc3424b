//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// vectors32 returns the float32 functions of a level.
func vectors32(asm.Level) *vectors[float32] { return goVectors32 }

// vectors64 returns the float64 functions of a level.
func vectors64(asm.Level) *vectors[float64] { return goVectors64 }

// softmax32 returns the functions of rows of float32 of a level.
func softmax32(asm.Level) *softmaxKernels[float32] { return &goSoftmax32 }
