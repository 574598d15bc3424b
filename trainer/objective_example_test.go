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

// onXor makes a trainer for a model on the four samples of xor, and passes it to use.
func onXor(model trainer.ModelFunc, opt trainer.Options, use func(t *trainer.Trainer, data dataloader.Dataset) error) {
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	data := xorData()
	opt.Device, opt.Batch, opt.Fields = device, 4, data.Fields()
	t, err := trainer.New(context.Background(), model, opt)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	if err := use(t, data); err != nil {
		log.Fatal(err)
	}
}

// Two classifiers learn from the same batches, each by an optimizer of its own; the second only from every second batch.
func ExampleObjective() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, y := net.Input("x", batch, 2), net.Labels("y", batch)
		m := trainer.Model{}
		for _, name := range []string{"wide", "linear"} {
			h := x
			if name == "wide" {
				h = net.Dense(h, "wide/hidden", 16, layers.Tanh)
			}
			logits := net.Dense(h, name+"/out", 2, nil)
			loss := net.Mean(net.CrossEntropy(logits, y, name+"/rows"), name+"/loss", layers.Reduce{})
			m.Objectives = append(m.Objectives, layers.Objective{Name: name, Loss: loss, Params: []string{name + "/"}})
		}
		m.Inputs, m.Params = net.Inputs(), net.Params()
		return m, net.Err()
	}
	opt := trainer.Options{Optimizer: optim.Adam{Rate: 0.05},
		Objectives: []trainer.Objective{{Name: "linear", Optimizer: optim.SGD{Rate: 0.1}, Every: 2}}}
	onXor(model, opt, func(t *trainer.Trainer, data dataloader.Dataset) error {
		for range 200 {
			if _, err := t.Fit(context.Background(), data); err != nil {
				return err
			}
		}
		res, err := t.Evaluate(context.Background(), data)
		for _, l := range res.Losses {
			fmt.Printf("%s: %.1f\n", l.Name, l.Loss) // no line separates the classes of xor: log 2 is 0.7
		}
		return err
	})
	// Output:
	// wide: 0.0
	// linear: 0.7
}

// Biases are not decayed, and the last layer learns faster by another optimizer, which needs less state.
func ExampleOptions_groups() {
	plan, err := trainer.Plan(context.Background(), xor, trainer.Options{
		Batch: 4, Optimizer: optim.AdamW{},
		Groups: []trainer.Group{
			{Match: []string{"out/w"}, Optimizer: optim.Lion{}, RateFactor: 3},
			{Match: trainer.BiasesAndNorms, NoDecay: true},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range plan.Regions {
		if r.Name == "optimizer state" {
			for _, p := range r.Parts {
				fmt.Println(p.Name, p.Size)
			}
		}
	}
	// Output:
	// out/b/m 8
	// out/b/v 8
	// out/w/m 128
	// hidden/b/m 64
	// hidden/b/v 64
	// hidden/w/m 128
	// hidden/w/v 128
}

// The last layer is trained alone first, then all layers, in memory that is planned for all.
func ExampleTrainer_Unfreeze() {
	opt := trainer.Options{Optimizer: optim.Adam{Rate: 0.05}, Frozen: []string{"hidden"}, Unfreeze: [][]string{{"hidden"}}}
	onXor(xor, opt, func(t *trainer.Trainer, data dataloader.Dataset) error {
		for epoch := range 200 {
			if epoch == 20 {
				if err := t.Unfreeze(context.Background()); err != nil {
					return err
				}
			}
			if _, err := t.Fit(context.Background(), data); err != nil {
				return err
			}
		}
		res, err := t.Evaluate(context.Background(), data)
		fmt.Println("accuracy:", res.Accuracy)
		return err
	})
	// Output: accuracy: 1
}
