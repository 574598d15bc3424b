package trainer_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// What the body measures is what the same calls measure after a pass that ended there, and it changes no bit of the training.
func TestTheBodySeesTheTrainerBetweenTwoSteps(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, val := samples(t, 45, 4, 3), samples(t, 21, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}}
		tr := made(t, small, opt)
		var losses []float64
		var rows [][]float64
		for _, s := range stepwise(t, tr, ds, func(s trainer.Step) {
			before := learned(t, tr)
			losses, rows = append(losses, evaluate(t, tr, val).Loss), append(rows, outputs(t, tr, val))
			if d := differing(learned(t, tr), before); len(d) > 0 {
				t.Errorf("step %d: %q are changed by the body", s.Step, d)
			}
			if got := tr.Stats(); got.Updates != int64(s.Step) || got.Epochs != 1 {
				t.Errorf("step %d: %+v", s.Step, got)
			}
		}) {
			// The same state, by a loop that is left at this step and measures afterwards.
			other := made(t, small, opt)
			for step, err := range other.Steps(context.Background(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				if step.Step == s.Step {
					break
				}
			}
			if got := evaluate(t, other, val).Loss; got != losses[s.Step-1] {
				t.Errorf("step %d: loss %v in the body, %v afterwards", s.Step, losses[s.Step-1], got)
			}
			if got := outputs(t, other, val); !slices.Equal(got, rows[s.Step-1]) {
				t.Errorf("step %d: outputs %v in the body, %v afterwards", s.Step, rows[s.Step-1], got)
			}
		}
	})
}

// A parameter that the body writes is the one of the next step.
func TestWhatTheBodyWritesTakesEffectInTheNextStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 45, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Sequential: true})
		start := learned(t, tr)
		var first trainer.Step
		stepwise(t, tr, samples(t, 45, 4, 3), func(s trainer.Step) {
			if s.Step == 1 {
				first = s
			}
		})
		// Every step now starts from the initial values.
		reset := func(trainer.Step) {
			ps, err := tr.Params()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range ps {
				if err := p.Write([]byte(start[p.Name])); err != nil {
					t.Fatal(err)
				}
			}
		}
		reset(trainer.Step{})
		same := columnsOf(t, ds, 8, 5) // the first batch, 5 times
		for _, s := range stepwise(t, tr, same, reset) {
			if s.Loss != first.Loss {
				t.Errorf("step %d: loss %v, want %v", s.Step, s.Loss, first.Loss)
			}
		}
	})
}

// columnsOf returns the first n samples of ds times times.
func columnsOf(t *testing.T, ds *dataloader.Slices, n, times int) *dataloader.Slices {
	t.Helper()
	var x []float32
	var y []uint8
	for i := range n * times {
		row := [][]byte{make([]byte, 16), make([]byte, 1)}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i % n}, row); err != nil {
			t.Fatal(err)
		}
		for _, v := range decoded(row[0]) {
			x = append(x, float32(v))
		}
		y = append(y, row[1][0])
	}
	return columns(t, n*times, dataloader.Column("x", x, 4), dataloader.Column("y", y))
}

// Kept values in the body are those of the step, whose loss is the mean of their cross entropy; after an evaluation in the body, those of
// its last step.
func TestKeptValuesInTheBodyAreThoseOfTheStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1, 2, 3, 4, 5)
		tr := made(t, keptScalar, trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Keep: []string{"product"}, Sequential: true,
			Optimizer: optim.SGD{Rate: 0.125}})
		w := 0.5
		var old arena.Handle
		stepwise(t, tr, ds, func(s trainer.Step) {
			h, spec, err := tr.Kept("product")
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, h.Ref().Size)
			if err := h.Read(b); err != nil {
				t.Fatal(err)
			}
			got := dataloader.View[float64](b)
			mean := 0.0
			for i, v := range got {
				x := float64(2*(s.Step-1) + i + 1)
				if v != x*w {
					t.Errorf("step %d: product %v, want %v", s.Step, v, x*w)
				}
				mean += x / float64(len(got))
			}
			if len(got) != s.Samples || spec.Shape[0] != s.Samples {
				t.Errorf("step %d: %d products of %d samples", s.Step, len(got), s.Samples)
			}
			if w -= 0.125 * mean; s.Step == 1 {
				old = h
				evaluate(t, tr, ds)
				if err := h.Read(b); !errors.Is(err, arena.ErrStale) {
					t.Errorf("a handle of the step after an evaluation: got %v, want ErrStale", err)
				}
				if _, spec, err := tr.Kept("product"); err != nil || spec.Shape[0] != 1 {
					t.Errorf("after an evaluation: %v %v", spec, err)
				}
			}
		})
		if err := old.Read(make([]byte, 16)); !errors.Is(err, arena.ErrStale) {
			t.Errorf("an old handle: got %v, want ErrStale", err)
		}
	})
}

// keptScalar is scalar(0.5), with a product that can be kept.
func keptScalar(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	m, err := scalar(0.5)(g, batch)
	if err == nil {
		gorgonia.WithName("product")(m.Output)
	}
	return m, err
}

func TestTheBodyMayNotTrainOrClose(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ctx := context.Background()
		ds := samples(t, 21, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		all := stepwise(t, tr, ds, func(trainer.Step) {
			_, fitted := tr.Fit(ctx, ds)
			nested := error(nil)
			for _, nested = range tr.Steps(ctx, ds) {
			}
			for name, err := range map[string]error{"Fit": fitted, "Steps": nested, "Close": tr.Close()} {
				if !errors.Is(err, trainer.ErrBusy) || !strings.Contains(err.Error(), "the body of Steps is running") {
					t.Errorf("%s in the body: got %v", name, err)
				}
			}
		})
		if got := tr.Stats().Epochs; len(all) != 3 || got != 1 {
			t.Errorf("%d steps, %d epochs", len(all), got)
		}
	})
}

// Calls of other goroutines run while the body does, and the next step waits for them.
func TestOtherGoroutinesUseTheTrainerWhileTheBodyRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, val := samples(t, 45, 4, 3), samples(t, 21, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}}
		tr, want := made(t, small, opt), made(t, small, opt)
		fit(t, want, ds)
		var wg sync.WaitGroup
		var worked sync.WaitGroup // calls that have not worked yet
		done := make(chan struct{})
		calls := [3]func() error{
			func() error { _, err := tr.Evaluate(context.Background(), val); return err },
			func() error { return firstError(tr, val) },
			func() error {
				ps, err := tr.Params()
				if err != nil {
					return err
				}
				return ps[0].Read(make([]byte, ps[0].Spec.Bytes()))
			},
		}
		stepwise(t, tr, ds, func(s trainer.Step) {
			if s.Step > 1 {
				return
			}
			worked.Add(len(calls))
			for i, call := range calls {
				wg.Go(func() {
					did, begin := sync.OnceFunc(worked.Done), time.Now()
					defer did()
					for {
						switch err := call(); {
						case err == nil:
							did()
						case !errors.Is(err, trainer.ErrBusy):
							t.Error(err)
							return
						case time.Since(begin) > time.Minute:
							t.Errorf("call %d: %v for a minute", i, err)
							return
						}
						select {
						case <-done:
							return
						default:
							time.Sleep(50 * time.Microsecond)
						}
					}
				})
			}
			worked.Wait() // the body runs meanwhile
		})
		close(done)
		wg.Wait()
		if d := differing(learned(t, tr), learned(t, want)); len(d) > 0 {
			t.Errorf("%q differ", d)
		}
	})
}

// What the body does with many datasets drops the loader and the short program of the pass, which makes them again.
func TestABodyMayDropTheLoaderAndTheShortProgram(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 27, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 12, Fields: ds.Fields(), Optimizer: optim.Adam{}}
		tr, want := made(t, small, opt), made(t, small, opt)
		for range 2 {
			fit(t, want, ds)
			stepwise(t, tr, ds, func(s trainer.Step) {
				for n := 1; n <= 11; n++ {
					switch val := samples(t, n, 4, 3); s.Step {
					case 1:
						evaluate(t, tr, val)
					case 2:
						outputs(t, tr, val)
					}
				}
			})
			if d := differing(learned(t, tr), learned(t, want)); len(d) > 0 {
				t.Errorf("%q differ", d)
			}
		}
	})
}

// A reader that does not return while the body needs the slots is an error of that call; the pass ends, and goes on later.
func TestAStuckReaderKeepsTheSlotsFromTheBody(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ctx := context.Background()
		good := samples(t, 12, 4, 3)
		release, stuck := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ds := &faulty{good, func(_ context.Context, at dataloader.At) error {
			if at.Index == 9 { // read ahead while the first step's body runs, or the second one's
				once.Do(func() { close(stuck) })
				<-release
			}
			return nil
		}}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields(), Sequential: true, Workers: 1})
		within(t, 20*time.Second, "a loop over a stuck reader", func() {
			last := error(nil)
			for s, err := range tr.Steps(ctx, ds) {
				if last = err; s.Step != 1 {
					continue
				}
				<-stuck
				if _, err := tr.Evaluate(ctx, good); !errors.Is(err, dataloader.ErrStuck) {
					t.Errorf("evaluate: got %v, want ErrStuck", err)
				}
				if err := firstError(tr, good); !errors.Is(err, dataloader.ErrStuck) {
					t.Errorf("predict: got %v, want ErrStuck", err)
				}
			}
			if !errors.Is(last, dataloader.ErrStuck) {
				t.Errorf("steps: got %v, want ErrStuck", last)
			}
		})
		close(release)
		within(t, 10*time.Second, "the reader's return", func() {
			for {
				if _, err := tr.Fit(ctx, ds); err == nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	})
}

// TestEveryFaultOfStepsIsReturnedAndSurvived fails each call that loops make, one a run: an error says so, and later loops work.
func TestEveryFaultOfStepsIsReturnedAndSurvived(t *testing.T) {
	ds := samples(t, 20, 4, 3)
	work := func(_ kernels.Device, tr *trainer.Trainer) error {
		var errs []error
		for s, err := range tr.Steps(context.Background(), ds) {
			if errs = append(errs, err); err != nil {
				break
			}
			switch s.Step {
			case 2:
				_, err = tr.Evaluate(context.Background(), ds)
			case 3:
				_, err = tr.Step(context.Background(), rowsOf(t, ds, 0, 4))
			}
			errs = append(errs, err)
		}
		_, err := tr.Step(context.Background(), rowsOf(t, ds, 0, 3))
		return errors.Join(append(errs, err)...)
	}
	eachFault(t, ds, work, func(call, where string, err error) {
		// A reader's wait for a slot that the body takes is in vain, and so is its error.
		if call != "event sync" && !errors.Is(err, errInjected) {
			t.Errorf("%s: got %v, want the injected error", where, err)
		}
	}, func(where string, tr *trainer.Trainer) {
		if got := len(stepwise(t, tr, ds, nil)); got != 5 {
			t.Errorf("%s: %d steps afterwards", where, got)
		}
		step(t, tr, rowsOf(t, ds, 0, 4))
	})
}

// A prediction that begins in one body and goes on in later ones takes the slots again.
func TestAPredictionMaySpanBodies(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, val := samples(t, 45, 4, 3), samples(t, 40, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}}
		tr, want := made(t, small, opt), made(t, small, opt)
		fit(t, want, ds)
		next, stop := iter.Pull2(tr.Predict(context.Background(), val))
		defer stop()
		stepwise(t, tr, ds, func(s trainer.Step) {
			for range 8 { // one batch
				if p, err, ok := next(); err != nil || ok != (s.Step <= 5) {
					t.Fatalf("step %d: %v, %v, %v", s.Step, p, err, ok)
				}
			}
		})
		if d := differing(learned(t, tr), learned(t, want)); len(d) > 0 {
			t.Errorf("%q differ", d)
		}
	})
}
