package weights

import (
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// shorts are the types of 16 bits.
var shorts = []safetensors.DType{safetensors.Float16, safetensors.BFloat16}

// bitsOf returns the 16 bits of x.
func bitsOf(t safetensors.DType, x float64) uint16 {
	return get16(elementsAs(t, []float64{x}), 0)
}

// valueOf returns the value of 16 bits.
func valueOf(t safetensors.DType, bits uint16) float64 {
	return numbersOf(t, []byte{byte(bits), byte(bits >> 8)})[0]
}

func TestAllNumbersOf16BitsAreReadExactlyAndWrittenBack(t *testing.T) {
	for of, want := range map[safetensors.DType]map[uint16]float64{
		safetensors.Float16:  {0: 0, 1: 0x1p-24, 0x3ff: 1023 * 0x1p-24, 0x400: 0x1p-14, 0x3c00: 1, 0x3555: 0.333251953125, 0x7bff: 65504, 0xc000: -2, 0x7c00: math.Inf(1)},
		safetensors.BFloat16: {0: 0, 1: 0x1p-133, 0x80: 0x1p-126, 0x3f80: 1, 0x3eab: 0.333984375, 0x7f7f: 255 * 0x1p120, 0xc000: -2, 0xff80: math.Inf(-1)},
	} {
		for bits, x := range want {
			if got := valueOf(of, bits); got != x {
				t.Errorf("%s %#x is %v, want %v", of, bits, got, x)
			}
		}
		for bits := range 1 << 16 {
			x := valueOf(of, uint16(bits))
			if x != float64(float32(x)) && x == x {
				t.Fatalf("%s %#x is %v, which is no float32", of, bits, x)
			}
			if got := bitsOf(of, x); got != uint16(bits) && x == x || x != x && valueOf(of, got) == valueOf(of, got) {
				t.Fatalf("%s %#x is %v, written as %#x", of, bits, x, got)
			}
		}
		if math.Signbit(valueOf(of, 0x8000)) == false {
			t.Errorf("%s: -0 has lost its sign", of)
		}
	}
}

// The nearest of all numbers is searched for; of two, the one whose last bit is 0.
func TestNumbersAreRoundedToTheNearestOf16Bits(t *testing.T) {
	r := seed.Rand(t, 41)
	for _, of := range shorts {
		var all []float64 // not negative, finite; an index is its bits
		for bits := range 1 << 15 {
			if x := valueOf(of, uint16(bits)); x < math.Inf(1) {
				all = append(all, x)
			}
		}
		largest := all[len(all)-1]
		limit := largest + (largest-all[len(all)-2])/2 // from here on numbers are infinite
		check := func(x float64) {
			i, found := slices.BinarySearch(all, x)
			if !found && (i == len(all) || i > 0 && (x-all[i-1] < all[i]-x || x-all[i-1] == all[i]-x && i%2 == 1)) {
				i--
			}
			want := uint16(i)
			if x >= limit {
				want = uint16(len(all)) // infinite
			}
			if got := bitsOf(of, x); got != want {
				t.Errorf("%s: %v is %#x, want %#x", of, x, got, want)
			}
			if got := bitsOf(of, -x); got != want|1<<15 {
				t.Errorf("%s: %v is %#x, want %#x", of, -x, got, want|1<<15)
			}
		}
		for range 20000 {
			check(math.Ldexp(r.Float64(), r.IntN(300)-150))
			check(math.Ldexp(r.Float64(), r.IntN(45)-26))
			k := r.IntN(len(all) - 1)
			half := (all[k] + all[k+1]) / 2
			check(half)
			check(math.Nextafter(half, 0))
			check(math.Nextafter(half, math.Inf(1)))
		}
		for _, x := range []float64{largest, math.Nextafter(limit, 0), limit, math.MaxFloat64, math.SmallestNonzeroFloat64} {
			check(x)
		}
	}
}
