package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// Parameters are so large that their rows are in several blocks and on several threads.
func TestLargeParametersOfAdafactorAreTheSameBitsOnAnyNumberOfThreads(t *testing.T) {
	r, _ := random(t)
	devices := []*cpu.Device{open(t, cpu.Options{Threads: 1}), open(t, cpu.Options{Threads: 2}), open(t, cpu.Options{Threads: 5})}
	for i, shape := range []kernels.Shape{{300, 257}, {3000, 11}, {2, 1000}, {70_001}, {1, 40_000}, {300, 20, 3, 3}, {5, 129, 130}} {
		float := floats[i%2]
		p := kernels.Spec{Type: float, Shape: shape}
		rows, columns := factorSpecs(p)
		c := kernels.Adafactor.Cases(r, float)
		for c.Attrs.(kernels.Updater).Common().Scaled == (i%3 == 0) {
			c = kernels.Adafactor.Cases(r, float)
		}
		c.In[0], c.In[1], c.In[len(c.In)-2], c.In[len(c.In)-1] = p, p, rows, columns
		fill := c.Fill
		c.Fill = func(r *rand.Rand, k int, v []float64) {
			if fill(r, k, v); k == 2 {
				clear(v)
			}
		}
		seed := r.Uint64()
		want, err := kernels.Eval(kernels.Adafactor, c.Attrs, kerneltest.Fill(rand.New(rand.NewPCG(seed, 1)), c))
		if err != nil {
			t.Fatal(err)
		}
		var one [][]byte
		for _, d := range devices {
			u := newUse(t, rand.New(rand.NewPCG(seed, 1)), d, kernels.Adafactor, c)
			u.launch(t)
			got := u.results()
			u.close(t)
			if one == nil {
				one = got
			}
			for k, w := range want {
				if !bytes.Equal(got[k], one[k]) {
					t.Fatalf("%v: output %d has other bits than on one thread", p, k)
				}
				x := make([]float64, len(w.Data))
				kernels.Load(x, float, got[k])
				for j, v := range w.Data {
					if math.Abs(x[j]-v) > 1e-6*max(1, math.Abs(v)) { // rounding to float32 of numbers of size 1
						t.Fatalf("%v: element %d of output %d is %v, want %v", p, j, k, x[j], v)
					}
				}
			}
		}
	}
}

func BenchmarkAdafactor(b *testing.B) {
	p := kernels.Spec{Type: floats[0], Shape: kernels.Shape{2048, 2048}}
	rows, columns := factorSpecs(p)
	in := []kernels.Spec{p, p, kernels.GuardSpec, kernels.ControlsSpec, rows, columns}
	c := kernels.Case{Attrs: kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Relative: true, Least: 1e-3}, In: in}
	c.Fill = func(r *rand.Rand, k int, v []float64) {
		for i := range v {
			if k != 2 {
				v[i] = r.Float64()
			}
		}
	}
	u := newUse(b, rand.New(rand.NewPCG(1, 1)), cputest.Open(b, cpu.Options{}), kernels.Adafactor, c)
	b.SetBytes(2 * p.Bytes())
	for b.Loop() {
		u.launch(b)
	}
}

// Levels add up in other orders, in float64, and round once: a parameter differs by its last place. Widths are around the 16 elements that the
// assembly takes at once.
func TestAdafactorAgreesAtEveryLevel(t *testing.T) {
	r, _ := random(t)
	devices := levels(t, 2)
	for i := range 60 {
		float := floats[i%2]
		p := kernels.Spec{Type: float, Shape: kernels.Shape{1 + r.IntN(70), []int{1, 15, 16, 17, 31, 32, 33, 48, 100, 515}[i/2%10]}}
		rows, columns := factorSpecs(p)
		c := kernels.Adafactor.Cases(r, float)
		c.In[0], c.In[1], c.In[len(c.In)-2], c.In[len(c.In)-1] = p, p, rows, columns
		results := everyLevel(t, devices, r.Uint64(), kernels.Adafactor, c)
		for k := 1; k < len(results); k++ {
			for o := range results[k] {
				if k == 2 && !bytes.Equal(results[1][o], results[2][o]) {
					t.Fatalf("%+v of %v: output %d has other bits with AVX-512 than with AVX2", c.Attrs, p, o)
				}
				near(t, kernels.Adafactor, float, results[0][o], results[k][o])
			}
		}
	}
}
