package trainer_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// writeFloats overwrites a parameter or statistic.
func writeFloats(t *testing.T, tr *trainer.Trainer, name string, v []float32) {
	t.Helper()
	ps, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(ps, func(p trainer.Param) bool { return p.Name == name })
	b := make([]byte, 4*len(v))
	for i, e := range v {
		binary.NativeEndian.PutUint32(b[4*i:], math.Float32bits(e))
	}
	if err := ps[at].Write(b); err != nil {
		t.Fatal(err)
	}
}

// A convolution gives each channel one value, the running mean: from its bias alone, or from a
// constant image by one weight of 1. What normalizes it is exactly beta then, however large the mean,
// by every algorithm of convolutions. With scale and shift in the weights of the convolution it is
// not: 1e7 cancels.
func TestAConstantChannelOfAConvolutionBecomesBetaExactly(t *testing.T) {
	for _, c := range []struct {
		name                     string
		channels, groups, stride int
		bias, relu               bool
	}{
		{name: "bias alone", channels: 3, groups: 1, stride: 1, bias: true},
		{name: "bias alone, many channels", channels: 32, groups: 1, stride: 1, bias: true, relu: true},
		{name: "one weight", channels: 3, groups: 1, stride: 2},
		{name: "one weight, enough channels for tiles", channels: 12, groups: 1, stride: 1},
		{name: "one weight, many channels", channels: 33, groups: 1, stride: 1, relu: true},
		{name: "one weight, depthwise", channels: 3, groups: 3, stride: 1, relu: true},
	} {
		model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, c.channels, 5, 5)
			a := layers.Conv2D{Out: c.channels, Kernel: layers.Square(3), Pad: layers.Square(1), Groups: c.groups,
				Stride: layers.Square(c.stride), NoBias: !c.bias}
			var act layers.Activation
			if c.relu {
				act = layers.ReLU
			}
			y := net.BatchNorm(net.Conv(x, "conv", a, nil), "bn", act)
			return trainer.Model{Inputs: net.Inputs(), Output: y, Params: net.Params(), Statistics: net.Statistics(),
				Loss: gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(y))))}, net.Err()
		}
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				const rows = 3
				var mean, gamma, beta []float32
				for i := range c.channels {
					mean = append(mean, []float32{1e7, 100, -100}[i%3])
					gamma = append(gamma, []float32{1.3, 0.7, -2}[i%3])
					beta = append(beta, []float32{0.1, -0.7, 3e-5}[i%3])
				}
				var x []float32
				for i := range rows * c.channels {
					x = append(x, slices.Repeat(mean[i%c.channels:][:1], 25)...)
				}
				ds := columns(t, rows, dataloader.Column("x", x, c.channels, 5, 5))
				tr := made(t, model, trainer.Options{Device: dev, Batch: rows, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1e-3}})
				w := make([]float32, c.channels*c.channels/c.groups*9)
				if c.bias {
					writeFloats(t, tr, "conv/b", mean)
				} else {
					for o := range c.channels {
						w[(o*c.channels/c.groups+o%(c.channels/c.groups))*9+4] = 1
					}
				}
				writeFloats(t, tr, "conv/w", w)
				writeFloats(t, tr, "bn/gamma", gamma)
				writeFloats(t, tr, "bn/beta", beta)
				writeFloats(t, tr, "bn/mean", mean)
				writeFloats(t, tr, "bn/variance", make([]float32, c.channels))
				got := outputs(t, tr, ds)
				plane := len(got) / rows / c.channels
				squares := 0.0
				for i, got := range got {
					want := float64(beta[i/plane%c.channels])
					if c.relu {
						want = max(0, want)
					}
					if got != want {
						t.Fatalf("element %d: predicted %v, want %v", i, got, want)
					}
					squares += want * want
				}
				want := squares / float64(len(got))
				if loss := evaluate(t, tr, ds).Loss; math.Abs(loss-want) > 1e-6*want {
					t.Errorf("the loss of an evaluation, the mean square of beta, is %v, want %v", loss, want)
				}
			})
		})
	}
}
