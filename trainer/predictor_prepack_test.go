package trainer_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// deepSize is the pixels of a side of deep's images: 9 tiles of 2x2 pixels, for which kernels/cpu
// prepacks weights with any instructions but Portable.
const deepSize = 6

// deep is a convolution of 32 channels: its weights can be prepacked.
func deep(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 32, deepSize, deepSize)
	h := net.Conv(x, "conv", layers.Conv2D{Out: 64, Kernel: layers.Square(3), Pad: layers.Square(1)}, layers.ReLU)
	h = net.MaxPool(h, "pool", layers.Pool{Kernel: layers.Square(3)})
	return net.Classifier(x, net.Dense(net.Flatten(h, "flat"), "out", 3, nil))
}

// prepackedBytes is what deep's weights need: 16 numbers for each kernel.
const prepackedBytes = 64 * 32 * 16 * 4

// prepacking is an emulated device that prefers prepacked weights for single images.
type prepacking struct{ *emu.Device }

func (prepacking) Prepack(op *kernels.Op, attrs any, in, _ []kernels.Spec) (kernels.Prepacked, bool) {
	a, ok := attrs.(kernels.ConvAttrs)
	p := kernels.Prepacked{Operand: 1, Pack: kernels.WinogradWeight, Op: kernels.WinogradConv,
		Attrs: kernels.WinogradConvAttrs{Pad: a.Pad, Bias: a.Bias, Act: a.Act}}
	return p, ok && op == kernels.Conv && in[0].Shape[0] == 1
}

// eachPrepacking runs a test on the CPU and on an emulated device, which both prepack.
func eachPrepacking(t *testing.T, test func(t *testing.T, dev kernels.Device)) {
	t.Run("cpu", func(t *testing.T) { test(t, targets[0].open(t, 0)) })
	t.Run("emu", func(t *testing.T) { test(t, prepacking{emutest.OpenChecked(t, emu.Options{})}) })
}

// deepWeights returns weights of deep that differ from seed to seed.
func deepWeights(p *trainer.Predictor, seed int) func(name string) []float32 {
	values := map[string][]float32{}
	for i, w := range p.Weights() {
		x := make([]float32, w.Spec.Shape.Elems())
		for k := range x {
			x[k] = float32((k*7+seed*13+i)%11-5) / 64
		}
		values[w.Name] = x
	}
	return func(name string) []float32 { return values[name] }
}

// After each change of the weights, in each way, all predictors that share them predict what a new one
// does that has never had others: the prepacked weights are never those of before.
func TestPrepackedWeightsAreThoseOfTheLastChange(t *testing.T) {
	eachPrepacking(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 4, 32*deepSize*deepSize, 3)
		x := fieldOf(t, ds, 0)[:32*deepSize*deepSize]
		tr := made(t, deep, trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Average: optim.Average{Decay: 0.5}})
		opt := trainer.PredictorOptions{Device: dev, Batch: 2, Views: 1}
		p := predictor(t, deep, opt)
		view, err := p.View()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { view.Close() })
		opt.Views = 0
		source := predictor(t, deep, opt)
		ctx := t.Context()
		if err := source.LoadWeights(ctx, deepWeights(source, 1)); err != nil {
			t.Fatal(err)
		}
		before := predict(t, p, 1, x)
		for _, c := range []struct {
			name   string
			change func(p *trainer.Predictor) error
		}{
			{"the trainer", func(p *trainer.Predictor) error { return p.Load(ctx, tr) }},
			{"the trainer, after an epoch", func(p *trainer.Predictor) error { return p.Load(ctx, tr) }},
			{"averages", func(p *trainer.Predictor) error { return p.LoadAveraged(ctx, tr.Averaged()) }},
			{"a predictor", func(p *trainer.Predictor) error { return p.LoadPredictor(ctx, source) }},
			{"a function", func(p *trainer.Predictor) error { return p.LoadWeights(ctx, deepWeights(p, 2)) }},
			{"written in place", func(p *trainer.Predictor) error {
				return p.WriteWeights(ctx, func(w trainer.Weights) error { return setAll(w, p, 3) })
			}},
		} {
			if c.name == "the trainer, after an epoch" {
				fit(t, tr, ds)
			}
			if err := c.change(view); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			got := predict(t, p, 1, x)
			if c.name != "the trainer" && slices.Equal(got, before) { // which starts with the same weights
				t.Errorf("%s: the predictions have not changed", c.name)
			}
			before = got
			fresh := predictor(t, deep, opt)
			if err := c.change(fresh); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for name, q := range map[string]*trainer.Predictor{"the view": view, "a new predictor": fresh} {
				if want := predict(t, q, 1, x); !slices.Equal(got, want) {
					t.Errorf("%s: %v, %s predicts %v", c.name, got, name, want)
				}
			}
			if err := fresh.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := p.LoadWeights(ctx, func(string) []float32 { return make([]float32, 1) }); !errors.Is(err, trainer.ErrData) {
			t.Errorf("weights of one number: got %v, want ErrData", err)
		}
		if got := predict(t, p, 1, x); !slices.Equal(got, before) {
			t.Errorf("after a refused load: %v, want %v", got, before)
		}
	})
}

// setAll sets all weights of p in place.
func setAll(w trainer.Weights, p *trainer.Predictor, seed int) error {
	values := deepWeights(p, seed)
	for _, x := range p.Weights() {
		data, err := binary.Append(nil, binary.NativeEndian, values(x.Name))
		if err != nil {
			return err
		}
		if err := w.WriteAt(x.Name, data, 0); err != nil {
			return err
		}
	}
	return nil
}

func TestPrepackedWeightsAreInThePlanAndChangeNoBit(t *testing.T) {
	dev := targets[0].open(t, 0)
	x := fieldOf(t, samples(t, 3, 32*deepSize*deepSize, 3), 0)
	opt := trainer.PredictorOptions{Device: dev, Batch: 3, Views: 1}
	p := predictor(t, deep, opt)
	region := func(p *trainer.Predictor) (bytes int64) {
		for _, r := range p.Plan().Regions {
			if r.Name == "prepacked weights" {
				bytes += r.Size
			}
		}
		return bytes
	}
	plain := opt
	plain.NoPrepack = true
	q := predictor(t, deep, plain)
	want := int64(prepackedBytes)
	if i, err := dev.(*cpu.Device).Instructions(); err != nil || i == cpu.Portable {
		want = 0 // it has no other form of weights
	}
	if got := region(p); got != want {
		t.Errorf("prepacked weights of %d bytes, want %d", got, want)
	}
	for _, prog := range p.Plan().Programs { // one and two rows read the same form
		if prog.Name == "prepack" && prog.Instructions != 1 {
			t.Errorf("%d instructions prepack one weight", prog.Instructions)
		}
	}
	if got := region(q); got != 0 {
		t.Errorf("with NoPrepack: prepacked weights of %d bytes", got)
	}
	for rows := 1; rows <= 3; rows++ {
		x := x[:rows*32*deepSize*deepSize]
		if got, want := predict(t, p, rows, x), predict(t, q, rows, x); !slices.Equal(got, want) {
			t.Errorf("%d rows: %v, with NoPrepack %v", rows, got, want)
		}
	}
	dst := make([]float32, 3)
	if n := testing.AllocsPerRun(20, func() { _ = p.Predict(context.Background(), dst, x[:32*deepSize*deepSize]) }); n != 0 {
		t.Errorf("%v heap allocations a call", n)
	}
	opt.Memory = p.Plan().Total
	if s := predictor(t, deep, opt).Stats(); s.Arena.Reserved != opt.Memory {
		t.Errorf("%d bytes, the plan has %d", s.Arena.Reserved, opt.Memory)
	}
	opt.Memory--
	if _, err := trainer.NewPredictor(t.Context(), deep, opt); !errors.As(err, new(*trainer.CapacityError)) {
		t.Errorf("one byte less: got %v, want a CapacityError", err)
	}
}

// If the program that prepacks weights fails, predictions fail, until a load succeeds.
func TestNothingIsPredictedWithWeightsThatWereNotPrepacked(t *testing.T) {
	for _, call := range []string{"launch", "run call"} {
		var broken atomic.Bool
		dev := prepacking{emutest.OpenChecked(t, emu.Options{Fault: func(c string, _ int) error {
			if broken.Load() && c == call {
				return errInjected
			}
			return nil
		}})}
		x := fieldOf(t, samples(t, 1, 32*deepSize*deepSize, 3), 0)
		p := predictor(t, deep, trainer.PredictorOptions{Device: dev, Batch: 1, Views: 1})
		view, err := p.View()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { view.Close() })
		broken.Store(true)
		if err := p.LoadWeights(t.Context(), deepWeights(p, 1)); !errors.Is(err, errInjected) {
			t.Errorf("%s: load: got %v, want the injected error", call, err)
		}
		broken.Store(false)
		dst := make([]float32, 3)
		for range 2 {
			for _, q := range []*trainer.Predictor{p, view} {
				if err := q.Predict(t.Context(), dst, x); !errors.Is(err, errInjected) {
					t.Errorf("%s: predict: got %v, want the injected error", call, err)
				}
			}
		}
		if err := view.LoadWeights(t.Context(), deepWeights(p, 2)); err != nil {
			t.Errorf("%s: load again: %v", call, err)
		}
		got := predict(t, p, 1, x)
		fresh := predictor(t, deep, trainer.PredictorOptions{Device: dev, Batch: 1})
		if err := fresh.LoadWeights(t.Context(), deepWeights(p, 2)); err != nil {
			t.Fatal(err)
		}
		if want := predict(t, fresh, 1, x); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", call, got, want)
		}
	}
}
