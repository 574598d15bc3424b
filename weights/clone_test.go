package weights_test

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/weights"
)

func TestAveragesAreSavedAndGoOnFromLoadedWeights(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32)
		for _, offload := range offloads(dev) {
			opt := trainer.Options{Device: dev, Average: optim.Average{Decay: 0.9}, Seed: 1, Offload: trainer.Offload{State: offload}}
			a := made(t, net(8), opt)
			fit(t, a, ds)
			path := filepath.Join(t.TempDir(), "average.safetensors")
			if err := weights.Save(t.Context(), path, a.Averaged(), weights.SaveOptions{}); err != nil {
				t.Fatal(err)
			}
			averaged := values(t, a.Averaged())
			if d := differing(averaged, values(t, a)); len(d) != 6 { // all but the statistics
				t.Errorf("averages differ from parameters in %q", d)
			}
			opt.Seed = 2
			b := made(t, net(8), opt)
			fit(t, b, ds)
			if _, err := weights.Load(t.Context(), path, b, weights.LoadOptions{}); err != nil {
				t.Fatal(err)
			}
			for what, s := range map[string]weights.Source{"parameters": b, "averages": b.Averaged()} {
				if d := differing(values(t, s), averaged); d != nil {
					t.Errorf("%s: %q differ", what, d)
				}
			}
		}
	})
	bare := made(t, net(8), trainer.Options{Device: devices["cpu"](t)})
	if err := weights.Save(t.Context(), filepath.Join(t.TempDir(), "x"), bare.Averaged(), weights.SaveOptions{}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("without averages: got %v, want ErrOption", err)
	}
}

func TestPredictorsLoadAndClone(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32)
		tr := made(t, net(8), trainer.Options{Device: dev})
		fit(t, tr, ds)
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := weights.Save(t.Context(), path, tr, weights.SaveOptions{}); err != nil {
			t.Fatal(err)
		}
		open := func() *trainer.Predictor {
			p, err := trainer.NewPredictor(t.Context(), net(8), trainer.PredictorOptions{Device: dev, Batch: 4, Fields: ds.Fields()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
			return p
		}
		a, b, c, want := open(), open(), open(), open()
		if err := want.Load(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		if _, err := weights.Load(t.Context(), path, a, weights.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := weights.Clone(t.Context(), b, tr, weights.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := weights.Clone(t.Context(), c, b, weights.LoadOptions{}.WithMemory(1)); err != nil {
			t.Fatal(err)
		}
		x := []float32{1, 2, 3, 4, -1, 0, 1, 2}
		rows := make([]float32, 6)
		if err := want.Predict(t.Context(), rows, x); err != nil {
			t.Fatal(err)
		}
		for i, p := range []*trainer.Predictor{a, b, c} {
			got := make([]float32, 6)
			if err := p.Predict(t.Context(), got, x); err != nil || !slices.Equal(got, rows) {
				t.Errorf("predictor %d: got %v, %v; want %v", i, got, err, rows)
			}
		}
		// And back: a predictor saves.
		again := filepath.Join(t.TempDir(), "again.safetensors")
		if err := weights.Save(t.Context(), again, a, weights.SaveOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := differing(fileValues(t, again), fileValues(t, path)); d != nil {
			t.Errorf("%q differ", d)
		}
	})
}

// Two trainers clone each other's weights at the same time: nothing waits for ever, and each has
// the weights of one of them in the end.
func TestClonesInBothDirectionsEnd(t *testing.T) {
	dev := devices["cpu"](t)
	a, b := made(t, net(8), trainer.Options{Device: dev, Seed: 1}), made(t, net(8), trainer.Options{Device: dev, Seed: 2})
	one, two := values(t, a), values(t, b)
	var both sync.WaitGroup
	for range 20 {
		both.Go(func() { _, err := weights.Clone(t.Context(), a, b, weights.LoadOptions{}); check(t, err) })
		both.Go(func() { _, err := weights.Clone(t.Context(), b, a, weights.LoadOptions{}); check(t, err) })
	}
	both.Wait()
	for _, tr := range []*trainer.Trainer{a, b} {
		if v := values(t, tr); differing(v, one) != nil && differing(v, two) != nil {
			t.Error("the weights are a mixture")
		}
	}
}
