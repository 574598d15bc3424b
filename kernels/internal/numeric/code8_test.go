package numeric_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A code8 is one of both codes, by its bytes.
type code8 struct {
	name   string
	encode func(x float32, noise uint32) int
	decode func(code int) float32
	last   int
	from   float64 // the least number whose spacing is relative
	most   float64 // relative distance of neighbours, or from·most below from
}

var codes = []code8{
	{"root", func(x float32, n uint32) int { return int(numeric.EncodeRoot(x, n)) },
		func(c int) float32 { v, _ := numeric.DecodeRoot(uint8(c)); return v }, 255, 1.125 * 0x1p-32, 1.0 / 8},
	{"mean", func(x float32, n uint32) int { return int(numeric.EncodeMean(x, n)) },
		func(c int) float32 { return numeric.DecodeMean(int8(c)) }, 127, 0x1p-7, 1.0 / 8},
}

func TestCodesGrowAndAreTheirOwn(t *testing.T) {
	t.Parallel()
	for _, c := range codes {
		for code := range c.last + 1 {
			v := c.decode(code)
			for _, noise := range []uint32{0, 1 << 31, math.MaxUint32} {
				if got := c.encode(v, noise); got != code {
					t.Errorf("%s: code %d is %v, whose code with noise %#x is %d", c.name, code, v, noise, got)
				}
			}
			if code == 0 {
				continue
			}
			last := c.decode(code - 1)
			if step := float64(v - last); !(step > 0 && step <= c.most*max(c.from, float64(last))) {
				t.Errorf("%s: code %d is %v, the one before %v", c.name, code, v, last)
			}
		}
		for _, x := range []float64{2, 1e30, math.Inf(1), math.NaN()} {
			if got := c.encode(float32(x), math.MaxUint32); got != c.last {
				t.Errorf("%s: the code of %v is %d, want %d", c.name, x, got, c.last)
			}
		}
		if got := c.encode(0, math.MaxUint32); got != 0 {
			t.Errorf("%s: the code of 0 is %d", c.name, got)
		}
	}
	if v := codes[0].decode(255); v != 1 {
		t.Errorf("the last code of a root is %v, want 1", v)
	}
	for code := range 128 {
		if a, b := numeric.DecodeMean(int8(code)), numeric.DecodeMean(int8(-code)); a != -b || numeric.EncodeMean(b, 0) != int8(-code) {
			t.Errorf("code %d is %v, its negative %v", code, a, b)
		}
	}
	for code := range 256 {
		v, unit := numeric.DecodeRoot(uint8(code))
		if fraction, _ := math.Frexp(float64(unit)); fraction != 0.5 || v < unit || v >= 2*unit {
			t.Errorf("the unit of code %d, which is %v, is %v", code, v, unit)
		}
	}
}

// TestADitheredCodeIsRightOnAverage: over a run of updates a code is one of a number's two
// neighbours, and right on average to a hundredth of their distance.
func TestADitheredCodeIsRightOnAverage(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t, 0)
	for k, c := range codes {
		for range 60 {
			x := float32(math.Exp2(-float64(r.IntN(30)) * r.Float64()))
			t0, element, sum := r.Uint32(), uint32(r.IntN(256)), 0.0
			low := c.encode(x, 0)
			const updates = 2000
			for i := range uint32(updates) {
				root, mean := numeric.Dither(t0 + i)
				code := c.encode(x, []uint32{root, mean}[k]+element*numeric.DitherElement)
				if code != low && code != low+1 {
					t.Fatalf("%s: %v has the codes %d and %d", c.name, x, low, code)
				}
				sum += float64(c.decode(code)) / updates
			}
			distance := float64(c.decode(min(low+1, c.last)) - c.decode(low))
			if math.Abs(sum-float64(x)) > distance/100+1e-9 {
				t.Errorf("%s: %v is %v on average", c.name, x, sum)
			}
		}
	}
}

// TestNoMeanLeavesItsSpan: gradients that grow as fast as the mean forgets them make the ratio of
// mean and root as large as it can be.
func TestNoMeanLeavesItsSpan(t *testing.T) {
	t.Parallel()
	most := float64(numeric.DecodeMean(127))
	r := rand.New(rand.NewPCG(1, 2))
	for _, b := range [][2]float64{{0.9, 0.999}, {0.9, 0.95}, {0, 0.999}, {0.5, 0.9}, {0.9, 0.99999}, {0.95, 0.98}} {
		span, reached := numeric.MeanSpan(b[0], b[1]), 0.0
		for _, growth := range []float64{b[1] / max(b[0], 1e-3), 1, 1.5, 0} {
			mean, square, g := 0.0, 0.0, 1.0
			for range 60 {
				mean, square = b[0]*mean+(1-b[0])*g, b[1]*square+(1-b[1])*g*g
				if g *= growth; growth == 0 {
					g = r.NormFloat64()
				}
				// A root is rounded down by up to an eighth, and its unit is above half of that.
				share := math.Abs(mean) / (math.Sqrt(square) / 1.125 / 2) / span
				if reached = max(reached, share); share > most*(1+1e-9) {
					t.Errorf("betas %v: a mean of %v for a root of %v is %v of the span", b, mean, math.Sqrt(square), share)
				}
			}
		}
		if reached < most/2 {
			t.Errorf("betas %v: means reach %v of the span only", b, reached)
		}
	}
}
