package trainer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// changed is small with something done to what it returns.
func changed(f func(g *gorgonia.ExprGraph, m *trainer.Model, batch int)) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		m, err := small(g, batch)
		if err == nil {
			f(g, &m, batch)
		}
		return m, err
	}
}

func loose(g *gorgonia.ExprGraph, name string, n int) *gorgonia.Node {
	return gorgonia.NewVector(g, tensor.Float32, gorgonia.WithShape(n), gorgonia.WithName(name))
}

func TestBadModelsAreErrorsThatNameTheCulprit(t *testing.T) {
	own := errors.New("no such layer")
	for _, c := range []struct {
		name  string
		model trainer.ModelFunc
		class error
		text  string
	}{
		{"nil function", nil, trainer.ErrModel, "model function"},
		{"panic", func(*gorgonia.ExprGraph, int) (trainer.Model, error) { panic("oops") }, trainer.ErrModel, "oops"},
		{"error", func(*gorgonia.ExprGraph, int) (trainer.Model, error) { return trainer.Model{}, own }, own, "batch 4"},
		{"nil node of a bad layer", func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			h := net.Slice(x, "half", layers.Range{Axis: 1, Start: 2, End: 5})
			return net.Classifier(x, gorgonia.Must(gorgonia.Add(h, x)))
		}, layers.ErrShape, `slice "half"`},
		{"error after that of a bad layer", func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			layers.New(g).Input("x", batch, 0)
			return trainer.Model{}, own
		}, layers.ErrShape, `input "x"`},
		{"error of a layer that is ignored", changed(func(g *gorgonia.ExprGraph, _ *trainer.Model, batch int) {
			layers.New(g).Input("more", batch, 0)
		}), layers.ErrShape, `input "more"`},
		{"nothing", func(*gorgonia.ExprGraph, int) (trainer.Model, error) { return trainer.Model{}, nil }, trainer.ErrModel, "loss"},
		{"no loss", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) { m.Loss = nil }), trainer.ErrModel, "loss"},
		{"loss that is a vector", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) { m.Loss = m.Correct }), kernels.ErrShape, "correct"},
		{"loss of another graph", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) {
			m.Loss = loose(gorgonia.NewGraph(), "stray", 1)
		}), trainer.ErrModel, "stray"},
		{"parameter of another graph", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) {
			m.Params = append(m.Params, layers.Param{Node: loose(gorgonia.NewGraph(), "stray", 1)})
		}), trainer.ErrModel, "stray"},
		{"nil parameter", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) {
			m.Params = append(m.Params, layers.Param{})
		}), trainer.ErrModel, "Params"},
		{"nil input", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) { m.Inputs = append(m.Inputs, nil) }), trainer.ErrModel, "Inputs"},
		{"parameter that the loss does not reach", changed(func(g *gorgonia.ExprGraph, m *trainer.Model, _ int) {
			m.Params = append(m.Params, layers.Param{Node: loose(g, "idle/w", 3), Init: layers.Zeros{}})
		}), trainer.ErrModel, "idle/w"},
		{"parameter without a value", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) { m.Params[2].Init = nil }), trainer.ErrModel, "out/w"},
		{"input that is not listed", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) { m.Inputs = m.Inputs[:1] }), trainer.ErrModel, "y"},
		{"correct answers of the wrong number", changed(func(_ *gorgonia.ExprGraph, m *trainer.Model, _ int) { m.Correct = m.Loss }), trainer.ErrModel, "loss"},
		{"input with a name of ours", func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("controls", batch, 4)
			return net.Classifier(x, net.Dense(x, "out", 3, nil))
		}, trainer.ErrModel, "controls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				within(t, 10*time.Second, c.name, func() {
					tr, err := trainer.New(t.Context(), c.model, trainer.Options{Device: dev, Batch: 4})
					if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.text) {
						t.Errorf("got %v, want %v that names %q", err, c.class, c.text)
					}
					if tr != nil {
						t.Error("New returned a trainer with the error")
					}
					if _, err := trainer.Plan(t.Context(), c.model, trainer.Options{Batch: 4}); !errors.Is(err, c.class) {
						t.Errorf("Plan: got %v, want %v", err, c.class)
					}
				})
			})
		})
	}
}

func TestBadOptionsAreAllNamedAtOnce(t *testing.T) {
	ds := samples(t, 4, 4, 3)
	_, err := trainer.New(t.Context(), small, trainer.Options{Batch: -1, Memory: -5, Workers: -2, Guard: 7, Tail: 9, Optimizer: optim.Adam{Rate: -1},
		Clip: optim.Clip{Norm: -1}, Schedule: optim.Step{}, Resident: []dataloader.Dataset{incomparable{ds, []int{1}}, nil}})
	if !errors.Is(err, trainer.ErrOption) {
		t.Fatalf("got %v, want ErrOption", err)
	}
	for _, want := range []string{"device", "batch -1", "memory -5", "workers -2", "guard 7", "tail 9", "Rate", "Norm", "Every", "pointer", "nil dataset"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	dev := openCPU(t)
	for what, opt := range map[string]trainer.Options{
		"no/such":      {Frozen: []string{"no/such"}},
		"nowhere":      {Keep: []string{"nowhere"}},
		"memory -":     {Memory: -1},
		"workers 4097": {Workers: dataloader.MaxWorkers + 1}, // else the first pass refuses it
	} {
		opt.Device, opt.Batch = dev, 4
		if _, err := trainer.New(t.Context(), small, opt); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want ErrOption that names %q", err, what)
		}
	}
	twins := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		a, b := net.Dense(x, "a", 3, nil), net.Dense(x, "b", 3, nil)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		gorgonia.WithName("twin")(a)
		gorgonia.WithName("twin")(b)
		sum, err := gorgonia.Add(a, b)
		if err != nil {
			return trainer.Model{}, err
		}
		return net.Classifier(x, sum)
	}
	if _, err := trainer.New(t.Context(), twins, trainer.Options{Device: dev, Batch: 4, Keep: []string{"twin"}}); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), `keep "twin"`) {
		t.Errorf("got %v, want ErrOption that names the name of two nodes", err)
	}
	for _, opt := range []trainer.Options{{Memory: -1}, {}} {
		if _, err := trainer.MaxBatch(t.Context(), small, opt, 4); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("MaxBatch: got %v, want ErrOption", err)
		}
	}
	if _, err := trainer.MaxBatch(t.Context(), small, trainer.Options{Memory: 1 << 20}, 0); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("MaxBatch up to 0: got %v, want ErrOption", err)
	}
}

// A model that a short batch changes is refused before the first step; where short batches are dropped, when one is evaluated.
func TestModelsThatChangeWithTheBatchSizeAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, culprit string
		model         func(g *gorgonia.ExprGraph, net *layers.Net, x *gorgonia.Node, tail bool) *gorgonia.Node
	}{
		{"one more parameter", "extra/w", func(_ *gorgonia.ExprGraph, net *layers.Net, x *gorgonia.Node, tail bool) *gorgonia.Node {
			if tail {
				x = net.Dense(x, "extra", 4, nil)
			}
			return net.Dense(x, "out", 3, nil)
		}},
		{"one less", "extra/w", func(_ *gorgonia.ExprGraph, net *layers.Net, x *gorgonia.Node, tail bool) *gorgonia.Node {
			if !tail {
				x = net.Dense(x, "extra", 4, nil)
			}
			return net.Dense(x, "out", 3, nil)
		}},
		{"another shape", "body/w", func(_ *gorgonia.ExprGraph, net *layers.Net, x *gorgonia.Node, tail bool) *gorgonia.Node {
			width := 5
			if tail {
				width = 6
			}
			return net.Dense(net.Dense(x, "body", width, nil), "out", 3, nil)
		}},
		{"another name", "tail/w", func(_ *gorgonia.ExprGraph, net *layers.Net, x *gorgonia.Node, tail bool) *gorgonia.Node {
			name := "out"
			if tail {
				name = "tail"
			}
			return net.Dense(x, name, 3, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				ds, whole := samples(t, 6, 4, 3), samples(t, 8, 4, 3)
				model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
					net := layers.New(g)
					x := net.Input("x", batch, 4)
					return net.Classifier(x, c.model(g, net, x, batch != 4))
				}
				opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()}
				less := c.name == "one less" // a program that needs less is refused when it trains
				if !less {
					tr, err := trainer.New(t.Context(), model, opt)
					if !errors.Is(err, trainer.ErrModel) || !strings.Contains(err.Error(), c.culprit) {
						t.Errorf("got %v, want ErrModel that names %q", errors.Join(err, tr.Close()), c.culprit)
					}
					opt.Tail = dataloader.DropTail
				}
				tr := made(t, model, opt)
				before, pass := outputs(t, tr, whole), tr.Evaluate
				if less {
					pass = tr.Fit
				}
				for range 2 {
					if _, err := pass(context.Background(), ds); !errors.Is(err, trainer.ErrModel) || !strings.Contains(err.Error(), c.culprit) {
						t.Errorf("got %v, want ErrModel that names %q", err, c.culprit)
					}
				}
				same(t, "outputs", outputs(t, tr, whole), before)
				fit(t, tr, whole)
			})
		})
	}
}

func TestOtherDataThanPlannedAreRefused(t *testing.T) {
	x, y := make([]float32, 32), make([]uint8, 8)
	each(t, func(t *testing.T, dev kernels.Device) {
		good := columns(t, 8, dataloader.Column("x", x, 4), dataloader.Column("y", y))
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields(), Keep: weights})
		for _, c := range []struct {
			name, text string
			class      error
			ds         dataloader.Dataset
		}{
			{"nil", "nil", dataloader.ErrOption, nil},
			{"nil pointer", "nil *dataloader.Slices", dataloader.ErrOption, (*dataloader.Slices)(nil)},
			{"empty", "no samples", dataloader.ErrEmpty, empty{good}},
			{"missing field", `"y"`, trainer.ErrData, columns(t, 8, dataloader.Column("x", x, 4))},
			{"field too many", `"z"`, trainer.ErrData, columns(t, 8, dataloader.Column("x", x, 4), dataloader.Column("y", y), dataloader.Column("z", y))},
			{"another type", `"x"`, trainer.ErrData, columns(t, 8, dataloader.Column("x", make([]float64, 32), 4), dataloader.Column("y", y))},
			{"another shape", `"x"`, trainer.ErrData, columns(t, 8, dataloader.Column("x", make([]float32, 40), 5), dataloader.Column("y", y))},
			{"another scale", `"x"`, trainer.ErrData, columns(t, 8, dataloader.Column("x", x, 4).Scaled(2, 0), dataloader.Column("y", y))},
		} {
			for what, pass := range map[string]func() error{
				"fit":      func() error { _, err := tr.Fit(context.Background(), c.ds); return err },
				"evaluate": func() error { _, err := tr.Evaluate(context.Background(), c.ds); return err },
				"predict":  func() error { return firstError(tr, c.ds) },
			} {
				if what == "predict" && c.name == "missing field" { // labels
					continue
				}
				if err := pass(); !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s, %s: got %v, want %v that names %s", c.name, what, err, c.class, c.text)
				}
			}
		}
		if s := tr.Stats(); s.Updates != 0 || s.Epochs != 0 {
			t.Errorf("%d updates in %d epochs, want none", s.Updates, s.Epochs)
		}
		fit(t, tr, good)
	})
}

type empty struct{ dataloader.Dataset }

func (empty) Len() int { return 0 }

func TestFieldsThatDoNotFitTheModelAreRefused(t *testing.T) {
	x, y := make([]float32, 32), make([]uint8, 8)
	for _, c := range []struct {
		name, text string
		class      error
		ds         dataloader.Dataset
	}{
		{"missing", `"x"`, trainer.ErrData, columns(t, 8, dataloader.Column("y", y))},
		{"another shape", `"x"`, kernels.ErrShape, columns(t, 8, dataloader.Column("x", make([]float32, 40), 5), dataloader.Column("y", y))},
		{"labels that are not whole", `"y"`, kernels.ErrShape, columns(t, 8, dataloader.Column("x", x, 4), dataloader.Column("y", make([]float32, 8)))},
	} {
		for _, opt := range []trainer.Options{{Fields: c.ds.Fields()}, {Resident: []dataloader.Dataset{c.ds}}} {
			opt.Batch = 4
			_, err := trainer.Plan(t.Context(), small, opt)
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: got %v, want %v that names %s", c.name, err, c.class, c.text)
			}
		}
	}
}

// Data without targets are enough to predict; training needs them, as the model stores them.
// A prediction writes Outputs, too, so what they read is no target.
func TestInputsOfFurtherOutputsAreNoTargets(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, extra := net.Input("x", batch, 4), net.Input("extra", batch, 2)
		m, err := net.Classifier(x, net.Dense(x, "out", 3, nil))
		m.Inputs, m.Outputs = net.Inputs(), gorgonia.Nodes{net.Affine(extra, "twice", 2, 0)}
		return m, errors.Join(err, net.Err())
	}
	x := dataloader.Field{Name: "x", Type: arena.Float32, Shape: []int{4}}
	extra := dataloader.Field{Name: "extra", Type: arena.Float32, Shape: []int{2}}
	if _, err := trainer.Plan(t.Context(), model, trainer.Options{Batch: 4, Fields: []dataloader.Field{x, extra}}); err != nil {
		t.Errorf("without the labels: %v", err)
	}
	_, err := trainer.Plan(t.Context(), model, trainer.Options{Batch: 4, Fields: []dataloader.Field{x}})
	if err == nil || !strings.Contains(err.Error(), `"extra"`) {
		t.Errorf("without what an output reads: got %v, want an error about it", err)
	}
}

func TestFieldsWithoutTargetsAreEnoughToPredict(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 10, 4, 3)
		inputs, err := dataloader.Select(ds, "x")
		if err != nil {
			t.Fatal(err)
		}
		want := outputs(t, made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()}), ds)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: inputs.Fields()})
		same(t, "predictions", outputs(t, tr, inputs), want)
		for name, c := range map[string]struct {
			ds   dataloader.Dataset
			want string
		}{
			"no labels":       {inputs, `the data have no field "y"`},
			"labels of bytes": {ds, `field "y" holds uint8`},
		} {
			if _, err := tr.Fit(context.Background(), c.ds); !errors.Is(err, trainer.ErrData) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		}
		y := make([]int64, 10)
		fit(t, tr, columns(t, 10, dataloader.Column("x", make([]float32, 40), 4), dataloader.Column("y", y)))
		_, err = trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Resident: []dataloader.Dataset{inputs}})
		if !errors.Is(err, trainer.ErrData) || !strings.Contains(err.Error(), `"y"`) {
			t.Errorf("resident: got %v, want an error about y", err)
		}
	})
}

// As many elements in another order are another picture; a flat shape, and dimensions of 1, leave the order open.
func TestPicturesInAnotherOrderAreRefused(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, 4, 4)
		return net.Classifier(x, net.Dense(net.Flatten(x, "flat"), "out", 3, nil))
	}
	x, y := make([]uint8, 8*48), make([]uint8, 8)
	data := func(shape ...int) dataloader.Dataset {
		return columns(t, 8, dataloader.Column("x", x, shape...), dataloader.Column("y", y))
	}
	tr := made(t, model, trainer.Options{Device: openCPU(t), Batch: 4, Fields: data(3, 4, 4).(*dataloader.Slices).Fields()})
	for _, c := range []struct {
		shape []int
		bad   bool
	}{{[]int{3, 4, 4}, false}, {[]int{48}, false}, {[]int{1, 3, 4, 4}, false}, {[]int{4, 4, 3}, true}, {[]int{4, 12}, true}} {
		ds := data(c.shape...)
		_, planned := trainer.Plan(t.Context(), model, trainer.Options{Batch: 4, Fields: ds.(*dataloader.Slices).Fields()})
		_, resident := trainer.Plan(t.Context(), model, trainer.Options{Batch: 4, Resident: []dataloader.Dataset{ds}})
		_, trained := tr.Fit(t.Context(), ds)
		for what, err := range map[string]error{"planned": planned, "resident": resident, "trained": trained} {
			if errors.Is(err, trainer.ErrData) != c.bad || !c.bad && err != nil || c.bad && !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("%v, %s: got %v", c.shape, what, err)
			}
		}
	}
}

// TestConstantsThatDependOnTheBatchSizeAreThoseOfEachBatch divides by the number of rows by hand.
func TestConstantsThatDependOnTheBatchSizeAreThoseOfEachBatch(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type = gorgonia.Float64
		x := net.Input("x", batch, 1)
		w := net.Param("layer/w", layers.Ones{}, 1, 1)
		xw := gorgonia.Must(gorgonia.Mul(x, w))
		loss := gorgonia.Must(gorgonia.HadamardDiv(gorgonia.Must(gorgonia.Sum(xw)), gorgonia.NewConstant(float64(batch))))
		return trainer.Model{Inputs: net.Inputs(), Output: xw, Loss: loss, Params: net.Params()}, net.Err()
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1, 2, 3, 4, 5)
		tr := made(t, model, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		if got := evaluate(t, tr, ds).Loss; !about(got, 3, 1e-15) {
			t.Errorf("loss %v, want 3", got)
		}
	})
}
