package trainer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// BenchmarkInstructions times each instruction of a program alone, over and over, after one epoch: its operands are warm, and a launch of
// a program of one call is in it, some 30 ns. "all" is the program as it is launched.
//
//	go test -run xxx -bench Instructions/tiny -benchtime 10000x ./trainer
func BenchmarkInstructions(b *testing.B) {
	for _, net := range []struct {
		name      string
		batch     int
		sample    []int
		classes   int
		logits    func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node
		optimizer optim.Optimizer
	}{
		{"tiny", 16, []int{16}, 4, perceptron(32), optim.SGD{Rate: 1e-3}},
		{"digits", 128, []int{784}, 10, perceptron(512, 256), optim.SGD{Rate: 1e-3}},
		{"digits+adam", 128, []int{784}, 10, perceptron(512, 256), optim.Adam{Rate: 1e-5}},
		{"conv", 64, []int{1, 28, 28}, 10, convolutional, optim.SGD{Rate: 1e-3}},
		{"norm", 64, []int{3, 32, 32}, 10, normalized, optim.SGD{Rate: 1e-3}},
	} {
		b.Run(net.name, func(b *testing.B) {
			device := cputest.Open(b, cpu.Options{Threads: 2})
			defer device.Close()
			model := func(g *gorgonia.ExprGraph, batch int) (Model, error) {
				n := layers.New(g)
				x := n.Input("x", append([]int{batch}, net.sample...)...)
				return n.Classifier(x, n.Dense(net.logits(n, x), "out", net.classes, nil))
			}
			t, err := New(b.Context(), model, Options{Device: device, Batch: net.batch, EvalBatch: 100, Optimizer: net.optimizer, Tail: dataloader.DropTail,
				Resident: []dataloader.Dataset{randomRows(b, 200, net.sample, net.classes)}})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			if _, err := t.Fit(context.Background(), t.plan.opt.Resident[0]); err != nil {
				b.Fatal(err)
			}
			if _, err := t.Evaluate(context.Background(), t.plan.opt.Resident[0]); err != nil {
				b.Fatal(err)
			}
			for _, mode := range []compile.Mode{compile.Train, compile.Evaluate} {
				b.Run(mode.String(), func(b *testing.B) { benchmarkInstructions(b, t, programKey{mode: mode, rows: t.plan.opt.rows(mode)}) })
			}
		})
	}
}

func benchmarkInstructions(b *testing.B, t *Trainer, k programKey) {
	p := t.plan.programs[k]
	calls, err := bindEach(t.memory.device, p, t.memory.binding(0))
	defer closeAll(calls)
	if err != nil {
		b.Fatal(err)
	}
	launch := func(name string, c kernels.Program) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := c.Launch(t.streams.compute); err != nil {
					b.Fatal(err)
				}
			}
			if err := t.streams.compute.Sync(); err != nil {
				b.Fatal(err)
			}
		})
	}
	launch("all", t.programs[k].exec[0])
	for i, c := range calls {
		if c != nil {
			launch(fmt.Sprintf("%02d %s %s", i, p.Instrs[i].Op.Name, p.Instrs[i].Label), c)
		}
	}
}

// perceptron returns dense layers with ReLU.
func perceptron(widths ...int) func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	return func(n *layers.Net, h *gorgonia.Node) *gorgonia.Node {
		for i, w := range widths {
			h = n.Dense(h, fmt.Sprint("hidden", i+1), w, layers.ReLU)
		}
		return h
	}
}

// convolutional adds two convolutions with pooling, and a dense layer.
func convolutional(n *layers.Net, h *gorgonia.Node) *gorgonia.Node {
	for i, out := range []int{32, 64} {
		h = n.Conv(h, fmt.Sprint("conv", i+1), layers.Conv2D{Out: out, Kernel: layers.Square(3), Pad: layers.Square(1)}, layers.ReLU)
		h = n.MaxPool(h, fmt.Sprint("pool", i+1), layers.Pool{Kernel: layers.Square(2)})
	}
	return n.Dense(n.Flatten(h, "flat"), "hidden", 128, layers.ReLU)
}

// normalized adds six convolutions with batch normalization.
func normalized(n *layers.Net, h *gorgonia.Node) *gorgonia.Node {
	for i, out := range []int{64, 64, 128, 128, 256, 256} {
		h = n.Conv(h, fmt.Sprint("conv", i+1), layers.Conv2D{Out: out, Kernel: layers.Square(3), Pad: layers.Square(1), NoBias: true}, nil)
		h = n.BatchNorm(h, fmt.Sprint("norm", i+1), layers.ReLU)
		if i == 1 || i == 3 {
			h = n.MaxPool(h, fmt.Sprint("pool", i+1), layers.Pool{Kernel: layers.Square(2)})
		}
	}
	return n.GlobalAvgPool(h, "mean")
}

// randomRows returns n normal samples with random labels.
func randomRows(b *testing.B, n int, sample []int, classes int) dataloader.Dataset {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	size := 1
	for _, d := range sample {
		size *= d
	}
	x, y := make([]float32, n*size), make([]int32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		y[i] = int32(r.IntN(classes))
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, sample...), dataloader.Column("y", y))
	if err != nil {
		b.Fatal(err)
	}
	return ds
}
