package cookbook_test

// The program of tabular.md begins here.

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
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

// writeFlats writes a table of flats as text. The age of some is missing.
func writeFlats(path string, rows int) error {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	fmt.Fprintln(&b, "area,age,city,price")
	for i := range rows {
		area, age := 40+100*r.Float64(), 50*r.Float64()
		price, years := 3000*area-40*area*age+5000*r.NormFloat64(), fmt.Sprintf("%.1f", age)
		if i%50 == 0 {
			years = "NA"
		}
		fmt.Fprintf(&b, "%.1f,%s,\"Kiel, centre\",%.0f\n", area, years, price)
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

func Example_tabular() {
	const rows, known = 600, 500 // the first 500 rows train, the others validate
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tabular")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "flats.csv")
	if err := writeFlats(path, rows); err != nil {
		log.Fatal(err)
	}
	flats, err := csv.Open(path, csv.Options{Missing: []string{"NA"}, Fields: []csv.Field{
		{Name: "x", Columns: []string{"area", "age"}, Fill: new(25.0)},
		{Name: "y", Columns: []string{"price"}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer flats.Close()
	train, val, err := dataloader.Split(flats, known)
	if err != nil {
		log.Fatal(err)
	}
	x, err := dataloader.Stats(ctx, train, "x", dataloader.StatsOptions{})
	if err != nil {
		log.Fatal(err)
	}
	y, err := dataloader.Stats(ctx, train, "y", dataloader.StatsOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range []*dataloader.Moments{x, y} {
		if train, err = dataloader.Normalize(train, m); err != nil {
			log.Fatal(err)
		}
		if val, err = dataloader.Normalize(val, m); err != nil {
			log.Fatal(err)
		}
	}

	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := trainer.New(ctx, price, trainer.Options{Device: dev, Batch: 50, Optimizer: optim.Adam{Rate: 0.01},
		Fields: train.Fields()})
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
	flat, out := []float64{100, 10}, make([]float32, 1) // 100 m², 10 years old
	scaled := make([]float32, 2)
	for i := range flat {
		scaled[i] = float32((flat[i] - x.Mean[i]) / x.Deviation()[i])
	}
	if err := p.Predict(ctx, out, scaled); err != nil {
		log.Fatal(err)
	}
	guess := float64(out[0])*y.Deviation()[0] + y.Mean[0]
	fmt.Printf("260000 is off by less than 25000: %t\n", math.Abs(guess-260000) < 25000)
	fmt.Printf("bytes of the predictor below those of the trainer: %t\n", p.Plan().Total < t.Plan().Total)
	// Output:
	// R2 above 0.95: true
	// 260000 is off by less than 25000: true
	// bytes of the predictor below those of the trainer: true
}

// The program of tabular.md ends here.
