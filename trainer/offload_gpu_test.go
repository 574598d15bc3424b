//go:build gpu && cgo

package trainer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// On a GPU transfers run beside kernels, as branches of a graph or on a stream of their own, and change no bit either.
func TestOffloadChangesNoBitOnAGPU(t *testing.T) {
	data := samplesFor(t, "every layer", 23)
	for name, o := range map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}, "sync": {Sync: true}} {
		t.Run(name, func(t *testing.T) {
			emulated(t)
			delayed(t, 20)
			dev := cudatest.OpenChecked(t, o)
			for k, o := range []optim.Optimizer{optim.Adam{}, optim.SGD{Momentum: 0.9}, optim.Adam{Storage: optim.Block8}, optim.Adafactor{}} {
				opt := trainer.Options{Device: dev, Batch: 5, Accumulate: k % 3, Optimizer: o, Guard: trainer.Guard(k % 2), Seed: 5,
					Fields: data.(interface{ Fields() []dataloader.Field }).Fields()}
				want := learnedOf(t, everyLayer, opt, data)
				opt.Offload = offloaded
				if d := differing(want, learnedOf(t, everyLayer, opt, data)); len(d) > 0 {
					t.Errorf("%T: %q differ", o, d)
				}
				wide, rows := classifier(300, 1024, 3), samples(t, 11, 300, 3) // whose state goes in parts
				opt.Offload, opt.Fields = trainer.Offload{}, rows.Fields()
				want = learnedOf(t, wide, opt, rows)
				opt.Offload = offloaded
				if d := differing(want, learnedOf(t, wide, opt, rows)); len(d) > 0 {
					t.Errorf("wide, %T: %q differ", o, d)
				}
			}
		})
	}
}

// TestEveryOrderOfTransfersIsNeeded leaves out each record and each wait by which transfers are ordered with kernels, one at a time, and demands that the driver's checker
// finds two accesses without order, or that the graph cannot be captured; but for where transfers begin, which kernels/cuda tests. Each time the trainer is a new one: values that were never made stay in its state.
func TestEveryOrderOfTransfersIsNeeded(t *testing.T) {
	emulated(t)
	data := samples(t, 24, 4, 3) // three steps, of which the second runs beside the first
	type pass func(*trainer.Trainer) error
	fit := func(tr *trainer.Trainer) error { _, err := tr.Fit(context.Background(), data); return err }
	evaluate := func(tr *trainer.Trainer) error { _, err := tr.Evaluate(context.Background(), data); return err }
	predict := func(tr *trainer.Trainer) error { return firstError(tr, data) }
	state, frozen := trainer.Offload{State: true}, []string{"hidden/w", "out/w"}
	for name, c := range map[string]struct {
		opt     trainer.Options
		counted pass   // whose second step calls are left out of; nil: making the trainer, and with it its graphs
		start   uint64 // the call of a step, from 1, by which transfers begin behind the step before, which may be done by then; 0: graphs have none
	}{
		"graphs, state":               {trainer.Options{Offload: state}, nil, 0},
		"graphs":                      {trainer.Options{Offload: offloaded}, nil, 0},
		"launches, state":             {trainer.Options{Offload: state}, fit, 0},
		"launches, training":          {trainer.Options{Offload: offloaded}, fit, 2},
		"launches, frozen parameters": {trainer.Options{Offload: trainer.Offload{Parameters: true}, Frozen: frozen}, fit, 2},
		"launches, evaluation":        {trainer.Options{Offload: offloaded}, evaluate, 2},
	} {
		t.Run(name, func(t *testing.T) {
			graphs := cuda.Never
			if c.counted == nil {
				graphs = cuda.Auto
			}
			dev := cudatest.OpenChecked(t, cuda.Options{Graphs: graphs})
			if c.counted == nil && !dev.(interface{ Graphs() bool }).Graphs() {
				t.Skip("the driver has no graphs")
			}
			c.opt.Device, c.opt.Batch, c.opt.Resident, c.opt.Optimizer = dev, 8, []dataloader.Dataset{data}, optim.Adam{}
			// run makes a trainer and uses it. Calls of what is counted are counted, and the n-th of them is left out, 0 for none.
			run := func(call string, n uint64) (calls uint64, err error) {
				begin := func() {
					fakecuda.Forget()
					if n > 0 {
						if err := fakecuda.Omit(call, n); err != nil {
							t.Fatal(err)
						}
					}
				}
				if c.counted == nil {
					begin()
				}
				tr, err := trainer.New(t.Context(), small, c.opt)
				if err != nil {
					return 0, err
				}
				defer tr.Close()
				if c.counted != nil {
					begin()
					err = c.counted(tr)
				}
				calls = fakecuda.Calls(call)
				for _, p := range []pass{fit, fit, evaluate, evaluate, predict} {
					err = errors.Join(err, p(tr))
				}
				return calls, err
			}
			for _, call := range []string{"cuEventRecord", "cuStreamWaitEvent"} {
				calls, err := run(call, 0)
				if err != nil {
					t.Fatal(err)
				}
				if found := cudatest.Unordered(); len(found) > 0 || calls == 0 {
					t.Fatalf("with all %d calls in place: %v", calls, found)
				}
				first, end := uint64(0), calls
				if c.counted != nil {
					first, end = calls/3, 2*calls/3
				}
				t.Logf("%d to %d of %d of %s", first, end, calls, call)
				for n := first + 1; n <= end; n++ {
					if n-first == c.start {
						continue
					}
					if _, err := run(call, n); len(cudatest.Unordered()) == 0 && !errors.As(err, new(*cuda.DriverError)) {
						t.Errorf("without %s %d of %d nothing was reported; training answered %v", call, n-first, end-first, err)
					}
				}
			}
			fakecuda.Forget() // the races were asked for
		})
	}
}
