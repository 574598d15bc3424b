package trainer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	humanize "github.com/dustin/go-humanize"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

var sixteen = []arena.DType{arena.BFloat16, arena.Float16}

// Where scratch is made of activations, 16 bits take little more than half of it: one layer's activation and gradients are whole at any time.
func TestActivationsIn16BitsSaveScratch(t *testing.T) {
	wide := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 16, 64) }
	all := map[string]nets.Net{}
	for _, n := range nets.All() {
		all[n.Name] = n
	}
	table := page.Read(t, "docs/memory.md")
	for _, c := range []struct {
		name  string // in docs/memory.md
		model trainer.ModelFunc
		batch int
		most  float64 // of the scratch of float32
	}{
		{"perceptron of 16 layers of 64", wide, 4096, 0.57},
		{"two convolutions, digits", digitsNet, 128, 1}, // whose peak is the first layer alone
		{"resnet", all["resnet"].Model, 128, 0.52},
		{"vgg", all["vgg"].Model, 64, 0.77}, // whose first pooling alone has 22 MB
		{"unet", all["unet"].Model, 8, 0.6},
		{"transformer", all["transformer"].Model, 16, 0.63},
	} {
		opt := trainer.Options{Batch: c.batch, Guard: trainer.GuardEach, LossScale: optim.Scaling{Mode: optim.ScaleNever}} // which keeps gradients
		want, err := trainer.Plan(t.Context(), c.model, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, opt.Precision = range sixteen {
			got, err := trainer.Plan(t.Context(), c.model, opt)
			if err != nil {
				t.Fatal(err)
			}
			part := float64(got.Category("scratch")) / float64(want.Category("scratch"))
			if !(part <= c.most) || got.Total-got.Category("scratch") != want.Total-want.Category("scratch") {
				t.Errorf("%s, %v: %.3f of the scratch of float32, want at most %v, and nothing else to change", c.name, opt.Precision, part, c.most)
			}
			row := fmt.Sprintf("| %s | %d | %s | %s | %.0f %% |", c.name, c.batch, humanize.Comma(want.Category("scratch")), humanize.Comma(got.Category("scratch")), 100*part)
			if !strings.Contains(table, row) {
				t.Errorf("%v: docs/memory.md has no row %s", opt.Precision, row)
			}
			t.Logf("%s, %v: %d bytes of scratch instead of %d, %.3f", c.name, opt.Precision, got.Category("scratch"), want.Category("scratch"), part)
		}
	}
}

// Training, evaluation and prediction round the same factors: the first loss of training is that of an evaluation before it, bit for bit. It is not that of
// float32, but near; with all layers left out it is, and so is all that is learned.
func TestEveryPassRoundsTheSameFactors(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 4, 16) }
	ds := samples(t, 8, 16, 4)
	each(t, func(t *testing.T, dev kernels.Device) {
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Seed: 3}
		plain := made(t, model, opt)
		want := fit(t, plain, ds)
		for _, opt.Precision = range sixteen {
			tr := made(t, model, opt)
			before, first := evaluate(t, tr, ds).Loss, fit(t, tr, ds).Loss
			if before != first {
				t.Errorf("%v: loss %v in evaluation, %v in training", opt.Precision, before, first)
			}
			// Five products of factors that are off by 2⁻⁹ at most, with signs that differ.
			if first == want.Loss || !about(first, want.Loss, 4e-3) {
				t.Errorf("%v: loss %v, %v in float32", opt.Precision, first, want.Loss)
			}
			if got, want := evaluate(t, tr, ds).Loss, evaluate(t, plain, ds).Loss; !about(got, want, 4e-3) {
				t.Errorf("%v: loss %v after a step, %v in float32", opt.Precision, got, want)
			}
			opt.KeepFloat32 = []string{"layer0", "layer1", "layer2", "layer3", "out"}
			if d := differing(learned(t, plain), learnedOf(t, model, opt, ds)); d != nil {
				t.Errorf("%v, no layer in 16 bits: %q differ", opt.Precision, d)
			}
			opt.KeepFloat32 = nil
		}
	})
}

// learnedOf trains an epoch and returns what is learned.
func learnedOf(t *testing.T, model trainer.ModelFunc, opt trainer.Options, ds dataloader.Dataset) map[string]string {
	t.Helper()
	tr := made(t, model, opt)
	fit(t, tr, ds)
	return learned(t, tr)
}

// Every kind of layer and net trains in exactly its plan, ragged tails, windows and recomputation included, is refused one byte below, and learns
// the same bits recomputed or not.
func TestNetsTrainIn16BitsInsideTheirPlans(t *testing.T) {
	models := map[string]trainer.ModelFunc{"every layer": everyLayer}
	for _, n := range nets.Small() {
		if !testing.Short() {
			models[n.Name] = n.Model
		}
	}
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, model := range models {
			data := samplesFor(t, name, 8*2+3)
			for i, precision := range sixteen {
				if name != "every layer" && (i == 0) != dev.Unified() { // a net has one precision on each device
					continue
				}
				opt := trainer.Options{Device: dev, Batch: 8, Fields: data.Fields(), Optimizer: optim.Adam{Rate: 0.01}, Seed: 5,
					Precision: precision, Accumulate: 1 + i, Guard: []trainer.Guard{trainer.GuardStep, trainer.GuardEach}[i]}
				want := learnedOf(t, model, opt, data)
				opt = all(t, model, opt)
				plan, err := trainer.Plan(t.Context(), model, opt)
				if err != nil {
					t.Fatal(err)
				}
				opt.Memory = plan.Total
				if d := differing(want, learnedOf(t, model, opt, data)); d != nil {
					t.Errorf("%s, %v: %q differ where all is recomputed", name, precision, d)
				}
				if opt.Memory--; name != "every layer" && !dev.Unified() { // a refusal is an exploration
					continue
				}
				if _, err := trainer.New(t.Context(), model, opt); !errors.Is(err, arena.ErrCapacity) {
					t.Errorf("%s, %v: one byte below the plan: got %v", name, precision, err)
				}
			}
		}
	})
}

// An activation beyond float16 stops the step, and no parameter changes; bfloat16 has the range of float32.
func TestAnActivationBeyondFloat16StopsTheStep(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 3, 16) }
	x := make([]float32, 4*16)
	for i := range x {
		x[i] = 1e7
	}
	ds := columns(t, 4, dataloader.Column("x", x, 16), dataloader.Column("y", []uint8{0, 1, 2, 3}))
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, precision := range sixteen {
			tr := made(t, model, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1e-18}, Precision: precision})
			before := learned(t, tr)
			_, err := tr.Fit(t.Context(), ds)
			var e *trainer.NonFiniteError
			if beyond := errors.As(err, &e); beyond != (precision == arena.Float16) || !beyond && err != nil {
				t.Errorf("%v: got %v", precision, err)
			} else if beyond && (!e.Half || !strings.Contains(err.Error(), "KeepFloat32")) {
				t.Errorf("%v: got %v, want what to do", precision, err)
			} else if d := differing(before, learned(t, tr)); beyond && d != nil {
				t.Errorf("%v: %q changed", precision, d)
			}
		}
	})
}

// What a layer that stays in float32 reads is what it was: with one, the gradients of its weights are those of the forward pass's numbers, so that a
// batch that is gathered from resident data learns the same bits as one that is streamed.
func TestALayerInFloat32ReadsWhatWasMade(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 4, 16) }
	ds := samples(t, 16, 16, 4)
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, kept := range []string{"layer0", "layer1"} {
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Seed: 3,
				Precision: arena.BFloat16, KeepFloat32: []string{kept}}
			want := learnedOf(t, model, opt, ds)
			opt.Fields, opt.Resident = nil, []dataloader.Dataset{ds}
			if d := differing(want, learnedOf(t, model, opt, ds)); d != nil {
				t.Errorf("%s in float32: %q differ where data are resident", kept, d)
			}
		}
	})
}

func TestBadPrecisionsAreRefused(t *testing.T) {
	double := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type = tensor.Float64
		x := net.Input("x", batch, 4)
		return net.Classifier(x, net.Dense(x, "out", 3, nil))
	}
	if _, err := trainer.Plan(t.Context(), double, trainer.Options{Batch: 4, Precision: arena.BFloat16}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("a model of float64: got %v", err)
	}
	for name, opt := range map[string]trainer.Options{
		"type":          {Precision: arena.Int32},
		"layer":         {Precision: arena.BFloat16, KeepFloat32: []string{"hiden"}},
		"layer of none": {KeepFloat32: []string{"hidden"}},
	} {
		opt.Batch = 4
		if _, err := trainer.Plan(t.Context(), small, opt); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
