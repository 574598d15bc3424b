package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// AsBytes is the memory of x.
func AsBytes[T uint16 | float32](x []T) []byte { return asm.Bytes(x) }

// A Pairing makes pairs of bfloat16 of rows of n elements of From bytes: of neighbours in a row, or of rows one below the other. Plain is its
// twin in Go.
type Pairing struct {
	Name       string
	From       int
	Across     bool
	Run, Plain func(dst, src []byte, rows, stride, n, pitch int)
}

// Pairings lists those of the processor.
func Pairings() []Pairing {
	s := pairs()
	if s == nil {
		return nil
	}
	a, b := s.bfloat16, widePairs().bfloat16
	return []Pairing{
		{"along, float32", 4, false, a.single.along, b.single.along}, {"along, bfloat16", 2, false, a.half.along, b.half.along},
		{"across, float32", 4, true, a.single.across, b.single.across}, {"across, bfloat16", 2, true, a.half.across, b.half.across},
	}
}
