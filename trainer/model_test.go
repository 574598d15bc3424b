package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// smallBut returns small, with what a function makes of its model.
func smallBut(change func(g *gorgonia.ExprGraph, m *trainer.Model)) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		m, err := small(g, batch)
		change(g, &m)
		return m, err
	}
}

func TestAModelThatMeansSomethingElseIsRefused(t *testing.T) {
	calls := 0
	for _, c := range []struct {
		name  string
		model trainer.ModelFunc
		want  string
	}{
		{"an input is a parameter too", smallBut(func(_ *gorgonia.ExprGraph, m *trainer.Model) {
			m.Params = append(m.Params, layers.Param{Node: m.Inputs[0], Init: layers.Zeros{}})
		}), `"x" is listed in Params and again in Inputs`},
		{"a result is a parameter", smallBut(func(_ *gorgonia.ExprGraph, m *trainer.Model) {
			m.Params = append(m.Params, layers.Param{Node: m.Output, Init: layers.Zeros{}})
		}), `"out/out" in Params is computed`},
		{"a result is an input", smallBut(func(_ *gorgonia.ExprGraph, m *trainer.Model) {
			m.Inputs = append(m.Inputs, m.Output)
		}), `"out/out" in Inputs is computed`},
		{"a parameter twice", smallBut(func(_ *gorgonia.ExprGraph, m *trainer.Model) {
			m.Params = append(m.Params, m.Params[0])
		}), `"hidden/w" is listed in Params and again in Params`},
		{"an input twice", smallBut(func(_ *gorgonia.ExprGraph, m *trainer.Model) {
			m.Inputs = append(m.Inputs, m.Inputs[0])
		}), `"x" is listed in Inputs and again in Inputs`},
		{"two inputs of one name", smallBut(func(g *gorgonia.ExprGraph, m *trainer.Model) {
			m.Inputs = append(m.Inputs, gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(m.Inputs[0].Shape()[0], 2), gorgonia.WithName("x")))
		}), `two nodes are called "x"`},
		{"an integer parameter", smallBut(func(g *gorgonia.ExprGraph, m *trainer.Model) {
			m.Params = append(m.Params, layers.Param{Node: gorgonia.NewVector(g, tensor.Int, gorgonia.WithShape(3), gorgonia.WithName("k")), Init: layers.Zeros{}})
		}), `parameter "k" is of type int`},
		{"another parameter each time", func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			calls++
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			return net.Classifier(x, net.Dense(x, fmt.Sprint("out", calls), 3, nil))
		}, `parameter "out2/w" is in this program and not in the one that trains`},
	} {
		t.Run(c.name, func(t *testing.T) {
			device := cputest.Open(t, cpu.Options{})
			defer device.Close()
			_, err := trainer.New(t.Context(), c.model, trainer.Options{Device: device, Batch: 4})
			if !errors.Is(err, trainer.ErrModel) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if bytes, blocks := device.Allocated(); bytes != 0 || blocks != 0 {
				t.Errorf("%d bytes in %d blocks are left", bytes, blocks)
			}
		})
	}
}

// ending is an initial distribution that does not come back as it should.
type ending struct{ how func() }

func (e ending) Fill(*rand.Rand, []int, int, []float64) { e.how() }

func TestAnInitialDistributionThatFailsLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct {
		name string
		how  func()
	}{
		{"panic", func() { panic("no luck") }},
		{"end of the goroutine", runtime.Goexit},
	} {
		t.Run(c.name, func(t *testing.T) {
			device := cputest.Open(t, cpu.Options{})
			defer device.Close()
			model := smallBut(func(_ *gorgonia.ExprGraph, m *trainer.Model) { m.Params[0].Init = ending{c.how} })
			done := make(chan error, 1)
			go func() {
				err := errors.New("the goroutine ended")
				defer func() {
					if r := recover(); r != nil {
						err = fmt.Errorf("escaped: %v", r)
					}
					done <- err
				}()
				_, err = trainer.New(t.Context(), model, trainer.Options{Device: device, Batch: 4})
			}()
			if err := <-done; err == nil || strings.HasPrefix(err.Error(), "escaped") {
				t.Errorf("got %v", err)
			}
			if bytes, blocks := device.Allocated(); bytes != 0 || blocks != 0 {
				t.Errorf("%d bytes in %d blocks are left", bytes, blocks)
			}
		})
	}
}

func TestANilContextIsAnError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		device := dev
		t.Cleanup(func() { device.Close() })
		ds := samples(t, 8, 4, 3)
		tr := made(t, small, trainer.Options{Device: device, Batch: 4, Fields: ds.Fields()})
		var none context.Context
		if _, err := tr.Fit(none, ds); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("fit: %v", err)
		}
		if _, err := tr.Evaluate(none, ds); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("evaluate: %v", err)
		}
		for _, err := range tr.Predict(none, ds) {
			if !errors.Is(err, trainer.ErrOption) {
				t.Errorf("predict: %v", err)
			}
		}
		var zero trainer.Trainer
		if _, err := zero.Fit(context.Background(), ds); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("a trainer that New did not make: %v", err)
		}
		if err := zero.Close(); err != nil {
			t.Errorf("closing it: %v", err)
		}
		if s := zero.Stats(); s.Arena.Reserved != 0 || s.Programs != 0 {
			t.Errorf("its counters: %+v", s)
		}
	})
}

func TestKeptMayBeAskedForDuringAPass(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		device := dev
		t.Cleanup(func() { device.Close() })
		ds := samples(t, 64, 4, 3)
		tr := made(t, small, trainer.Options{Device: device, Batch: 4, Fields: ds.Fields(), Keep: []string{"hidden/act"}})
		stop := askForKept(tr, "hidden/act")
		for range 20 {
			fit(t, tr, ds)
		}
		stop()
		h, spec, err := tr.Kept("hidden/act")
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, spec.Bytes())
		if err := h.Read(b); err != nil || len(spec.Shape) != 2 || spec.Shape[0] != 4 || spec.Shape[1] != 8 {
			t.Errorf("%v: %v", spec, err)
		}
	})
}

// longer is a dataset that has more samples each time it is asked.
type longer struct {
	*dataloader.Slices
	n int
}

func (g *longer) Len() int { g.n++; return g.n }

func TestADatasetThatChangesItsLengthAtEveryLookIsReadWholeOrRefused(t *testing.T) {
	device := cputest.Open(t, cpu.Options{})
	t.Cleanup(func() { device.Close() })
	ds := &longer{Slices: samples(t, 1000, 4, 3), n: 9}
	tr := made(t, small, trainer.Options{Device: device, Batch: 4, Fields: ds.Fields()})
	for range 20 {
		within(t, 10*time.Second, "a pass", func() {
			before := ds.n
			res, err := tr.Fit(context.Background(), ds)
			if err == nil && (res.Samples < before || res.Samples > ds.n) {
				t.Errorf("%d samples of %d to %d", res.Samples, before, ds.n)
			}
		})
	}
}

func TestTheLargestBatchHasAnUpperEnd(t *testing.T) {
	device := cputest.Open(t, cpu.Options{})
	defer device.Close()
	n, err := trainer.MaxBatch(t.Context(), small, trainer.Options{Device: device, Memory: 64 << 10}, math.MaxInt)
	if err != nil || n < 100 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestPredictSaysThatOtherDataCannotBeStreamed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		device := dev
		t.Cleanup(func() { device.Close() })
		ds, other := samples(t, 8, 4, 3), samples(t, 12, 4, 3)
		tr := made(t, small, trainer.Options{Device: device, Batch: 4, Resident: []dataloader.Dataset{ds}})
		for _, err := range tr.Predict(context.Background(), other) {
			if !errors.Is(err, trainer.ErrData) || !strings.Contains(err.Error(), "Options.Fields") {
				t.Errorf("got %v", err)
			}
		}
	})
}

// A layer with an error returns nil, and what the function does with that is no cause.
func TestTheFirstErrorOfALayerIsTheError(t *testing.T) {
	t.Parallel()
	// bad has 3 dimensions, and Dense needs 2.
	bad := func(net *layers.Net, batch int) *gorgonia.Node {
		return net.Dense(net.Input("x", batch, 2, 2), "bad", 4, nil)
	}
	own := errors.New("the function's own")
	for name, model := range map[string]trainer.ModelFunc{
		"Gorgonia panics": func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			h := bad(net, batch)
			return net.Classifier(h, gorgonia.Must(gorgonia.Add(h, h)))
		},
		"user code panics": func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			return trainer.Model{Loss: net.Param("w", layers.Zeros{}, bad(net, batch).Shape()[1])}, nil
		},
		"another error": func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			bad(layers.New(g), batch)
			return trainer.Model{}, own
		},
		"wrapped": func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			bad(net, batch)
			return trainer.Model{}, fmt.Errorf("my net: %w", net.Err())
		},
		"no error": func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			return trainer.Model{Inputs: net.Inputs(), Output: bad(net, batch)}, nil
		},
	} {
		_, err := trainer.Plan(t.Context(), model, trainer.Options{Batch: 4})
		if !errors.Is(err, layers.ErrShape) || !strings.Contains(err.Error(), `dense "bad": input (4, 2, 2) needs 2 dimensions`) {
			t.Errorf("%s: got %v, want the layer's error", name, err)
		}
		if errors.Is(err, own) || strings.Contains(err.Error(), "nil pointer") {
			t.Errorf("%s: got %v, want no consequence of the layer's error", name, err)
		}
	}
	// Nor is the error lost of a layer that failed in a net of its own.
	spare := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		layers.New(g).Dense(nil, "bad", 4, nil)
		return small(g, batch)
	}
	if _, err := trainer.Plan(t.Context(), spare, trainer.Options{Batch: 4}); !errors.Is(err, layers.ErrNode) {
		t.Errorf("a model without the layer that failed: %v", err)
	}
}

// A call that would wait for the model function that makes it returns.
func TestACallInsideAModelFunctionIsAnError(t *testing.T) {
	ds := samples(t, 9, 4, 3)
	opt := trainer.Options{Device: openCPU(t), Batch: 4, Fields: ds.Fields(), Memory: 1 << 20}
	var inside func() error // the call that the model function makes; nil: none
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		if inside != nil {
			if err := inside(); !errors.Is(err, trainer.ErrModel) || !strings.Contains(err.Error(), "inside a model function") {
				t.Errorf("got %v, want ErrModel", err)
			}
		}
		return small(g, batch)
	}
	tr := made(t, small, opt)
	// own calls its model function again for the tail of its first pass or prediction.
	own := made(t, model, opt)
	ctx := context.Background()
	predict := func(tr *trainer.Trainer) error { return firstError(tr, ds) }
	for name, call := range map[string]func() error{
		"Plan":     func() error { _, err := trainer.Plan(ctx, small, opt); return err },
		"New":      func() error { _, err := trainer.New(ctx, small, opt); return err },
		"MaxBatch": func() error { _, err := trainer.MaxBatch(ctx, small, opt, 8); return err },
		"Explore":  func() error { _, err := trainer.Explore(ctx, small, opt, trainer.ExploreOptions{}); return err },
		"Fit":      func() error { _, err := tr.Fit(ctx, ds); return err },
		"Evaluate": func() error { _, err := tr.Evaluate(ctx, ds); return err },
		"Predict":  func() error { return predict(tr) },
	} {
		inside = call
		within(t, 10*time.Second, name, func() {
			if _, err := trainer.Plan(ctx, model, opt); err != nil {
				t.Errorf("%s: the model function itself: %v", name, err)
			}
		})
	}
	inside = func() error { return predict(own) }
	within(t, 10*time.Second, "Predict of the same trainer", func() {
		if err := predict(own); err != nil {
			t.Error(err)
		}
	})
	inside = nil
	fit(t, tr, ds) // nothing is held
}

// In a goroutine that the model function waits for, the call ends with its context.
func TestACallThatAModelFunctionWaitsForEndsWithItsContext(t *testing.T) {
	opt := trainer.Options{Batch: 4}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		done := make(chan error)
		go func() { _, err := trainer.Plan(ctx, small, opt); done <- err }()
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		return small(g, batch)
	}
	within(t, 10*time.Second, "Plan", func() {
		if _, err := trainer.Plan(t.Context(), model, opt); err != nil {
			t.Error(err)
		}
	})
}

// A model whose results are computed from gradients is refused by a typed error that names the node and the cure, whatever made the gradient;
// a gradient that nothing reads is no mistake.
func TestAGradientInAModelIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, grad := range map[string]func(*gorgonia.Node, ...*gorgonia.Node) (gorgonia.Nodes, error){"gorgonia.Grad": gorgonia.Grad, "vm.Grad": vm.Grad} {
			for _, role := range []string{"loss", "output", "keep", "none"} {
				model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
					net := layers.New(g)
					x := net.Input("x", batch, 2)
					out := net.Square(net.MatMul(x, net.Param("layer/w", layers.Ones{}, 2, 3), "", layers.Transposed{}), "out")
					loss := net.Mean(out, "loss", layers.Reduce{})
					if err := net.Err(); err != nil {
						return trainer.Model{}, err
					}
					grads, err := grad(net.Sum(net.Log(net.Exp(x, ""), ""), "energy", layers.Reduce{}), x)
					if err != nil {
						return trainer.Model{}, err
					}
					m := trainer.Model{Inputs: net.Inputs(), Params: net.Params(), Output: out, Loss: loss}
					switch role {
					case "loss":
						m.Loss = gorgonia.Must(gorgonia.Add(loss, gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(grads[0]))))))
					case "output":
						m.Output = grads[0]
					case "keep":
						gorgonia.WithName("kept")(gorgonia.Must(gorgonia.Exp(grads[0])))
					}
					return m, nil
				}
				ds := columns(t, 2, dataloader.Column("x", []float32{1, 2, 3, 4}, 2))
				opt := trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields()}
				if role == "keep" {
					opt.Keep = []string{"kept"}
				}
				tr, err := trainer.New(t.Context(), model, opt)
				if role == "none" {
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					fit(t, tr, ds)
					if err := tr.Close(); err != nil {
						t.Error(err)
					}
					continue
				}
				var e *trainer.GradientError
				if !errors.As(err, &e) || !errors.Is(err, trainer.ErrModel) || e.Node == "" || !strings.Contains(err.Error(), "write the gradient as a formula") {
					t.Errorf("%s, %s: got %v, want a GradientError", name, role, err)
				} else if e.Of != "x" {
					t.Errorf("%s, %s: got %v, want the gradient of x", name, role, err)
				}
			}
		}
	})
}
