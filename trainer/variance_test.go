package trainer_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// normedInput normalizes x [batch, 3] itself, by batch normalization, then by layer normalization.
func normedInput(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 3)
	h := net.BatchNorm(x, "bn", layers.ReLU)
	return net.Classifier(x, net.Dense(net.LayerNorm(h, "ln"), "out", 3, nil))
}

// withOutlier returns 32 samples of normedInput; element 1 of a sample is v.
func withOutlier(t *testing.T, sample int, v float32) dataloader.Dataset {
	t.Helper()
	r := random(t)
	x, y := make([]float32, 32*3), make([]uint8, 32)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		y[i] = uint8(r.IntN(3))
	}
	x[sample*3+1] = v
	return columns(t, 32, dataloader.Column("x", x, 3), dataloader.Column("y", y))
}

// A batch variance beyond float32 stops the step: nothing of it reaches parameters or statistics,
// and training goes on with other data.
func TestABatchVarianceThatOverflowsStopsTheStepByName(t *testing.T) {
	mixes := map[string]trainer.Options{
		"step":       {},
		"each":       {Guard: trainer.GuardEach},
		"accumulate": {Accumulate: 2},
		"scaled":     {LossScale: optim.Scaling{Mode: optim.ScaleAlways}, Precision: arena.Float16},
		"recompute":  {Recompute: trainer.Recompute{Layers: []string{"bn", "ln"}}},
	}
	for name, opt := range mixes {
		for _, resident := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				each(t, func(t *testing.T, dev kernels.Device) {
					good := withOutlier(t, 5, 1)
					for _, sample := range []int{5, 20} { // in the first and in the second batch
						bad, opt := withOutlier(t, sample, 3e19), opt
						opt.Device, opt.Batch, opt.Fields, opt.Sequential = dev, 16, good.Fields(), true
						if resident {
							opt.Resident = []dataloader.Dataset{bad, good}
						}
						tr := made(t, normedInput, opt)
						before := learned(t, tr)
						_, err := tr.Fit(t.Context(), bad)
						var e *trainer.NonFiniteError
						if !errors.Is(err, trainer.ErrNonFinite) || !errors.As(err, &e) {
							t.Fatalf("got %v, want a NonFiniteError", err)
						}
						if !e.Variance || e.Label != "bn" || e.Index != 1 || !strings.Contains(err.Error(), `"bn": the variance of channel 1`) {
							t.Errorf("got %v, want an error about the variance of channel 1 of bn", err)
						}
						after := learned(t, tr)
						for _, p := range differing(before, after) {
							// The step of the first 16 samples was a good one.
							if sample == 5 || opt.Accumulate == 2 && !strings.HasPrefix(p, "bn/mean") && !strings.HasPrefix(p, "bn/variance") {
								t.Errorf("sample %d: %q changed", sample, p)
							}
						}
						fit(t, tr, good)
						trained := learned(t, tr)
						if got := differing(after, trained); len(got) != len(after) {
							t.Errorf("training afterwards changed only %q", got)
						}
						for p, b := range trained {
							if slices.ContainsFunc(decoded([]byte(b)), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
								t.Errorf("%q is %v", p, decoded([]byte(b)))
							}
						}
					}
				})
			})
		}
	}
}

// A channel of one value is beta in training, where its statistics are those of the batch, and
// afterwards, where the running ones are the same. The values are large for their precision.
func TestAConstantChannelBecomesBetaExactly(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3)
		y := net.BatchNorm(x, "bn", nil)
		return trainer.Model{Inputs: net.Inputs(), Output: y, Params: net.Params(), Statistics: net.Statistics(),
			Loss: gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(y))))}, net.Err()
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		x := slices.Repeat([]float32{1e7, 100, -0.1}, 8)
		ds := columns(t, 8, dataloader.Column("x", x, 3))
		tr := made(t, model, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1e-3}})
		beta := []float32{0.1, -0.7, 3e-5}
		writeFloats(t, tr, "bn/beta", beta)
		writeFloats(t, tr, "bn/gamma", []float32{1.3, 0.7, -2})
		want := 0.0
		for _, b := range beta {
			want += float64(b) * float64(b) / 3
		}
		if got := fit(t, tr, ds).Loss; math.Abs(got-want) > 1e-6*want {
			t.Errorf("the loss, the mean square of beta, is %v, want %v", got, want)
		}
		writeFloats(t, tr, "bn/beta", beta)
		writeFloats(t, tr, "bn/mean", x[:3])
		writeFloats(t, tr, "bn/variance", []float32{0, 0, 0})
		for i, got := range outputs(t, tr, ds) {
			if got != float64(beta[i%3]) {
				t.Fatalf("element %d: predicted %v, want %v", i, got, beta[i%3])
			}
		}
	})
}
