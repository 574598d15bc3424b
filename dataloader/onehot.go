package dataloader

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// OneHot returns ds with a field of class numbers, of shape S, replaced by one of shape [S, classes]
// that is 1 at the class and 0 elsewhere. It is stored as uint8, which the device decodes to floats. A
// class outside [0, classes) is a *FieldError of Fetch. Losses that take class numbers, such as
// layers.Net.CrossEntropy, need less memory: use OneHot where targets are mixed or softened. A field
// that is missing, scaled or not of integers is an error that wraps ErrOption or ErrField.
func OneHot(ds Dataset, field string, classes int) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	from, err := choose(ds.Fields(), []string{field})
	if err != nil {
		return nil, err
	}
	k := from[0]
	x := &oneHot{Dataset: ds, field: k, classes: classes, fields: slices.Clone(ds.Fields())}
	f := &x.fields[k]
	x.stored = newSwap(k, *f)
	x.read, x.count = integer(f.Type), int(f.Bytes()/f.Type.Size())
	switch {
	case x.read == nil || f.Scale != 0 && f.Scale != 1 || f.Shift != 0:
		return nil, fmt.Errorf("one-hot: %w", &FieldError{Index: k, Name: field, Problem: fmt.Sprintf(
			"is %v, scale %v, shift %v: must be uint8, int32 or int64 and not scaled", f.Type, f.Scale, f.Shift)})
	case classes < 1:
		return nil, fmt.Errorf("one-hot of %q: %d classes: must be 1 or more: %w", field, classes, ErrOption)
	}
	f.Type, f.Shape = arena.Uint8, append(slices.Clone(f.Shape), classes)
	if err := checkFields(x.fields); err != nil {
		return nil, fmt.Errorf("one-hot: %w", err)
	}
	return x, nil
}

// oneHot is a dataset with a field of classes.
type oneHot struct {
	Dataset
	field, classes, count int
	read                  func(b []byte, i int) int
	fields                []Field
	stored                *swap // the class numbers
}

func (x *oneHot) Fields() []Field { return x.fields }

// Blocks implements Blocked.
func (x *oneHot) Blocks() Blocks { return blocksOf(x.Dataset) }

// Fingerprint implements Fingerprinter.
func (x *oneHot) Fingerprint() uint64 {
	return hash(Fingerprint(x.Dataset), uint64(x.field), uint64(x.classes))
}

func (x *oneHot) Fetch(ctx context.Context, at At, dst [][]byte) error {
	b, err := x.stored.fetch(ctx, x.Dataset, at, dst)
	if err != nil {
		return err
	}
	out := dst[x.field]
	clear(out)
	for i := range x.count {
		y := x.read(*b, i)
		if y < 0 || y >= x.classes {
			return &FieldError{Index: x.field, Name: x.fields[x.field].Name, Problem: fmt.Sprintf("class %d: must be 0 to %d", y, x.classes-1)}
		}
		out[i*x.classes+y] = 1
	}
	x.stored.memory.Put(b)
	return nil
}
