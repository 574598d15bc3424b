package dataloader

import (
	"context"
	"fmt"
	"slices"
)

// Concat returns the samples of all datasets, one dataset after another. They must have equal fields,
// in name, type, shape, scale and shift. A mistake is an error that names the dataset by its position;
// it wraps ErrOption or ErrField. Each dataset has random draws of its own, so that samples with the
// same number in two of them are not cropped alike.
//
// If one of them is [Blocked], so is the result; those that are not count as blocks of the mean size.
// Then the fewest blocks that one of them mixes and keeps decoded hold for all.
func Concat(parts ...Dataset) (Dataset, error) {
	if err := alike("concat", parts); err != nil {
		return nil, err
	}
	c := &concat{parts: slices.Clone(parts), starts: make([]int, 1, len(parts)+1)}
	for i, ds := range parts {
		sum := c.starts[i] + ds.Len()
		if sum > maxSamples {
			return nil, fmt.Errorf("concat: %d datasets have more than %d samples: %w", i+1, maxSamples, ErrOption)
		}
		c.starts = append(c.starts, sum)
	}
	c.joinBlocks()
	return c, nil
}

// alike checks datasets that must have equal fields.
func alike(what string, parts []Dataset) error {
	if len(parts) == 0 {
		return fmt.Errorf("%s: no datasets: %w", what, ErrOption)
	}
	for i, ds := range parts {
		if err := Check(ds); err != nil {
			return fmt.Errorf("%s: dataset %d: %w", what, i, err)
		}
		first, fields := parts[0].Fields(), ds.Fields()
		if len(fields) != len(first) {
			return fmt.Errorf("%s: dataset %d has %d fields, dataset 0 has %d: choose the same ones with Select: %w",
				what, i, len(fields), len(first), ErrField)
		}
		for k, f := range fields {
			if !f.equal(first[k]) {
				return fmt.Errorf("%s: dataset %d: %w", what, i, &FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf(
					"is %v %v, scale %v, shift %v; in dataset 0 it is %q %v %v, scale %v, shift %v: make them equal, with Select or Map",
					f.Type, f.Shape, f.Scale, f.Shift, first[k].Name, first[k].Type, first[k].Shape, first[k].Scale, first[k].Shift)})
			}
		}
	}
	return nil
}

// concat is datasets one after another.
type concat struct {
	parts  []Dataset
	starts []int // of each dataset, and the number of samples
	blocks Blocks
}

// Len returns the number of samples, another one if a dataset has changed, so that a loader notices.
func (c *concat) Len() (n int) {
	for _, ds := range c.parts {
		n += ds.Len()
	}
	return n
}

func (c *concat) Fields() []Field { return c.parts[0].Fields() }

// Blocks implements Blocked.
func (c *concat) Blocks() Blocks { return c.blocks }

// Fingerprint implements Fingerprinter.
func (c *concat) Fingerprint() uint64 { return fingerprints(domainConcat, c.parts) }

// fingerprints returns a hash of the fingerprints of datasets.
func fingerprints(domain uint64, parts []Dataset) uint64 {
	for _, ds := range parts {
		domain = hash(domain, Fingerprint(ds))
	}
	return domain
}

func (c *concat) Fetch(ctx context.Context, at At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= c.starts[len(c.parts)] {
		return fmt.Errorf("sample %d: must be 0 to %d: %w", at.Index, c.starts[len(c.parts)]-1, ErrOption)
	}
	i := blockOf(c.starts, at.Index)
	at.Index -= c.starts[i]
	at.Seed = hash(domainConcat, at.Seed, uint64(i))
	return c.parts[i].Fetch(ctx, at, dst)
}

// joinBlocks sets the blocks, if there are any.
func (c *concat) joinBlocks() {
	var inner []Blocks
	samples, count := 0, 0 // of datasets with blocks
	for i, ds := range c.parts {
		b := blocksOf(ds)
		if inner = append(inner, b); len(b.Starts) > 0 {
			samples += c.starts[i+1] - c.starts[i]
			count += len(b.Starts)
		}
	}
	if count == 0 {
		return
	}
	type place struct {
		load  func(ctx context.Context, block int) error
		done  func(block int)
		block int
	}
	var places []place
	out := &c.blocks
	for i, b := range inner {
		if len(b.Starts) == 0 {
			for at := c.starts[i]; at < c.starts[i+1]; at += max(1, samples/count) {
				out.Starts, places = append(out.Starts, at), append(places, place{})
			}
			continue
		}
		for k, at := range b.Starts {
			out.Starts, places = append(out.Starts, c.starts[i]+at), append(places, place{b.Load, b.Done, k})
		}
		if b.Group < len(b.Starts) { // else all of its blocks are held, whatever the order
			held := b.Held
			if held == 0 {
				held = 2 * b.Group
			}
			if out.Group == 0 {
				out.Group, out.Held = b.Group, held
			}
			out.Group, out.Held = min(out.Group, b.Group), min(out.Held, held)
		}
	}
	if out.Group == 0 {
		out.Group, out.Held = len(out.Starts), len(out.Starts)
	}
	out.Load = func(ctx context.Context, i int) error {
		if p := places[i]; p.load != nil {
			return p.load(ctx, p.block)
		}
		return nil
	}
	out.Done = func(i int) {
		if p := places[i]; p.done != nil {
			p.done(p.block)
		}
	}
}

// Repeat returns the samples of ds times times, one pass after another. Each pass has random draws of
// its own. If ds is [Blocked], so is the result. Fewer than 1 and more than 2⁵⁶ samples in all are
// errors that wrap ErrOption.
func Repeat(ds Dataset, times int) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	if n := ds.Len(); times < 1 || times > maxSamples/n {
		return nil, fmt.Errorf("repeat %d times: must be 1 to %d: %w", times, maxSamples/n, ErrOption)
	}
	return &repeated{Dataset: ds, times: times}, nil
}

// repeated is a dataset several times.
type repeated struct {
	Dataset
	times int
}

func (r *repeated) Len() int { return r.Dataset.Len() * r.times }

// Blocks implements Blocked.
func (r *repeated) Blocks() Blocks {
	b := blocksOf(r.Dataset)
	if len(b.Starts) == 0 {
		return Blocks{}
	}
	n, count := r.Dataset.Len(), len(b.Starts)
	starts := make([]int, 0, count*r.times)
	for t := range r.times {
		for _, s := range b.Starts {
			starts = append(starts, t*n+s)
		}
	}
	return b.renumber(starts, func(i int) int { return i % count })
}

// Fingerprint implements Fingerprinter.
func (r *repeated) Fingerprint() uint64 {
	return hash(domainRepeat, Fingerprint(r.Dataset), uint64(r.times))
}

func (r *repeated) Fetch(ctx context.Context, at At, dst [][]byte) error {
	n := r.Dataset.Len()
	if n < 1 {
		return &ChangedError{Dataset: fmt.Sprintf("%T", r.Dataset), Was: at.Index + 1, Now: n}
	}
	if pass := at.Index / n; pass > 0 {
		at.Seed = hash(domainRepeat, at.Seed, uint64(pass))
	}
	at.Index %= n
	return r.Dataset.Fetch(ctx, at, dst)
}

// Zip returns the fields of all datasets side by side: sample i has those of sample i of each. They
// must have the same length, and no name twice. A mistake is an error that wraps ErrOption or
// ErrField and names the dataset by its position. If the first is [Blocked], so is the result, with
// its blocks.
func Zip(parts ...Dataset) (Dataset, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("zip: no datasets: %w", ErrOption)
	}
	z := &zipped{Dataset: parts[0], parts: slices.Clone(parts)}
	for i, ds := range parts {
		if err := Check(ds); err != nil {
			return nil, fmt.Errorf("zip: dataset %d: %w", i, err)
		}
		if ds.Len() != parts[0].Len() {
			return nil, fmt.Errorf("zip: dataset %d has %d samples, dataset 0 has %d: they must have equally many: %w", i, ds.Len(), parts[0].Len(), ErrOption)
		}
		fields := ds.Fields()
		z.fields, z.counts = append(z.fields, fields...), append(z.counts, len(fields))
	}
	if err := checkFields(z.fields); err != nil {
		return nil, fmt.Errorf("zip: %w", err)
	}
	return z, nil
}

// zipped is datasets side by side. Dataset is the first.
type zipped struct {
	Dataset
	parts  []Dataset
	counts []int // fields of each
	fields []Field
}

// Len returns the smallest length, so that a loader notices a dataset that has shrunk.
func (z *zipped) Len() int {
	n := z.Dataset.Len()
	for _, ds := range z.parts {
		n = min(n, ds.Len())
	}
	return n
}

func (z *zipped) Fields() []Field { return z.fields }

// Blocks implements Blocked.
func (z *zipped) Blocks() Blocks { return blocksOf(z.Dataset) }

// Fingerprint implements Fingerprinter.
func (z *zipped) Fingerprint() uint64 { return fingerprints(0, z.parts) }

func (z *zipped) Fetch(ctx context.Context, at At, dst [][]byte) error {
	for i, ds := range z.parts {
		n := z.counts[i]
		if err := ds.Fetch(ctx, at, dst[:n:n]); err != nil {
			return err
		}
		dst = dst[n:]
	}
	return nil
}
