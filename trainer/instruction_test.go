package trainer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
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
		eval      int
		widths    []int
		optimizer optim.Optimizer
	}{
		{"tiny", 16, 100, []int{16, 32, 4}, optim.SGD{Rate: 1e-3}},
		{"digits", 128, 100, []int{784, 512, 256, 10}, optim.SGD{Rate: 1e-3}},
		{"digits+adam", 128, 100, []int{784, 512, 256, 10}, optim.Adam{Rate: 1e-5}},
	} {
		b.Run(net.name, func(b *testing.B) {
			device := cpu.OpenWith(cpu.Options{Threads: 2})
			defer device.Close()
			t, err := New(perceptron(net.widths), Options{Device: device, Batch: net.batch, EvalBatch: net.eval, Optimizer: net.optimizer,
				Resident: []dataloader.Dataset{randomRows(b, 4*net.batch+net.eval, net.widths)}})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			if _, err := t.Fit(context.Background(), t.opt.Resident[0]); err != nil {
				b.Fatal(err)
			}
			if _, err := t.Evaluate(context.Background(), t.opt.Resident[0]); err != nil {
				b.Fatal(err)
			}
			for _, mode := range []compile.Mode{compile.Train, compile.Evaluate} {
				b.Run(mode.String(), func(b *testing.B) { benchmarkInstructions(b, t, key{mode, t.opt.rows(mode), 0}) })
			}
		})
	}
}

func benchmarkInstructions(b *testing.B, t *Trainer, k key) {
	p := t.programs[k]
	calls, err := t.single(p, kernels.Binding{Memory: t.arena.Memory(), Base: t.bases(0)})
	defer closeAll(calls)
	if err != nil {
		b.Fatal(err)
	}
	launch := func(name string, c kernels.Program) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := c.Launch(t.compute); err != nil {
					b.Fatal(err)
				}
			}
			if err := t.compute.Sync(); err != nil {
				b.Fatal(err)
			}
		})
	}
	launch("all", t.bound[k].exec[0])
	for i, c := range calls {
		if c != nil {
			launch(fmt.Sprintf("%02d %s %s", i, p.Instrs[i].Op.Name, p.Instrs[i].Label), c)
		}
	}
}

// perceptron returns a net of dense layers with ReLU.
func perceptron(widths []int) ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (Model, error) {
		n := layers.On(g)
		x := n.Input("x", batch, widths[0])
		h := x
		last := len(widths) - 1
		for i, w := range widths[1:last] {
			h = n.Dense(h, fmt.Sprint("hidden", i+1), w, layers.ReLU)
		}
		return n.Classifier(x, n.Dense(h, "out", widths[last], nil))
	}
}

// randomRows returns normal rows with random labels.
func randomRows(b *testing.B, n int, widths []int) dataloader.Dataset {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, n*widths[0]), make([]int32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		y[i] = int32(r.IntN(widths[len(widths)-1]))
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, widths[0]), dataloader.Column("y", y))
	if err != nil {
		b.Fatal(err)
	}
	return ds
}
