//go:build gpu && cgo

package trainer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// On a GPU transfers run beside kernels, as branches of a graph or on a stream of their own, and change no bit either.
func TestOffloadedStateChangesNoBitOnAGPU(t *testing.T) {
	data := samplesFor(t, "every layer", 23)
	for name, o := range map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}, "sync": {Sync: true}} {
		t.Run(name, func(t *testing.T) {
			emulated(t)
			delayed(t, 20)
			dev := openCUDA(t, o)
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
// finds two accesses without order, or that the graph cannot be captured. Each time the trainer is a new one: values that were never made stay in its state.
func TestEveryOrderOfTransfersIsNeeded(t *testing.T) {
	emulated(t)
	data := samples(t, 24, 4, 3)
	for name, o := range map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}} {
		t.Run(name, func(t *testing.T) {
			dev := openCUDA(t, o)
			graphs := dev.(interface{ Graphs() bool }).Graphs()
			// train opens a trainer and trains two epochs. Calls are counted in New for graphs, else in the first epoch, and the n-th of them is left out, 0 for none.
			train := func(call string, n uint64) (calls uint64, err error) {
				begin := func() {
					fakecuda.Forget()
					if n > 0 {
						if err := fakecuda.Omit(call, n); err != nil {
							t.Fatal(err)
						}
					}
				}
				if graphs {
					begin()
				}
				tr, err := trainer.New(small, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{data}, Optimizer: optim.Adam{}, Offload: offloaded})
				if err != nil {
					return 0, err
				}
				defer tr.Close()
				if graphs {
					calls = fakecuda.Calls(call)
				} else {
					begin()
				}
				_, err = tr.Fit(context.Background(), data)
				if !graphs {
					calls = fakecuda.Calls(call)
				}
				if err == nil { // the last step too has one behind it
					_, err = tr.Fit(context.Background(), data)
				}
				return calls, err
			}
			for _, call := range []string{"cuEventRecord", "cuStreamWaitEvent"} {
				calls, err := train(call, 0)
				if err != nil {
					t.Fatal(err)
				}
				if found := unordered(); len(found) > 0 || calls == 0 {
					t.Fatalf("with all %d calls in place: %v", calls, found)
				}
				t.Logf("%d of %s", calls, call)
				for n := range calls {
					if _, err := train(call, n+1); len(unordered()) == 0 && !errors.As(err, new(*cuda.DriverError)) {
						t.Errorf("without %s %d of %d nothing was reported; training answered %v", call, n+1, calls, err)
					}
				}
			}
			fakecuda.Forget() // the races were asked for
		})
	}
}
