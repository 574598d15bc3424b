package dataloader

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Array is one field of all samples, in memory. It refers to the caller's data, which must not
// change while in use.
type Array struct {
	Field
	data []byte // [N, Field.Bytes()]
}

// Column returns data as a field with the given name. The samples are one after another in data,
// each of the given shape; without a shape each sample is a scalar. It does not copy data. The
// storage type is that of T.
func Column[T Element](name string, data []T, shape ...int) Array {
	return Array{
		Field: Field{Name: name, Type: typeOf[T](), Shape: slices.Clone(shape)},
		data:  bytesOf(data),
	}
}

// Scaled returns the array with Scale and Shift set: the device decodes a stored value x to scale*x
// + shift.
func (a Array) Scaled(scale, shift float64) Array {
	a.Scale, a.Shift = scale, shift
	return a
}

// Slices is a dataset in memory.
type Slices struct {
	n      int
	fields []Field
	bytes  []int    // of one sample, by field
	data   [][]byte // by field
}

// FromSlices returns a dataset of n samples from columns, without copying them. A column that does
// not hold exactly n samples is a *FieldError; all mistakes are reported together.
func FromSlices(n int, columns ...Array) (*Slices, error) {
	s := &Slices{n: n}
	for _, c := range columns {
		s.fields = append(s.fields, c.Field)
		s.bytes = append(s.bytes, int(c.Bytes()))
		s.data = append(s.data, c.data)
	}
	if err := Check(s); err != nil {
		return nil, err
	}
	var errs []error
	for k, f := range s.fields {
		size := f.Bytes() / f.Type.Size() // elements of one sample
		have := int64(len(s.data[k])) / f.Type.Size()
		if have%size != 0 || have/size != int64(n) {
			errs = append(errs, &FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf(
				"has %d elements: %d samples of shape %v need %d each", have, n, f.Shape, size)})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// Len returns the number of samples.
func (s *Slices) Len() int { return s.n }

// Fields returns the fields in the order of the columns.
func (s *Slices) Fields() []Field { return s.fields }

// Fetch copies one sample.
func (s *Slices) Fetch(_ context.Context, at At, dst [][]byte) error {
	for k, size := range s.bytes {
		copy(dst[k], s.data[k][at.Index*size:(at.Index+1)*size])
	}
	return nil
}
