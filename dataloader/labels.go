package dataloader

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// Labels reads a scalar field of integers of all samples, once and in parallel: the classes or groups
// that samplers and splits take. It costs 8 bytes a sample. If ds is in memory nothing else is read;
// any other dataset fetches its other fields, too. A field that is missing is an error that wraps
// ErrOption, one of another kind one that wraps ErrField.
func Labels(ctx context.Context, ds Dataset, field string, opt PassOptions) ([]int, error) {
	one, err := Select(ds, field)
	if err != nil {
		return nil, err
	}
	f := one.Fields()[0]
	read := integer(f.Type)
	if read == nil || f.Bytes() != f.Type.Size() {
		return nil, fmt.Errorf("labels: %w", &FieldError{Name: f.Name, Problem: fmt.Sprintf("is %v %v: must be one uint8, int32 or int64", f.Type, f.Shape)})
	}
	labels := make([]int, one.Len())
	p := pass{ds: one, options: opt}
	p.worker = func() (func(int, [][]byte, error) error, func() error) {
		return func(index int, sample [][]byte, err error) error {
			if err == nil {
				labels[index] = read(sample[0], 0)
			}
			return err
		}, func() error { return nil }
	}
	if err := p.run(ctx); err != nil {
		return nil, fmt.Errorf("labels %q: %w", field, err)
	}
	return labels, nil
}

// integer returns the function that reads element i of integers of a type, or nil if it is none.
func integer(t arena.DType) func(b []byte, i int) int {
	switch t {
	case arena.Uint8:
		return func(b []byte, i int) int { return int(b[i]) }
	case arena.Int32:
		return func(b []byte, i int) int { return int(View[int32](b)[i]) }
	case arena.Int64:
		return func(b []byte, i int) int { return int(View[int64](b)[i]) }
	}
	return nil
}
