package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// outputNames are the Outputs of several.
var outputNames = []string{"left/hidden/act", "loss/rows", "first", "extra"}

// several has two inputs, a matrix, a batch norm behind a convolution, which prediction makes one, and
// four outputs: floats of other shapes, the losses of samples, integers, and an input.
func several(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, extra := net.Input("x", batch, 4), net.Input("extra", batch, 2)
	left := net.Scope("left").Dense(x, "hidden", 6, layers.Tanh)
	images := net.Conv(net.Reshape(x, "images", batch, 1, 2, 2), "conv", layers.Conv2D{Out: 3, Kernel: layers.Square(2)}, nil)
	right := net.Flatten(net.BatchNorm(images, "bn", nil), "flat")
	logits := net.Dense(net.Concat(gorgonia.Nodes{left, right, extra}, "both", 1), "out", 3, nil)
	m, err := net.Classifier(x, logits)
	if err == nil {
		m.Outputs = gorgonia.Nodes{left, g.ByName("loss/rows")[0], net.ArgMax(logits, "first", 1), extra}
	}
	return m, err
}

// only is several with the node of that name as its Output, and no Outputs.
func only(name string) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		m, err := several(g, batch)
		if m.Outputs = nil; err == nil && name != "" {
			m.Output = g.ByName(name)[0]
		}
		return m, err
	}
}

// severalData are samples for several.
func severalData(t *testing.T, n int) *dataloader.Slices {
	x, y, extra := make([]float32, 4*n), make([]uint8, n), make([]float32, 2*n)
	for i := range x {
		x[i] = float32(i*7%11) - 5
	}
	for i := range y {
		y[i], extra[2*i], extra[2*i+1] = uint8(i%3), float32(i), -0.5
	}
	return columns(t, n, dataloader.Column("x", x, 4), dataloader.Column("extra", extra, 2), dataloader.Column("y", y))
}

func TestOutputsAreFoundByTheirNamesAndTheirBytesArePlanned(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := severalData(t, 23)
		for _, opt := range []trainer.Options{
			{Batch: 8, Fields: ds.Fields()},
			{Batch: 4, EvalBatch: 9, Fields: ds.Fields()},
			{Batch: 9, EvalBatch: 5, Resident: []dataloader.Dataset{ds}},
			{Batch: 8, Fields: ds.Fields(), Keep: []string{"left/hidden/act"}},
		} {
			opt.Device = dev
			plan, err := trainer.Plan(t.Context(), several, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Memory = plan.Total - 1
			if _, err := trainer.New(t.Context(), several, opt); !errors.Is(err, arena.ErrCapacity) {
				t.Errorf("one byte less than the plan: got %v, want ErrCapacity", err)
			}
			opt.Memory = plan.Total
			tr := made(t, several, opt)
			fit(t, tr, ds)
			params := learned(t, tr)
			want := make(map[string][]float64)
			for _, name := range append([]string{""}, outputNames...) {
				alone := opt
				alone.Memory, alone.Keep = 0, nil
				other := made(t, only(name), alone)
				ps, err := other.Params()
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range ps {
					if err := p.Write([]byte(params[p.Name])); err != nil {
						t.Fatal(err)
					}
				}
				want[name] = outputs(t, other, ds)
			}
			got := make(map[string][]float64)
			for p, err := range tr.Predict(context.Background(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				got[""] = append(got[""], p.Output...)
				for _, name := range outputNames {
					got[name] = append(got[name], p.Named(name)...)
				}
				if p.Named("other") != nil || len(p.Named("first")) != 1 {
					t.Fatalf("%v and %v", p.Named("other"), p.Named("first"))
				}
			}
			for name := range want {
				same(t, fmt.Sprintf("%q, batch %d/%d", name, opt.Batch, opt.EvalBatch), got[name], want[name])
			}
			if len(got["extra"]) != 46 || got["extra"][2] != 1 {
				t.Errorf("extra is %v", got["extra"])
			}
		}
	})
}

// Outputs cost bytes of results, twice, in multiples of 256, and no step of training more.
func TestOutputsCostTheirBytes(t *testing.T) {
	with, err := trainer.Plan(t.Context(), several, trainer.Options{Batch: 100})
	if err != nil {
		t.Fatal(err)
	}
	without, err := trainer.Plan(t.Context(), only(""), trainer.Options{Batch: 100})
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 2 * (2560 + 512 + 1024 + 1024) // 6, 1, 1 and 2 elements, of 4 bytes and integers of 8
	if got := with.Category("results") - without.Category("results"); got != bytes {
		t.Errorf("four outputs cost %d bytes of results, want %d", got, bytes)
	}
	for i, p := range with.Programs[:2] { // train, evaluate
		if q := without.Programs[i]; p.Scratch != q.Scratch || p.Instructions != q.Instructions {
			t.Errorf("%s: %d instructions in %d bytes, %d in %d without outputs", p.Name, p.Instructions, p.Scratch, q.Instructions, q.Scratch)
		}
	}
}

func TestRowsOfOutputsAllocateNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if !dev.Unified() {
			t.Skip("heap objects of this device are its own")
		}
		ds := severalData(t, 64)
		tr := made(t, several, trainer.Options{Device: dev, Batch: 32, Fields: ds.Fields()})
		pass := func(n int) float64 {
			head, err := dataloader.Subset(ds, 0, n)
			if err != nil {
				t.Fatal(err)
			}
			return testing.AllocsPerRun(20, func() {
				sum := 0.0
				for p, err := range tr.Predict(context.Background(), head) {
					if err != nil {
						t.Fatal(err)
					}
					for _, name := range outputNames {
						sum += p.Named(name)[0]
					}
				}
				if sum != sum {
					t.Error("NaN")
				}
			})
		}
		if a, b := pass(32), pass(64); b > a+1 {
			t.Errorf("32 rows make %v heap objects, 64 rows %v", a, b)
		}
	})
}

func TestWrongOutputsAreErrorsOfTheModel(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *trainer.Model, net *layers.Net)
		want   string
	}{
		"no Output":     {func(m *trainer.Model, _ *layers.Net) { m.Output = nil }, "no Output"},
		"a nil node":    {func(m *trainer.Model, _ *layers.Net) { m.Outputs[1] = nil }, "nil node among its Outputs"},
		"the Output":    {func(m *trainer.Model, _ *layers.Net) { m.Outputs[0] = m.Output }, `"out/out" is the Output and listed again`},
		"one twice":     {func(m *trainer.Model, _ *layers.Net) { m.Outputs[0] = m.Outputs[2] }, `two nodes in Outputs are called "first"`},
		"a result":      {func(m *trainer.Model, net *layers.Net) { m.Outputs[0] = net.Neg(m.Output, "output") }, `may not be called "output"`},
		"the loss":      {func(m *trainer.Model, _ *layers.Net) { m.Outputs[0] = m.Loss }, `may not be called "loss"`},
		"one number":    {func(m *trainer.Model, net *layers.Net) { m.Outputs[0] = net.Mean(m.Output, "mean", layers.Reduce{}) }, `output "mean" is (): it must have one row a sample`},
		"another graph": {func(m *trainer.Model, _ *layers.Net) { m.Outputs[0] = layers.New(gorgonia.NewGraph()).Input("z", 4) }, `Outputs "z" is not in the graph`},
	} {
		t.Run(name, func(t *testing.T) {
			model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
				m, err := several(g, batch)
				if err == nil {
					c.change(&m, layers.New(g))
				}
				return m, err
			}
			_, err := trainer.Plan(t.Context(), model, trainer.Options{Batch: 4})
			if !errors.Is(err, trainer.ErrModel) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, want ErrModel that says %q", err, c.want)
			}
		})
	}
}
