//go:build gpu && cgo

package trainer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// delayed delays the work of streams that are made from now on, from a seed, until the end of the test.
func delayed(t *testing.T, microseconds int64) {
	gpu(t, "seed", int64(random(t).Uint32()), 1)
	gpu(t, "delay_us", microseconds, 0)
}

func TestNoTwoAccessesAreUnorderedOnAGPU(t *testing.T) {
	emulated(t)
	ds, resident := samples(t, 53, 4, 3), samples(t, 29, 4, 3)
	for _, us := range []int64{0, 50, 500} {
		for name, o := range map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}} {
			t.Run(fmt.Sprintf("%s delayed by %d µs", name, us), func(t *testing.T) {
				delayed(t, us)
				if err := passes(cudatest.OpenChecked(t, o), ds, resident); err != nil { // it reports races at the end
					t.Error(err)
				}
			})
		}
	}
}

// TestEveryCallAboutEventsIsNeeded leaves out each record and each wait of streams that passes make, one at a time, and demands that
// the driver's checker finds two accesses without order. Passes after the first are all alike, so that the calls are counted, not listed.
func TestEveryCallAboutEventsIsNeeded(t *testing.T) {
	emulated(t)
	for name, o := range map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}} {
		t.Run(name, func(t *testing.T) {
			delayed(t, 200)
			tr, ds := trainerOfPasses(t, o)
			if err := everyPass(tr, ds); err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"cuEventRecord", "cuStreamWaitEvent"} {
				fakecuda.Forget()
				if err := everyPass(tr, ds); err != nil {
					t.Fatal(err)
				}
				if found := cudatest.Unordered(); len(found) > 0 {
					t.Fatalf("with every call in place: %v", found)
				}
				calls := fakecuda.Calls(call)
				if calls == 0 {
					t.Fatalf("no %s in the passes", call)
				}
				t.Logf("%d of %s", calls, call)
				for n := range calls {
					fakecuda.Forget()
					if err := fakecuda.Omit(call, n+1); err != nil {
						t.Fatal(err)
					}
					err := everyPass(tr, ds) // it may go wrong, since it computes from what is not there
					if len(cudatest.Unordered()) == 0 {
						t.Errorf("without %s %d of %d nothing was reported; the passes answered %v", call, n+1, calls, err)
					}
				}
			}
			fakecuda.Forget() // the races were asked for
		})
	}
}

// The same for what the host waits for. It learns of an upload from the results of its step too, so that a missing wait for an upload is
// found only where the loader was faster. Most waits are for results.
func TestTheHostsWaitsAreNeeded(t *testing.T) {
	emulated(t)
	delayed(t, 500)
	tr, ds := trainerOfPasses(t, cuda.Options{})
	if err := everyPass(tr, ds); err != nil {
		t.Fatal(err)
	}
	fakecuda.Forget()
	if err := everyPass(tr, ds); err != nil {
		t.Fatal(err)
	}
	calls, found := fakecuda.Calls("cuEventSynchronize"), 0
	for n := range calls {
		fakecuda.Forget()
		if err := fakecuda.Omit("cuEventSynchronize", n+1); err != nil {
			t.Fatal(err)
		}
		_ = everyPass(tr, ds)
		if len(cudatest.Unordered()) > 0 {
			found++
		}
		if err := fakecuda.Fail("cuEventSynchronize", 0, 0); err != nil { // fewer may have been made
			t.Fatal(err)
		}
	}
	fakecuda.Forget()
	if found < int(calls)/2 {
		t.Errorf("%d of %d missing waits of the host were found, want half of them or more", found, calls)
	}
}

// trainerOfPasses is a trainer for everyPass.
func trainerOfPasses(t *testing.T, o cuda.Options) (*trainer.Trainer, [2]dataloader.Dataset) {
	ds := [2]dataloader.Dataset{samples(t, 29, 4, 3), samples(t, 21, 4, 3)}
	return made(t, small, trainer.Options{Device: cudatest.OpenChecked(t, o), Batch: 8, Fields: ds[0].Fields(), Resident: ds[1:], Optimizer: optim.Adam{}}), ds
}

// everyPass trains, evaluates and predicts, on streamed and on resident data, with a short batch.
func everyPass(tr *trainer.Trainer, all [2]dataloader.Dataset) error {
	ctx := context.Background()
	for _, ds := range all {
		if _, err := tr.Fit(ctx, ds); err != nil {
			return err
		}
		if _, err := tr.Evaluate(ctx, ds); err != nil {
			return err
		}
		for _, err := range tr.Predict(ctx, ds) {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// stepCalls are the driver's calls of a step.
var stepCalls = []string{"cuGraphLaunch", "cuLaunchKernel", "cuMemcpyHtoDAsync", "cuMemcpyAsync", "cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent",
	"cuEventSynchronize", "cuEventQuery", "cuCtxSetCurrent"}

// callsOf counts the driver's calls in a pass, by name; others are under "".
func callsOf(pass func()) map[string]int {
	fakecuda.Forget()
	pass()
	calls := map[string]int{"": int(fakecuda.Calls(""))}
	for _, name := range stepCalls {
		n := int(fakecuda.Calls(name))
		calls[name] = n
		calls[""] -= n
	}
	return calls
}

// callsBesideLooks is callsOf, without the queries that depend on the time that reading takes.
func callsBesideLooks(tr *trainer.Trainer, pass func()) map[string]int {
	looks := trainer.Looks(tr)
	calls := callsOf(pass)
	calls["cuEventQuery"] -= trainer.Looks(tr) - looks
	return calls
}

// text returns samples of words.
func text(t testing.TB, n int) *dataloader.Slices {
	x, y := make([]uint8, 3*n), make([]uint8, n)
	for i := range x {
		x[i] = uint8(i % 5)
	}
	return columns(t, n, dataloader.Column("x", x, 3), dataloader.Column("y", y))
}

// TestAStepOnAGPUIsOneCopyAndOneGraph compares the driver's calls of a pass of 40 steps with those of one of 20.
func TestAStepOnAGPUIsOneCopyAndOneGraph(t *testing.T) {
	emulated(t)
	for name, c := range map[string]struct {
		graphs   cuda.Graphs
		resident bool
		indices  bool // the model reads rows of a table
		scaled   bool // the loss is: what a step is told comes in a copy of its own
	}{
		"graphs": {}, "launches": {graphs: cuda.Never}, "resident": {resident: true}, "indices": {indices: true}, "scaled": {scaled: true},
	} {
		t.Run(name, func(t *testing.T) {
			dev := cudatest.OpenChecked(t, cuda.Options{Graphs: c.graphs})
			model, short, long := small, samples(t, 8*20, 4, 3), samples(t, 8*40, 4, 3)
			if c.indices {
				model, short, long = words, text(t, 8*20), text(t, 8*40)
			}
			opt := trainer.Options{Device: dev, Batch: 8, Fields: short.Fields(), Optimizer: optim.Adam{}}
			if c.resident {
				opt.Fields, opt.Resident = nil, []dataloader.Dataset{short, long}
			}
			if c.scaled {
				opt.LossScale.Mode = optim.ScaleAlways
			}
			noHeapObjects(t, model, opt, long)
			tr := made(t, model, opt)
			for what, pass := range map[string]func(testing.TB, *trainer.Trainer, dataloader.Dataset) trainer.Result{"train": fit, "evaluate": evaluate} {
				pass(t, tr, short)
				pass(t, tr, long)
				few, calls := callsBesideLooks(tr, func() { pass(t, tr, short) }), callsBesideLooks(tr, func() { pass(t, tr, long) })
				for name := range calls {
					calls[name] -= few[name]
				}
				const steps = 20
				want := map[string]int{"cuMemcpyHtoDAsync": 1, "cuEventRecord": 2, "cuStreamWaitEvent": 1, "cuEventQuery": 1, "cuEventSynchronize": 2, "": 0}
				if c.scaled && what == "train" {
					want["cuMemcpyHtoDAsync"] = 2
				}
				if c.graphs == cuda.Never {
					want["cuMemcpyAsync"] = 1 // of results and status word, which a graph holds
					if calls["cuLaunchKernel"] < steps || calls["cuLaunchKernel"]%steps != 0 {
						t.Errorf("%s: %d kernels in %d steps", what, calls["cuLaunchKernel"], steps)
					}
				} else {
					want["cuGraphLaunch"], want["cuMemcpyAsync"], want["cuLaunchKernel"], want["cuMemsetD8Async"] = 1, 0, 0, 0
				}
				for name, n := range want {
					if calls[name] != n*steps {
						t.Errorf("%s: %d calls of %q in %d steps, want %d", what, calls[name], name, steps, n*steps)
					}
				}
			}
		})
	}
}
