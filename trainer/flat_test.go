package trainer_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestBytesInUseAreTheSameAfterEveryStepAndPass(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, val := samples(t, 21, 4, 3), samples(t, 10, 4, 3)
		var tr *trainer.Trainer
		var want, room int64
		steps := 0
		tr = made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{},
			Progress: func(p trainer.Progress) {
				steps++
				if got := inUse(tr); got != want {
					t.Errorf("epoch %d step %d: %d bytes in use, %d before the first step", p.Epoch, p.Step, got, want)
				}
				if got := free(t, dev); room > 0 && got != room {
					t.Errorf("epoch %d step %d: %d bytes are free on the device, %d after the first epoch", p.Epoch, p.Step, got, room)
				}
			}})
		want = inUse(tr)
		reserved, programs := tr.Stats().Arena.Reserved, 0
		for epoch := range 20 {
			fit(t, tr, ds)
			evaluate(t, tr, val)
			outputs(t, tr, val)
			if got := inUse(tr); got != want {
				t.Fatalf("epoch %d: %d bytes in use, %d before the first step", epoch, got, want)
			}
			s := tr.Stats()
			if s.Arena.Reserved != reserved {
				t.Fatalf("epoch %d: %d bytes reserved, want %d", epoch, s.Arena.Reserved, reserved)
			}
			if epoch == 0 {
				programs, room = s.Programs, free(t, dev)
			}
			if got := free(t, dev); got != room {
				t.Fatalf("epoch %d: %d bytes are free on the device, %d after the first epoch", epoch, got, room)
			}
			if s.Programs != programs {
				t.Fatalf("epoch %d: %d programs, %d after the first epoch", epoch, s.Programs, programs)
			}
		}
		if want := 20 * (3 + 2); steps != want {
			t.Errorf("%d steps reported, want %d", steps, want)
		}
	})
}

// free returns the free bytes of the device, 0 if its memory is the host's, which other processes use too.
func free(t *testing.T, dev kernels.Device) int64 {
	t.Helper()
	if dev.Unified() {
		return 0
	}
	info, err := dev.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Free
}

// TestStepsAllocateNothing counts heap objects between two reports of progress.
func TestStepsAllocateNothing(t *testing.T) {
	for _, c := range []struct {
		name     string
		samples  int
		resident bool
		images   bool
		model    trainer.ModelFunc
		opt      trainer.Options
	}{
		{name: "streaming", samples: 8 * 12},
		{name: "ragged", samples: 8*12 + 3},
		{name: "resident", samples: 8 * 12, resident: true},
		{name: "norm of gradients", samples: 8 * 12, opt: trainer.Options{GradientNorm: true}},
		{name: "clipped by norm", samples: 8 * 12, opt: trainer.Options{Clip: optim.Clip{Norm: 1}}},
		{name: "scaled loss", samples: 8 * 12, opt: trainer.Options{LossScale: optim.Scaling{Mode: optim.ScaleAlways}}},
		{name: "skipping", samples: 8*12 + 3, opt: trainer.Options{SkipNonFinite: 3, Checkpoint: true}},
		{name: "averages", samples: 8 * 12, opt: trainer.Options{Average: optim.Average{Uniform: true, Every: 2}}},
		{name: "kept gradients", samples: 8 * 12, opt: trainer.Options{Keep: []string{"*/grad", "*/gradnorm"}}},
		{name: "objectives", samples: 8*12 + 3, model: rivals, opt: trainer.Options{
			Objectives: []trainer.Objective{{Name: "b", Optimizer: optim.Lion{}, Every: 2, Schedule: optim.Cosine{Steps: 100}}}}},
		{name: "groups", samples: 8 * 12, opt: trainer.Options{Groups: byGroups}},
		{name: "images", samples: 8*6 + 3, images: true},
		{name: "GuardEach, four workers", samples: 8 * 12, opt: trainer.Options{Guard: trainer.GuardEach, Workers: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				if dev.Name() == "emu" {
					t.Skip("needs a device that makes no heap objects of its own")
				}
				ds, model := samples(t, c.samples, 4, 3), trainer.ModelFunc(small)
				if c.model != nil {
					model = c.model
				}
				if c.images {
					ds, model = samples(t, c.samples, 2*8*8, 3), everyLayer
				}
				opt := c.opt
				opt.Device, opt.Batch, opt.Optimizer, opt.Fields = dev, 8, optim.Adam{}, ds.Fields()
				opt.Schedule = optim.Warmup{Steps: 5, Then: optim.Cosine{Steps: 50}}
				if c.resident {
					opt.Fields, opt.Resident = nil, []dataloader.Dataset{ds}
				}
				noHeapObjects(t, model, opt, ds)
			})
		})
	}
}

// noHeapObjects demands that steps after the second of a pass make none.
func noHeapObjects(t *testing.T, model trainer.ModelFunc, opt trainer.Options, ds dataloader.Dataset) {
	t.Helper()
	var first, last runtime.MemStats
	opt.Progress = func(p trainer.Progress) {
		switch p.Step {
		case 2:
			runtime.ReadMemStats(&first)
		case p.Steps:
			runtime.ReadMemStats(&last)
		}
	}
	tr := made(t, model, opt)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	loop := func(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset) trainer.Result {
		for _, err := range tr.Steps(context.Background(), ds) {
			if err != nil {
				t.Fatal(err)
			}
		}
		return trainer.Result{}
	}
	for name, pass := range map[string]func(testing.TB, *trainer.Trainer, dataloader.Dataset) trainer.Result{
		"train": fit, "steps": loop, "evaluate": evaluate} {
		pass(t, tr, ds)
		best := uint64(1 << 62) // the runtime's own goroutines allocate now and then
		for range 5 {
			pass(t, tr, ds)
			best = min(best, last.Mallocs-first.Mallocs)
		}
		if best != 0 {
			t.Errorf("%s: %d heap objects in %d steps, want 0", name, best, ds.Len()/opt.Batch-2)
		}
	}
}

func TestWithoutGarbageCollectionMemoryIsFlat(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if dev.Name() == "emu" {
			t.Skip("needs a device that makes no heap objects of its own")
		}
		for _, resident := range []bool{false, true} {
			ds := samples(t, 512, 4, 3)
			opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()}
			if resident {
				opt.Resident = []dataloader.Dataset{ds}
			}
			tr := made(t, small, opt)
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			epochs := func(n int) {
				for range n {
					fit(t, tr, ds)
					evaluate(t, tr, ds)
					outputsInto(t, tr, ds)
				}
			}
			epochs(4)
			bytes, goroutines, use := rss(), runtime.NumGoroutine(), inUse(tr)
			epochs(20)
			if grown := rss() - bytes; grown > 1<<20 {
				t.Errorf("resident %v: the process has grown by %d bytes in %d steps", resident, grown, 20*2*128)
			}
			if !settles(goroutines + 2) { // of 60 passes; two may be the Go runtime's own
				t.Errorf("resident %v: %d goroutines, %d before", resident, runtime.NumGoroutine(), goroutines)
			}
			if n := inUse(tr); n != use {
				t.Errorf("resident %v: %d bytes in use, %d before", resident, n, use)
			}
		}
	})
}

// outputsInto predicts and keeps nothing.
func outputsInto(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset) {
	t.Helper()
	for _, err := range tr.Predict(context.Background(), ds) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEpisodesInOneTrainerEqualThoseOfFreshOnes(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 12, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Seed: 3}
		tr := made(t, small, opt)
		for episode := range 10 {
			got := []float64{fit(t, tr, ds).Loss}
			got = append(got, outputs(t, tr, ds)...)
			fresh := made(t, small, opt)
			var loss float64
			for range episode + 1 {
				loss = fit(t, fresh, ds).Loss
			}
			want := append([]float64{loss}, outputs(t, fresh, ds)...)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("episode %d, number %d: %v, a fresh trainer has %v", episode, i, got[i], want[i])
				}
			}
			if err := fresh.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestDatasetsMadeAnewForEachPassLeaveNoGoroutines(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Workers: 2, Fields: samples(t, 12, 4, 3).Fields()})
		most := 0
		for i := range 40 {
			if i%2 == 0 {
				fit(t, tr, samples(t, 12, 4, 3))
			} else {
				fit(t, tr, incomparable{samples(t, 12, 4, 3), nil})
			}
			if n := runtime.NumGoroutine(); i == 20 {
				most = n
			} else if i > 20 && n > most+2 {
				t.Fatalf("pass %d: %d goroutines, %d after pass 20", i, n, most)
			}
		}
	})
}

// incomparable is a dataset that Go cannot compare: == on it panics.
type incomparable struct {
	dataloader.Dataset
	_ []int
}

// threads returns the operating system's threads of this process, 0 if the system does not report it.
func threads() (n int) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "Threads: %d", &n); err == nil {
			return n
		}
	}
	return 0
}

func TestThreadsOfTheSystemAreFlat(t *testing.T) {
	ds := samples(t, 2000, 4, 3)
	var early, late int
	tr := made(t, small, trainer.Options{Device: openCPU(t), Batch: 1, Fields: ds.Fields(), Optimizer: optim.Adam{}, Progress: func(p trainer.Progress) {
		switch p.Step {
		case 10:
			early = threads()
		case 2000:
			late = threads()
		}
	}})
	fit(t, tr, ds) // the Go runtime starts its threads
	fit(t, tr, ds)
	if late > early || early == 0 && runtime.GOOS == "linux" {
		t.Errorf("%d threads after step 10, %d after step 2,000", early, late)
	}
}

func TestManyEpisodesLeaveBytesAndGoroutinesAsTheyWere(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 12, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Workers: 2})
		var use int64
		most, count := 0, 200
		if testing.Short() {
			count = 60
		}
		for episode := range count {
			fit(t, tr, ds)
			outputs(t, tr, ds)
			fit(t, tr, ds)
			n := runtime.NumGoroutine()
			if episode == 9 {
				use, most = inUse(tr), n
			}
			if episode > 9 && (inUse(tr) != use || n > most+2) { // a reader of the pass may be on its way out
				t.Fatalf("episode %d: %d bytes in use and %d goroutines, after episode 9 %d and %d", episode, inUse(tr), n, use, most)
			}
		}
	})
}
