package numeric_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// TestNoiseLooksRandom checks the statistics of random bits on sequences that occur in training:
// over updates of an element whose gradient stays the same, and over elements whose parameters or
// gradients are nearly or exactly equal. Means and correlations of n numbers stay within 6 standard
// deviations, which chance exceeds once in 500 million times.
func TestNoiseLooksRandom(t *testing.T) {
	r := seed.Rand(t, 0)
	const n, most = 1 << 16, 6.0 / (1 << 8) // 6/√n
	for range 10 {
		p, g, at := math.Float32bits(r.Float32()), math.Float32bits(r.Float32()*1e-3), uint32(r.IntN(1<<20))
		for name, of := range map[string]func(i uint32) uint32{
			"updates":                        func(i uint32) uint32 { return numeric.Noise(p, g, at+i) },
			"updates without gradient":       func(i uint32) uint32 { return numeric.Noise(p, 0, at+i) },
			"updates from nothing":           func(i uint32) uint32 { return numeric.Noise(0, g, i) },
			"a parameter's last digits":      func(i uint32) uint32 { return numeric.Noise(p+i, g, at) },
			"a parameter's digits in steps":  func(i uint32) uint32 { return numeric.Noise(p+i*64, 0, at) },
			"a gradient's last digits":       func(i uint32) uint32 { return numeric.Noise(p, g+i, at) },
			"a gradient's digits, no weight": func(i uint32) uint32 { return numeric.Noise(0, g+i*16, at) },
			"a parameter that moves":         func(i uint32) uint32 { return numeric.Noise(math.Float32bits(1+1e-6*float32(i)), g, at+i) },
			"float64":                        func(i uint32) uint32 { return numeric.Noise(numeric.Word(0.1*float64(i)), numeric.Word(0.25), at) },
		} {
			x := [2][]float64{make([]float64, n), make([]float64, n)} // of standard deviation 1
			counts := [2][16]int{}
			for i := range n {
				bits := of(uint32(i))
				for k, half := range []uint16{uint16(bits), uint16(bits >> 16)} {
					x[k][i] = (float64(half) - 32767.5) / 65536 * math.Sqrt(12)
					for b := range 16 {
						counts[k][b] += int(half >> b & 1)
					}
				}
			}
			for k, c := range counts {
				for b, ones := range c {
					if share := float64(ones)/n - 0.5; math.Abs(share) > most/2 {
						t.Errorf("%s from %#x, %#x, %d: bit %d of half %d is 1 in %v of all", name, p, g, at, b, k, share+0.5)
					}
				}
			}
			for lag := range 9 {
				for _, c := range [][2]int{{0, 0}, {1, 1}, {0, 1}} {
					if lag == 0 && c[0] == c[1] {
						continue
					}
					sum := 0.0
					for i := lag; i < n; i++ {
						sum += x[c[0]][i] * x[c[1]][i-lag]
					}
					if math.Abs(sum/n) > most {
						t.Errorf("%s from %#x, %#x, %d: halves %v correlate by %v over %d", name, p, g, at, c, sum/n, lag)
					}
				}
			}
		}
	}
}
