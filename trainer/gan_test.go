package trainer_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// ring is a dataset of points around modes on a circle of radius 2, and of noise. Each epoch has others.
type ring struct{ samples, modes, noise int }

func (r ring) Len() int { return r.samples }

func (r ring) Fields() []dataloader.Field {
	return []dataloader.Field{{Name: "x", Type: arena.Float32, Shape: []int{2}}, {Name: "z", Type: arena.Float32, Shape: []int{r.noise}}}
}

func (r ring) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	random := at.Rand()
	normal := func() float64 { // Box and Muller
		return math.Sqrt(-2*math.Log(1-random.Float64())) * math.Cos(2*math.Pi*random.Float64())
	}
	x, z := dataloader.View[float32](dst[0]), dataloader.View[float32](dst[1])
	angle := 2 * math.Pi * float64(at.Index%r.modes) / float64(r.modes)
	x[0], x[1] = float32(2*math.Cos(angle)+0.2*normal()), float32(2*math.Sin(angle)+0.2*normal())
	for i := range z {
		z[i] = float32(normal())
	}
	return nil
}

// perceptron is a perceptron that can be applied several times.
type perceptron struct {
	net  *layers.Net
	name string
	w, b gorgonia.Nodes
}

func newPerceptron(net *layers.Net, name string, widths ...int) *perceptron {
	p := &perceptron{net: net, name: name}
	for i, out := range widths[1:] {
		p.w = append(p.w, net.Param(fmt.Sprintf("%s/%d/w", name, i), layers.HeUniform{}, widths[i], out))
		p.b = append(p.b, net.Param(fmt.Sprintf("%s/%d/b", name, i), layers.Zeros{}, out))
	}
	return p
}

// of adds the output for x.
func (p *perceptron) of(x *gorgonia.Node, use string) *gorgonia.Node {
	for i, w := range p.w {
		x = p.net.Add(p.net.MatMul(x, w, "", layers.Transposed{}), p.b[i], "")
		if i+1 < len(p.w) {
			x = layers.LeakyReLU(0.2)(p.net, x, fmt.Sprintf("%s/%d/%s", p.name, i, use))
		}
	}
	return x
}

// gan is a generator and a discriminator of points, with the losses of Goodfellow and others, 2014, where the
// generator maximises log D(G(z)).
func gan(noise, width int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, z := net.Input("x", batch, 2), net.Input("z", batch, noise)
		generator := newPerceptron(net, "g", noise, width, width, 2)
		discriminator := newPerceptron(net, "d", 2, width, width, 1)
		return ganOf(net, x, z, generator, discriminator), net.Err()
	}
}

// ganOf returns the model of a generator and a discriminator.
func ganOf(net *layers.Net, x, z *gorgonia.Node, generator, discriminator *perceptron) trainer.Model {
	made := generator.of(z, "z")
	real, fake := discriminator.of(x, "real"), discriminator.of(made, "fake")
	// -log sigmoid(a) = softplus(-a)
	mean := func(x *gorgonia.Node, name string) *gorgonia.Node {
		return net.Mean(layers.Softplus(net, x, ""), name, layers.Reduce{})
	}
	return trainer.Model{
		Inputs: net.Inputs(), Output: made, Params: net.Params(),
		Objectives: []layers.Objective{
			{Name: "discriminator", Params: []string{"d/"}, Loss: net.Add(mean(net.Neg(real, ""), "real/loss"), mean(fake, "fake/loss"), "d/loss")},
			{Name: "generator", Params: []string{"g/"}, Loss: mean(net.Neg(fake, ""), "g/loss")},
		},
	}
}

// A generator of points on a ring learns all of its modes.
func TestAGeneratorCoversTheModesOfARing(t *testing.T) {
	t.Parallel()
	const modes = 8
	data := ring{samples: 4096, modes: modes, noise: 8}
	tr := made(t, gan(data.noise, 64), trainer.Options{Device: openCPU(t), Batch: 128, Fields: data.Fields(), Seed: 1,
		Optimizer:  optim.Adam{Rate: 1e-3, Beta1: 0.5},
		Objectives: []trainer.Objective{{Name: "discriminator", Optimizer: optim.Adam{Rate: 4e-3, Beta1: 0.5}}}})
	for range 60 {
		fit(t, tr, data)
	}
	var near [modes]int
	good := 0
	points := outputs(t, tr, ring{samples: 2000, modes: modes, noise: data.noise})
	for i := 0; i < len(points); i += 2 {
		x, y := points[i], points[i+1]
		mode := int(math.Round(math.Atan2(y, x)/(2*math.Pi)*modes)+modes) % modes
		angle := 2 * math.Pi * float64(mode) / modes
		if math.Hypot(x-2*math.Cos(angle), y-2*math.Sin(angle)) < 0.6 {
			near[mode]++
			good++
		}
	}
	for mode, n := range near {
		if n < 20 {
			t.Errorf("mode %d has %d of 2000 points: %v", mode, n, near)
		}
	}
	if good < 1000 {
		t.Errorf("%d of 2000 points are near a mode: %v", good, near)
	}
}
