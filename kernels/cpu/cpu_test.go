package cpu_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// casesPerOp is how many random cases of each op and type a test draws: some of them are large enough to be split.
const casesPerOp = 40

// refuses reports whether d refuses an optional operation, as Portable does.
func refuses(t testing.TB, d *cpu.Device, op *kernels.Op, c kernels.Case) bool {
	t.Helper()
	return op.Optional && errors.Is(d.Supports(op, c.Attrs, c.In, mustInfer(t, op, c.Attrs, c.In)), kernels.ErrUnsupported) &&
		instructionsOf(t, d) == cpu.Portable
}

func TestNoOpRunsByItsReference(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: 1})
	for _, op := range kernels.All() {
		for _, float := range floats {
			c := op.Cases(r, float)
			if refuses(t, d, op, c) {
				continue
			}
			u := newUse(t, r, d, op, c)
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
				if refuses(t, d, op, c) {
					continue
				}
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
	cases := casesPerOp / 2
	if testing.Short() {
		cases = max(1, cases/10)
	}
	for _, op := range kernels.All() {
		for _, float := range floats {
			for range cases {
				c := op.Cases(r, float)
				if refuses(t, devices[0], op, c) {
					continue
				}
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
