package plot_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/plot"
)

var rangeFile = flag.String("range", "", "file for the picture of a range test, for docs/seeing.md")

// rings is a network that tells the inside of a ring from its outside.
func rings(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 2)
	h := net.Dense(net.Dense(x, "hidden1", 32, layers.ReLU), "hidden2", 32, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 2, nil))
}

func TestTheRangeTestOfANetworkIsDrawn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 2048
	x, y := make([]float32, 2*n), make([]uint8, n)
	for i := range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		x[2*i], x[2*i+1] = float32(a), float32(b)
		if math.Hypot(a, b) > 1.2 {
			y[i] = 1
		}
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 2), dataloader.Column("y", y))
	if err != nil {
		t.Fatal(err)
	}
	opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 64, Optimizer: optim.SGD{}, Fields: ds.Fields(), Seed: 1}
	curve, err := loop.RangeTest(t.Context(), rings, opt, ds, loop.Sweep{From: 1e-3, To: 100, Steps: 200})
	if err != nil {
		t.Fatal(err)
	}
	if s := curve.Steepest(); !(s > 0.01 && s < 10) {
		t.Errorf("steepest at %v of %d points", s, len(curve))
	}
	file := *rangeFile
	if file == "" {
		file = filepath.Join(t.TempDir(), "range.svg")
	}
	if err := plot.RangeTest(curve).Save(file); err != nil {
		t.Fatal(err)
	}
}
