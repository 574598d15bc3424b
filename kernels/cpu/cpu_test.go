package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// casesPerOp is how many random cases of each op and type a test draws.
const casesPerOp = 40

func TestEveryOpAgreesWithItsReference(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: 2})
	for _, op := range kernels.All() {
		for _, float := range floats {
			for range casesPerOp {
				c := op.Cases(r, float)
				u := newUse(t, r, d, op, c)
				u.launch(t)
				got := u.results()
				copy(u.mem.Bytes(), u.first)
				if err := kernels.Run(u.call, u.bytes); err != nil {
					t.Fatal(err)
				}
				tolerance := c.Tolerance
				switch {
				case float.Size() == 8:
					tolerance = 1e-12 * max(1, c.Tolerance/1e-5)
				case tolerance == 0:
					tolerance = 1e-5
				}
				for k, o := range u.call.Out {
					if diff, at := worst(o.Spec, got[k], u.bytes(o)); diff > tolerance {
						t.Errorf("%s %v of %v: output %d differs by %g at element %d, allowed %g", op.Name, c.Attrs, c.In, k, diff, at, tolerance)
					}
				}
				u.close(t)
				if t.Failed() {
					return
				}
			}
		}
	}
}

// worst returns the largest difference between two tensors, relative to the larger of the element and 1.
func worst(s kernels.Spec, a, b []byte) (diff float64, at int) {
	x, y := make([]float64, s.Shape.Elems()), make([]float64, s.Shape.Elems())
	kernels.Load(x, s.Type, a)
	kernels.Load(y, s.Type, b)
	for i := range x {
		if x[i] == y[i] || math.IsNaN(x[i]) && math.IsNaN(y[i]) {
			continue
		}
		d := math.Abs(x[i]-y[i]) / max(1, math.Abs(y[i]))
		if !(d <= diff) {
			diff, at = d, i
		}
	}
	return diff, at
}

func TestNoOpRunsByItsReference(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: 1})
	for _, op := range kernels.All() {
		for _, float := range floats {
			u := newUse(t, r, d, op, op.Cases(r, float))
			for _, slow := range cpu.Slow(u.prog) {
				t.Errorf("%s of %v has no kernel for %s", op.Name, float, slow.Name)
			}
			u.close(t)
		}
	}
}

func TestLaunchesAllocateNothing(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: 2})
	for _, op := range kernels.All() {
		for _, float := range floats {
			for range 8 {
				c := op.Cases(r, float)
				u := newUse(t, r, d, op, c)
				if n := testing.AllocsPerRun(5, func() { u.launch(t) }); n != 0 {
					t.Errorf("%s %v of %v: %v allocations a launch", op.Name, c.Attrs, c.In, n)
				}
				u.close(t)
			}
		}
	}
}

func TestResultsAreTheSameBitsOnAnyNumberOfThreads(t *testing.T) {
	r, _ := random(t)
	devices := []*cpu.Device{open(t, cpu.Options{Threads: 1}), open(t, cpu.Options{Threads: 2}), open(t, cpu.Options{Threads: 5})}
	for _, op := range kernels.All() {
		for _, float := range floats {
			for range casesPerOp / 2 {
				c := op.Cases(r, float)
				seed := r.Uint64()
				var want [][]byte
				for _, d := range devices {
					u := newUse(t, rand.New(rand.NewPCG(seed, 1)), d, op, c)
					u.launch(t)
					got := u.results()
					u.close(t)
					if want == nil {
						want = got
						continue
					}
					for k := range got {
						if string(got[k]) != string(want[k]) {
							t.Fatalf("%s %v of %v: output %d has other bits on other threads", op.Name, c.Attrs, c.In, k)
						}
					}
				}
			}
		}
	}
}
