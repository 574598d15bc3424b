package trainer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

func TestRowsAreTheSameForAnyNumberOfThem(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		all := samples(t, 67, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 16, Fields: all.Fields()})
		fit(t, tr, all)
		want := outputs(t, tr, all)
		for n := 1; n <= 67; n += 1 + n/17*5 {
			head, err := dataloader.Subset(all, 0, n)
			if err != nil {
				t.Fatal(err)
			}
			got := outputs(t, tr, head)
			if len(got) != 3*n {
				t.Fatalf("%d rows: %d numbers", n, len(got))
			}
			for i, v := range got {
				// A product may be summed in another order for other numbers of rows: a few roundings of float32.
				if !about(v, want[i], 1e-6) {
					t.Fatalf("%d rows: output %d of sample %d is %v, want %v", n, i%3, i/3, v, want[i])
				}
			}
		}
	})
}

func TestSamplesComeInOrderWithTheirIndices(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 21, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		next := 0
		for p, err := range tr.Predict(context.Background(), ds) {
			if err != nil || p.Sample != next {
				t.Fatalf("sample %d, %v; want %d", p.Sample, err, next)
			}
			next++
		}
		if next != 21 {
			t.Errorf("%d samples, want 21", next)
		}
	})
}

func TestPredictionNeedsNoLabels(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 5, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		x := make([]float32, 20)
		for i := range 5 {
			row, label := make([]byte, 16), make([]byte, 1)
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{row, label}); err != nil {
				t.Fatal(err)
			}
			for j, v := range decoded(row) {
				x[i*4+j] = float32(v)
			}
		}
		bare := columns(t, 5, dataloader.Column("x", x, 4))
		same(t, "without labels", outputs(t, tr, bare), outputs(t, tr, ds))
		if _, err := tr.Evaluate(context.Background(), bare); !errors.Is(err, trainer.ErrData) {
			t.Errorf("evaluation without labels: got %v, want ErrData", err)
		}
	})
}

func TestBreakingOffAPredictionLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := &recorder{Dataset: samples(t, 64, 4, 3)}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		use := inUse(tr)
		for range 100 {
			for _, err := range tr.Predict(context.Background(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			// One batch is out, one may be ready, and the worker may have begun the next.
			if n := len(ds.take()); n > 4*3 {
				t.Fatalf("%d samples were read for one", n)
			}
		}
		if got := inUse(tr); got != use {
			t.Errorf("%d bytes in use, %d before", got, use)
		}
		fit(t, tr, ds)
	})
}

func TestEvaluatingAndPredictingInsideAPrediction(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 12, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		want, loss := outputs(t, tr, ds), evaluate(t, tr, ds).Loss
		var got []float64
		for p, err := range tr.Predict(context.Background(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p.Output...)
			if l := evaluate(t, tr, ds).Loss; l != loss {
				t.Fatalf("loss %v, want %v", l, loss)
			}
			same(t, "inner prediction", outputs(t, tr, ds), want)
		}
		same(t, "outer prediction", got, want)
	})
}

func TestCallsDuringAPassAreBusyAndHarmless(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 12, 4, 3)
		var tr *trainer.Trainer
		tr = made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Progress: func(trainer.Progress) {
			for _, err := range tr.Predict(context.Background(), ds) {
				if !errors.Is(err, trainer.ErrBusy) {
					t.Errorf("predict: got %v, want ErrBusy", err)
				}
			}
			if _, err := tr.Fit(context.Background(), ds); !errors.Is(err, trainer.ErrBusy) {
				t.Errorf("fit: got %v, want ErrBusy", err)
			}
			if _, err := tr.Evaluate(context.Background(), ds); !errors.Is(err, trainer.ErrBusy) {
				t.Errorf("evaluate: got %v, want ErrBusy", err)
			}
			if err := tr.Close(); !errors.Is(err, trainer.ErrBusy) {
				t.Errorf("close: got %v, want ErrBusy", err)
			}
			if tr.Stats().Arena.Reserved != tr.Plan().Total {
				t.Error("Stats and Plan differ")
			}
		}})
		if res := fit(t, tr, ds); res.Samples != 12 {
			t.Errorf("%d samples, want 12", res.Samples)
		}
	})
}

func TestKeptValuesAreStaleInTheNextStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 20, 4, 3)
		var tr *trainer.Trainer
		var handles []arena.Handle
		opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Keep: []string{"hidden/act"}}
		opt.Progress = func(p trainer.Progress) {
			h, _, err := tr.Kept("hidden/act")
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 4*8*4)
			if err := h.Read(b); err != nil {
				t.Fatalf("step %d: %v", p.Step, err)
			}
			for i, v := range decoded(b) {
				if !(v >= 0) {
					t.Fatalf("step %d: element %d of a ReLU is %v", p.Step, i, v)
				}
			}
			handles = append(handles, h)
		}
		tr = made(t, small, opt)
		use := inUse(tr)
		if _, _, err := tr.Kept("hidden/act"); !errors.Is(err, arena.ErrStale) {
			t.Errorf("before the first step: got %v, want ErrStale", err)
		}
		for range 5 {
			fit(t, tr, ds)
		}
		evaluate(t, tr, ds)
		for i, h := range handles[:len(handles)-1] {
			if err := h.Read(make([]byte, 4*8*4)); i < len(handles)-2 && !errors.Is(err, arena.ErrStale) {
				t.Errorf("handle of step %d: got %v, want ErrStale", i, err)
			}
		}
		if _, _, err := tr.Kept("out/act"); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("a name that is not kept: got %v, want ErrOption", err)
		}
		if got := inUse(tr); got != use {
			t.Errorf("%d bytes in use, %d before", got, use)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if err := handles[len(handles)-1].Err(); !errors.Is(err, arena.ErrClosed) && !errors.Is(err, arena.ErrStale) {
			t.Errorf("after Close: got %v, want ErrClosed or ErrStale", err)
		}
	})
}

func TestAModelWithoutOutputCannotPredict(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		mute := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			m, err := small(g, batch)
			m.Output, m.Correct = nil, nil
			return m, err
		}
		ds := samples(t, 5, 4, 3)
		tr := made(t, mute, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		fit(t, tr, ds)
		if res := evaluate(t, tr, ds); res.Accuracy == res.Accuracy {
			t.Errorf("accuracy %v of a model that counts no right outputs, want NaN", res.Accuracy)
		}
		rows := 0
		for _, err := range tr.Predict(context.Background(), ds) {
			if !errors.Is(err, trainer.ErrModel) {
				t.Errorf("got %v, want ErrModel", err)
			}
			rows++
		}
		if rows != 1 {
			t.Errorf("%d answers, want one error", rows)
		}
	})
}

func TestAResultKeepsItsMeaningForModelsOfOneClass(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 9, 4, 1)
		one := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			return net.Classifier(x, net.Dense(x, "out", 1, nil))
		}
		tr := made(t, one, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		if res := fit(t, tr, ds); res.Loss != 0 || res.Accuracy != 1 {
			t.Errorf("loss %v accuracy %v, want 0 and 1", res.Loss, res.Accuracy)
		}
	})
}

// askForKept reads a kept value over and over in a goroutine, until stop is called. What it is refused does not matter.
func askForKept(tr *trainer.Trainer, name string) (stop func()) {
	end := make(chan struct{})
	var asked sync.WaitGroup
	asked.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			if h, spec, err := tr.Kept(name); err == nil {
				_ = h.Read(make([]byte, spec.Bytes()))
			}
		}
	})
	return func() {
		close(end)
		asked.Wait()
	}
}

// Asked for at any time from another goroutine, a kept value is whole, or refused: never one that a step in flight overwrites.
func TestKeptIsNeverWhatAStepInFlightOverwrites(t *testing.T) {
	ask := func(t *testing.T, dev kernels.Device) { // it reports unordered accesses at the end
		ds := samples(t, 64, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Keep: []string{"out/out"}})
		stop := askForKept(tr, "out/out")
		for range 2 {
			fit(t, tr, ds)
		}
		stop()
	}
	each(t, ask)
	t.Run("emu, delayed", func(t *testing.T) {
		ask(t, emutest.OpenChecked(t, emu.Options{Delay: 100 * time.Microsecond, Seed: 3}))
	})
}
