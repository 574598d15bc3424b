package trainer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// lockstep is loss = mean(x·Σw) with n weights that start at 0 and move by the same amount in each
// step: the outputs, one for each weight, differ if the weights are not of one step.
func lockstep(n int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 1)
		var all gorgonia.Nodes
		for i := range n {
			w := net.Param(string(rune('a'+i))+"/w", layers.Constant{Value: 0}, 1, 1)
			all = append(all, gorgonia.Must(gorgonia.Mul(x, w)))
		}
		y := gorgonia.Must(gorgonia.Concat(1, all...))
		loss := gorgonia.Must(gorgonia.Mean(y))
		return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: loss, Params: net.Params()}, net.Err()
	}
}

// wantOneStep fails unless the weights in a row are equal, and those of a step, and returns them.
func wantOneStep(t *testing.T, row []float32) float32 {
	t.Helper()
	for _, v := range row {
		if v != row[0] || v > 0 {
			t.Fatalf("weights %v: not of one step", row)
		}
	}
	return row[0]
}

func TestSnapshotsWhileTrainingAreOfOneStep(t *testing.T) {
	const weights = 8 // so that the numbers of all steps are exact
	each(t, func(t *testing.T, dev kernels.Device) {
		ones := make([]float32, 400)
		for i := range ones {
			ones[i] = 1
		}
		ds := columns(t, len(ones), dataloader.Column("x", ones, 1))
		model := lockstep(weights)
		var p *trainer.Predictor
		var tr *trainer.Trainer
		reported := 0
		tr = made(t, model, trainer.Options{Device: dev, Batch: 4, Optimizer: optim.SGD{Rate: 0.25},
			Progress: func(at trainer.Progress) {
				if at.Step%10 == 0 && at.Epoch == 1 { // the pass itself may load, too
					reported++
					if err := p.Load(context.Background(), tr); err != nil {
						t.Error(err)
					}
				}
			}})
		p = predictor(t, model, trainer.PredictorOptions{Device: dev, Batch: 2, Views: 1})
		view, err := p.View()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { view.Close() })
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		var loads, served atomic.Int64
		all.Go(func() {
			for ctx.Err() == nil {
				if err := p.Load(ctx, tr); err == nil {
					loads.Add(1)
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
					return
				}
			}
		})
		for _, q := range []*trainer.Predictor{p, view} {
			all.Go(func() {
				before := float32(0)
				for ctx.Err() == nil {
					dst := make([]float32, weights)
					if err := q.Predict(context.Background(), dst, []float32{1}); err != nil {
						t.Error(err)
						return
					}
					now := wantOneStep(t, dst)
					if now > before {
						t.Errorf("weights went back from %v to %v", before, now)
					}
					before = now
					if q == p {
						served.Add(1)
					}
				}
			})
		}
		epochs := 0
		for end := time.Now().Add(time.Minute); epochs < 3 || loads.Load() < 5 || served.Load() < 5; epochs++ {
			if fit(t, tr, ds); time.Now().After(end) {
				t.Fatalf("%d loads, %d predictions in %d epochs", loads.Load(), served.Load(), epochs)
			}
		}
		stop()
		all.Wait()
		if err := p.Load(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		// 100 steps an epoch, each by rate · mean of x / weights.
		end := wantOneStep(t, predict(t, p, 1, []float32{1}))
		if float64(end) != -25*float64(epochs)/weights {
			t.Errorf("weights end at %v", end)
		}
		if reported != 10 {
			t.Errorf("the pass itself has loaded %d times, want 10", reported)
		}
	})
}

func TestALoadThatIsCancelledLeavesThePassAlone(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := &held{Dataset: samples(t, 16, 4, 3), at: 12, reached: make(chan struct{}), release: make(chan struct{})}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Sequential: true, Workers: 1})
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4})
		done := make(chan struct{})
		go func() {
			defer close(done)
			fit(t, tr, ds)
		}()
		<-ds.reached
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		// The pass waits for a sample: there may be no further step before ctx ends.
		if err := p.Load(ctx, tr); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		var all sync.WaitGroup
		all.Go(func() { // the rest of the pass serves it, or its end
			if err := p.Load(context.Background(), tr); err != nil {
				t.Error(err)
			}
		})
		close(ds.release)
		within(t, time.Minute, "the pass", func() { <-done })
		within(t, time.Minute, "the load", all.Wait)
	})
}

// held is a dataset that waits at one sample until a test releases it.
type held struct {
	dataloader.Dataset
	at               int
	once             sync.Once
	reached, release chan struct{}
}

func (h *held) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index == h.at {
		h.once.Do(func() { close(h.reached) })
		<-h.release
	}
	return h.Dataset.Fetch(ctx, at, dst)
}

func TestWeightsThatDoNotFitAreListed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8, 4, 3)
		other := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			h := net.Dense(x, "hidden", 5, layers.ReLU)
			return net.Classifier(x, net.Dense(h, "last", 3, nil))
		}
		tr := made(t, other, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		from := predictor(t, other, trainer.PredictorOptions{Device: dev, Batch: 4})
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4, Seed: 3})
		x := fieldOf(t, samples(t, 4, 4, 3), 0)
		want := predict(t, p, 4, x)
		values := map[string][]float32{"hidden/w": make([]float32, 3), "hidden/b": make([]float32, 8)}
		for name, err := range map[string]error{
			"trainer":   p.Load(t.Context(), tr),
			"predictor": p.LoadPredictor(t.Context(), from),
			"function":  p.LoadWeights(t.Context(), func(name string) []float32 { return values[name] }),
		} {
			var bad *trainer.WeightsError
			if !errors.As(err, &bad) || !errors.Is(err, trainer.ErrData) {
				t.Fatalf("%s: got %v, want a WeightsError", name, err)
			}
			if !slices.Equal(bad.Missing, []string{"out/w", "out/b"}) || len(bad.Other) == 0 || bad.Other[0].Name != "hidden/w" {
				t.Errorf("%s: %+v", name, bad)
			}
			if !strings.Contains(err.Error(), `["out/w" "out/b"]`) || !strings.Contains(err.Error(), "(4, 8)") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := predict(t, p, 4, x); !slices.Equal(got, want) {
			t.Error("a refused load has changed weights")
		}
	})
}

func TestWeightsGoFromDeviceToDevice(t *testing.T) {
	for _, from := range targets {
		for _, to := range targets {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				a, b := from.open(t, 0), to.open(t, 0)
				ds := samples(t, 16, 64, 3)
				tr := made(t, image, trainer.Options{Device: a, Batch: 8, Fields: ds.Fields()})
				fit(t, tr, ds)
				p := predictor(t, image, trainer.PredictorOptions{Device: a, Batch: 8})
				q := predictor(t, image, trainer.PredictorOptions{Device: b, Batch: 8, Seed: 9})
				r := predictor(t, image, trainer.PredictorOptions{Device: b, Batch: 8, Seed: 8})
				if err := errors.Join(p.Load(t.Context(), tr), q.Load(t.Context(), tr), r.LoadPredictor(t.Context(), p)); err != nil {
					t.Fatal(err)
				}
				x := fieldOf(t, ds, 0)[:8*64]
				equalTo(t, "same device", predict(t, p, 8, x), outputs(t, tr, ds)[:24])
				want := predict(t, q, 8, x)
				for i, v := range outputs(t, tr, ds)[:24] {
					if !about(float64(want[i]), v, 1e-5) {
						t.Fatalf("number %d is %v, want %v", i, want[i], v)
					}
				}
				if got := predict(t, r, 8, x); !slices.Equal(got, want) {
					t.Errorf("from a predictor: %v, want %v", got, want)
				}
			})
		}
	}
}

func TestAViewSharesTheWeights(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		p, err := trainer.NewPredictor(t.Context(), small, trainer.PredictorOptions{Device: dev, Batch: 4, Views: 1})
		if err != nil {
			t.Fatal(err)
		}
		reserved := p.Stats().Arena.Reserved
		view, err := p.View()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.View(); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("a second view: got %v, want ErrBusy", err)
		}
		x := fieldOf(t, samples(t, 4, 4, 3), 0)
		values := map[string][]float32{"hidden/w": make([]float32, 32), "hidden/b": make([]float32, 8),
			"out/w": make([]float32, 24), "out/b": {1, 2, 3}}
		if err := view.LoadWeights(t.Context(), func(name string) []float32 { return values[name] }); err != nil {
			t.Fatal(err)
		}
		if got := predict(t, p, 1, x[:4]); !slices.Equal(got, []float32{1, 2, 3}) {
			t.Errorf("weights of the view: %v", got)
		}
		if err := p.Close(); err != nil { // the memory stays until the view is closed, too
			t.Fatal(err)
		}
		if got := predict(t, view, 1, x[:4]); !slices.Equal(got, []float32{1, 2, 3}) {
			t.Errorf("after Close of the first: %v", got)
		}
		if got := view.Stats().Arena.Reserved; got != reserved {
			t.Errorf("%d bytes, %d before", got, reserved)
		}
		again, err := view.View()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(view.Close(), again.Close(), again.Close()); err != nil {
			t.Error(err)
		}
		if _, err := again.View(); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("a view of a closed predictor: %v", err)
		}
		if got := again.Stats().Arena.Reserved; got != 0 {
			t.Errorf("%d bytes are left", got)
		}
	})
}
