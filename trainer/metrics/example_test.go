package metrics_test

import (
	"context"
	"fmt"
	"log"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/metrics"
)

// A classifier of three classes, which passes its input on: the first sample of class 2 is taken for
// class 0.
func Example() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3)
		logits := net.Mul(x, net.Param("scale", layers.Ones{}, 1, 3), "logits")
		m, err := net.Classifier(x, logits)
		if err != nil {
			return m, err
		}
		y := m.Inputs[1]
		confusion := metrics.Confusion(net, logits, y, nil)
		m.Metrics = []layers.Metric{
			confusion,
			metrics.OfConfusion(confusion, "macro F1", metrics.Matrix.MacroF1),
			metrics.TopK(net, logits, y, 2, nil),
		}
		return m, net.Err()
	}
	data, err := dataloader.FromSlices(4,
		dataloader.Column("x", []float32{9, 0, 0, 0, 9, 0, 5, 0, 4, 0, 0, 9}, 3),
		dataloader.Column("y", []uint8{0, 1, 2, 2}))
	if err != nil {
		log.Fatal(err)
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	ctx := context.Background()
	t, err := trainer.New(ctx, model, trainer.Options{Device: device, Batch: 3, Fields: data.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	result, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range result.Metrics {
		fmt.Printf("%s %.3f\n", m.Name, m.Value)
	}
	m, _ := result.Metric("confusion")
	matrix, err := metrics.ConfusionOf(m.Sum)
	if err != nil {
		log.Fatal(err)
	}
	for class := range matrix.Classes {
		fmt.Printf("class %d: precision %.2f, recall %.2f\n", class, matrix.Precision(class), matrix.Recall(class))
	}
	// Output:
	// confusion 0.750
	// macro F1 0.778
	// top-2 1.000
	// class 0: precision 0.50, recall 1.00
	// class 1: precision 1.00, recall 1.00
	// class 2: precision 1.00, recall 0.50
}

// A metric of one's own: the share of samples whose error is below a tenth.
func ExampleMean() {
	net := layers.New(gorgonia.NewGraph())
	out, target := net.Input("out", 8, 1), net.Input("target", 8, 1)
	near := net.Less(net.Abs(net.Sub(out, target, ""), ""), net.Constant(0.1, ""), "")
	m := metrics.Mean(net, "within a tenth", near, nil)
	if err := net.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Name, m.Sum.Shape(), m.Value([]float64{6, 8}))
	// Output: within a tenth (2) 0.75
}

// Labels of -1 count for nothing, in the loss and in metrics.
func ExampleAccuracy() {
	net := layers.New(gorgonia.NewGraph())
	logits, y := net.Input("logits", 8, 3), net.Labels("y", 8)
	labels, weight := net.Ignore(y, "ignore", -1)
	m := metrics.Accuracy(net, logits, labels, weight) // Model.Weight is weight, too
	if err := net.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Name, m.Sum.Shape())
	// Output: accuracy (2)
}

// The sums of a pass give the area and a bound of its error.
func ExampleAUCOf() {
	auc, bound, err := metrics.AUCOf([]float64{
		0, 4, // scores below a third: 4 negative samples
		1, 1,
		5, 0,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.3f ± %.3f\n", auc, bound)
	// Output: 0.983 ± 0.017
}
