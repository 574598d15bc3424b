package images

import (
	"math/rand/v2"
	"testing"
)

func yccSource(w, h int) *source {
	r := rand.New(rand.NewPCG(1, 2))
	s := &source{w: w, h: h, ycc: true, rx: 2, ry: 2}
	for k := range 3 {
		s.planes = append(s.planes, plane{})
		pw, ph := s.size(0)
		if k > 0 {
			pw, ph = (w+1)/2, (h+1)/2
		}
		p := make([]byte, pw*ph)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		s.planes[k] = plane{pix: p, stride: pw}
	}
	return s
}

func BenchmarkResample(b *testing.B) {
	s := yccSource(256, 256)
	var r resampler
	dst := make([]byte, 3*224*224)
	v := whole(256, 256)
	v.crop(20, 30, 200, 180)
	v.resize(224, 224)
	v.flipX = true
	for b.Loop() {
		r.resample8(dst, s, v, 3)
	}
}

func TestColoursAreWithinOneOfTheFormula(t *testing.T) {
	sum := 0.0
	n := 0
	for l := 0; l < 256; l += 3 {
		for b := range 256 {
			for r := 0; r < 256; r += 5 {
				y, cb, cr := []uint64{uint64(l) * lanes}, []uint64{uint64(b) * lanes}, []uint64{uint64(r) * lanes}
				toRGB(y, cb, cr)
				u, v, w := []float32{float32(l)}, []float32{float32(b)}, []float32{float32(r)}
				floatRGB(u, v, w)
				for c, got := range []uint64{y[0], cb[0], cr[0]} {
					want := []float32{u[0], v[0], w[0]}[c]
					d := float64(got&0xff) - float64(want)
					if got != got&0xff*lanes || d > 0.75 || d < -0.75 { // rounding and constants of 1/256
						t.Fatalf("colour %d of (%d, %d, %d) is %#x, want %v in each lane", c, l, b, r, got, want)
					}
					sum += d
					n++
				}
			}
		}
	}
	if mean := sum / float64(n); mean > 0.06 || mean < -0.06 {
		t.Errorf("colours are shifted by %.3f on average", mean)
	}
}

func TestWideFiltersAreRoundedOnceAnAxis(t *testing.T) {
	var r resampler
	for w := 60; w < 512; w += 13 {
		s := yccSource(w, 40) // noise
		s.ycc = false
		s.planes = s.planes[:1]
		v := whole(w, 40)
		v.resize(11, 40)
		got, want := make([]byte, 11*40), make([]float32, 11*40)
		r.resample8(got, s, v, 1)
		r.resampleFloat(want, s, v, 1)
		for i, g := range got {
			if d := float32(g) - want[i]; d < -0.6 || d > 0.6 { // one rounding, and weights of 1/65536
				t.Fatalf("%d samples to 11: sample %d is %d, want %v", w, i, g, want[i])
			}
		}
	}
}
