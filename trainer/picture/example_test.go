package picture_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/picture"
)

// classifier is 784-512-256-10.
func classifier(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// A page with two plans: gradients that are freed before the next one is computed need no region.
func Example() {
	opt := trainer.Options{Batch: 128, Optimizer: optim.Adam{}}
	kept, err := trainer.Plan(context.Background(), classifier, opt)
	if err != nil {
		log.Fatal(err)
	}
	opt.Guard = trainer.GuardEach
	freed, err := trainer.Plan(context.Background(), classifier, opt)
	if err != nil {
		log.Fatal(err)
	}
	lines, err := layers.Sources(classifier, opt.Batch)
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	page := picture.Options{Name: "kept", Other: freed, OtherName: "freed", Lines: lines}
	if err := picture.Save(filepath.Join(dir, "plan.html"), kept, page); err != nil {
		log.Fatal(err)
	}
	for _, c := range picture.Difference(kept, freed).Regions {
		if c.A != c.B {
			fmt.Println(c.Name, c.A, c.B)
		}
	}
	fmt.Println("hidden2/act:", lines["hidden2/act"])
	// Output:
	// gradients 2143488 0
	// scratch 655360 786432
	// hidden2/act: [picture/example_test.go:23]
}
