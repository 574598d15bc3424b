//go:build gpu && cgo

package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// A pinned slot is refilled when its copy is done, however late that is: of 100 batches, each of a number of its own, the device sees each.
func TestAGPUSeesWhatEachBatchHeld(t *testing.T) {
	emulated(t)
	for name, o := range map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}} {
		t.Run(name, func(t *testing.T) {
			delayed(t, 400)
			const batch, batches = 4, 100
			x := make([]float64, batch*batches)
			for i := range x {
				x[i] = float64(i/batch + 1)
			}
			seen := 0
			opt := trainer.Options{Device: cudatest.OpenChecked(t, o), Batch: batch, Fields: numbers(t, x...).Fields(), Workers: 2, Optimizer: optim.SGD{Rate: 0.125},
				Progress: func(p trainer.Progress) {
					seen++
					// Sums of small whole numbers are exact in float64.
					if got, want := p.Loss*float64(p.Samples), float64(batch*p.Step*(p.Step+1)/2); got != want {
						t.Errorf("after batch %d the device has seen a sum of %v, want %v", p.Step, got, want)
					}
				}}
			tr := made(t, scalar(1), opt)
			for range 2 {
				evaluate(t, tr, numbers(t, x...))
			}
			if seen != 2*batches {
				t.Errorf("%d batches reported, want %d", seen, 2*batches)
			}
		})
	}
}

// fetched counts the samples that were read.
type fetched struct {
	dataloader.Dataset
	n atomic.Int64
}

func (d *fetched) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	defer d.n.Add(1)
	return d.Dataset.Fetch(ctx, at, dst)
}

// becomes waits until f, which only grows, is n.
func becomes(t *testing.T, what string, f func() int, n int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); f() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d after 30 s, want %d", what, f(), n)
		}
	}
}

// While the device computes nothing, a pass enqueues two steps and no third, the uploads of both are done, since both slots are filled anew,
// and no more than those is read ahead.
func TestUploadsRunBesideComputeAndTwoStepsAhead(t *testing.T) {
	emulated(t)
	for name, c := range map[string]struct {
		launch string
		graphs cuda.Graphs
	}{"graphs": {launch: "cuGraphLaunch"}, "launches": {"cuMemcpyHtoDAsync", cuda.Never}} {
		t.Run(name, func(t *testing.T) {
			const batch = 8
			ds := &fetched{Dataset: samples(t, batch*20, 4, 3)}
			dev := cudatest.OpenChecked(t, cuda.Options{Graphs: c.graphs})
			tr := made(t, small, trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields()})
			fit(t, tr, ds)
			ds.n.Store(0)
			before := int(fakecuda.Calls(c.launch))
			launches := func() int { return int(fakecuda.Calls(c.launch)) - before }
			read := func() int { return int(ds.n.Load()) }
			gpu(t, "hold", 2, 0)
			done := make(chan error, 1)
			go func() {
				_, err := tr.Fit(context.Background(), ds)
				done <- err
			}()
			becomes(t, "steps launched while nothing is computed", launches, 2)
			becomes(t, "samples read while nothing is computed", read, 4*batch)
			time.Sleep(20 * time.Millisecond) // more would show, if there were any
			if n := launches(); n != 2 {
				t.Errorf("%d steps are in flight, want 2", n)
			}
			if n := read(); n != 4*batch {
				t.Errorf("%d samples were read, want %d: two steps in flight and two slots filled", n, 4*batch)
			}
			select {
			case err := <-done:
				t.Fatalf("the pass ended while nothing is computed: %v", err)
			default:
			}
			if err := fakecuda.Set("hold", 0); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// With a scaled loss a step waits for the outcome of the one before, and its batch is uploaded meanwhile.
func TestWithAScaledLossUploadsRunBesideCompute(t *testing.T) {
	emulated(t)
	ds := samples(t, 8*20, 4, 3)
	opt := trainer.Options{Device: cudatest.OpenChecked(t, cuda.Options{}), Batch: 8, Fields: ds.Fields()}
	opt.LossScale.Mode = optim.ScaleAlways
	tr := made(t, small, opt)
	fit(t, tr, ds)
	launched, copied := fakecuda.Calls("cuGraphLaunch"), fakecuda.Calls("cuMemcpyHtoDAsync")
	gpu(t, "hold", 2, 0)
	done := make(chan error, 1)
	go func() {
		_, err := tr.Fit(context.Background(), ds)
		done <- err
	}()
	becomes(t, "copies while nothing is computed", func() int { return int(fakecuda.Calls("cuMemcpyHtoDAsync") - copied) }, 3) // batch, controls, batch
	time.Sleep(20 * time.Millisecond)                                                                                          // more would show, if there were any
	if n, c := fakecuda.Calls("cuGraphLaunch")-launched, fakecuda.Calls("cuMemcpyHtoDAsync")-copied; n != 1 || c != 3 {
		t.Errorf("%d steps are in flight and %d copies were made, want 1 and 3", n, c)
	}
	if err := fakecuda.Set("hold", 0); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Pinned memory is a block with two slots and one of the arena's, the same after 2,000 steps as after one, whatever reads ahead.
func TestPinnedMemoryOfAGPUIsTwoBlocks(t *testing.T) {
	emulated(t)
	steps := 2000
	if testing.Short() {
		steps = 300
	}
	var pinned int64
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			dev, ds := cudatest.OpenChecked(t, cuda.Options{}), samples(t, 4*100, 4, 3)
			start, seen := countCUDA(dev), 0
			var tr *trainer.Trainer
			tr = made(t, small, trainer.Options{Device: dev, Batch: 4, Workers: workers, Fields: ds.Fields(), Progress: func(trainer.Progress) {
				seen++
				now := countCUDA(dev)
				if n, bytes := now.pins-start.pins, now.pinned-start.pinned; n != 2 || bytes != tr.Plan().Pinned {
					t.Fatalf("step %d: %d pinned blocks with %d bytes, want 2 with the plan's %d", seen, n, bytes, tr.Plan().Pinned)
				}
			}})
			for seen < steps {
				fit(t, tr, ds)
			}
			if pinned == 0 {
				pinned = tr.Plan().Pinned
			}
			if got := tr.Plan().Pinned; got != pinned {
				t.Errorf("%d bytes are pinned, with one worker %d", got, pinned)
			}
		})
	}
}

// Without pinned memory to copy from, New returns an error: nothing is copied from elsewhere.
func TestWithoutPinnedMemoryNewFailsOnAGPU(t *testing.T) {
	emulated(t)
	dev, ds := cudatest.OpenChecked(t, cuda.Options{}), samples(t, 13, 4, 3)
	opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()}
	fakecuda.Forget()
	fit(t, made(t, small, opt), ds)
	pins, copies := fakecuda.Calls("cuMemHostAlloc"), fakecuda.Calls("cuMemcpyHtoDAsync")
	if pins == 0 || copies == 0 {
		t.Fatalf("%d pinned blocks and %d copies, want some", pins, copies)
	}
	for n := range pins {
		const outOfMemory = 2
		if err := fakecuda.Fail("cuMemHostAlloc", n+1, outOfMemory); err != nil {
			t.Fatal(err)
		}
		before := fakecuda.Calls("cuMemcpyHtoDAsync")
		_, err := trainer.New(t.Context(), small, opt)
		var e *cuda.DriverError
		if !errors.As(err, &e) || e.Call != "cuMemHostAlloc" {
			t.Errorf("without block %d: got %v, want the driver's error about cuMemHostAlloc", n+1, err)
		}
		if got := fakecuda.Calls("cuMemcpyHtoDAsync") - before; n == 0 && got != 0 {
			t.Errorf("%d copies to the device without pinned memory", got)
		}
	}
}
