package layers_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestTheTrainerTakesTheStepThatGorgoniaWould trains every layer for a step of gradient descent on a squared error, in float64: once with the trainer, once
// on a tape machine with Gorgonia's gradients, and compares all that was learned, the running statistics too, and then an evaluation.
func TestTheTrainerTakesTheStepThatGorgoniaWould(t *testing.T) {
	for _, c := range layerCases() {
		t.Run(c.name, func(t *testing.T) {
			const rate = 0.1
			r := rand.New(rand.NewPCG(seed.Value(), 11))
			var net *layers.Net
			model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
				net = layers.New(g)
				net.Type = tensor.Float64
				x := net.Input("x", append([]int{batch}, c.in[1:]...)...)
				// A parameter in front, so that gradients pass through the layer as well as to its own.
				scale := net.Param("scale", layers.Constant{Value: 1.5}, 1)
				scaled, err := gorgonia.HadamardProd(x, gorgonia.Must(gorgonia.Reshape(scale, tensor.ScalarShape())))
				if err != nil {
					return trainer.Model{}, err
				}
				return net.Regressor(x, c.build(net, scaled))
			}
			m, err := model(gorgonia.NewGraph(), c.in[0])
			if err != nil {
				t.Fatal(err)
			}
			mine, y := net, m.Inputs[1]
			xs, ys := reals(r, tensor.Shape(c.in).TotalSize()), reals(r, y.Shape().TotalSize())
			got, loss := trained(t, model, c.in, c.out, xs, ys, rate)
			bind(t, m.Inputs[0], xs)
			bind(t, y, ys)
			if err := mine.Values(3); err != nil {
				t.Fatal(err)
			}
			var nodes gorgonia.Nodes
			for _, p := range m.Params {
				nodes = append(nodes, p.Node)
			}
			grads, err := gorgonia.Grad(m.Loss, nodes...)
			if err != nil {
				t.Fatal(err)
			}
			run(t, m.Loss.Graph())
			for i, n := range nodes {
				want := numbers(t, n.Value())
				for j, d := range numbers(t, grads[i].Value()) {
					want[j] -= rate * d
				}
				nearly(t, n.Name(), got[n.Name()], want)
			}
			for _, s := range m.Statistics {
				nearly(t, s.Node.Name(), got[s.Node.Name()], numbers(t, s.Node.Value()))
			}
			for _, n := range nodes {
				bind(t, n, got[n.Name()])
			}
			evaluates := gorgonia.NewTapeMachine(m.Loss.Graph(), gorgonia.EvalMode())
			defer evaluates.Close()
			if err := evaluates.RunAll(); err != nil {
				t.Fatal(err)
			}
			nearly(t, "loss of an evaluation", []float64{loss}, numbers(t, m.Loss.Value()))
		})
	}
}

// nearly compares in float64 what was summed in another order.
func nearly(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= 1e-10*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: element %d is %v, want %v (EVENKEEL_SEED=%d)", what, i, got[i], want[i], seed.Value())
		}
	}
}

// trained takes one step with the trainer and returns what it learned, by name, and the loss of an evaluation after it.
func trained(t *testing.T, model trainer.ModelFunc, in, out []int, xs, ys []float64, rate float64) (values map[string][]float64, loss float64) {
	t.Helper()
	data, err := dataloader.FromSlices(in[0], dataloader.Column("x", xs, in[1:]...), dataloader.Column("y", ys, out[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	device := cputest.Open(t, cpu.Options{})
	defer device.Close()
	tr, err := trainer.New(t.Context(), model, trainer.Options{Device: device, Batch: in[0], Optimizer: optim.SGD{Rate: rate}, Seed: 3, Fields: data.Fields()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := tr.Fit(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	after, err := tr.Evaluate(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	params, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	values = map[string][]float64{}
	for _, p := range params {
		if p.Spec.Type != arena.Float64 {
			t.Fatalf("%s is %v", p.Name, p.Spec)
		}
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			t.Fatal(err)
		}
		for i := range p.Spec.Shape.Elems() {
			values[p.Name] = append(values[p.Name], math.Float64frombits(binary.NativeEndian.Uint64(b[8*i:])))
		}
	}
	return values, after.Loss
}

func TestEmbeddingAndDropoutLearnWithTheTrainer(t *testing.T) {
	const words, length, samples = 6, 3, 60
	r := rand.New(rand.NewPCG(seed.Value(), 12))
	text, label := make([]int32, samples*length), make([]uint8, samples)
	for i := range label { // the class is the first word's
		for j := range length {
			text[i*length+j] = int32(r.IntN(words))
		}
		label[i] = uint8(text[i*length] % 3)
	}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Indices("x", batch, length)
		h := net.Flatten(net.LayerNorm(net.Embedding(x, "words", words, 8), "norm"), "flat")
		h = net.Dense(net.Dropout(h, "drop", 0.2), "hidden", 16, layers.ReLU)
		return net.Classifier(x, net.Dense(h, "out", 3, nil))
	}
	data, err := dataloader.FromSlices(samples, dataloader.Column("x", text, length), dataloader.Column("y", label))
	if err != nil {
		t.Fatal(err)
	}
	device := cputest.Open(t, cpu.Options{})
	defer device.Close()
	tr, err := trainer.New(t.Context(), model, trainer.Options{Device: device, Batch: 16, Optimizer: optim.Adam{Rate: 0.01}, Seed: seed.Value(), Fields: data.Fields()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for range 60 {
		if _, err := tr.Fit(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	res, err := tr.Evaluate(t.Context(), data)
	if err != nil || res.Accuracy < 0.99 {
		t.Errorf("accuracy %v, %v, want all right (EVENKEEL_SEED=%d)", res.Accuracy, err, seed.Value())
	}
	again, err := tr.Evaluate(t.Context(), data)
	if err != nil || fmt.Sprint(again.Loss) != fmt.Sprint(res.Loss) {
		t.Errorf("evaluated again: loss %v, %v, want %v: evaluation drops nothing", again.Loss, err, res.Loss)
	}
}
