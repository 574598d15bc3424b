package kernels_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

func TestADitheredBfloat16IsANeighbourAndRightOnAverage(t *testing.T) {
	r := random(t)
	for range 200 {
		v := math.Float32frombits(r.Uint32())
		if v != v || math.Abs(float64(v)) > 0x1p126 || math.Abs(float64(v)) < 0x1p-120 {
			continue // sums stay finite and normal
		}
		below := float64(math.Float32frombits(math.Float32bits(v) &^ 0xffff))
		above := float64(math.Float32frombits(math.Float32bits(v)&^0xffff + 1<<16))
		sum := 0.0
		for noise := range 1 << 16 {
			x := float64(kernels.FromBfloat16(kernels.DitherBfloat16(v, uint16(noise))))
			if x != below && x != above {
				t.Fatalf("%v with noise %#x is %v, its neighbours are %v and %v", v, noise, x, below, above)
			}
			sum += x / (1 << 16)
		}
		if !near(sum, float64(v), 1e-12*math.Abs(float64(v))) { // of a sum of 65,536 terms
			t.Errorf("%v is %v on average over all noise", v, sum)
		}
	}
	nan := uint32(0x7fffffff)
	for _, noise := range []uint16{0, 1, 0x8000, 0xffff} {
		for _, v := range []float32{0, float32(math.Copysign(0, -1)), 1, -0.5, 0x1.8p-126, float32(math.Inf(1)), float32(math.Inf(-1))} {
			if got, want := kernels.DitherBfloat16(v, noise), uint16(math.Float32bits(v)>>16); got != want {
				t.Errorf("%v, a bfloat16, with noise %#x is %#x, want %#x", v, noise, got, want)
			}
		}
		for _, b := range []uint32{nan, nan | 1<<31, 0x7f800001, 0xff800001} {
			if x := kernels.FromBfloat16(kernels.DitherBfloat16(math.Float32frombits(b), noise)); x == x {
				t.Errorf("the NaN %#x with noise %#x is %v", b, noise, x)
			}
		}
	}
}

// TestNoiseLooksRandom asks of sequences that occur in training what holds of random bits: over updates of an element whose gradient is the
// same each time, over neighbours whose parameters or gradients are all but the same, over those whose gradients are equal. Means and
// correlations of n numbers are within 6 times their standard deviation, which is exceeded by chance once in 500 million times.
func TestNoiseLooksRandom(t *testing.T) {
	r := random(t)
	const n, most = 1 << 16, 6.0 / (1 << 8) // 6/√n
	for range 10 {
		p, g, at := math.Float32bits(r.Float32()), math.Float32bits(r.Float32()*1e-3), uint32(r.IntN(1<<20))
		for name, of := range map[string]func(i uint32) uint32{
			"updates":                        func(i uint32) uint32 { return kernels.Noise(p, g, at+i) },
			"updates without gradient":       func(i uint32) uint32 { return kernels.Noise(p, 0, at+i) },
			"updates from nothing":           func(i uint32) uint32 { return kernels.Noise(0, g, i) },
			"a parameter's last digits":      func(i uint32) uint32 { return kernels.Noise(p+i, g, at) },
			"a parameter's digits in steps":  func(i uint32) uint32 { return kernels.Noise(p+i*64, 0, at) },
			"a gradient's last digits":       func(i uint32) uint32 { return kernels.Noise(p, g+i, at) },
			"a gradient's digits, no weight": func(i uint32) uint32 { return kernels.Noise(0, g+i*16, at) },
			"a parameter that moves":         func(i uint32) uint32 { return kernels.Noise(math.Float32bits(1+1e-6*float32(i)), g, at+i) },
			"float64":                        func(i uint32) uint32 { return kernels.Noise(kernels.Word(0.1*float64(i)), kernels.Word(0.25), at) },
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

// TestTheFirstUpdateOfAdam16 is done by hand: the step is the rate, and means are 0.1·g and 0.001·g² between their neighbours.
func TestTheFirstUpdateOfAdam16(t *testing.T) {
	p := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	out := adam16(t, p, []float64{0, 0, 3}, []float64{1, -0.5, 0}, nil)
	for i, want := range []float64{-0.1, 0.1, 3} {
		if got := out[0].Data[i]; !near(got, want, 2e-8) { // the epsilon
			t.Errorf("parameter %d is %v, want %v", i, got, want)
		}
	}
	for k, want := range [][]float64{{0.1, -0.05, 0}, {0.001, 0.00025, 0}} {
		for i, w := range want {
			got := out[1+k].Data[i]
			if math.Abs(got-w) >= 0x1p-7*math.Abs(w) && w != 0 || w == 0 && got != 0 || kernels.Round(arena.Bfloat16, got) != got {
				t.Errorf("mean %d of element %d is %v, want a neighbour of %v", k, i, got, w)
			}
		}
	}
}

// TestAMeanInBfloat16FollowsWhatItIsTheMeanOf: of 64 elements whose squares of gradients grow from 1 to 4 for good, means of squares get
// there, though each update moves them by less than half of what lies between neighbours. With 1,000 updates of memory the noise of a mean is
// 2⁻⁸·√(1000/2)/√6, 0.036 of it, and an eighth of that over all elements: 0.0045, of which 6 are allowed.
func TestAMeanInBfloat16FollowsWhatItIsTheMeanOf(t *testing.T) {
	const n, updates = 64, 5000
	r := random(t)
	p := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{n}}
	param, grad, v := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		param[i], grad[i], v[i] = r.NormFloat64(), 2, 1
	}
	states := [][]float64{make([]float64, n), v}
	for range updates {
		out := adam16(t, p, param, grad, states)
		param, states = out[0].Data, [][]float64{out[1].Data, out[2].Data}
	}
	mean := 0.0
	for _, v := range states[1] {
		mean += v / n
	}
	if want := 4 - 3*math.Pow(0.999, updates); !near(mean, want, 6*0.0045*want) {
		t.Errorf("means of squares are %v on average, want %v", mean, want)
	}
}

// adam16 runs one update at rate 0.1 from these states, zeros where they are nil.
func adam16(t *testing.T, p kernels.Spec, param, grad []float64, states [][]float64) []kernels.Tensor {
	t.Helper()
	in := []kernels.Tensor{{Spec: p, Data: param}, {Spec: p, Data: grad}, vector(arena.Int32, 0, 0, 0, 0), vector(arena.Float64, 0.1, 1, 0.1, 0.001, 0, 0, 0, 0)}
	for k, s := range kernels.Adam16States(p) {
		if states == nil {
			in = append(in, kernels.Tensor{Spec: s.Spec, Data: make([]float64, p.Shape.Elems())})
			continue
		}
		in = append(in, kernels.Tensor{Spec: s.Spec, Data: states[k]})
	}
	out, err := kernels.Eval(kernels.Adam16, kernels.Adam16Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}}, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
