package dataloader

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// Normalize returns ds with the field of m normalised to mean 0 and variance 1: (x - mean)/deviation
// of each channel, where a deviation of 0 counts as 1.
//
// With one channel, the field keeps its storage type and gets a Scale and a Shift: the device computes
// it. With several, workers write float32, which for images of uint8 is four times the bytes. Then
// layers.Net.Standardize, which takes the same moments, is better: bytes travel, and the device
// computes. Moments that do not fit the field are errors that wrap ErrOption or ErrField.
func Normalize(ds Dataset, m *Moments) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, fmt.Errorf("normalize: no moments: use Stats: %w", ErrOption)
	}
	from, err := choose(ds.Fields(), []string{m.Field})
	if err != nil {
		return nil, err
	}
	k := from[0]
	f := ds.Fields()[k]
	l, err := layoutOf(k, f, StatsOptions{Axis: m.Axis, Whole: m.Axis < 0})
	if err != nil {
		return nil, err
	}
	if len(m.Mean) != l.channels || len(m.Variance) != l.channels {
		return nil, fmt.Errorf("normalize: %w", &FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf(
			"has %d channels on axis %d of shape %v, the moments have %d: compute them with Stats of this field", l.channels, m.Axis, f.Shape, len(m.Mean))})
	}
	x := &normalized{Dataset: ds, layout: l, fields: slices.Clone(ds.Fields())}
	scale, shift := decoding(f)
	for c, d := range m.Deviation() {
		x.scale = append(x.scale, scale/d)
		x.shift = append(x.shift, (shift-m.Mean[c])/d)
		if !finite(x.scale[c]) || !finite(x.shift[c]) || m.Variance[c] < 0 {
			return nil, fmt.Errorf("normalize: channel %d of %q has mean %v and variance %v: must be finite and the variance 0 or more: %w",
				c, f.Name, m.Mean[c], m.Variance[c], ErrOption)
		}
	}
	if l.channels == 1 {
		x.fields[k].Scale, x.fields[k].Shift = x.scale[0], x.shift[0]
		return x, nil
	}
	x.fields[k].Type, x.fields[k].Scale, x.fields[k].Shift = arena.Float32, 0, 0
	x.stored = newSwap(k, f)
	return x, nil
}

// normalized is a dataset with a normalised field.
type normalized struct {
	Dataset
	*layout
	fields       []Field
	scale, shift []float64 // of each channel
	stored       *swap     // the field as Dataset has it; nil with one channel
}

func (x *normalized) Fields() []Field { return x.fields }

// Blocks implements Blocked.
func (x *normalized) Blocks() Blocks { return blocksOf(x.Dataset) }

// Fingerprint implements Fingerprinter.
func (x *normalized) Fingerprint() uint64 {
	return hashFloats(Fingerprint(x.Dataset), x.scale, x.shift)
}

func (x *normalized) Fetch(ctx context.Context, at At, dst [][]byte) error {
	if x.channels == 1 {
		return x.Dataset.Fetch(ctx, at, dst)
	}
	b, err := x.stored.fetch(ctx, x.Dataset, at, dst)
	if err != nil {
		return err
	}
	y := View[float32](dst[x.field])
	switch x.kind {
	case arena.Uint8:
		normalize(x, y, *b)
	case arena.Int32:
		normalize(x, y, View[int32](*b))
	case arena.Int64:
		normalize(x, y, View[int64](*b))
	case arena.Float32:
		normalize(x, y, View[float32](*b))
	default:
		normalize(x, y, View[float64](*b))
	}
	x.stored.memory.Put(b)
	return nil
}

// normalize writes scale·v + shift of the values of a sample.
func normalize[T Element](x *normalized, y []float32, values []T) {
	for at, i := 0, 0; i < x.outer; i++ {
		for c := range x.channels {
			scale, shift := x.scale[c], x.shift[c]
			out := y[at : at+x.inner]
			for j, v := range values[at : at+x.inner] {
				out[j] = float32(float64(float64(v)*scale) + shift) // rounded in between, on any machine
			}
			at += x.inner
		}
	}
}

// hashFloats mixes numbers into a hash.
func hashFloats(h uint64, all ...[]float64) uint64 {
	for _, x := range all {
		for _, v := range x {
			h = hash(h, math.Float64bits(v))
		}
	}
	return h
}
