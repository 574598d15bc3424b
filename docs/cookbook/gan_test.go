package cookbook_test

// The program of gan.md begins here.

import (
	"context"
	"fmt"
	"log"
	"math"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

const modes, noise = 8, 4

// ring has points x around 8 modes on a circle of radius 2, and noise z. Each epoch has others.
type ring struct{}

func (ring) Len() int { return 512 }

func (ring) Fields() []dataloader.Field {
	return []dataloader.Field{
		{Name: "x", Type: arena.Float32, Shape: []int{2}},
		{Name: "z", Type: arena.Float32, Shape: []int{noise}},
	}
}

func (ring) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	random := at.Rand()
	normal := func() float64 { // Box and Muller
		return math.Sqrt(-2*math.Log(1-random.Float64())) * math.Cos(2*math.Pi*random.Float64())
	}
	x, z := dataloader.View[float32](dst[0]), dataloader.View[float32](dst[1])
	angle := 2 * math.Pi * float64(at.Index%modes) / modes
	x[0], x[1] = float32(2*math.Cos(angle)+0.1*normal()), float32(2*math.Sin(angle)+0.1*normal())
	for i := range z {
		z[i] = float32(normal())
	}
	return nil
}

// gan has a generator, "g/", and a discriminator, "d/", which is applied twice.
func gan(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, z := net.Input("x", batch, 2), net.Input("z", batch, noise)
	perceptron := func(net *layers.Net, x *gorgonia.Node, out int) *gorgonia.Node {
		h := net.Dense(x, "hidden1", 32, layers.LeakyReLU(0.2))
		h = net.Dense(h, "hidden2", 32, layers.LeakyReLU(0.2))
		return net.Dense(h, "out", out, nil)
	}
	made := perceptron(net.Scope("g"), z, 2)
	d := net.Shared("d")
	real, fake := perceptron(d, x, 1), perceptron(d, made, 1)
	softplus := func(x *gorgonia.Node, name string) *gorgonia.Node { // softplus(-a) is -log sigmoid(a)
		return net.Mean(layers.Softplus(net, x, ""), name, layers.Reduce{})
	}
	dLoss := net.Add(softplus(net.Neg(real, ""), "loss/real"), softplus(fake, "loss/fake"), "loss/d")
	gLoss := softplus(net.Neg(fake, ""), "loss/g")
	return trainer.Model{
		Inputs: net.Inputs(), Output: made, Params: net.Params(),
		Objectives: []layers.Objective{
			{Name: "discriminator", Loss: dLoss, Params: []string{"d/"}},
			{Name: "generator", Loss: gLoss, Params: []string{"g/"}},
		},
	}, net.Err()
}

func Example_gan() {
	ctx := context.Background()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := trainer.New(ctx, gan, trainer.Options{Device: dev, Batch: 64, Optimizer: optim.Adam{Rate: 2e-3, Beta1: 0.5}})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for range 400 {
		if _, err := t.Fit(ctx, ring{}); err != nil {
			log.Fatal(err)
		}
	}
	var near [modes]int // points that the generator makes, by mode
	good := 0           // of them within 0.5 of their mode
	for p, err := range t.Predict(ctx, ring{}) {
		if err != nil {
			log.Fatal(err)
		}
		turn := math.Atan2(float64(p.Output[1]), float64(p.Output[0])) / (2 * math.Pi)
		mode := (int(math.Round(turn*modes)) + modes) % modes
		angle := 2 * math.Pi * float64(mode) / modes
		if math.Hypot(float64(p.Output[0])-2*math.Cos(angle), float64(p.Output[1])-2*math.Sin(angle)) < 0.5 {
			near[mode]++
			good++
		}
	}
	fmt.Printf("every mode has points: %t\n", slices.Min(near[:]) > 0)
	fmt.Printf("most points are near a mode: %t\n", good > ring{}.Len()/2)
	// Output:
	// every mode has points: true
	// most points are near a mode: true
}

// The program of gan.md ends here.
