package trainer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func mlp(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.On(g)
	x := net.Input("x", batch, 16)
	h := net.Dense(x, "hidden", 32, layers.ReLU)
	out := net.Dense(h, "out", 4, nil)
	return net.Classifier(x, out)
}

func TestSmoke(t *testing.T) {
	n := 1000
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, n*16), make([]uint8, n)
	for i := range y {
		best, at := -1e9, 0
		for j := range 16 {
			v := r.NormFloat64()
			x[i*16+j] = float32(v)
			if j < 4 && v > best {
				best, at = v, j
			}
		}
		y[i] = uint8(at)
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 16), dataloader.Column("y", y))
	if err != nil {
		t.Fatal(err)
	}
	dev := cpu.Open()
	defer dev.Close()
	tr, err := trainer.New(mlp, trainer.Options{Device: dev, Batch: 64, Optimizer: optim.Adam{Rate: 1e-2}, Fields: ds.Fields()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	fmt.Println(tr.Plan())
	for range 5 {
		res, err := tr.Fit(context.Background(), ds)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := tr.Evaluate(context.Background(), ds)
		fmt.Printf("%+v\n%+v %v\n", res, ev, err)
	}
	k := 0
	for p, err := range tr.Predict(context.Background(), ds) {
		if err != nil {
			t.Fatal(err)
		}
		if k < 3 {
			fmt.Println(p)
		}
		k++
	}
}
