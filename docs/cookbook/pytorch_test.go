package cookbook_test

// The program of pytorch.md begins here.

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/weights"
)

// quadrants is the net of points.py. Its layers have the names of the modules there.
func quadrants(head string, classes int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 2)
		h := net.Dense(x, "trunk/hidden1", 32, layers.Tanh)
		h = net.Dense(h, "trunk/hidden2", 32, layers.Tanh)
		return net.Classifier(x, net.Dense(h, head, classes, nil))
	}
}

// square makes n random points of the square with the class of each.
func square(n int, seed uint64, class func(right, up bool) uint8) *dataloader.Slices {
	r := rand.New(rand.NewPCG(seed, 0))
	x, y := make([]float32, 2*n), make([]uint8, n)
	for i := range y {
		x[2*i], x[2*i+1] = 2*r.Float32()-1, 2*r.Float32()-1
		y[i] = class(x[2*i] > 0, x[2*i+1] > 0)
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 2), dataloader.Column("y", y))
	if err != nil {
		log.Fatal(err)
	}
	return ds
}

func Example_pytorch() {
	ctx := context.Background()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	const file = "testdata/points.safetensors"

	// PyTorch's net, as it is.
	test := square(500, 1, func(right, up bool) uint8 {
		class := uint8(0)
		if right {
			class++
		}
		if up {
			class += 2
		}
		return class
	})
	t, err := trainer.New(ctx, quadrants("quadrant", 4), trainer.Options{Device: dev, Batch: 50, Fields: test.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	report, err := weights.Load(ctx, file, t, weights.LoadOptions{Rules: weights.Torch()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report)
	result, err := t.Evaluate(ctx, test)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy above 0.98: %t\n", result.Accuracy > 0.98)

	// Its trunk under a new head: is a point in the upper right corner?
	corner := func(right, up bool) uint8 {
		if right && up {
			return 1
		}
		return 0
	}
	small := square(200, 2, corner)
	tuned, err := trainer.New(ctx, quadrants("corner", 2), trainer.Options{Device: dev, Batch: 50,
		Optimizer: optim.Adam{Rate: 0.02}, Fields: small.Fields(), Frozen: []string{"trunk"}})
	if err != nil {
		log.Fatal(err)
	}
	defer tuned.Close()
	report, err = weights.Load(ctx, file, tuned, weights.LoadOptions{Rules: weights.Torch(), Except: []string{"corner"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report)
	for range 20 {
		if _, err := tuned.Fit(ctx, small); err != nil {
			log.Fatal(err)
		}
	}
	if result, err = tuned.Evaluate(ctx, square(500, 3, corner)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy above 0.95: %t\n", result.Accuracy > 0.95)

	// Back to PyTorch.
	dir, err := os.MkdirTemp("", "tuned")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	err = weights.Save(ctx, filepath.Join(dir, "tuned.safetensors"), tuned, weights.SaveOptions{Rules: weights.Torch()})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// loaded 6: quadrant/b, quadrant/w, trunk/hidden1/b, trunk/hidden1/w, trunk/hidden2/b, trunk/hidden2/w
	// accuracy above 0.98: true
	// loaded 4: trunk/hidden1/b, trunk/hidden1/w, trunk/hidden2/b, trunk/hidden2/w
	// excluded 2: corner/b, corner/w
	// left over 2: quadrant.bias, quadrant.weight
	// accuracy above 0.95: true
}

// The program of pytorch.md ends here.
