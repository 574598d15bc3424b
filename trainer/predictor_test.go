package trainer_test

import (
	"context"
	"errors"
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

// predictor returns a predictor that is closed at the end of the test.
func predictor(t testing.TB, model trainer.ModelFunc, opt trainer.PredictorOptions) *trainer.Predictor {
	t.Helper()
	p, err := trainer.NewPredictor(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// predict returns the outputs for x.
func predict(t testing.TB, p *trainer.Predictor, rows int, inputs ...any) []float32 {
	t.Helper()
	dst := make([]float32, rows*p.Outputs()[0].Spec.Shape.Elems())
	if err := p.Predict(t.Context(), dst, inputs...); err != nil {
		t.Fatal(err)
	}
	return dst
}

// fieldOf returns a field of all samples of a dataset of float32.
func fieldOf(t testing.TB, ds dataloader.Dataset, field int) []float32 {
	t.Helper()
	var all []float32
	for i := range ds.Len() {
		var row [][]byte
		for _, f := range ds.Fields() {
			row = append(row, make([]byte, f.Bytes()))
		}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, row); err != nil {
			t.Fatal(err)
		}
		for _, v := range decoded(row[field]) {
			all = append(all, float32(v))
		}
	}
	return all
}

// equalTo fails unless got are the numbers of want.
func equalTo(t testing.TB, what string, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if float64(got[i]) != want[i] {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// image is a small convolutional net with batch normalization, dropout and images of bytes.
func image(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1, 8, 8)
	h := net.Conv(x, "conv", layers.Conv2D{Out: 4, Kernel: layers.Square(3), Pad: layers.Square(1)}, nil)
	h = net.MaxPool(net.BatchNorm(h, "norm", layers.ReLU), "pool", layers.Pool{Kernel: layers.Square(2)})
	h = net.Dense(net.Flatten(h, "flat"), "hidden", 16, layers.ReLU)
	h = net.Dropout(h, "dropout", 0.5)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

func TestAPredictorComputesWhatTheTrainerDoes(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 48, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields()})
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 16})
		x := fieldOf(t, ds, 0)
		for range 2 {
			fit(t, tr, ds)
			if err := p.Load(t.Context(), tr); err != nil {
				t.Fatal(err)
			}
			want := outputs(t, tr, ds)
			for b := range 3 { // full batches, bit for bit
				equalTo(t, "full batch", predict(t, p, 16, x[b*64:(b+1)*64]), want[b*48:(b+1)*48])
			}
			for n := 1; n < 16; n++ {
				got := predict(t, p, n, x[:4*n])
				for i := range got {
					if !about(float64(got[i]), want[i], 1e-6) {
						t.Fatalf("%d rows: number %d is %v, want %v", n, i, got[i], want[i])
					}
				}
			}
		}
	})
}

func TestAPredictorStartsWithTheInitialValues(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Seed: 5, Fields: ds.Fields()})
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 8, Seed: 5})
		equalTo(t, "initial", predict(t, p, 8, fieldOf(t, ds, 0)), outputs(t, tr, ds))
	})
}

func TestAPredictorsPlanHasNothingOfTraining(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 8, Views: 1})
		var names []string
		for _, r := range p.Plan().Regions {
			if r.Size > 0 {
				names = append(names, r.Name)
			}
			for _, part := range r.Parts {
				if slices.Contains([]string{"y", "loss", "correct"}, part.Name) {
					t.Errorf("region %s has %q", r.Name, part.Name)
				}
			}
		}
		want := "parameters slot 0 results 0 scratch 0 slot 1 results 1 scratch 1"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("regions %q, want %q", got, want)
		}
		if in := p.Inputs(); len(in) != 1 || in[0].Name != "x" || in[0].Spec.String() != "float32 (4)" {
			t.Errorf("inputs %v", in)
		}
		var batches []int
		for _, prog := range p.Plan().Programs {
			batches = append(batches, prog.Batch)
		}
		if !slices.Equal(batches, []int{8, 4, 2, 1}) {
			t.Errorf("programs of %v rows", batches)
		}
	})
}

func TestAModelWithoutLossPredicts(t *testing.T) {
	bare := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		m, err := small(g, batch)
		return trainer.Model{Inputs: m.Inputs[:1], Output: m.Output, Params: m.Params}, err
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		p := predictor(t, bare, trainer.PredictorOptions{Device: dev, Batch: 4})
		q := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4})
		x := fieldOf(t, samples(t, 4, 4, 3), 0)
		if got, want := predict(t, p, 4, x), predict(t, q, 4, x); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAPredictorFitsInItsPlanAndNotInOneByteLess(t *testing.T) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) {
			opt := trainer.PredictorOptions{Batch: 64, Views: 1}
			opt.Device = d.open(t, 0)
			for _, model := range []trainer.ModelFunc{small, image} {
				opt.Memory = 0
				plan, err := trainer.PlanPredictor(t.Context(), model, opt)
				if err != nil {
					t.Fatal(err)
				}
				opt.Memory = plan.Total
				p := predictor(t, model, opt)
				if s := p.Stats(); s.Arena.Reserved != plan.Total || s.Pinned != plan.Pinned {
					t.Errorf("%d bytes and %d pinned, the plan has %d and %d", s.Arena.Reserved, s.Pinned, plan.Total, plan.Pinned)
				}
				opt.Memory--
				var full *trainer.CapacityError
				if _, err := trainer.NewPredictor(t.Context(), model, opt); !errors.As(err, &full) {
					t.Fatalf("one byte less: got %v, want a CapacityError", err)
				}
				if full.Need != plan.Total || full.Have != plan.Total-1 || !errors.Is(full, arena.ErrCapacity) {
					t.Errorf("need %d, have %d of %d", full.Need, full.Have, plan.Total)
				}
				if full.Fits < 1 || full.Fits >= 64 {
					t.Fatalf("batch %d would fit", full.Fits)
				}
				opt.Batch = full.Fits
				predictor(t, model, opt)
				opt.Batch = full.Fits + 1
				if _, err := trainer.NewPredictor(t.Context(), model, opt); opt.Batch < 64 && !errors.As(err, &full) {
					t.Errorf("batch %d: got %v, want a CapacityError", opt.Batch, err)
				}
				opt.Batch = 64
			}
		})
	}
}

func TestImagesOfBytesArePredicted(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		r := random(t)
		pixels, labels := make([]uint8, 24*64), make([]uint8, 24)
		for i := range pixels {
			pixels[i] = uint8(r.Uint32())
		}
		for i := range labels {
			labels[i] = uint8(r.IntN(3))
		}
		col := dataloader.Column("x", pixels, 1, 8, 8).Scaled(1./255, 0)
		ds := columns(t, 24, col, dataloader.Column("y", labels))
		tr := made(t, image, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		p := predictor(t, image, trainer.PredictorOptions{Device: dev, Batch: 8, Fields: ds.Fields()})
		fit(t, tr, ds)
		if err := p.Load(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		want := outputs(t, tr, ds)
		for b := range 3 {
			equalTo(t, "images", predict(t, p, 8, pixels[b*512:(b+1)*512]), want[b*24:(b+1)*24])
		}
	})
}

func TestAPredictorRefusesWrongArguments(t *testing.T) {
	dev := openCPU(t)
	p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4})
	one := make([]float32, 4)
	for _, c := range []struct {
		name string
		dst  []float32
		in   []any
		want string
	}{
		{"no input", make([]float32, 3), nil, "0 inputs, the model has 1"},
		{"two inputs", make([]float32, 3), []any{one, one}, "2 inputs"},
		{"another type", make([]float32, 3), []any{make([]float64, 4)}, "slice of float64"},
		{"no slice", make([]float32, 3), []any{7}, "another type"},
		{"half a row", make([]float32, 3), []any{one[:2]}, "2 elements, a row has 4"},
		{"no row", make([]float32, 3), []any{one[:0]}, "0 elements"},
		{"too many rows", make([]float32, 15), []any{make([]float32, 20)}, "5 rows, the batch is 4"},
		{"short dst", make([]float32, 2), []any{one}, "has 2 elements, 1 rows of 3 need 3"},
		{"long dst", make([]float32, 4), []any{one}, "has 4 elements"},
		{"no dst", nil, []any{one}, "no slice for an output"},
	} {
		var bad *trainer.InputError
		err := p.Predict(t.Context(), c.dst, c.in...)
		if !errors.As(err, &bad) || !errors.Is(err, trainer.ErrData) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an InputError with %q", c.name, err, c.want)
		}
	}
	predict(t, p, 1, one) // nothing is left of them
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Predict(done, make([]float32, 3), one); !errors.Is(err, context.Canceled) {
		t.Errorf("done context: %v", err)
	}
	var none context.Context
	if err := p.Predict(none, make([]float32, 3), one); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("nil context: %v", err)
	}
}

func TestWrongOptionsOfAPredictorAreReportedTogether(t *testing.T) {
	_, err := trainer.NewPredictor(t.Context(), small, trainer.PredictorOptions{
		Batch: -1, Sizes: []int{0}, MaxDelay: -1, Views: -1, Memory: -1, Precision: arena.Int32, KeepFloat32: []string{"a"},
	})
	for _, want := range []string{"no device", "batch -1", "size 0", "delay -1ns", "views -1", "memory -1", "precision", "keep float32"} {
		if err == nil || !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrOption with %q", err, want)
		}
	}
	half := trainer.PredictorOptions{Device: openCPU(t), Batch: 1, Precision: arena.BFloat16, KeepFloat32: []string{"hidden", "hiden"}}
	if _, err := trainer.NewPredictor(t.Context(), small, half); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), `"hiden"`) ||
		strings.Contains(err.Error(), `"hidden"`) {
		t.Errorf("a layer that does not exist: got %v, want ErrOption with its name alone", err)
	}
	if _, err := trainer.NewPredictor(t.Context(), nil, trainer.PredictorOptions{Device: openCPU(t), Batch: 1}); !errors.Is(err, trainer.ErrModel) {
		t.Errorf("no model: %v", err)
	}
}

// Rows of other callers fill a batch: a model that mixes them cannot be predicted that way.
func TestAModelThatMixesRowsIsRefused(t *testing.T) {
	mixing := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		h := net.Dense(x, "a", 4, nil)
		mean := gorgonia.Must(gorgonia.Mean(h, 0))
		h = gorgonia.Must(gorgonia.BroadcastSub(h, mean, nil, []byte{0}))
		return trainer.Model{Inputs: net.Inputs(), Output: h, Params: net.Params()}, net.Err()
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		opt := trainer.PredictorOptions{Device: dev, Batch: 4}
		_, err := trainer.NewPredictor(t.Context(), mixing, opt)
		if !errors.Is(err, trainer.ErrModel) || !strings.Contains(err.Error(), "depends on other rows") {
			t.Errorf("got %v, want ErrModel", err)
		}
		opt.Batch = 1
		predictor(t, mixing, opt)
	})
}

func TestAPredictorOf16BitsComputesWhatTheTrainerDoes(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 16, 4, 3)
		x := fieldOf(t, ds, 0)
		plain := predict(t, predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 16}), 16, x)
		for _, half := range []arena.DType{arena.BFloat16, arena.Float16} {
			tr := made(t, small, trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields(), Precision: half})
			p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 16, Precision: half})
			got := predict(t, p, 16, x)
			equalTo(t, half.String(), got, outputs(t, tr, ds))
			if slices.Equal(got, plain) {
				t.Errorf("%v rounds nothing", half)
			}
		}
	})
}
