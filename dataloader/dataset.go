package dataloader

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// Dataset is a source of samples, read by index. Its methods must be safe for concurrent use.
type Dataset interface {
	// Len returns the number of samples. It must not change while a loader uses the dataset.
	Len() int
	// Fields returns the fields of a sample. The caller does not modify them.
	Fields() []Field
	// Fetch writes sample at.Index: field k to dst[k], which has exactly Fields()[k].Bytes() bytes,
	// in the byte order of this machine. It must write into dst[k], not replace it, and must not
	// keep it, because a device reads the memory after Fetch returns. It should return soon after
	// ctx is done.
	Fetch(ctx context.Context, at At, dst [][]byte) error
}

// Field is one named part of every sample, such as an image or a label.
type Field struct {
	Name  string
	Type  arena.DType
	Shape []int // of one sample, row-major; nil for a scalar
	// The device decodes a stored value x to Scale*x + Shift. Scale 0 means 1.
	Scale, Shift float64
}

// Bytes returns the size of the field in one sample, or -1 if its type or shape is not valid.
func (f Field) Bytes() int64 {
	n := f.Type.Size()
	if n == 0 {
		return -1
	}
	for _, d := range f.Shape {
		if d <= 0 || n > math.MaxInt64/int64(d) {
			return -1
		}
		n *= int64(d)
	}
	return n
}

// check returns a description of the first mistake in the field, or "".
func (f Field) check() string {
	if f.Name == "" {
		return "has no name"
	}
	if f.Type.Size() == 0 {
		return fmt.Sprintf("type %v is not a storage type", f.Type)
	}
	for i, d := range f.Shape {
		if d <= 0 {
			return fmt.Sprintf("dimension %d of shape %v is %d: must be 1 or more", i, f.Shape, d)
		}
	}
	if f.Bytes() < 0 {
		return fmt.Sprintf("the size of shape %v overflows an int64", f.Shape)
	}
	if !finite(f.Scale) || !finite(f.Shift) {
		return fmt.Sprintf("scale %v and shift %v must be finite", f.Scale, f.Shift)
	}
	return ""
}

// finite reports whether x is neither infinite nor NaN.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// SampleBytes returns the size of one sample in bytes, in its storage types.
func SampleBytes(ds Dataset) int64 {
	var n int64
	for _, f := range ds.Fields() {
		n += f.Bytes()
	}
	return n
}

// Indices returns a dataset of n samples with one field, "index", of type int32: the index of the
// sample. Use it when the data are already on the device, so that a batch is only a list of
// indices. More than 2³¹-1 samples are an error of Check that wraps ErrOption.
func Indices(n int) Dataset { return indices(n) }

type indices int

var indexFields = []Field{{Name: "index", Type: arena.Int32}}

func (n indices) Len() int        { return int(n) }
func (n indices) Fields() []Field { return slices.Clone(indexFields) }
func (n indices) Fetch(_ context.Context, at At, dst [][]byte) error {
	binary.NativeEndian.PutUint32(dst[0], uint32(at.Index))
	return nil
}

// fill implements instant.
func (n indices) fill(fields [][]byte, samples []int) {
	for i, x := range samples {
		binary.NativeEndian.PutUint32(fields[0][4*i:], uint32(x))
	}
}

// check returns an error for more samples than the field counts.
func (n indices) check() error {
	if int64(n) > math.MaxInt32 {
		return fmt.Errorf("indices of %d samples: the field \"index\" is int32 and counts at most %d: %w", int(n), math.MaxInt32, ErrOption)
	}
	return nil
}

// Subset returns the samples [from, to) of ds, numbered from 0. A sample has the same random draws
// as in ds. An empty range is an error that wraps ErrEmpty, a range outside ds one that wraps
// ErrOption.
func Subset(ds Dataset, from, to int) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	if n := ds.Len(); from < 0 || to > n || from > to {
		return nil, fmt.Errorf("subset [%d, %d) of %d samples: %w", from, to, n, ErrOption)
	}
	if from == to {
		return nil, fmt.Errorf("subset [%d, %d): %w", from, to, ErrEmpty)
	}
	return &subset{Dataset: ds, from: from, n: to - from}, nil
}

// Split returns the first n samples of ds and the remaining ones. An empty part is an error, as in
// Subset.
func Split(ds Dataset, n int) (head, tail Dataset, err error) {
	if head, err = Subset(ds, 0, n); err != nil {
		return nil, nil, err
	}
	if tail, err = Subset(ds, n, ds.Len()); err != nil {
		return nil, nil, err
	}
	return head, tail, nil
}

// subset is the samples [from, from+n) of a dataset.
type subset struct {
	Dataset
	from, n int
}

// Len returns n, or less if the dataset has shrunk, so that a loader notices.
func (s *subset) Len() int { return max(0, min(s.n, s.Dataset.Len()-s.from)) }

// Blocks implements Blocked: the blocks in the range, the first and the last one cut.
func (s *subset) Blocks() Blocks {
	b := blocksOf(s.Dataset)
	if len(b.Starts) == 0 {
		return b
	}
	first := blockOf(b.Starts, s.from)
	starts := []int{0}
	for _, at := range b.Starts[first+1:] {
		if at < s.from+s.n {
			starts = append(starts, at-s.from)
		}
	}
	return b.renumber(starts, func(i int) int { return first + i })
}

func (s *subset) Fetch(ctx context.Context, at At, dst [][]byte) error {
	at.Index += s.from
	return s.Dataset.Fetch(ctx, at, dst)
}

// Map returns a dataset that fetches samples of ds and calls f to change each in place: data
// augmentation. sample[k] is field k, which [View] shows as numbers. f must be safe for concurrent
// use, must depend only on the sample and on at.Rand, and must not keep the sample. An error of f
// ends the run, as one of Fetch does. Each Map in a chain gets an [At] whose Rand has a sequence of
// its own. Check, and therefore New, returns an error for a nil f.
func Map(ds Dataset, f func(at At, sample [][]byte) error) Dataset {
	return &mapped{Dataset: ds, f: f}
}

// mapped is a dataset whose samples f changes.
type mapped struct {
	Dataset
	f func(at At, sample [][]byte) error
}

// Blocks implements Blocked.
func (m *mapped) Blocks() Blocks { return blocksOf(m.Dataset) }

func (m *mapped) check() error {
	if m.f == nil {
		return fmt.Errorf("map: the function is nil: %w", ErrOption)
	}
	return Check(m.Dataset)
}

func (m *mapped) Fetch(ctx context.Context, at At, dst [][]byte) error {
	inner := at
	inner.Seed = mix(at.Seed ^ domainMap)
	if err := m.Dataset.Fetch(ctx, inner, dst); err != nil {
		return err
	}
	if m.f == nil {
		return m.check()
	}
	return m.f(at, dst)
}
