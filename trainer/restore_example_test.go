package trainer_test

import (
	"context"
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// xorNet is a classifier for xorData.
func xorNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 2)
	h := net.Dense(x, "hidden", 16, layers.Tanh)
	return net.Classifier(x, net.Dense(h, "out", 2, nil))
}

// A state is kept in memory, and training goes back to it at a lower rate.
func ExampleTrainer_Restore() {
	onXor(xorNet, trainer.Options{Optimizer: optim.Adam{Rate: 0.05}, Checkpoint: true}, func(t *trainer.Trainer, data dataloader.Dataset) error {
		ctx := context.Background()
		if _, err := t.Fit(ctx, data); err != nil {
			return err
		}
		state, err := t.Capture(ctx)
		if err != nil {
			return err
		}
		defer state.Release()
		fmt.Println("captured before epoch", state.Info().Position.Epoch)
		for range 10 {
			if _, err := t.Fit(ctx, data); err != nil {
				return err
			}
		}
		fmt.Println("next epoch:", t.Position().Epoch)
		restored, err := t.Restore(ctx, state.Source(), trainer.RestoreOptions{RateFactor: 0.5})
		if err != nil {
			return err
		}
		fmt.Println("next epoch:", restored.Position.Epoch)
		for step, err := range t.Steps(ctx, data) {
			if err != nil {
				return err
			}
			fmt.Println("step", step.Number, "of epoch", step.Epoch, "rate", step.Rate)
		}
		return nil
	})
	// Output:
	// captured before epoch 1
	// next epoch: 11
	// next epoch: 1
	// step 2 of epoch 1 rate 0.025
}

// A state goes from one trainer to another one: training continues with the same step.
func ExampleTrainer_Capture() {
	ctx, opt := context.Background(), trainer.Options{Optimizer: optim.Adam{Rate: 0.05}, Checkpoint: true}
	onXor(xorNet, opt, func(first *trainer.Trainer, data dataloader.Dataset) error {
		if _, err := first.Fit(ctx, data); err != nil {
			return err
		}
		state, err := first.Capture(ctx)
		if err != nil {
			return err
		}
		defer state.Release()
		for i, x := range state.Tensors()[:3] {
			fmt.Println(x.Name, x.Spec, len(state.Bytes(i)), "bytes")
		}
		onXor(xorNet, opt, func(second *trainer.Trainer, data dataloader.Dataset) error {
			if _, err := second.Restore(ctx, state.Source(), trainer.RestoreOptions{}); err != nil {
				return err
			}
			a, err := first.Fit(ctx, data)
			if err != nil {
				return err
			}
			b, err := second.Fit(ctx, data)
			fmt.Println("epoch", b.Epoch, "has the same loss:", a.Loss == b.Loss)
			return err
		})
		return nil
	})
	// Output:
	// hidden/w float32 (2, 16) 128 bytes
	// hidden/b float32 (16) 64 bytes
	// out/w float32 (16, 2) 128 bytes
	// epoch 1 has the same loss: true
}
