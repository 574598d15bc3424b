//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// rules32 returns the rules of float32 of a level.
func rules32(asm.Level) *rules[float32] { return goRules[float32]() }

// factorPasses32 returns the passes of Adafactor over float32 of a level.
func factorPasses32(asm.Level) *factorPasses[float32] { return goFactorPasses[float32]() }

// rules64 returns the rules of float64 of a level.
func rules64(asm.Level) *rules[float64] { return goRules[float64]() }
