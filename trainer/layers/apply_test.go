package layers_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

func TestAppliedOperationsRefuseWhatIsNoLayer(t *testing.T) {
	channels := func(n *layers.Net, rows int) gorgonia.Nodes {
		x := gorgonia.Nodes{n.Input("x", 4, 3), n.Param("gamma", layers.Ones{}, 3), n.Param("beta", layers.Zeros{}, 3)}
		return append(x, n.Statistic("mean", layers.Zeros{}, rows), n.Statistic("variance", layers.Ones{}, rows))
	}
	for name, c := range map[string]struct {
		add  func(n *layers.Net)
		want error
		text string
	}{
		"nil":           {func(n *layers.Net) { n.Apply(nil, nil, 0, "a", n.Input("x", 2)) }, layers.ErrNode, `operation "nil"`},
		"an optimizer":  {func(n *layers.Net) { n.Apply(kernels.SGD, kernels.UpdateAttrs{}, 0, "a", n.Input("x", 2)) }, layers.ErrNode, `"sgd"`},
		"dropout":       {func(n *layers.Net) { n.Apply(kernels.Dropout, kernels.DropoutAttrs{}, 0, "a", n.Input("x", 2)) }, layers.ErrNode, `"dropout"`},
		"no operands":   {func(n *layers.Net) { n.Apply(kernels.Add, nil, 0, "a") }, layers.ErrNode, "0 operands"},
		"output -1":     {func(n *layers.Net) { n.Apply(kernels.ReLU, nil, -1, "a", n.Input("x", 2)) }, layers.ErrNode, "output -1"},
		"output 1 of 1": {func(n *layers.Net) { n.Apply(kernels.ReLU, nil, 1, "a", n.Input("x", 2)) }, layers.ErrNode, "output 1"},
		"a nil operand": {func(n *layers.Net) { n.Apply(kernels.ReLU, nil, 0, "a", nil) }, layers.ErrNode, "nil"},
		"shapes":        {func(n *layers.Net) { n.Apply(kernels.Add, nil, 0, "a", n.Input("x", 2), n.Input("y", 3)) }, layers.ErrShape, "(2)"},
		"attributes":    {func(n *layers.Net) { n.Apply(kernels.ReLU, 1, 0, "a", n.Input("x", 2)) }, kernels.ErrAttrs, "int"},
		"its statistics": {func(n *layers.Net) {
			n.Apply(kernels.BatchNorm, kernels.BatchNormAttrs{Eps: 1e-5}, 0, "a", channels(n, 2)...)
		}, layers.ErrShape, "running"},
		"its attributes":  {func(n *layers.Net) { n.Apply(kernels.BatchNorm, nil, 0, "a", channels(n, 3)...) }, kernels.ErrAttrs, "batch norm"},
		"a name is taken": {func(n *layers.Net) { n.Apply(kernels.ReLU, nil, 0, "x", n.Input("x", 2)) }, layers.ErrName, `"x"`},
	} {
		n := layers.New(gorgonia.NewGraph())
		c.add(n)
		if err := n.Err(); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q and %v", name, err, c.text, c.want)
		}
	}
}

// A convolution and batch normalization that are applied as operations train as the layers do, to
// the bit.
func TestAppliedOperationsTrainAsLayersDo(t *testing.T) {
	model := func(applied bool) trainer.ModelFunc {
		return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			n := layers.New(g)
			x := n.Input("x", batch, 2, 4, 4)
			h := x
			if applied {
				a := kernels.ConvAttrs{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1, Bias: true}
				h = n.Apply(kernels.Conv, a, 0, "", h, n.Param("conv/w", layers.GlorotUniform{}, 3, 2, 2, 2), n.Param("conv/b", layers.Zeros{}, 3))
				b := kernels.BatchNormAttrs{Eps: 1e-5, Momentum: 0.1}
				h = n.Apply(kernels.BatchNorm, b, 0, "", h, n.Param("norm/gamma", layers.Ones{}, 3), n.Param("norm/beta", layers.Zeros{}, 3),
					n.Statistic("norm/mean", layers.Zeros{}, 3), n.Statistic("norm/variance", layers.Ones{}, 3))
			} else {
				h = n.BatchNorm(n.Conv(h, "conv", layers.Conv2D{Out: 3, Kernel: layers.Square(2)}, nil), "norm", nil)
			}
			return n.Regressor(x, n.Dense(n.Flatten(h, "flat"), "out", 1, nil))
		}
	}
	r := seed.Rand(t, 0)
	const rows = 16
	x, y := make([]float32, rows*32), make([]float32, rows)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		y[i] = float32(r.NormFloat64())
	}
	ds, err := dataloader.FromSlices(rows, dataloader.Column("x", x, 2, 4, 4), dataloader.Column("y", y, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		var learned [2]map[string][]byte
		for i := range learned {
			tr, err := trainer.New(t.Context(), model(i == 1), trainer.Options{Device: d.open(t), Batch: 4, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			for range 2 {
				if _, err := tr.Fit(t.Context(), ds); err != nil {
					t.Fatal(err)
				}
			}
			params, err := tr.Params()
			if err != nil {
				t.Fatal(err)
			}
			learned[i] = make(map[string][]byte)
			for _, p := range params {
				b := make([]byte, p.Spec.Bytes())
				if err := p.Read(b); err != nil {
					t.Fatal(err)
				}
				learned[i][p.Name] = b
			}
		}
		if len(learned[0]) != 8 || len(learned[1]) != 8 {
			t.Fatalf("%d and %d parameters and statistics", len(learned[0]), len(learned[1]))
		}
		for name, b := range learned[0] {
			if !bytes.Equal(b, learned[1][name]) {
				t.Errorf("%s: %s differs", d.name, name)
			}
		}
	}
}

func ExampleNet_Apply() {
	n := layers.New(gorgonia.NewGraph())
	x := n.Input("x", 2, 3)
	// Two columns of zeros to the left and one to the right.
	pad := kernels.UnsliceAttrs{Shape: kernels.Shape{2, 6}, Start: []int{0, 2}, Step: []int{1, 1}}
	y := n.Apply(kernels.Unslice, pad, 0, "padded", x)
	fmt.Println(y.Name(), y.Shape(), n.Err())
	// Output: padded (2, 6) <nil>
}
