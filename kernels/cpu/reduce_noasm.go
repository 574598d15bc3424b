//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// folder32 returns the folds of float32 of a level.
func folder32(asm.Level) *folder[float32] { return goFolder[float32]() }

// folder64 returns the folds of float64 of a level.
func folder64(asm.Level) *folder[float64] { return goFolder[float64]() }

// largestAt returns the function that looks for the largest of masked words.
func largestAt(asm.Level) func(x []uint32, mask uint64) uint32 { return goLargest }
