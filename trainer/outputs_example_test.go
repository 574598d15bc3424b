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
)

// An autoencoder whose latent vector is an output, too.
func ExamplePrediction_Named() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 6)
		latent := net.Scope("encoder").Dense(x, "latent", 2, layers.Tanh)
		m, err := net.Autoencoder(x, net.Scope("decoder").Dense(latent, "out", 6, nil))
		m.Outputs = gorgonia.Nodes{latent}
		return m, err
	}
	data, err := dataloader.FromSlices(2, dataloader.Column("x", make([]float32, 12), 6))
	if err != nil {
		log.Fatal(err)
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(context.Background(), model, trainer.Options{Device: device, Batch: 2, Fields: data.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for p, err := range t.Predict(context.Background(), data) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(p.Output), p.Named("encoder/latent/act"))
	}
	// Output:
	// 6 [0 0]
	// 6 [0 0]
}
