package dataloader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Select returns ds with only the named fields, in the given order. Use it for a model that does
// not read all fields. An unknown or repeated name is an error that wraps ErrOption.
//
// If ds is a *Slices, or a Subset of one, the result shares its columns and reads nothing else. Any
// other dataset still fetches all of its fields; Select allocates memory for the fields left out,
// one sample for each worker.
func Select(ds Dataset, names ...string) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	fields := ds.Fields()
	from, err := choose(fields, names)
	if err != nil {
		return nil, err
	}
	switch ds := ds.(type) {
	case *Slices:
		s := &Slices{n: ds.n}
		for _, k := range from {
			s.fields, s.bytes, s.data = append(s.fields, ds.fields[k]), append(s.bytes, ds.bytes[k]), append(s.data, ds.data[k])
		}
		return s, nil
	case *subset:
		inner, err := Select(ds.Dataset, names...)
		return &subset{Dataset: inner, from: ds.from, n: ds.n}, err
	}
	s := &selected{Dataset: ds, from: from}
	var left []int64 // by field of ds: its bytes if it is not selected, else 0
	for k, f := range fields {
		left = append(left, f.Bytes())
		if slices.Contains(from, k) {
			left[k] = 0
		}
	}
	for _, k := range from {
		s.fields = append(s.fields, fields[k])
	}
	s.samples.New = func() any {
		x := &sample{all: make([][]byte, len(left)), left: make([][]byte, len(left))}
		for k, n := range left {
			x.left[k] = make([]byte, n)
		}
		return x
	}
	return s, nil
}

// choose returns the indices of the named fields.
func choose(fields []Field, names []string) ([]int, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("no fields selected: name one or more: %w", ErrOption)
	}
	var from []int
	var errs []error
	for i, name := range names {
		k := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		switch {
		case k < 0:
			var have []string
			for _, f := range fields {
				have = append(have, f.Name)
			}
			errs = append(errs, fmt.Errorf("select %q: the dataset has the fields %q: %w", name, have, ErrOption))
		case slices.Contains(names[:i], name):
			errs = append(errs, fmt.Errorf("select %q twice: %w", name, ErrOption))
		}
		from = append(from, k)
	}
	return from, errors.Join(errs...)
}

// selected is a dataset with some fields of another.
type selected struct {
	Dataset
	from    []int // by field: its index among the fields of Dataset
	fields  []Field
	samples sync.Pool // of *sample
}

// sample is memory for one sample of the inner dataset, by field.
type sample struct {
	all  [][]byte // the dst of Fetch
	left [][]byte // memory of the fields that are not selected; nil for the others
}

// Fields returns the selected fields. If the fields of the dataset have changed it returns them
// all, so that a loader notices.
func (s *selected) Fields() []Field {
	all := s.Dataset.Fields()
	for i, k := range s.from {
		if k >= len(all) || !all[k].equal(s.fields[i]) {
			return all
		}
	}
	return s.fields
}

// Blocks implements Blocked.
func (s *selected) Blocks() Blocks { return blocksOf(s.Dataset) }

func (s *selected) Fetch(ctx context.Context, at At, dst [][]byte) error {
	x := s.samples.Get().(*sample)
	all := x.all
	copy(all, x.left)
	for i, k := range s.from {
		all[k] = dst[i]
	}
	err := s.Dataset.Fetch(ctx, at, all)
	for i, k := range s.from {
		if err == nil && replaced(all[k], dst[i]) {
			err = &FieldError{Index: i, Name: s.fields[i].Name, Problem: errReplace.Error()}
		}
		all[k] = nil
	}
	if err == nil {
		s.samples.Put(x) // after an error the dataset may still write to it
	}
	return err
}
