package cookbook_test

// The program of finetune.md begins here.

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// classifier has a trunk, which is the same for all tasks, and a head of its own for each task.
func classifier(head string, classes int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 2)
		trunk := net.Scope("trunk")
		h := trunk.Dense(x, "hidden1", 32, layers.Tanh)
		h = trunk.Dense(h, "hidden2", 32, layers.Tanh)
		return net.Classifier(x, net.Dense(h, head, classes, nil))
	}
}

// points makes n random points of the square with the class of each.
func points(n int, seed uint64, class func(x, y float32) uint8) *dataloader.Slices {
	r := rand.New(rand.NewPCG(seed, 0))
	x, y := make([]float32, 2*n), make([]uint8, n)
	for i := range y {
		x[2*i], x[2*i+1] = 2*r.Float32()-1, 2*r.Float32()-1
		y[i] = class(x[2*i], x[2*i+1])
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 2), dataloader.Column("y", y))
	if err != nil {
		log.Fatal(err)
	}
	return ds
}

// fit trains n epochs.
func fit(t *trainer.Trainer, ds dataloader.Dataset, n int) {
	for range n {
		if _, err := t.Fit(context.Background(), ds); err != nil {
			log.Fatal(err)
		}
	}
}

func Example_finetune() {
	quadrant := func(x, y float32) uint8 { // of four
		class := uint8(0)
		if x > 0 {
			class++
		}
		if y > 0 {
			class += 2
		}
		return class
	}
	equal := func(x, y float32) uint8 { // whether the signs of x and y are equal
		if (x > 0) == (y > 0) {
			return 1
		}
		return 0
	}
	large, small := points(1000, 1, quadrant), points(200, 2, equal)

	ctx := context.Background()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	first, err := trainer.New(ctx, classifier("quadrant", 4), trainer.Options{Device: dev, Batch: 50,
		Optimizer: optim.Adam{Rate: 0.01}, Fields: large.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	fit(first, large, 20)

	second, err := trainer.New(ctx, classifier("equal", 2), trainer.Options{Device: dev, Batch: 50,
		Optimizer: optim.Adam{Rate: 0.02}, Fields: small.Fields(),
		Frozen:   []string{"trunk"},
		Unfreeze: [][]string{{"trunk"}},
		Groups:   []trainer.Group{{Match: []string{"trunk/"}, RateFactor: 0.1}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()
	copyTrunk(second, first)
	before, _ := dev.Allocated()
	fit(second, small, 20) // the head alone
	fmt.Printf("frozen trunk is the same to the bit: %t\n", equalTrunks(second, first))
	if err := second.Unfreeze(ctx); err != nil {
		log.Fatal(err)
	}
	fit(second, small, 20) // all layers, the trunk at a tenth of the rate
	fmt.Printf("trunk is the same after unfreezing: %t\n", equalTrunks(second, first))
	after, _ := dev.Allocated()
	fmt.Printf("bytes that unfreezing allocates: %d\n", after-before)
	result, err := second.Evaluate(ctx, points(500, 3, equal))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy above 0.9: %t\n", result.Accuracy > 0.9)
	// Output:
	// frozen trunk is the same to the bit: true
	// trunk is the same after unfreezing: false
	// bytes that unfreezing allocates: 0
	// accuracy above 0.9: true
}

// trunkOf returns the bytes of all parameters of the trunk, by name.
func trunkOf(t *trainer.Trainer) map[string][]byte {
	params, err := t.Params()
	if err != nil {
		log.Fatal(err)
	}
	trunk := map[string][]byte{}
	for _, p := range params {
		if !strings.HasPrefix(p.Name, "trunk/") {
			continue // heads have names of their own
		}
		trunk[p.Name] = make([]byte, p.Spec.Bytes())
		if err := p.Read(trunk[p.Name]); err != nil {
			log.Fatal(err)
		}
	}
	return trunk
}

// copyTrunk copies all parameters of the trunk.
func copyTrunk(dst, src *trainer.Trainer) {
	trunk := trunkOf(src)
	params, err := dst.Params()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range params {
		if values, ok := trunk[p.Name]; ok {
			if err := p.Write(values); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// equalTrunks reports whether the parameters of the trunks have the same bits.
func equalTrunks(a, b *trainer.Trainer) bool {
	return maps.EqualFunc(trunkOf(a), trunkOf(b), bytes.Equal)
}

// The program of finetune.md ends here.
