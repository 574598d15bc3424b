package dropout_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/dropout"
)

// Elements that end or begin at a page that faults have the bits of the twin.
func TestDropoutMatchesItsTwinInsideItsOperands(t *testing.T) {
	r, seed := asmtest.Rand(t)
	from, to := asmtest.NewPage(t), asmtest.NewPage(t)
	for _, level := range asmtest.Levels() {
		for n := 1; n <= 300; n++ {
			a := dropout.Args[float32]{X: asmtest.Elements[float32](from, n, n%2 == 0), Y: asmtest.Elements[float32](to, n, n%2 == 0), N: n,
				Counter: [4]uint32{r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()}, Threshold: 1 << 30, Scale: 1.5}
			key := [2]uint32{r.Uint32(), r.Uint32()}
			for i := range a.Keys { // Philox4x32: the keys of its rounds
				a.Keys[i] = [2]uint64{uint64(key[0]), uint64(key[1])}
				key[0] += 0x9E3779B9
				key[1] += 0xBB67AE85
			}
			for i := range a.X {
				a.X[i] = r.Float32() + 1
			}
			b := a
			b.Y = make([]float32, n)
			dropout.At[float32](level)(&a)
			dropout.At[float32](asm.Portable)(&b)
			if !slices.Equal(a.Y, b.Y) {
				t.Fatalf("%d elements at level %d: got %v, want %v (seed %d)", n, level, a.Y, b.Y, seed)
			}
		}
	}
}
