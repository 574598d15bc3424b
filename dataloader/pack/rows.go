package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// rows is a dataset of the records of another dataset: its only field is a whole record, so that
// workers write the fields of a sample to where they stand in the file.
type rows struct {
	dataloader.Dataset
	source  EncodedSource // Dataset, if there are encoded fields
	layout  *layout
	sizes   []int // bytes of each field in the record
	encoded []int // indices of the encoded fields
	batch   int   // samples
	gaps    bool  // between the fields of a record
	pool    sync.Pool

	// values are the encoded values of the samples in the slots: those of sample i are at
	// i % len(values). Slots hold consecutive samples, no more than len(values).
	values [][][]byte
}

// blockedRows are the rows of a dataset in blocks, which workers decode ahead.
type blockedRows struct{ *rows }

// Blocks implements dataloader.Blocked.
func (r blockedRows) Blocks() dataloader.Blocks {
	return r.Dataset.(dataloader.Blocked).Blocks()
}

// dataset returns the rows, with the blocks of the dataset if it has any.
func (r *rows) dataset() dataloader.Dataset {
	if _, ok := r.Dataset.(dataloader.Blocked); ok {
		return blockedRows{r}
	}
	return r
}

// newRows validates ds and the options.
func newRows(ds dataloader.Dataset, opt WriteOptions) (*rows, error) {
	if err := dataloader.Check(ds); err != nil {
		return nil, err
	}
	r := &rows{Dataset: ds}
	encoded := map[string]bool{}
	var errs []error
	for _, name := range opt.Encoded {
		k := slices.IndexFunc(ds.Fields(), func(f dataloader.Field) bool { return f.Name == name })
		if k < 0 || encoded[name] {
			errs = append(errs, fmt.Errorf("encoded field %q: name a field of the dataset, once: %w", name, dataloader.ErrOption))
		}
		encoded[name] = true
		r.encoded = append(r.encoded, k)
	}
	if len(opt.Encoded) > 0 {
		var ok bool
		if r.source, ok = ds.(EncodedSource); !ok {
			errs = append(errs, fmt.Errorf("a dataset of type %T has no encoded bytes: leave Encoded empty to store decoded values: %w",
				ds, dataloader.ErrOption))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	if r.layout, err = describe(ds, opt, encoded); err != nil {
		return nil, err
	}
	if err := r.layout.checkTexts(opt.Classes); err != nil {
		return nil, err
	}
	sum := int64(0)
	for _, f := range r.layout.Fields {
		n, _ := f.size()
		r.sizes = append(r.sizes, int(n))
		sum += n
	}
	r.gaps = sum < r.layout.Record
	r.batch = int(min(max(1, writeBytes/r.layout.Record), writeSamples, r.layout.Count))
	if len(r.encoded) > 0 {
		r.batch = min(r.batch, encodedRows)
		r.values = make([][][]byte, writeSlots*r.batch)
		for i := range r.values {
			r.values[i] = make([][]byte, len(r.layout.Fields))
		}
	}
	r.pool.New = func() any { return &parts{make([][]byte, len(r.sizes))} }
	return r, nil
}

// checkTexts returns an error for classes that do not fit their field, and for names that JSON would
// change.
func (l *layout) checkTexts(classes map[string][]string) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, dataloader.ErrOption)...))
	}
	left := maps.Clone(classes)
	for _, f := range l.Fields {
		delete(left, f.Name)
		if !utf8.ValidString(f.Name) {
			bad("field %q: its name must be UTF-8", f.Name)
		}
		if i := slices.IndexFunc(f.Classes, func(c string) bool { return !utf8.ValidString(c) }); i >= 0 {
			bad("field %q: class %d, %.60q, must be UTF-8", f.Name, i, f.Classes[i])
		}
		if p := f.classProblem(); p != "" {
			bad("field %q: classes: %s", f.Name, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		bad("classes of %q, which is no field", name)
	}
	return errors.Join(errs...)
}

// parts are the fields within a record.
type parts struct{ dst [][]byte }

// checkLabels returns an error for a label that has no class. Negative ones stand for no label.
func (r *rows) checkLabels(dst [][]byte) error {
	for k, f := range r.layout.Fields {
		if f.Classes == nil {
			continue
		}
		most := int64(-1)
		for b, n := dst[k], int(types[f.Type].Size()); len(b) > 0; b = b[n:] {
			switch n {
			case 1:
				most = max(most, int64(b[0]))
			case 4:
				most = max(most, int64(int32(binary.NativeEndian.Uint32(b))))
			case 8:
				most = max(most, int64(binary.NativeEndian.Uint64(b)))
			}
		}
		if most >= int64(len(f.Classes)) {
			return fmt.Errorf("field %q: label %d of %d classes: name all in WriteOptions.Classes: %w", f.Name, most, len(f.Classes), dataloader.ErrOption)
		}
	}
	return nil
}

// Fields returns the record as the only field.
func (r *rows) Fields() []dataloader.Field {
	return []dataloader.Field{{Name: "record", Type: arena.Uint8, Shape: []int{int(r.layout.Record)}}}
}

// Fetch writes a record. The places of encoded values are left to the writer.
func (r *rows) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	record := dst[0]
	if r.gaps {
		clear(record)
	}
	p := r.pool.Get().(*parts)
	for k, n := range r.sizes {
		off := r.layout.Fields[k].Offset
		p.dst[k] = record[off:][:n:n]
	}
	for _, k := range r.encoded {
		p.dst[k] = nil
	}
	var err error
	if r.source != nil {
		err = r.source.FetchEncoded(ctx, at, p.dst, r.values[at.Index%len(r.values)])
	} else {
		err = r.Dataset.Fetch(ctx, at, p.dst)
	}
	if err == nil {
		err = r.checkLabels(p.dst)
	}
	if err != nil {
		return err // the dataset may still hold p
	}
	if bigEndian {
		for k, b := range p.dst {
			if b != nil {
				swap(b, types[r.layout.Fields[k].Type].Size())
			}
		}
	}
	clear(p.dst)
	r.pool.Put(p)
	return nil
}
