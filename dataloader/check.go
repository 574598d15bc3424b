package dataloader

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Check validates ds and returns every mistake: a nil dataset, no samples, more than 2⁵⁶ samples
// (2³⁰ on a 32-bit machine), no fields, fields with the same name, and invalid fields (*FieldError). A panic in ds is a
// *PanicError.
func Check(ds Dataset) (err error) {
	if ds == nil {
		return fmt.Errorf("nil dataset: %w", ErrOption)
	}
	if v := reflect.ValueOf(ds); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("dataset is a nil %T: %w", ds, ErrOption)
	}
	defer blame(ds, &err)
	if c, ok := ds.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return err
		}
	}
	var errs []error
	switch n := ds.Len(); {
	case n == 0:
		errs = append(errs, ErrEmpty)
	case n < 0:
		errs = append(errs, fmt.Errorf("dataset length %d: must be 1 or more: %w", n, ErrEmpty))
	case int64(n) > maxSamples:
		errs = append(errs, fmt.Errorf("dataset length %d: at most %d samples can be indexed: %w", n, int64(maxSamples), ErrOption))
	}
	errs = append(errs, checkFields(ds.Fields()))
	return errors.Join(errs...)
}

// maxSamples is the largest length of a dataset and of an epoch. It leaves room for sums of positions.
const maxSamples = 1 << (56*(strconv.IntSize/64) + 30*(1-strconv.IntSize/64))

// blame turns a panic in a dataset's code into an error.
func blame(ds Dataset, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("dataset of type %T: %w", ds, caught(p))
	}
}

// checkFields returns every mistake in the fields.
func checkFields(fields []Field) error {
	if len(fields) == 0 {
		return fmt.Errorf("dataset has no fields: %w", ErrField)
	}
	var errs []error
	first := make(map[string]int, len(fields)) // field with a name
	for k, f := range fields {
		if p := f.check(); p != "" {
			errs = append(errs, &FieldError{Index: k, Name: f.Name, Problem: p})
		}
		if j, ok := first[f.Name]; !ok {
			first[f.Name] = k
		} else if f.Name != "" {
			errs = append(errs, &FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf("has the same name as field %d", j)})
		}
	}
	return errors.Join(errs...)
}

// changed returns a *ChangedError if the length of the dataset has changed since New. If fields is
// set, it also compares the fields.
func (l *Loader) changed(fields bool) (err error) {
	defer blame(l.ds, &err)
	if n := l.ds.Len(); n != l.samples {
		return &ChangedError{Dataset: fmt.Sprintf("%T", l.ds), Was: l.samples, Now: n}
	}
	if fields && !slices.EqualFunc(l.fields, l.ds.Fields(), Field.equal) {
		return &ChangedError{Dataset: fmt.Sprintf("%T", l.ds), Was: l.samples, Now: l.samples}
	}
	return nil
}

// equal reports whether the fields are the same.
func (f Field) equal(g Field) bool {
	return f.Name == g.Name && f.Type == g.Type && f.Scale == g.Scale && f.Shift == g.Shift && slices.Equal(f.Shape, g.Shape)
}
