package float16_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/internal/seed"
)

func TestADitheredBFloat16IsANeighbourAndRightOnAverage(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t, 0)
	for range 200 {
		v := math.Float32frombits(r.Uint32())
		if v != v || math.Abs(float64(v)) > 0x1p126 || math.Abs(float64(v)) < 0x1p-120 {
			continue // sums stay finite and normal
		}
		below := float64(math.Float32frombits(math.Float32bits(v) &^ 0xffff))
		above := float64(math.Float32frombits(math.Float32bits(v)&^0xffff + 1<<16))
		sum := 0.0
		for noise := range 1 << 16 {
			x := float64(float16.FromBFloat16(float16.DitherBFloat16(v, uint16(noise))))
			if x != below && x != above {
				t.Fatalf("%v with noise %#x is %v, its neighbours are %v and %v", v, noise, x, below, above)
			}
			sum += x / (1 << 16)
		}
		if math.Abs(sum-float64(v)) > 1e-12*math.Abs(float64(v)) { // of a sum of 65,536 terms
			t.Errorf("%v is %v on average over all noise", v, sum)
		}
	}
	nan := uint32(0x7fffffff)
	for _, noise := range []uint16{0, 1, 0x8000, 0xffff} {
		for _, v := range []float32{0, float32(math.Copysign(0, -1)), 1, -0.5, 0x1.8p-126, float32(math.Inf(1)), float32(math.Inf(-1))} {
			if got, want := float16.DitherBFloat16(v, noise), uint16(math.Float32bits(v)>>16); got != want {
				t.Errorf("%v, a bfloat16, with noise %#x is %#x, want %#x", v, noise, got, want)
			}
		}
		for _, b := range []uint32{nan, nan | 1<<31, 0x7f800001, 0xff800001} {
			if x := float16.FromBFloat16(float16.DitherBFloat16(math.Float32frombits(b), noise)); x == x {
				t.Errorf("the NaN %#x with noise %#x is %v", b, noise, x)
			}
		}
	}
}
