package kernels_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels"
)

// format describes a type of 16 bits as IEEE 754 does.
type format struct {
	kind     arena.DType
	fraction int // bits
	bias     int
	to       func(float32) uint16
	from     func(uint16) float32
}

var formats = []format{
	{arena.BFloat16, 7, 127, float16.ToBFloat16, float16.FromBFloat16},
	{arena.Float16, 10, 15, float16.ToFloat16, float16.FromFloat16},
}

// value is the definition: (-1)^s · 2^(e-bias) · 1.f, or 2^(1-bias) · 0.f where e is 0.
func (f format) value(h uint16) float64 {
	e, frac := int(h&0x7fff)>>f.fraction, float64(h&(1<<f.fraction-1))
	v := math.Ldexp(frac, 1-f.bias-f.fraction)
	switch {
	case e == 0x7fff>>f.fraction && frac != 0:
		return math.NaN()
	case e == 0x7fff>>f.fraction:
		v = math.Inf(1)
	case e > 0:
		v = math.Ldexp(frac+float64(int(1)<<f.fraction), e-f.bias-f.fraction)
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return v
}

// nearest is rounding by its definition: of the two values around v the nearer, of two equally near
// the even one.
func (f format) nearest(v float64) uint16 {
	if v != v {
		return 0x7fff
	}
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v = 0x8000, -v
	}
	inf := uint16(0x7fff) >> f.fraction << f.fraction
	lo, hi := uint16(0), inf // lo ≤ v; infinity stands for the value that would come next
	value := func(h uint16) float64 {
		if h == inf {
			return math.Ldexp(1, 0x7fff>>f.fraction-f.bias)
		}
		return f.value(h)
	}
	if v >= value(inf) {
		return sign | inf
	}
	for hi-lo > 1 {
		if m := (lo + hi) / 2; value(m) <= v {
			lo = m
		} else {
			hi = m
		}
	}
	switch a, b := v-value(lo), value(hi)-v; {
	case a < b || a == b && lo&1 == 0:
		return sign | lo
	default:
		return sign | hi
	}
}

// Every pattern has the value that its format says, and comes back from it; NaNs stay NaNs.
func TestHalfPatterns(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		for h := range 1 << 16 {
			h := uint16(h)
			want, got := f.value(h), f.from(h)
			if want != want {
				if got == got || math.Signbit(float64(got)) != (h&0x8000 != 0) || f.to(got) != h|1<<(f.fraction-1) {
					t.Fatalf("%v %#04x: NaN became %v, %#04x", f.kind, h, got, f.to(got))
				}
				continue
			}
			if float64(got) != want || math.Signbit(float64(got)) != (h&0x8000 != 0) {
				t.Fatalf("%v %#04x is %v, not %v", f.kind, h, got, want)
			}
			if back := f.to(got); back != h {
				t.Fatalf("%v %#04x comes back as %#04x", f.kind, h, back)
			}
		}
	}
}

// store returns what Store makes of v.
func store(kind arena.DType, v float64) uint16 {
	b := make([]byte, 2)
	kernels.Store(b, kind, []float64{v})
	return binary.LittleEndian.Uint16(b)
}

// Values at, between and beside all patterns are rounded to the nearest, ties to even, from float32
// and, once, from float64.
func TestHalfRounds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range formats {
		check := func(v float64) {
			want := f.nearest(v)
			if got := store(f.kind, v); got != want {
				t.Fatalf("%v: %v (%x) became %#04x, not %#04x", f.kind, v, v, got, want)
			}
			if want, got := f.nearest(float64(float32(v))), f.to(float32(v)); got != want {
				t.Fatalf("%v: float32 %v became %#04x, not %#04x", f.kind, float32(v), got, want)
			}
			if got := kernels.Round(f.kind, v); got != f.value(want) {
				t.Fatalf("%v: %v rounded to %v, not %v", f.kind, v, got, f.value(want))
			}
		}
		inf := uint16(0x7fff) >> f.fraction << f.fraction
		for h := uint16(0); h < inf; h++ {
			a := f.value(h)
			ulp := f.value(h|1) - f.value(h&^1)
			tie := a + ulp/2
			for _, v := range []float64{a, tie, math.Nextafter(tie, 0), math.Nextafter(tie, math.Inf(1)), a + ulp*r.Float64()} {
				check(v)
				check(-v)
			}
			check(float64(math.Nextafter32(float32(tie), 0)))
			check(float64(math.Nextafter32(float32(tie), 1e38)))
		}
		for _, v := range []float64{math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e300, 1e-300, math.MaxFloat32} {
			check(v)
		}
		for range 100_000 {
			if v := math.Float64frombits(r.Uint64()); v == v {
				check(v)
			}
			if v := math.Float32frombits(r.Uint32()); v == v {
				check(float64(v))
			}
		}
		if h := store(f.kind, math.NaN()); f.value(h) == f.value(h) {
			t.Errorf("%v: NaN became %#04x", f.kind, h)
		}
	}
}
