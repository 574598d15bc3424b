package weights_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/weights"
)

// classes is a network for a number of classes.
func classes(n int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 2)
		h := net.Dense(x, "trunk", 4, layers.Tanh)
		return net.Classifier(x, net.Dense(h, "head", n, nil))
	}
}

// open returns a trainer of a network for a number of classes, with the function that closes it.
func open(n int, seed uint64) (*trainer.Trainer, func()) {
	data, err := dataloader.FromSlices(1, dataloader.Column("x", []float32{0, 1}, 2), dataloader.Column("y", []uint8{1}))
	if err != nil {
		log.Fatal(err)
	}
	return openModel(classes(n), data, seed)
}

// openModel returns a trainer of a model whose batch is all of data, with the function that closes it.
func openModel(model trainer.ModelFunc, data *dataloader.Slices, seed uint64) (*trainer.Trainer, func()) {
	device, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	t, err := trainer.New(context.Background(), model, trainer.Options{Device: device, Batch: data.Len(), Fields: data.Fields(), Seed: seed})
	if err != nil {
		log.Fatal(err)
	}
	return t, func() {
		if err := errors.Join(t.Close(), device.Close()); err != nil {
			log.Fatal(err)
		}
	}
}

// folder returns a folder for a file, with the function that removes it.
func folder() (string, func()) {
	dir, err := os.MkdirTemp("", "weights")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			log.Fatal(err)
		}
	}
}

// The weights of a trained model become those of a new one.
func Example() {
	ctx := context.Background()
	dir, remove := folder()
	defer remove()
	path := filepath.Join(dir, "model.safetensors")

	trained, closeTrained := open(3, 1)
	defer closeTrained()
	if err := weights.Save(ctx, path, trained, weights.SaveOptions{}); err != nil {
		log.Fatal(err)
	}
	t, closeT := open(3, 2)
	defer closeT()
	report, err := weights.Load(ctx, path, t, weights.LoadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report)
	// Output:
	// loaded 4: head/b, head/w, trunk/b, trunk/w
}

// Fine-tuning: all but the head comes from a model of three classes, for one of five.
func ExampleLoad() {
	ctx := context.Background()
	dir, remove := folder()
	defer remove()
	path := filepath.Join(dir, "three.safetensors")
	three, closeThree := open(3, 1)
	defer closeThree()
	if err := weights.Save(ctx, path, three, weights.SaveOptions{}); err != nil {
		log.Fatal(err)
	}
	five, closeFive := open(5, 2)
	defer closeFive()
	_, err := weights.Load(ctx, path, five, weights.LoadOptions{})
	var bad *trainer.WeightsError
	if errors.As(err, &bad) {
		for _, m := range bad.Other {
			fmt.Printf("%s is %s, must be %s\n", m.Name, m.Got, m.Want)
		}
	}
	report, err := weights.Load(ctx, path, five, weights.LoadOptions{Except: []string{"head"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report)
	// Output:
	// head/w is F32 [4 3], must be F32 [4 5]
	// head/b is F32 [3], must be F32 [5]
	// loaded 2: trunk/b, trunk/w
	// excluded 2: head/b, head/w
	// left over 2: head/b, head/w
}

// NumPy reads half of the bytes: weights["trunk/w"] is an array of float16.
func ExampleSave() {
	ctx := context.Background()
	dir, remove := folder()
	defer remove()
	t, closeT := open(3, 1)
	defer closeT()
	path := filepath.Join(dir, "model.npz")
	if err := weights.Save(ctx, path, t, weights.SaveOptions{DType: "F16", Only: []string{"trunk"}}); err != nil {
		log.Fatal(err)
	}
	report, err := weights.Load(ctx, path, t, weights.LoadOptions{Partial: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report)
	// Output:
	// loaded 2: trunk/b, trunk/w
	// missing 2: head/b, head/w
}

// A copy of the weights, also from another device.
func ExampleClone() {
	ctx := context.Background()
	from, closeFrom := open(3, 1)
	defer closeFrom()
	to, closeTo := open(3, 2)
	defer closeTo()
	if _, err := weights.Clone(ctx, to, from, weights.LoadOptions{}); err != nil {
		log.Fatal(err)
	}
	a, b := make([]float32, 8), make([]float32, 8)
	if err := errors.Join(from.Read("trunk/w", a), to.Read("trunk/w", b)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(a[0] == b[0])
	// Output:
	// true
}
