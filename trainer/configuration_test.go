package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// configuration is a random model, its options and its data.
func configuration(t testing.TB, r *rand.Rand) (trainer.ModelFunc, trainer.Options, dataloader.Dataset) {
	in, classes, depth := 1+r.IntN(20), 2+r.IntN(8), r.IntN(5)
	widths := make([]int, depth)
	for i := range widths {
		widths[i] = 1 + r.IntN(40)
	}
	activations := []layers.Activation{nil, layers.ReLU, layers.Sigmoid, layers.Tanh, layers.LeakyReLU(0.1)}
	act := activations[r.IntN(len(activations))]
	float := []tensor.Dtype{tensor.Float32, tensor.Float64}[r.IntN(2)]
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type = float
		x := net.Input("x", batch, in)
		h := x
		for i, w := range widths {
			h = net.Dense(h, fmt.Sprint("layer", i), w, act)
		}
		return net.Classifier(x, net.Dense(h, "out", classes, nil))
	}
	n := 1 + r.IntN(120)
	x, y := make([]uint8, n*in), make([]int32, n)
	for i := range x {
		x[i] = uint8(r.IntN(256))
	}
	for i := range y {
		y[i] = int32(r.IntN(classes))
	}
	ds := columns(t, n, dataloader.Column("x", x, in).Scaled(1.0/255, 0), dataloader.Column("y", y))
	all := optim.All()
	opt := trainer.Options{Batch: 1 + r.IntN(64), Optimizer: all[r.IntN(len(all))].Optimizer, Fields: ds.Fields(),
		Guard: trainer.Guard(r.IntN(2)), Seed: r.Uint64(), Workers: 1 + r.IntN(3)}
	if r.IntN(3) == 0 {
		opt.Clip.Norm = 1
	}
	if r.IntN(3) == 0 && depth > 0 {
		opt.Frozen = []string{"layer0"}
	}
	if r.IntN(3) == 0 {
		opt.Slots = 2 * (1 + r.IntN(4))
	}
	if r.IntN(4) == 0 {
		opt.Resident, opt.Fields = []dataloader.Dataset{ds}, nil
	}
	return model, opt, ds
}

// TestAnyConfigurationRunsInItsPlanOrIsRefused: there is no third case.
func TestAnyConfigurationRunsInItsPlanOrIsRefused(t *testing.T) {
	parallel(t)
	each(t, anyConfiguration)
}

func anyConfiguration(t *testing.T, dev kernels.Device) {
	r, count := random(t), seed.Cases(60, 200)
	switch {
	case testing.Short():
		count = 24
	case !dev.Unified(): // where a refusal weighs more changes
		count = seed.Cases(30, 50)
	}
	for i := range count {
		model, opt, ds := configuration(t, r)
		opt.Device = dev
		plan, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Fatalf("configuration %d: %v", i, err)
		}
		opt.Memory = plan.Total - 1
		if _, err := trainer.New(t.Context(), model, opt); !errors.Is(err, arena.ErrCapacity) {
			t.Fatalf("configuration %d, one byte below its plan: %v", i, err)
		}
		opt.Memory = plan.Total
		tr, err := trainer.New(t.Context(), model, opt)
		if err != nil {
			t.Fatalf("configuration %d in its plan: %v", i, err)
		}
		use := tr.Stats().Arena.InUse
		for range 3 {
			if _, err := tr.Fit(context.Background(), ds); err != nil {
				t.Fatalf("configuration %d (%+v): %v", i, opt, err)
			}
			if _, err := tr.Evaluate(context.Background(), ds); err != nil {
				t.Fatalf("configuration %d: %v", i, err)
			}
			outputs(t, tr, ds)
			if s := tr.Stats().Arena; s.InUse != use || s.Reserved != plan.Total {
				t.Fatalf("configuration %d: %d of %d bytes in use, want %d of %d", i, s.InUse, s.Reserved, use, plan.Total)
			}
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAdamNeedsExactlyTwoParametersMoreThanSGD(t *testing.T) {
	total := func(o optim.Optimizer) int64 {
		plan, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 16, Optimizer: o})
		if err != nil {
			t.Fatal(err)
		}
		if o == (optim.Adam{}) && plan.Category("optimizer state") != 2*plan.Category("parameters") {
			t.Errorf("state %d, parameters %d", plan.Category("optimizer state"), plan.Category("parameters"))
		}
		return plan.Total - plan.Category("optimizer state")
	}
	if adam, sgd := total(optim.Adam{}), total(optim.SGD{}); adam != sgd {
		t.Errorf("without their state, Adam plans %d bytes and SGD %d", adam, sgd)
	}
}
