//go:build !amd64 || purego

package reduce

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// kernels32 returns the kernels of a level for float32.
func kernels32(asm.Level) *Kernels[float32] { return goKernels[float32]() }

// kernels64 returns the kernels of a level for float64.
func kernels64(asm.Level) *Kernels[float64] { return goKernels[float64]() }

// LargestAt returns the function that returns the largest word of x after clearing the
// bits outside of mask. The lower half of mask is for even elements, its upper half for odd ones;
// the highest bit of both halves must be 0.
func LargestAt(asm.Level) func(x []uint32, mask uint64) uint32 { return goLargest }
