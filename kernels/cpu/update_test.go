package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// updateOps are the optimizer rules that update each element by itself.
func updateOps(r *rand.Rand) []*kernels.Op {
	var ops []*kernels.Op
	for _, op := range kernels.All() {
		if _, ok := op.Cases(r, arena.Float32).Attrs.(kernels.Updater); ok && op != kernels.Adafactor && op != kernels.Adam8 {
			ops = append(ops, op)
		}
	}
	return ops
}

// resized gives a case of an optimizer rule parameters of n elements.
func resized(c kernels.Case, n int) kernels.Case {
	first := 4
	if c.Attrs.(kernels.Updater).Common().Scaled {
		first = 5
	}
	for k := range c.In {
		if k < 2 || k >= first {
			c.In[k].Shape = kernels.Shape{n}
		}
	}
	return c
}

// Values are of size about 1 and a rule rounds a dozen times, so results differ by some units in the last place. Where such a difference
// decides between neighbours in bfloat16, which is once in some ten thousand times, these differ.
func TestRulesAgreeAtEveryLevel(t *testing.T) {
	r, _ := random(t)
	devices := levels(t, 2)
	for _, op := range updateOps(r) {
		for i := range 160 {
			n := i / 2
			switch {
			case testing.Short() && i%8 > 1:
				continue
			case i > 150:
				n = 1 + r.IntN(40_000)
			}
			float := floats[i%2]
			c := resized(op.Cases(r, float), n)
			outs, err := op.Infer(c.Attrs, c.In)
			if err != nil {
				t.Fatal(err)
			}
			results := everyLevel(t, devices, r.Uint64(), op, c)
			for k := 1; k < len(results); k++ {
				for o := range results[k] {
					if k == 2 && !bytes.Equal(results[1][o], results[2][o]) {
						t.Fatalf("%s %+v of %d %v: output %d has other bits with AVX-512 than with AVX2", op.Name, c.Attrs, n, float, o)
					}
					near(t, op, outs[o].Type, results[0][o], results[k][o])
				}
			}
		}
	}
}

// The best level is tested by TestDevice.
func TestUpdatesAreThoseOfFloat64AtEveryLevel(t *testing.T) {
	for _, d := range levels(t, 1) {
		level, err := d.Instructions()
		if err != nil {
			t.Fatal(err)
		}
		if level < cpu.AVX512 {
			t.Run(level.String(), func(t *testing.T) {
				kerneltest.Updates(t, func() (kernels.Device, error) { return cpu.Open(cpu.Options{Instructions: level}) })
			})
		}
	}
}

func near(t *testing.T, op *kernels.Op, float arena.DType, a, b []byte) {
	t.Helper()
	x, y := make([]float64, len(a)/int(float.Size())), make([]float64, len(a)/int(float.Size()))
	kernels.Load(x, float, a)
	kernels.Load(y, float, b)
	ulp := map[arena.DType]float64{arena.Float32: 0x1p-23, arena.Float64: 0x1p-52}[float]
	apart := 0
	for i := range x {
		if float == arena.BFloat16 && x[i] != y[i] && math.Abs(x[i]-y[i]) <= 0x1p-7*math.Abs(x[i]) {
			if apart++; apart <= 2+len(x)/1000 {
				continue
			}
		}
		if math.Abs(x[i]-y[i]) > 16*ulp*(1+math.Abs(x[i])) {
			t.Fatalf("%s of %v: element %d is %v in Go and %v in assembly", op.Name, float, i, x[i], y[i])
		}
	}
}

func TestRulesPassNaNOnAndClipInfinities(t *testing.T) {
	r, _ := random(t)
	for _, d := range levels(t, 1) {
		for _, op := range updateOps(r) {
			for i := range 40 {
				c := resized(op.Cases(r, floats[i%2]), 21)
				fill, clips := c.Fill, c.Attrs.(kernels.Updater).Common().ClipValue > 0
				c.Fill = func(r *rand.Rand, k int, v []float64) {
					fill(r, k, v)
					switch k {
					case 1:
						v[3], v[18] = math.NaN(), math.Inf(-1)
					case 2:
						clear(v)
					}
				}
				outs, err := op.Infer(c.Attrs, c.In)
				if err != nil {
					t.Fatal(err)
				}
				u := newUse(t, r, d, op, c)
				u.launch(t)
				p := make([]float64, 21)
				kernels.Load(p, floats[i%2], u.results()[0])
				for j, v := range p {
					finite := !math.IsNaN(v) && !math.IsInf(v, 0)
					if j == 3 && !math.IsNaN(v) || j != 3 && j != 18 && !finite || j == 18 && clips && !finite {
						t.Fatalf("%s %+v: parameter %d is %v where the gradient is NaN at 3 and -Inf at 18", op.Name, c.Attrs, j, v)
					}
				}
				for k, u := range u.results()[1:] {
					states := make([]float64, 21)
					kernels.Load(states, outs[1+k].Type, u)
					if v := states[3]; !math.IsNaN(v) {
						t.Fatalf("%s %+v: state %d is %v where the gradient is NaN", op.Name, c.Attrs, k, v)
					}
				}
				u.close(t)
			}
		}
	}
}

var tiny = math.SmallestNonzeroFloat32

func TestAssemblyFlushesDenormalStatesAndRestoresTheProcessor(t *testing.T) {
	r, _ := random(t)
	for _, d := range levels(t, 1)[1:] {
		c := kernels.Case{Attrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}}
		p := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{37}}
		c.In = []kernels.Spec{p, p, kernels.GuardSpec, kernels.ControlsSpec, p, p}
		c.Fill = func(_ *rand.Rand, k int, v []float64) {
			switch k {
			case 3:
				copy(v, []float64{0.1, 1, 0.1, 0.001})
			case 4, 5:
				for i := range v {
					v[i] = 1e-39
				}
			}
		}
		u := newUse(t, r, d, kernels.Adam, c)
		u.launch(t)
		for k, out := range u.results() {
			if len(bytes.Trim(out, "\x00")) != 0 {
				t.Errorf("output %d: denormal states did not become 0", k)
			}
		}
		if half := float32(tiny) * 2; half == 0 {
			t.Error("denormal numbers are still taken for 0 after the launch")
		}
		u.close(t)
	}
}
