package loop_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// opened returns a trainer of y = w·x with data for w = 2. The caller closes both.
func opened(opt trainer.Options) (*cpu.Device, *trainer.Trainer, *dataloader.Slices) {
	ds, err := dataloader.FromSlices(4, dataloader.Column("x", []float32{1, 1, 1, 1}, 1), dataloader.Column("y", []float32{2, 2, 2, 2}, 1))
	if err != nil {
		log.Fatal(err)
	}
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	opt.Device, opt.Batch = dev, 2
	t, err := trainer.New(context.Background(), line, opt)
	if err != nil {
		log.Fatal(err)
	}
	return dev, t, ds
}

// Training ends when the loss no longer improves, or after an hour. The best weights are restored.
func Example() {
	dev, t, ds := opened(trainer.Options{Optimizer: optim.SGD{Rate: 0.25}})
	defer dev.Close()
	defer t.Close()
	ctx := context.Background()
	weights, err := loop.NewWeights(t)
	if err != nil {
		log.Fatal(err)
	}
	early := loop.Early{Patience: 2, MinDelta: 1e-6, Weights: weights}
	steps := loop.Within(loop.Epochs(ctx, t, ds, 100), time.Hour)
	for e, err := range loop.Evaluations(ctx, t, steps, ds, 2) {
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
	_, n := early.Best()
	fmt.Printf("evaluation %d was the best, %d epochs of 100\n", n, t.Stats().Epochs)
	// Output: evaluation 6 was the best, 9 epochs of 100
}

// The rate falls to a tenth when a result does not improve twice in a row.
func ExamplePlateau() {
	plateau, err := loop.NewPlateau(loop.Drop{Patience: 1})
	if err != nil {
		log.Fatal(err)
	}
	dev, t, _ := opened(trainer.Options{Schedule: plateau})
	defer dev.Close()
	defer t.Close()
	for _, loss := range []float64{3, 2, 2, 2} { // of evaluations
		fmt.Println(plateau.Add(loss), plateau.Rate(0.01, 1))
	}
	// Output:
	// false 0.01
	// false 0.01
	// false 0.01
	// true 0.001
}

// A range test before training. plot.RangeTest draws the curve.
func ExampleRangeTest() {
	dev, t, ds := opened(trainer.Options{})
	defer dev.Close()
	defer t.Close()
	curve, err := loop.RangeTest(context.Background(), line, trainer.Options{Device: dev, Batch: 2}, ds, loop.Sweep{From: 1e-4, To: 10, Steps: 100})
	if err != nil {
		log.Fatal(err)
	}
	rate := curve.Steepest()
	fmt.Println(rate > 0.01 && rate < 0.5)
	// Output: true
}

// Three of five files are kept.
func ExampleTop() {
	top := loop.Top{K: 3, Larger: true}
	for epoch, accuracy := range []float64{0.7, 0.8, 0.75, 0.9, 0.6} {
		if kept, dropped := top.Add(accuracy, fmt.Sprint("epoch", epoch)); kept { // write the new file
			fmt.Printf("keep epoch%d, remove %q\n", epoch, dropped)
		}
	}
	// Output:
	// keep epoch0, remove ""
	// keep epoch1, remove ""
	// keep epoch2, remove ""
	// keep epoch3, remove "epoch0"
}

// Nine of ten gradients were not longer than this: a limit for Options.Clip.
func ExampleNorms() {
	dev, t, ds := opened(trainer.Options{GradientNorm: true, Optimizer: optim.SGD{Rate: 0.25}})
	defer dev.Close()
	defer t.Close()
	norms := loop.NewNorms(1000)
	for step, err := range loop.Epochs(context.Background(), t, ds, 5) {
		if err != nil {
			log.Fatal(err)
		}
		norms.Add(step)
	}
	fmt.Printf("%d norms, the largest %.1f, nine of ten at most %.1f\n", norms.Count(), norms.Quantile(1), norms.Quantile(0.9))
	// Output: 10 norms, the largest 4.0, nine of ten at most 2.0
}
