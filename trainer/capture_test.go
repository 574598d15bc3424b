package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Captures from another goroutine while Fit runs are consistent with one step each: every one of
// them goes on to the same end.
func TestCapturesDuringFitGoOnToTheSameEnd(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := mix{net: "rivals", model: rivals, data: samples(t, 26, 4, 3)}
		m.opt = trainer.Options{Device: dev, Batch: 4, Accumulate: 2, Fields: samples(t, 26, 4, 3).Fields(), Optimizer: optim.Adam{},
			Checkpoint: true, Average: optim.Average{Decay: 0.9}, Objectives: []trainer.Objective{{Name: "b", Every: 2}}, Tail: 1}
		opt := m.opt
		opt.Progress = func(trainer.Progress) { time.Sleep(time.Millisecond) } // steps of the host have no other gap
		tr := made(t, rivals, opt)
		var taken []*saved
		done, stop := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					taken = append(taken, save(t, tr))
				}
			}
		}()
		var want finale
		for range 3 {
			res := fit(t, tr, m.data)
			res.Uploaded = 0
			want.results = append([]string{fmt.Sprintf("%+v", res)}, want.results...)
		}
		close(stop)
		<-done
		want.state = save(t, tr)
		places := make(map[trainer.Position]*saved)
		for _, s := range taken {
			places[infoOf(t, s).Position] = s
		}
		for at, s := range places {
			second := made(t, rivals, m.opt)
			restore(t, second, s)
			if d := want.differs(t, m.endOf(t, second, 3)); len(d) > 0 {
				t.Errorf("captured at %+v: %q differ", at, d)
			}
			if err := second.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(places) < 4 {
			t.Errorf("%d captures at %d places: too few to tell", len(taken), len(places))
		}
	})
}

// While a state is held, training goes on and changes none of its bytes.
func TestAHeldStateStaysAsItIs(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Checkpoint: true})
		var state *trainer.State
		var before [][]byte
		for s, err := range tr.Steps(t.Context(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Step == 2 {
				if state, err = tr.Capture(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i := range state.Tensors() {
					before = append(before, slices.Clone(state.Bytes(i)))
				}
			}
		}
		if _, err := tr.Capture(t.Context()); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("a second capture: got %v, want ErrBusy", err)
		}
		if err := tr.Close(); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("close: got %v, want ErrBusy", err)
		}
		for i, x := range state.Tensors() {
			if !bytes.Equal(before[i], state.Bytes(i)) {
				t.Errorf("%s has changed", x.Name)
			}
		}
		// It is a source for the same trainer, too.
		end := learned(t, tr)
		if _, err := tr.Restore(t.Context(), state.Source(), trainer.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		fit(t, tr, ds)
		if d := differing(end, learned(t, tr)); len(d) > 0 {
			t.Errorf("%q differ after the same steps", d)
		}
		source := state.Source()
		state.Release()
		state.Release()
		if state.Bytes(0) != nil {
			t.Error("bytes of a released state")
		}
		if _, err := tr.Restore(t.Context(), source, trainer.RestoreOptions{}); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("a released state: got %v, want ErrClosed", err)
		}
		if s, err := tr.Capture(t.Context()); err != nil {
			t.Errorf("after Release: %v", err)
		} else {
			s.Release()
		}
	})
}

func TestCapturesThatCannotBeAreRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 24, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()}
		without := made(t, small, opt)
		if _, err := without.Capture(t.Context()); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("without memory: got %v, want ErrOption", err)
		}
		var inside error
		var tr *trainer.Trainer
		opt.Checkpoint = true
		opt.Progress = func(trainer.Progress) { _, inside = tr.Capture(t.Context()) }
		tr = made(t, small, opt)
		fit(t, tr, ds)
		if !errors.Is(inside, trainer.ErrBusy) {
			t.Errorf("in Progress: got %v, want ErrBusy", inside)
		}
		var none context.Context
		if _, err := tr.Capture(none); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("no context: got %v", err)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		for _, tr := range []*trainer.Trainer{tr, nil, {}} {
			if _, err := tr.Capture(t.Context()); !errors.Is(err, trainer.ErrClosed) {
				t.Errorf("closed: got %v, want ErrClosed", err)
			}
			if _, err := tr.Restore(t.Context(), new(saved), trainer.RestoreOptions{}); !errors.Is(err, trainer.ErrClosed) {
				t.Errorf("closed: got %v, want ErrClosed", err)
			}
			tr.Position()
		}
	})
}

// A call that waits for the end of a step ends with its context, and leaves the memory free for the
// next one.
func TestAContextEndsTheWaitOfACapture(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 24, 4, 3)
		entered, leave := make(chan struct{}), make(chan struct{})
		var once sync.Once
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Checkpoint: true}
		opt.Progress = func(trainer.Progress) {
			once.Do(func() { close(entered); <-leave })
		}
		tr := made(t, small, opt)
		fitted := make(chan struct{})
		go func() { defer close(fitted); fit(t, tr, ds) }()
		<-entered
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := tr.Capture(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the error of the context", err)
		}
		close(leave)
		<-fitted
		save(t, tr)
	})
}

// With memory for captures, a trainer fits in exactly its plan, and in no byte less. Captures
// allocate nothing on the device, and as many small objects for a large model as for a small one.
func TestCapturesTakeTheMemoryOfThePlan(t *testing.T) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) {
			var objects []float64
			for _, model := range []trainer.ModelFunc{small, classifier(4, 500, 3)} {
				for _, accumulate := range []int{1, 3} {
					ds := samples(t, 24, 4, 3)
					opt := trainer.Options{Device: d.open(t, 0), Batch: 4, Accumulate: accumulate, Fields: ds.Fields(), Optimizer: optim.Adam{}, Average: optim.Average{Decay: 0.9}}
					plain, err := trainer.Plan(t.Context(), model, opt)
					if err != nil {
						t.Fatal(err)
					}
					opt.Checkpoint = true
					plan, err := trainer.Plan(t.Context(), model, opt)
					if err != nil {
						t.Fatal(err)
					}
					var state int64
					for _, r := range plain.Regions {
						if slices.Contains([]string{"parameters", "optimizer state", "running statistics", "averages"}, r.Name) || r.Name == "gradients" && accumulate > 1 {
							state += r.Size
						}
					}
					if more := plan.Total - plain.Total + plan.Pinned - plain.Pinned; more != state || state == 0 {
						t.Errorf("the plan has %d bytes more, the state has %d", more, state)
					}
					dev := d.open(t, plan.Total)
					opt.Device = dev
					start, counted := countOf(dev)
					tr := made(t, model, opt)
					if s := tr.Stats(); s.Arena.Reserved != plan.Total || s.Pinned != plan.Pinned {
						t.Errorf("%d bytes and %d pinned, the plan has %d and %d", s.Arena.Reserved, s.Pinned, plan.Total, plan.Pinned)
					}
					fit(t, tr, ds)
					before, _ := countOf(dev)
					use := inUse(tr)
					capture := func() {
						s, err := tr.Capture(context.Background())
						if err != nil {
							t.Fatal(err)
						}
						s.Release()
					}
					if dev.Name() != "emu" { // it makes objects of its own
						objects = append(objects, testing.AllocsPerRun(20, capture))
					}
					for range 3 {
						fit(t, tr, ds)
						capture()
						if _, err := tr.Restore(t.Context(), save(t, tr), trainer.RestoreOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					after, _ := countOf(dev)
					if counted && (before.allocs != after.allocs || before.pins != after.pins || before.device != after.device ||
						before.pinned != after.pinned || after.device-start.device != plan.Total || after.pinned-start.pinned != plan.Pinned) {
						t.Errorf("device: %+v before captures, %+v after, planned %d and %d", before, after, plan.Total, plan.Pinned)
					}
					if n := inUse(tr); n != use {
						t.Errorf("%d bytes in use, %d before", n, use)
					}
					opt.Device = d.open(t, plan.Total-1)
					var e *trainer.CapacityError
					if _, err := trainer.New(t.Context(), model, opt); !errors.As(err, &e) || e.Need != plan.Total {
						t.Errorf("a byte less: got %v, want a CapacityError", err)
					}
				}
			}
			for _, n := range objects {
				if n > 40 || n != objects[0] {
					t.Errorf("heap objects of a capture: %v", objects)
					break
				}
			}
			runtime.KeepAlive(objects)
		})
	}
}

// Windows of Trainer.Step go on where they are.
func TestAWindowOfStepGoesOnAfterARestore(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 4, Accumulate: 3, Fields: ds.Fields(), Optimizer: optim.Adam{}, Checkpoint: true,
			Schedule: optim.Warmup{Steps: 5}, LossScale: optim.Scaling{Mode: optim.ScaleAlways, Interval: 2}}
		own := func(tr *trainer.Trainer, from, to int) (all []string) {
			for i := from; i < to; i++ {
				b := rowsOf(t, ds, 4*(i%10), 4*(i%10)+4)
				b.Objective = []string{"a", "b"}[i%2]
				s, err := tr.Step(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprintf("%+v", s))
			}
			return all
		}
		straight := made(t, rivals, opt)
		want := own(straight, 0, 12)
		end := finale{state: save(t, straight)}
		for cut := 1; cut < 12; cut += 2 {
			first, second := made(t, rivals, opt), made(t, rivals, opt)
			own(first, 0, cut)
			restore(t, second, save(t, first))
			if got := own(second, cut, 12); !slices.Equal(got, want[cut:]) {
				t.Errorf("cut at %d: steps %s, want %s", cut, got, want[cut:])
			}
			if d := end.differs(t, finale{state: save(t, second)}); len(d) > 0 {
				t.Errorf("cut at %d: %q differ", cut, d)
			}
		}
	})
}
