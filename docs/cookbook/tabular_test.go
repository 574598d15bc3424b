package cookbook_test

// The program of tabular.md begins here.

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
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/metrics"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// price predicts one number from two columns.
func price(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, y := net.Input("x", batch, 2), net.Input("y", batch, 1)
	out := net.Dense(net.Dense(x, "hidden", 32, layers.Tanh), "out", 1, nil)
	m := trainer.Model{
		Inputs: net.Inputs(), Params: net.Params(), Output: out,
		Loss:    net.Mean(net.Huber(out, y, 1, "rows"), "loss", layers.Reduce{}),
		Metrics: []layers.Metric{metrics.R2(net, out, y, nil)},
	}
	return m, net.Err()
}

// normalise scales a column to mean 0 and deviation 1, as measured on its first n rows.
func normalise(rows []float32, columns, column, n int) (mean, deviation float64) {
	for i := range n {
		mean += float64(rows[i*columns+column]) / float64(n)
	}
	for i := range n {
		d := float64(rows[i*columns+column]) - mean
		deviation += d * d / float64(n)
	}
	deviation = math.Sqrt(deviation)
	for i := column; i < len(rows); i += columns {
		rows[i] = float32((float64(rows[i]) - mean) / deviation)
	}
	return mean, deviation
}

func Example_tabular() {
	const rows, known = 600, 500 // the first 500 rows train, the others validate
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, 2*rows), make([]float32, rows)
	for i := range y {
		area, age := 40+100*r.Float64(), 50*r.Float64()
		x[2*i], x[2*i+1] = float32(area), float32(age)
		y[i] = float32(3000*area - 40*area*age + 5000*r.NormFloat64())
	}
	normalise(x, 2, 0, known)
	normalise(x, 2, 1, known)
	mean, deviation := normalise(y, 1, 0, known)
	train, err := dataloader.FromSlices(known,
		dataloader.Column("x", x[:2*known], 2), dataloader.Column("y", y[:known], 1))
	if err != nil {
		log.Fatal(err)
	}
	val, err := dataloader.FromSlices(rows-known,
		dataloader.Column("x", x[2*known:], 2), dataloader.Column("y", y[known:], 1))
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := trainer.New(ctx, price, trainer.Options{Device: dev, Batch: 50, Optimizer: optim.Adam{Rate: 0.01}})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	weights, err := loop.NewWeights(t)
	if err != nil {
		log.Fatal(err)
	}
	early := loop.Early{Patience: 5, MinDelta: 1e-4, Weights: weights}
	for e, err := range loop.Evaluations(ctx, t, loop.Epochs(ctx, t, train, 100), val, 10) { // after each epoch
		if err != nil {
			log.Fatal(err)
		}
		stop, err := early.Add(e.Result.Loss)
		if err != nil {
			log.Fatal(err)
		}
		if stop {
			break
		}
	}
	if err := weights.Restore(); err != nil {
		log.Fatal(err)
	}
	result, err := t.Evaluate(ctx, val)
	if err != nil {
		log.Fatal(err)
	}
	r2 := result.Metrics[0]
	fmt.Printf("%s above 0.95: %t\n", r2.Name, r2.Value > 0.95)

	p, err := trainer.NewPredictor(ctx, price, trainer.PredictorOptions{Device: dev, Batch: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := p.Load(ctx, t); err != nil {
		log.Fatal(err)
	}
	out := make([]float32, 1)
	if err := p.Predict(ctx, out, x[2*known:2*known+2]); err != nil {
		log.Fatal(err)
	}
	guess, actual := float64(out[0])*deviation+mean, float64(y[known])*deviation+mean
	fmt.Printf("off by less than 25000: %t\n", math.Abs(guess-actual) < 25000)
	fmt.Printf("bytes of the predictor below those of the trainer: %t\n", p.Plan().Total < t.Plan().Total)
	// Output:
	// R2 above 0.95: true
	// off by less than 25000: true
	// bytes of the predictor below those of the trainer: true
}

// The program of tabular.md ends here.
