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
	"github.com/evenkeel/evenkeel/kernels"
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
	out := net.Dense(net.Mul(x, mask, ""), "out", longest, nil)
	d := net.Sub(out, y, "")
	m := trainer.Model{Inputs: net.Inputs(), Params: net.Params(), Output: out,
		Loss: net.Mul(d, d, "loss"), Weight: mask} // a loss and a weight for each position
	return m, net.Err()
}

const rows = 203

// sequences are random, of 1 to 6 numbers, and then of the given one.
func sequences(padding float32) (x, y, mask []float32) {
	r := rand.New(rand.NewPCG(1, 2))
	for range rows {
		length := 1 + r.IntN(longest)
		var sum float32
		for j := range longest {
			number := float32(r.NormFloat64())
			if sum += number; j < length {
				x, y, mask = append(x, number), append(y, sum), append(mask, 1)
			} else {
				x, y, mask = append(x, padding), append(y, padding), append(mask, 0)
			}
		}
	}
	return x, y, mask
}

// train trains on sequences, and returns the result of an evaluation and the mean of the losses of
// the predictions at all real positions.
func train(dev kernels.Device, padding float32) (result trainer.Result, mean float64) {
	x, y, mask := sequences(padding)
	data, err := dataloader.FromSlices(rows, dataloader.Column("x", x, longest),
		dataloader.Column("y", y, longest), dataloader.Column("mask", mask, longest))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	t, err := trainer.New(ctx, sums, trainer.Options{Device: dev, Batch: 16, Optimizer: optim.Adam{Rate: 0.02}})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for range 30 {
		if _, err := t.Fit(ctx, data); err != nil {
			log.Fatal(err)
		}
	}
	if result, err = t.Evaluate(ctx, data); err != nil {
		log.Fatal(err)
	}
	var loss, positions float64
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
	return result, loss / positions
}

func Example_padding() {
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	result, mean := train(dev, 0)
	other, _ := train(dev, 1000)
	fmt.Printf("loss below 0.01: %t\n", result.Loss < 0.01)
	fmt.Printf("it is the mean over all positions: %t\n", math.Abs(result.Loss-mean) < 1e-4*mean)
	fmt.Printf("the same bits whatever the padding: %t\n", result.Loss == other.Loss)
	// Output:
	// loss below 0.01: true
	// it is the mean over all positions: true
	// the same bits whatever the padding: true
}

// The program of padding.md ends here.
