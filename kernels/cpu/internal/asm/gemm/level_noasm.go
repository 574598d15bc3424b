//go:build !amd64 || purego

package gemm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// kernelsAt returns the kernels of a level, one for each type.
func kernelsAt(asm.Level) []*Kernels { return portable }

// BFloat16Pairs returns the kernels for pairs of bfloat16: nil in this build.
func BFloat16Pairs() *Kernels { return nil }
