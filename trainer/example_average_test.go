package trainer_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// An average of the parameters is kept in the arena, and evaluates without a copy.
func ExampleTrainer_Averaged() {
	t, device := trainXOR(trainer.Options{Average: optim.Average{Decay: 0.9}})
	defer device.Close()
	defer t.Close()
	ctx, data := context.Background(), xorData()
	now, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	averaged, err := t.Averaged().Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.0f %%, with averages %.0f %%\n", 100*now.Accuracy, 100*averaged.Accuracy)
	fmt.Println("averages take", t.Plan().Category("averages"), "bytes, parameters", t.Plan().Category("parameters"))
	// Output:
	// accuracy 100 %, with averages 100 %
	// averages take 1024 bytes, parameters 1024
}

// A policy and its target network are two prefixes of one model. The target is not trained: it is set
// to the policy now and then, or follows it slowly.
func ExampleTrainer_CopyParams() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		now, next := net.Input("now", batch, 4), net.Input("next", batch, 4)
		value := func(name string, x *gorgonia.Node) *gorgonia.Node {
			return net.Dense(net.Dense(x, name+"/hidden", 16, layers.Tanh), name+"/value", 1, nil)
		}
		policy, target := value("policy", now), value("target", next)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		// The field y is the reward: policy(now) - target(next) should be that.
		return net.Regressor(now, gorgonia.Must(gorgonia.Sub(policy, target)))
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	ctx := context.Background()
	t, err := trainer.New(ctx, model, trainer.Options{Device: device, Batch: 2,
		Frozen: []string{"target/hidden", "target/value"}})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	if err := t.CopyParams("target", "policy"); err != nil { // equal at the start
		log.Fatal(err)
	}
	data, err := dataloader.FromSlices(2, dataloader.Column("now", []float32{0, 1, 2, 3, 4, 5, 6, 7}, 4),
		dataloader.Column("next", []float32{1, 2, 3, 4, 5, 6, 7, 8}, 4), dataloader.Column("y", []float32{1, 0}, 1))
	if err != nil {
		log.Fatal(err)
	}
	policy, target := make([]float32, 1), make([]float32, 1)
	show := func(when string) {
		if err := t.Read("policy/value/b", policy); err != nil {
			log.Fatal(err)
		}
		if err := t.Read("target/value/b", target); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: the target is at %.0f %% of the policy's way\n", when, 100*target[0]/policy[0])
	}
	if _, err := t.Fit(ctx, data); err != nil {
		log.Fatal(err)
	}
	show("trained")
	if err := t.MixParams("target", "policy", 0.25); err != nil {
		log.Fatal(err)
	}
	show("mixed")
	if err := t.CopyParams("target", "policy"); err != nil {
		log.Fatal(err)
	}
	show("copied")
	// Output:
	// trained: the target is at 0 % of the policy's way
	// mixed: the target is at 25 % of the policy's way
	// copied: the target is at 100 % of the policy's way
}

// Gradients are read by name: that of a parameter, and the norm of each layer's.
func ExampleTrainer_Read() {
	t, device := trainXOR(trainer.Options{Keep: []string{"out/b/grad", "*/gradnorm"}})
	defer device.Close()
	defer t.Close()
	bias, grad, norm := make([]float32, 2), make([]float32, 2), make([]float32, 1)
	if err := t.Read("out/b", bias); err != nil { // a parameter
		log.Fatal(err)
	}
	if err := t.Read("out/b/grad", grad); err != nil { // of the last update
		log.Fatal(err)
	}
	fmt.Printf("the gradients of out/b add up to 0: %t\n", about(float64(grad[0]+grad[1]), 0, 1e-6))
	for _, name := range t.KeptNames() {
		if !strings.HasSuffix(name, "/gradnorm") {
			continue
		}
		if err := t.Read(name, norm); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s is below 0.1: %t\n", name, norm[0] < 0.1)
	}
	// Output:
	// the gradients of out/b add up to 0: true
	// hidden/gradnorm is below 0.1: true
	// out/gradnorm is below 0.1: true
}

// The loss of each sample is the value of a node, here Classifier's "loss/rows".
func ExampleTrainer_Read_rows() {
	losses := make([]float32, 4)
	var t *trainer.Trainer
	worst := func(trainer.Progress) {
		if err := t.Read("loss/rows", losses); err != nil {
			log.Fatal(err)
		}
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	data := xorData()
	t, err = trainer.New(context.Background(), xor, trainer.Options{Device: device, Batch: 4, Fields: data.Fields(),
		Keep: []string{"loss/rows"}, Progress: worst})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	result, err := t.Evaluate(context.Background(), data)
	if err != nil {
		log.Fatal(err)
	}
	mean := (losses[0] + losses[1] + losses[2] + losses[3]) / 4
	fmt.Printf("%d losses, their mean is the loss: %t\n", len(losses), about(float64(mean), result.Loss, 1e-6))
	// Output: 4 losses, their mean is the loss: true
}
