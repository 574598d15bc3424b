//go:build !amd64 || purego

package half

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// bfloat16At returns the conversions of a level.
func bfloat16At(asm.Level) *Conversions { return portableBFloat16 }

// float16At returns the conversions of a level.
func float16At(asm.Level) *Conversions { return portableFloat16 }
