package dataloader

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// Dataset is a fixed number of samples. All methods may be called from many goroutines at once.
type Dataset interface {
	// Len is the number of samples. It must not change while a loader uses the dataset.
	Len() int
	// Fields describes one sample. The caller does not change what it returns.
	Fields() []Field
	// Fetch writes sample at.Index: field k into dst[k], which is exactly Fields()[k].Bytes() long, in the byte
	// order of this machine. It must fill dst[k], not replace it, and must not keep it: the memory is read by a
	// device as soon as Fetch has returned. It should return soon after ctx is done.
	Fetch(ctx context.Context, at At, dst [][]byte) error
}

// Field describes one part of every sample, as it is stored.
type Field struct {
	Name  string
	Type  arena.DType
	Shape []int // of one sample, row-major; nil for a scalar
	// Decoded value = Scale*stored + Shift, computed on the device. Scale 0 means 1.
	Scale, Shift float64
}

// Bytes is the size of the field in one sample, or -1 where type or shape is not valid.
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

// check returns what is wrong with the field, or "".
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
		return fmt.Sprintf("shape %v has more bytes than an int64 can count", f.Shape)
	}
	if !finite(f.Scale) || !finite(f.Shift) {
		return fmt.Sprintf("scale %v and shift %v must be finite", f.Scale, f.Shift)
	}
	return ""
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// SampleBytes is the size of one sample in its storage types.
func SampleBytes(ds Dataset) int64 {
	var n int64
	for _, f := range ds.Fields() {
		n += f.Bytes()
	}
	return n
}

// Indices is a dataset of n samples with the single field "index": the sample's own index, as int32.
// It drives an epoch over data that are on the device already.
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
func (n indices) fill(fields [][]byte, samples []int32) { copy(fields[0], bytesOf(samples)) }

// Subset is the samples [from, to) of ds, numbered from 0. A sample's random draws stay those that it has in ds.
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

// Split is the first n samples of ds, and the rest. Neither part may be empty.
func Split(ds Dataset, n int) (head, tail Dataset, err error) {
	if head, err = Subset(ds, 0, n); err != nil {
		return nil, nil, err
	}
	if tail, err = Subset(ds, n, ds.Len()); err != nil {
		return nil, nil, err
	}
	return head, tail, nil
}

type subset struct {
	Dataset
	from, n int
}

// Len is n, or less where the dataset has shrunk, for a loader to notice.
func (s *subset) Len() int { return max(0, min(s.n, s.Dataset.Len()-s.from)) }

func (s *subset) Fetch(ctx context.Context, at At, dst [][]byte) error {
	at.Index += s.from
	return s.Dataset.Fetch(ctx, at, dst)
}

// Map is ds with every sample changed in place by f, right after it was fetched. f may be called by many goroutines
// at once, must be a function of the sample and of at.Rand alone, and must not keep sample. Maps of Maps see
// independent draws. A nil f is an error of Check, and so of New.
func Map(ds Dataset, f func(at At, sample [][]byte) error) Dataset {
	return &mapped{Dataset: ds, f: f}
}

type mapped struct {
	Dataset
	f func(at At, sample [][]byte) error
}

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
