// Package nets is a set of typical models, for tests, plans and tables.
//
// A [Net] is a model with its batch size; [Net.Data] draws random samples for it. [All] returns the
// models in sizes at which memory matters, [Small] the same models in sizes that train within a
// second.
package nets

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Net is a model of the set.
type Net struct {
	Name  string
	About string // description of the sizes
	Batch int    // batch size of a training step
	// Model adds the net to a graph. It is a trainer.ModelFunc.
	Model func(g *gorgonia.ExprGraph, batch int) (layers.Model, error)
}

// classes is the number of classes of every classifier, and of different words in a text.
const classes = 10

// All returns the models in sizes at which memory matters.
func All() []Net {
	return []Net{
		{"vgg", "8 convolutions of 64 to 512 filters, images of 3×32×32", 64, vgg(32, 64)},
		{"resnet", "19 convolutions of 16 to 64 filters, batch normalization, images of 3×32×32", 128, resnet(32, 16, 3)},
		{"unet", "4 levels of 16 to 128 filters, images of 3×64×64", 8, unet(64, 16, 4)},
		{"deep mlp", "64 layers of 512", 128, mlp(64, 512)},
		{"rnn", "256 units unrolled over 50 steps of 64 numbers", 64, rnn(50, 64, 256)},
		{"transformer", "4 blocks of 4 heads, 64 words of 128 numbers", 16, transformer(4, 4, 64, 128)},
	}
}

// Small returns the models in sizes that train within a second.
func Small() []Net {
	return []Net{
		{"vgg", "8 convolutions of 2 to 16 filters, images of 3×32×32", 4, vgg(32, 2)},
		{"resnet", "7 convolutions of 2 to 8 filters, batch normalization, images of 3×8×8", 4, resnet(8, 2, 1)},
		{"unet", "3 levels of 2 to 8 filters, images of 3×8×8", 4, unet(8, 2, 3)},
		{"deep mlp", "16 layers of 8", 4, mlp(16, 8)},
		{"rnn", "8 units unrolled over 50 steps of 3 numbers", 4, rnn(50, 3, 8)},
		{"transformer", "2 blocks of 2 heads, 6 words of 8 numbers", 4, transformer(2, 2, 6, 8)},
	}
}

// Data draws samples for the net: standard normal numbers for float inputs, and integers below the
// number of classes.
func (n Net) Data(samples int, seed uint64) (dataloader.Dataset, error) {
	m, err := n.Model(gorgonia.NewGraph(), n.Batch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Name, err)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var columns []dataloader.Array
	for _, in := range m.Inputs {
		shape := in.Shape()[1:]
		count := samples * shape.TotalSize()
		if in.Dtype() == tensor.Int {
			data := make([]int32, count)
			for i := range data {
				data[i] = r.Int32N(classes)
			}
			columns = append(columns, dataloader.Column(in.Name(), data, shape...))
			continue
		}
		data := make([]float32, count)
		for i := range data {
			data[i] = float32(r.NormFloat64())
		}
		columns = append(columns, dataloader.Column(in.Name(), data, shape...))
	}
	ds, err := dataloader.FromSlices(samples, columns...)
	if err != nil {
		return nil, fmt.Errorf("%s: data: %w", n.Name, err)
	}
	return ds, nil
}
