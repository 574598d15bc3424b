package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// unscaled is a classifier after a batch normalization that is given neither a scale nor a bias.
func unscaled(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
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

// Gorgonia draws the scale and the bias that it makes itself, without a seed.
func TestNormalizersThatGorgoniaMakesStartAtOneAndZero(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 12, 3)
		tr := made(t, unscaled, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		for name, want := range map[string]float64{"images_γ": 1, "images_β": 0} {
			got, ok := learned(t, tr)[name]
			if !ok {
				t.Fatalf("no parameter %q", name)
			}
			if i := slices.IndexFunc(decoded([]byte(got)), func(v float64) bool { return v != want }); i >= 0 {
				t.Errorf("%q: element %d is %v, want %v", name, i, decoded([]byte(got))[i], want)
			}
		}
	})
}

// A value that the caller binds is what a node starts with, whatever its name.
func TestANodeThatIsCalledLikeANormalizerKeepsItsValue(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 12, 3)
		model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 12)
			own := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithName("x_γ"), gorgonia.WithShape(batch, 12), gorgonia.WithInit(gorgonia.ValuesOf(float32(2))))
			scaled, err := gorgonia.HadamardProd(x, own)
			if err != nil {
				return trainer.Model{}, err
			}
			return net.Classifier(x, net.Dense(scaled, "out", 3, nil))
		}
		tr := made(t, model, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Frozen: []string{"x_γ"}, Tail: dataloader.DropTail})
		got := decoded([]byte(learned(t, tr)["x_γ"]))
		if i := slices.IndexFunc(got, func(v float64) bool { return v != 2 }); i >= 0 || len(got) != 8*12 {
			t.Errorf("%d values, element %d of them is not 2", len(got), i)
		}
	})
}

// One statistic moves with the other, or neither does.
func TestHalfOfFrozenStatisticsFreezesBoth(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		for _, name := range []string{"bn/mean", "bn/variance"} {
			tr := made(t, normed, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Frozen: []string{name}})
			before := learned(t, tr)
			fit(t, tr, ds)
			changed := differing(before, learned(t, tr))
			if slices.Contains(changed, "bn/mean") || slices.Contains(changed, "bn/variance") {
				t.Errorf("frozen %q: an epoch changed %q", name, changed)
			}
		}
	})
}

// A large gradient is made in slices where each dies with its update: the parameter is trained all the same.
func TestNothingTrainedIsFrozenUnderEitherGuard(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 64, 784, 10)
		wide := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 784)
			return net.Classifier(x, net.Dense(net.Dense(x, "wide", 256, layers.ReLU), "out", 10, nil))
		}
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			tr := made(t, wide, trainer.Options{Device: dev, Batch: 32, Fields: ds.Fields(), Guard: guard})
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
	})
}

// A smaller batch cannot help where evaluation decides.
func TestTooLargeAnEvaluationBatchIsBlamed(t *testing.T) {
	ds := samples(t, 32, 4, 3)
	opt := trainer.Options{Device: openCPU(t), Batch: 3, EvalBatch: 4096, Fields: ds.Fields()}
	plan, err := trainer.Plan(t.Context(), small, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Memory = plan.Total - 1
	_, err = trainer.New(t.Context(), small, opt)
	var e *trainer.CapacityError
	if !errors.As(err, &e) || e.Fits != 0 || e.EvalBatch != 4096 || !strings.Contains(err.Error(), fmt.Sprintf("EvalBatch %d instead of 4096 would fit", e.FitsEval)) {
		t.Fatalf("got %v", err)
	}
	opt.EvalBatch = e.FitsEval + 1
	if _, err := trainer.New(t.Context(), small, opt); !errors.Is(err, arena.ErrCapacity) {
		t.Fatalf("an EvalBatch of one more: got %v, want %v", err, arena.ErrCapacity)
	}
	opt.EvalBatch = e.FitsEval
	tr, err := trainer.New(t.Context(), small, opt)
	if err != nil {
		t.Fatalf("with the advice taken: %v", err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
}

// Where training does not fit either, the advice is a batch for both, or none.
func TestAdviceWhereNeitherTrainingNorEvaluationFits(t *testing.T) {
	ds := samples(t, 32, 4, 3)
	opt := trainer.Options{Device: openCPU(t), Batch: 64, EvalBatch: 4096, Fields: ds.Fields()}
	alone := opt
	alone.Batch, alone.EvalBatch = 32, 0
	plan, err := trainer.Plan(t.Context(), small, alone)
	if err != nil {
		t.Fatal(err)
	}
	opt.Memory = plan.Total
	_, err = trainer.New(t.Context(), small, opt)
	var e *trainer.CapacityError
	if !errors.As(err, &e) || e.Fits < 32 || e.FitsEval != e.Fits {
		t.Fatalf("got %v, want a batch of 32 or more for both", err)
	}
	opt.Batch, opt.EvalBatch = e.Fits, e.FitsEval
	tr, err := trainer.New(t.Context(), small, opt)
	if err != nil {
		t.Fatalf("with the advice taken: %v", err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	opt.Batch, opt.EvalBatch, opt.Memory = 64, 4096, 1
	if _, err = trainer.New(t.Context(), small, opt); !errors.As(err, &e) || !strings.Contains(err.Error(), "not even the smallest batch") {
		t.Fatalf("got %v", err)
	}
}

// gorgonia.BatchNorm makes a scale and a bias for each sample of the batch, which a last batch of fewer cannot share.
func TestNormalizersOfAnotherBatchAreBlamedWithAWayOut(t *testing.T) {
	ds := samples(t, 20, 12, 3)
	tr := made(t, unscaled, trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields()})
	_, err := tr.Fit(context.Background(), ds)
	for _, want := range []string{"gorgonia.BatchNorm", "images_", "for 4 samples", "[1, channels, 1, 1]", "layers.BatchNorm"} {
		if !errors.Is(err, trainer.ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrModel with %q in it", err, want)
		}
	}
}
