package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// double is y = w·x, which the data have for w = 2.
func double(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1)
	return net.Regressor(x, net.Mul(x, net.Param("line/w", layers.Zeros{}, 1, 1), "out"))
}

// pairs are 8 pairs of a number and its double.
func pairs() dataloader.Dataset {
	x := []float32{1, 2, 3, 1, 2, 3, 1, 2}
	y := []float32{2, 4, 6, 2, 4, 6, 2, 4}
	ds, err := dataloader.FromSlices(8, dataloader.Column("x", x, 1), dataloader.Column("y", y, 1))
	if err != nil {
		log.Fatal(err)
	}
	return ds
}

// doubling returns a trainer, and a function that closes it and its device.
func doubling() (t *trainer.Trainer, end func()) {
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	t, err = trainer.New(context.Background(), double, trainer.Options{Device: dev, Batch: 2, Optimizer: optim.SGD{Rate: 0.01}, Checkpoint: true})
	if err != nil {
		log.Fatal(err)
	}
	return t, func() {
		t.Close()
		dev.Close()
	}
}

// A run of 3 epochs that ends after step 6, and goes on where it ended.
func Example() {
	dir := filepath.Join(os.TempDir(), fmt.Sprint("run", os.Getpid()))
	defer os.RemoveAll(dir)
	ctx := context.Background()
	run := func(last int64) {
		t, end := doubling()
		defer end()
		folder, err := checkpoint.Open(dir, checkpoint.Options{EveryTime: 5 * time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		defer folder.Close() // before the trainer
		resumed, err := folder.Resume(ctx, t)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("found a checkpoint:", resumed.Found)
		for step, err := range folder.Steps(ctx, t, loop.Until(ctx, t, pairs(), 3)) {
			if err != nil {
				log.Fatal(err)
			}
			if step.Number == last {
				break
			}
		}
		fmt.Println("trained to step", t.Stats().Steps)
	}
	run(6)
	run(100)
	// Output:
	// found a checkpoint: false
	// trained to step 6
	// found a checkpoint: true
	// trained to step 12
}

// Ctrl-C ends the loop after its step, with a checkpoint.
func ExampleSignals() {
	dir := filepath.Join(os.TempDir(), fmt.Sprint("signals", os.Getpid()))
	defer os.RemoveAll(dir)
	ctx := context.Background()
	t, end := doubling()
	defer end()
	stop, release := checkpoint.Signals()
	defer release()
	folder, err := checkpoint.Open(dir, checkpoint.Options{Stop: stop})
	if err != nil {
		log.Fatal(err)
	}
	defer folder.Close()
	for step, err := range folder.Steps(ctx, t, loop.Until(ctx, t, pairs(), 1000)) {
		if err != nil {
			log.Fatal(err)
		}
		if step.Number == 7 { // as Ctrl-C does
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Signal(os.Interrupt)
			}
			if err != nil {
				log.Fatal(err)
			}
			<-stop
		}
	}
	if folder.Stopped() {
		fmt.Println("the checkpoint of step", folder.Stats().Last.Step, "is written: the same command goes on")
	}
	// Output: the checkpoint of step 7 is written: the same command goes on
}

// The best of all evaluations is kept, besides the last ones.
func ExampleFolder_Measured() {
	dir := filepath.Join(os.TempDir(), fmt.Sprint("best", os.Getpid()))
	defer os.RemoveAll(dir)
	ctx := context.Background()
	t, end := doubling()
	defer end()
	folder, err := checkpoint.Open(dir, checkpoint.Options{EveryEpochs: 1, Keep: 2, Best: checkpoint.Best{Metric: "loss"}})
	if err != nil {
		log.Fatal(err)
	}
	defer folder.Close()
	for t.Position().Epoch < 5 && !folder.Stopped() {
		if _, err := folder.Fit(ctx, t, pairs()); err != nil {
			log.Fatal(err)
		}
		result, err := t.Evaluate(ctx, pairs())
		if err != nil {
			log.Fatal(err)
		}
		if err := folder.Measured(ctx, t, checkpoint.Values(result)); err != nil {
			log.Fatal(err)
		}
	}
	if err := folder.Wait(); err != nil {
		log.Fatal(err)
	}
	best, _ := folder.Best()
	fmt.Println(best.Name, len(best.Metrics))
	if _, err := folder.Restore(ctx, t, best, trainer.RestoreOptions{}); err != nil { // to evaluate or predict with it
		log.Fatal(err)
	}
	// Output: step-000000000020.safetensors 1
}

// A folder that cannot be written to is resumed from, and training goes on with another one.
func ExampleOptions_readOnly() {
	dir := filepath.Join(os.TempDir(), fmt.Sprint("readonly", os.Getpid()))
	defer os.RemoveAll(dir)
	ctx := context.Background()
	first, end := doubling()
	defer end()
	published, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := published.Fit(ctx, first, pairs()); err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(published.Save(ctx, first), published.Close()); err != nil {
		log.Fatal(err)
	}

	t, end := doubling()
	defer end()
	old, err := checkpoint.Open(dir, checkpoint.Options{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer old.Close()
	resumed, err := old.Resume(ctx, t)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("goes on after step", resumed.From.Step)
	err = old.Save(ctx, t)
	fmt.Println("read-only:", errors.Is(err, checkpoint.ErrReadOnly))
	// Output:
	// goes on after step 4
	// read-only: true
}
