//go:build !amd64 || purego

package gemm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// kernelsAt returns the kernels of a level, one for each type.
func kernelsAt(asm.Level) []*Kernels { return portable }

// Bfloat16Pairs returns the kernels for pairs of bfloat16: nil in this build.
func Bfloat16Pairs() *Kernels { return nil }
