package trainer_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// digitGAN makes images of digits. objectives selects those that the model has: 0 is the discriminator, 1 the generator.
func digitGAN(objectives ...int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, z := net.Input("x", batch, 784), net.Input("z", batch, 64)
		generator, discriminator := newPerceptron(net, "g", 64, 256, 512, 784), newPerceptron(net, "d", 784, 512, 256, 1)
		m := ganOf(net, x, z, generator, discriminator)
		all := m.Objectives
		m.Objectives = nil
		for _, i := range objectives {
			m.Objectives = append(m.Objectives, all[i])
		}
		return m, net.Err()
	}
}

// BenchmarkObjectives measures epochs of a GAN, and of a trainer for each of its objectives alone, in turn. The metric
// both/sum is the time of a step of both objectives over the sum of the times of the steps alone.
func BenchmarkObjectives(b *testing.B) {
	for _, d := range targets {
		if d.name == "emu" {
			continue
		}
		b.Run(d.name, func(b *testing.B) { benchmarkObjectives(b, d.open(b, 0)) })
	}
}

func benchmarkObjectives(b *testing.B, dev kernels.Device) {
	const batch, batches = 128, 20
	r := rand.New(rand.NewPCG(1, 2))
	x, z := make([]uint8, batch*batches*784), make([]float32, batch*batches*64)
	for i := range x {
		x[i] = uint8(r.Uint32())
	}
	for i := range z {
		z[i] = float32(r.NormFloat64())
	}
	ds := columns(b, batch*batches, dataloader.Column("x", x, 784).Scaled(1.0/255, 0), dataloader.Column("z", z, 64))
	noise, err := dataloader.Select(ds, "z")
	if err != nil {
		b.Fatal(err)
	}
	opt := trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields(), Optimizer: optim.Adam{}}
	var trainers []*trainer.Trainer
	var data []dataloader.Dataset
	for _, c := range []struct {
		objectives []int
		frozen     []string
		data       dataloader.Dataset
	}{{[]int{0, 1}, nil, ds}, {[]int{0}, []string{"g/"}, ds}, {[]int{1}, []string{"d/"}, noise}} {
		opt.Frozen = c.frozen
		tr := made(b, digitGAN(c.objectives...), opt)
		fit(b, tr, c.data)
		trainers, data = append(trainers, tr), append(data, c.data)
	}
	var spent [3]time.Duration
	b.ResetTimer()
	for range b.N {
		for i, tr := range trainers {
			start := time.Now()
			if _, err := tr.Fit(context.Background(), data[i]); err != nil {
				b.Fatal(err)
			}
			spent[i] += time.Since(start)
		}
	}
	perStep := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(b.N*batches) }
	b.ReportMetric(perStep(spent[0]), "both-µs/step")
	b.ReportMetric(perStep(spent[1]), "d-µs/step")
	b.ReportMetric(perStep(spent[2]), "g-µs/step")
	b.ReportMetric(spent[0].Seconds()/(spent[1]+spent[2]).Seconds(), "both/sum")
}
