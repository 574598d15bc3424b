package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// Levels returns the sets of instructions that this processor has, from Portable on: the levels of all but products of bfloat16.
func Levels() []Instructions {
	var all []Instructions
	for l := asm.Portable; l <= asm.Best(); l++ {
		all = append(all, Portable+Instructions(l))
	}
	return all
}

// Bytes returns the memory of x.
func Bytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	copy(asm.View[float32](b), x)
	return b
}
