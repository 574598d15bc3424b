package cookbook_test

// The program of padding.md begins here.

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

const longest = 6 // positions of a padded sequence

// sums predicts, at each position of a sequence, the sum of the numbers up to it.
func sums(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, y := net.Input("x", batch, longest), net.Input("y", batch, longest)
	mask := net.Input("mask", batch, longest) // 1 at positions of the sequence, 0 at padding
	out := net.Dense(x, "out", longest, nil)
	d := net.Sub(out, y, "")
	m := trainer.Model{Inputs: net.Inputs(), Params: net.Params(), Output: out,
		Loss: net.Mul(d, d, "loss"), Weight: mask} // a loss and a weight for each position
	return m, net.Err()
}

func Example_padding() {
	const rows = 203
	r := rand.New(rand.NewPCG(1, 2))
	x, y, mask := make([]float32, rows*longest), make([]float32, rows*longest), make([]float32, rows*longest)
	for i := range rows {
		var sum float32
		for j := range 1 + r.IntN(longest) { // the length of the sequence
			k := i*longest + j
			x[k], mask[k] = float32(r.NormFloat64()), 1
			sum += x[k]
			y[k] = sum
		}
	}
	data, err := dataloader.FromSlices(rows, dataloader.Column("x", x, longest),
		dataloader.Column("y", y, longest), dataloader.Column("mask", mask, longest))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := trainer.New(ctx, sums, trainer.Options{Device: dev, Batch: 16, Optimizer: optim.Adam{Rate: 0.02}})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for range 5 {
		if _, err := t.Fit(ctx, data); err != nil {
			log.Fatal(err)
		}
	}
	result, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	var loss, positions float64 // the same mean, of the predictions
	for p, err := range t.Predict(ctx, data) {
		if err != nil {
			log.Fatal(err)
		}
		for j, out := range p.Output {
			k := p.Sample*longest + j
			loss += float64(mask[k]) * (out - float64(y[k])) * (out - float64(y[k]))
			positions += float64(mask[k])
		}
	}
	fmt.Printf("positions are equal: %t\n", result.Weight == positions)
	fmt.Printf("losses are equal: %t\n", math.Abs(result.Loss-loss/positions) < 1e-4*result.Loss)
	// Output:
	// positions are equal: true
	// losses are equal: true
}

// The program of padding.md ends here.
