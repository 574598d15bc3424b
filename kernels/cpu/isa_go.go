//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// isasAt returns the kernels of a level, one a type.
func isasAt(asm.Level) []*isa { return portable }

// pairs returns the kernels for pairs of bfloat16: none.
func pairs() *isa { return nil }
