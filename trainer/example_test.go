package trainer_test

import (
	"context"
	"fmt"
	"log"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func xor(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.On(g)
	x := net.Input("x", batch, 2)
	h := net.Dense(x, "hidden", 16, layers.Tanh)
	return net.Classifier(x, net.Dense(h, "out", 2, nil))
}

// A whole program: two bits in, their exclusive or as the class.
func Example() {
	data, err := dataloader.FromSlices(4,
		dataloader.Column("x", []float32{0, 0, 0, 1, 1, 0, 1, 1}, 2),
		dataloader.Column("y", []uint8{0, 1, 1, 0}))
	if err != nil {
		log.Fatal(err)
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(context.Background(), xor, trainer.Options{
		Device: device, Batch: 4, Optimizer: optim.Adam{Rate: 0.05}, Memory: 64 << 10, Fields: data.Fields(),
	})
	if err != nil {
		log.Fatal(err) // says how many bytes are missing, and which batch would fit
	}
	defer t.Close()
	for range 200 {
		if _, err := t.Fit(context.Background(), data); err != nil { // one epoch
			log.Fatal(err)
		}
	}
	result, err := t.Evaluate(context.Background(), data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.0f %%, arena within 12 KiB: %t\n", 100*result.Accuracy, t.Stats().Arena.Reserved <= 12<<10)
	// Output: accuracy 100 %, arena within 12 KiB: true
}
