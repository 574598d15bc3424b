package main

import (
	"context"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// noise is a dataset of samples of normally distributed numbers, the field "z". Each
// epoch of a training has others.
type noise struct{ samples int }

func (n noise) Len() int { return n.samples }

func (n noise) Fields() []dataloader.Field {
	return []dataloader.Field{{Name: "z", Type: arena.Float32, Shape: []int{code}}}
}

// Fetch writes z. The numbers depend only on the seed, the epoch and the index of the sample.
func (n noise) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	random := at.Rand()
	z := dataloader.View[float32](dst[0])
	for i := range z { // Box and Muller
		z[i] = float32(math.Sqrt(-2*math.Log(1-random.Float64())) * math.Cos(2*math.Pi*random.Float64()))
	}
	return nil
}

// noisy is a dataset with noise as one more field.
type noisy struct {
	dataloader.Dataset
	noise noise
}

// withNoise returns ds with noise as its last field.
func withNoise(ds dataloader.Dataset) noisy { return noisy{ds, noise{samples: ds.Len()}} }

func (n noisy) Fields() []dataloader.Field {
	return append(append([]dataloader.Field(nil), n.Dataset.Fields()...), n.noise.Fields()...)
}

// Fetch writes the fields of the dataset, and z.
func (n noisy) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	last := len(dst) - 1
	if err := n.noise.Fetch(ctx, at, dst[last:]); err != nil {
		return err
	}
	return n.Dataset.Fetch(ctx, at, dst[:last])
}
