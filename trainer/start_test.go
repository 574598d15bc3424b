package trainer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Gorgonia draws the scale and the bias that it makes itself, without a seed.
func TestNormalizersThatGorgoniaMakesStartAtOneAndZero(t *testing.T) {
	ds := samples(t, 32, 12, 3)
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.On(g)
		x := net.Input("x", batch, 12)
		images, err := gorgonia.Reshape(x, []int{batch, 3, 2, 2})
		if err != nil {
			return trainer.Model{}, err
		}
		gorgonia.WithName("images")(images)
		y, _, _, _, err := gorgonia.BatchNorm(images, nil, nil, 0.9, 1e-5)
		if err != nil {
			return trainer.Model{}, err
		}
		flat, err := gorgonia.Reshape(y, []int{batch, 12})
		if err != nil {
			return trainer.Model{}, err
		}
		return net.Classifier(x, net.Dense(flat, "out", 3, nil))
	}
	tr := made(t, model, trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields()})
	for name, want := range map[string]float64{"images_γ": 1, "images_β": 0} {
		got, ok := learned(t, tr)[name]
		if !ok {
			t.Fatalf("no parameter %q", name)
		}
		if i := slices.IndexFunc(decoded([]byte(got)), func(v float64) bool { return v != want }); i >= 0 {
			t.Errorf("%q: element %d is %v, want %v", name, i, decoded([]byte(got))[i], want)
		}
	}
}

// One statistic moves with the other, or neither does.
func TestHalfOfFrozenStatisticsFreezesBoth(t *testing.T) {
	ds := samples(t, 32, 4, 3)
	for _, name := range []string{"bn/mean", "bn/variance"} {
		tr := made(t, normed, trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields(), Frozen: []string{name}})
		before := learned(t, tr)
		fit(t, tr, ds)
		changed := differing(before, learned(t, tr))
		if slices.Contains(changed, "bn/mean") || slices.Contains(changed, "bn/variance") {
			t.Errorf("frozen %q: an epoch changed %q", name, changed)
		}
	}
}

// A large gradient is made in slices where each dies with its update: the parameter is trained all the same.
func TestNothingTrainedIsFrozenUnderEitherGuard(t *testing.T) {
	ds := samples(t, 64, 784, 10)
	wide := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.On(g)
		x := net.Input("x", batch, 784)
		return net.Classifier(x, net.Dense(net.Dense(x, "wide", 256, layers.ReLU), "out", 10, nil))
	}
	for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
		tr := made(t, wide, trainer.Options{Device: openCPU(t), Batch: 32, Fields: ds.Fields(), Guard: guard})
		ps, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if p.Frozen {
				t.Errorf("guard %d: %q is frozen", guard, p.Name)
			}
		}
	}
}

// A smaller batch cannot help where evaluation decides.
func TestTooLargeAnEvaluationBatchIsBlamed(t *testing.T) {
	ds := samples(t, 32, 4, 3)
	opt := trainer.Options{Device: openCPU(t), Batch: 3, EvalBatch: 4096, Fields: ds.Fields()}
	plan, err := trainer.Plan(small, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Memory = plan.Total - 1
	_, err = trainer.New(small, opt)
	var e *trainer.CapacityError
	if !errors.As(err, &e) || e.Fits != 0 || e.EvalBatch != 4096 || !strings.Contains(err.Error(), "lower EvalBatch, to 3") {
		t.Fatalf("got %v", err)
	}
	opt.EvalBatch = 3
	if _, err := trainer.Plan(small, opt); err != nil {
		t.Fatal(err)
	}
	tr, err := trainer.New(small, opt)
	if err != nil {
		t.Fatalf("with the advice taken: %v", err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
}
