package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// coded is a case of Adam8 on n elements of float32.
func coded(attrs kernels.Adam8Attrs, n int) kernels.Case {
	p := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{n}}
	c := kernels.Case{Attrs: attrs, In: []kernels.Spec{p, p, kernels.GuardSpec, kernels.ControlsSpec}}
	if attrs.Scaled {
		c.In = append(c.In, kernels.Spec{Type: arena.Float64})
	}
	for _, s := range kernels.Adam8States(p) {
		c.In = append(c.In, s.Spec)
	}
	return c
}

// Parameters and largest numbers differ as those of other rules do, and codes by one where that decides between them.
func TestRulesOfBytesAgreeAtEveryLevel(t *testing.T) {
	r, _ := random(t)
	devices := levels(t, 2)
	for i := range 60 {
		c := kernels.Adam8.Cases(r, arena.Float32)
		fill := c.Fill
		c = coded(c.Attrs.(kernels.Adam8Attrs), []int{256, 257, 511, 512, 700, 1 + r.IntN(50_000)}[i%6])
		c.Fill = fill
		results := everyLevel(t, devices, r.Uint64(), kernels.Adam8, c)
		for k := 1; k < len(results); k++ {
			for o, typ := range []arena.DType{arena.Float32, arena.Uint8, arena.Uint8, arena.Float32} {
				got, want, roots := results[k][o], results[0][o], [2][]byte{results[k][2], results[0][2]}
				if k == 2 && !bytes.Equal(results[1][o], got) {
					t.Fatalf("%+v of %v: output %d has other bits with AVX-512 than with AVX2", c.Attrs, c.In[0], o)
				}
				if typ == arena.Float32 {
					near(t, kernels.Adam8, typ, want, got)
					continue
				}
				apart := 0
				for j := range got {
					if d := int8(got[j] - want[j]); d != 0 {
						near := d >= -1 && d <= 1 || o == 1 && roots[0][j] != roots[1][j] // a mean is relative to its root
						if apart++; !near || apart > 2+len(got)/1000 {
							t.Fatalf("%+v of %v: code %d of output %d is %d in Go and %d in assembly, and %d others differ", c.Attrs, c.In[0], j, o, want[j], got[j], apart-1)
						}
					}
				}
			}
		}
	}
}

// Without gradients means and roots shrink alike if Beta1² is Beta2, so that no code changes: decoding and encoding are inverse, whatever the dither.
func TestEveryCodeOfAByteIsItsOwn(t *testing.T) {
	const n = 3*kernels.Block8 + 100
	for _, d := range levels(t, 1) {
		for _, decoupled := range []bool{false, true} {
			c := coded(kernels.Adam8Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: math.Sqrt(0.999), Beta2: 0.999, Epsilon: 1e-8}, Decoupled: decoupled}, n)
			c.Fill = func(_ *rand.Rand, k int, v []float64) {
				for i := range v {
					switch k {
					case 3:
						v[i] = []float64{0.1, 3, 1 - math.Pow(0.9, 3), 1 - math.Pow(0.999, 3), 0, 0, 0, 0, 0, 0}[i]
					case 4: // each block begins with the largest
						v[i] = float64(uint8(127 - i%kernels.Block8%255))
					case 5:
						v[i] = float64(255 - i%kernels.Block8)
					case 6:
						v[i] = []float64{1, 0x1.234p-20, 3e10, 1e-3, 0x1.8p-40}[i%5]
					}
				}
			}
			r, _ := random(t)
			u := newUse(t, r, d, kernels.Adam8, c)
			var before [][]byte
			for _, state := range u.results()[1:] { // they lie where they were
				before = append(before, bytes.Clone(state))
			}
			u.launch(t)
			after := u.results()[1:]
			for k := range 2 {
				if !bytes.Equal(before[k], after[k]) {
					for i, code := range after[k] {
						if code != before[k][i] {
							t.Fatalf("state %d: code %d of element %d became %d", k, before[k][i], i, code)
						}
					}
				}
			}
			was, is := make([]float64, 4), make([]float64, 4)
			kernels.Load(was, arena.Float32, before[2])
			kernels.Load(is, arena.Float32, after[2])
			for i, v := range was {
				if want := v * math.Sqrt(0.999); math.Abs(is[i]-want) > 4*0x1p-23*want { // rounded three times
					t.Errorf("largest %d was %v and is %v, want %v", i, v, is[i], want)
				}
			}
			u.close(t)
		}
	}
}

func TestBlocksOfBytesThatDecayBecomeZeros(t *testing.T) {
	const n = 2*kernels.Block8 + 3
	for _, d := range levels(t, 1) {
		c := coded(kernels.Adam8Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}}, n)
		c.Fill = func(_ *rand.Rand, k int, v []float64) {
			for i := range v {
				switch k {
				case 0:
					v[i] = 1
				case 1: // the second block has gradients
					if i >= kernels.Block8 && i < 2*kernels.Block8 {
						v[i] = 1
					}
				case 3:
					v[i] = []float64{0.1, 1, 0.1, 0.001, 0, 0, 0, 0, 0, 0}[i]
				case 4:
					v[i] = 127
				case 5:
					v[i] = 255
				case 6:
					v[i] = numeric.Least8
				}
			}
		}
		r, _ := random(t)
		u := newUse(t, r, d, kernels.Adam8, c)
		u.launch(t)
		for k, out := range u.results()[1:] {
			at := func(i int) int { return i * len(out) / n }
			if k == 2 {
				at = func(i int) int { return i / kernels.Block8 * 4 }
			}
			if len(bytes.Trim(out[:at(kernels.Block8)], "\x00")) != 0 || len(bytes.Trim(out[at(2*kernels.Block8):], "\x00")) != 0 {
				t.Errorf("state %d of blocks below the least is not zeros", k)
			}
			if out[at(kernels.Block8)] == 0 && k < 2 {
				t.Errorf("state %d of the block with gradients is 0", k)
			}
		}
		u.close(t)
	}
}

func TestNaNInABlockOfBytesStaysWithItsElement(t *testing.T) {
	const n, bad = 2 * kernels.Block8, 77
	run := func(d *cpu.Device, g float64) (p []float64, states [][]byte) {
		c := coded(kernels.Adam8Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}}, n)
		c.Fill = func(r *rand.Rand, k int, v []float64) {
			for i := range v {
				switch k {
				case 1:
					v[i] = r.NormFloat64()
				case 3:
					v[i] = []float64{0.1, 1, 0.1, 0.001, 0, 0, 0, 0, 0, 0}[i]
				}
			}
			if k == 1 {
				v[bad] = g
			}
		}
		u := newUse(t, rand.New(rand.NewPCG(1, 2)), d, kernels.Adam8, c)
		defer u.close(t)
		u.launch(t)
		p = make([]float64, n)
		kernels.Load(p, arena.Float32, u.results()[0])
		for _, s := range u.results()[1:] {
			states = append(states, bytes.Clone(s))
		}
		return p, states
	}
	for _, d := range levels(t, 1) {
		p, states := run(d, math.NaN())
		q, want := run(d, 0)
		if !math.IsNaN(p[bad]) || math.Abs(float64(int8(states[0][bad]))) != 127 || states[1][bad] != 255 {
			t.Errorf("element %d is %v with codes %d and %d, want NaN, the last ones", bad, p[bad], int8(states[0][bad]), states[1][bad])
		}
		p[bad], states[0][bad], states[1][bad] = q[bad], want[0][bad], want[1][bad]
		for i := range p {
			if p[i] != q[i] {
				t.Fatalf("element %d is %v, without NaN beside it %v", i, p[i], q[i])
			}
		}
		for k := range states {
			if !bytes.Equal(states[k], want[k]) {
				t.Errorf("state %d changes elsewhere too", k)
			}
		}
	}
}

// Means and roots of any size that the type can hold become those of the reference: squares do not overflow, and reciprocals are not denormal. Numbers are
// shares of a size, which a block's largest root is about.
func TestBlocksOfBytesReachTheEndsOfTheRange(t *testing.T) {
	for _, float := range floats {
		most := map[arena.DType]float64{arena.Float32: math.MaxFloat32, arena.Float64: math.MaxFloat64}[float]
		for _, size := range []float64{most, most / 4, most / 16, math.Sqrt(most) * 1e6, math.Sqrt(most), 1 / math.Sqrt(most), numeric.Least8 * 4} {
			for name, shares := range map[string][]float64{ // of gradients, roots
				"first": {1, 0}, "all": {0.5, 0.5}, "none": {0, 0.9}, "little": {1e-20, 0.9}, "new": {1, 1e-20},
			} {
				for _, decoupled := range []bool{false, true} {
					for _, epsilon := range []float64{1e-8, 1e-30} {
						atTheEnds(t, float, size, shares, kernels.Adam8Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: epsilon}, Decoupled: decoupled}, name)
					}
				}
			}
		}
	}
}

func atTheEnds(t *testing.T, float arena.DType, size float64, shares []float64, attrs kernels.Adam8Attrs, name string) {
	t.Helper()
	const n = 2*kernels.Block8 + 9
	c := coded(attrs, n)
	for k := range c.In {
		if c.In[k].Type == arena.Float32 {
			c.In[k].Type = float
		}
	}
	c.Fill = func(r *rand.Rand, k int, v []float64) {
		for i := range v {
			switch k {
			case 0:
				v[i] = r.Float64()
			case 1: // one in seven is of ordinary size, one is 0
				if v[i] = size * shares[0] * (2*r.Float64() - 1); i%7 == 3 && size > 1 {
					v[i] = r.Float64()
				} else if i%7 == 4 {
					v[i] = 0
				}
			case 3:
				v[i] = []float64{0.1, 3, 1 - math.Pow(0.9, 3), 1 - math.Pow(0.999, 3), 0, 0, 0, 0, 0, 0}[i]
			case 4:
				v[i] = float64(uint8(r.IntN(129) - 64))
			case 5:
				v[i] = float64(230 + r.IntN(26))
			case 6:
				if v[i] = size * shares[1]; v[i] < numeric.Least8 {
					v[i] = 0
				}
			}
		}
	}
	_, seed := random(t)
	in := make([]kernels.Tensor, len(c.In))
	for k, r := 0, rand.New(rand.NewPCG(seed, 1)); k < len(in); k++ {
		in[k] = kernels.Tensor{Spec: c.In[k], Data: make([]float64, c.In[k].Shape.Elems())}
		c.Fill(r, k, in[k].Data)
		for i, v := range in[k].Data {
			in[k].Data[i] = kernels.Round(c.In[k].Type, v)
		}
	}
	want, err := kernels.Eval(kernels.Adam8, c.Attrs, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range levels(t, 1) {
		u := newUse(t, rand.New(rand.NewPCG(seed, 1)), d, kernels.Adam8, c)
		u.launch(t)
		roots := u.results()[2]
		for k, b := range u.results() {
			got := make([]float64, len(want[k].Data))
			kernels.Load(got, want[k].Type, b)
			for i, w := range want[k].Data {
				off := math.Abs(got[i] - w)
				switch k {
				case 1: // a mean is relative to its root
					if roots[i] != uint8(want[2].Data[i]) {
						continue
					}
					off = math.Abs(float64(int8(uint8(got[i])) - int8(uint8(w))))
					fallthrough
				case 2: // a rounding decides between codes
					off -= 1
				case 3:
					off -= 1e-6 * w
				default:
					off -= 1e-5 * (1 + math.Abs(w))
				}
				if !(off <= 0) {
					t.Fatalf("%v of %v, size %v, %s: element %d of output %d is %v, want %v; seed %d", attrs, float, size, name, i, k, got[i], w, seed)
				}
			}
		}
		u.close(t)
	}
}
