//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// bfloat16At returns the conversions of a level.
func bfloat16At(asm.Level) *conversions { return goBfloat16 }

// float16At returns the conversions of a level.
func float16At(asm.Level) *conversions { return goFloat16 }
