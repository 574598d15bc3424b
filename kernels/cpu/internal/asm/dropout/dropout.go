// Package dropout holds the inner kernel of dropout for float32 and float64: it zeroes elements at
// random and scales the others.
//
// Random words are those of Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2,
// 3, SC 2011): one counter for each four elements. zz_dropout_amd64.s (AVX2 and AVX-512, float32)
// is written by internal/gen/norm; goDrop is the Go twin. All give the same bits.
package dropout

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Args are the arguments of a kernel: y = x·Scale where the element's random word is at least
// Threshold, otherwise 0. The assembly reads the fields at fixed offsets.
type Args[T asm.Float] struct {
	X, Y      []T
	N         int
	Counter   [4]uint32                       // of the first four elements
	Keys      [numeric.PhiloxRounds][2]uint64 // keys of the rounds, zero-extended
	Threshold uint32                          // a word below it drops the element
	Scale     T                               // of elements that are kept
}

// At returns the kernel of level l for T.
func At[T asm.Float](l asm.Level) func(c *Args[T]) {
	if k, ok := any(kernel32(l)).(func(c *Args[T])); ok {
		return k
	}
	return goDrop[T]
}

// goDrop is the Go twin.
func goDrop[T asm.Float](c *Args[T]) {
	x, y, counter := c.X[:c.N], c.Y[:c.N], c.Counter
	key := [2]uint32{uint32(c.Keys[0][0]), uint32(c.Keys[0][1])}
	for i := 0; i < len(x); i += 4 {
		words := numeric.Philox(counter, key)
		counter[0]++
		for k, v := range x[i:min(i+4, len(x))] {
			if words[k] >= c.Threshold {
				y[i+k] = v * c.Scale
			} else {
				y[i+k] = 0
			}
		}
	}
}
