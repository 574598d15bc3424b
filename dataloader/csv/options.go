package csv

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/classes"
	"github.com/evenkeel/evenkeel/dataloader/internal/number"
)

// Options of Open. The zero value reads each column as a field of float32.
type Options struct {
	// Fields are the fields of a sample. nil: one scalar of float32 for each column, called as that, of
	// at most 10,000.
	Fields []Field
	// Comma separates values; 0: a tab in files whose names end in .tsv, else a comma.
	Comma byte
	// Comment starts a line that is skipped; 0: no line is.
	Comment byte
	// NoHeader says that the first record is a sample. Columns are then called "0", "1" and so on.
	NoHeader bool
	// Missing are the texts of a missing value, beside the empty one, such as NA.
	Missing []string
	// Held is 0 to keep the values of all records in memory, else the number of decoded pieces that are
	// kept at one time, as dataloader.BlockOptions.Held: for files larger than memory. With Held 0, Open
	// returns the error of the first bad record; else Fetch of that record does, so that
	// [dataloader.SkipBad] and [dataloader.Scan] find it.
	Held int
	// Memory is the most bytes of values in memory with Held 0; 0: 4 GiB. More is an error.
	Memory int64
	// Record is the most bytes of a record; 0: 1 MiB.
	Record int
	// Workers are the goroutines that read with Held 0; 0: GOMAXPROCS.
	Workers int
}

// Field says how columns become a field.
type Field struct {
	Name string
	// Columns are the names of the columns: one is a scalar, more are a vector. nil: Name.
	Columns []string
	// Type is the type of the field: a float, or an integer for columns of whole numbers; 0: float32,
	// or int32 with Classes.
	Type arena.DType
	// Scale and Shift are those of the field: the device decodes a stored value x to Scale*x + Shift.
	Scale, Shift float64
	// Fill is stored for a missing value; nil: a missing value is an error. With Classes it is the index
	// of one, or a negative number, which layers.Ignore leaves out; with FindClasses the latter, since
	// the indices depend on the file.
	Fill *float64
	// NonFinite allows NaN and infinities.
	NonFinite bool
	// Classes lists the texts of the column: the field is the index in the list. Another text is an
	// error.
	Classes []string
	// FindClasses makes the list: the texts that occur, at most 65,536 and 16 MiB, sorted by bytes. It
	// takes one more pass over the file. Dataset.Classes returns it.
	FindClasses bool
	// Decoder decodes the text of the one column, as a tokenizer does.
	Decoder dataloader.Decoder
}

// Defaults of Options.
const (
	defaultMemory = 4 << 30
	defaultRecord = 1 << 20
)

// check sets defaults and returns an error for wrong options.
func (o *Options) check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, dataloader.ErrOption)...))
		}
	}
	bad(o.Comma == '"' || o.Comma == '\r' || o.Comma == '\n' || o.Comma >= 0x80, "comma %q: must be another character", o.Comma)
	bad(o.Comment == '"' || o.Comment == '\r' || o.Comment == '\n' || o.Comment >= 0x80 || o.Comment != 0 && o.Comment == o.Comma,
		"comment %q: must be another character", o.Comment)
	bad(o.Held < 0, "held %d: must be 0 (all) or more", o.Held)
	bad(o.Memory < 0, "memory of %d bytes: must be 0 (default) or more", o.Memory)
	bad(o.Record < 0 || o.Record > 1<<30, "record of %d bytes: must be 0 (default) to 2^30", o.Record)
	bad(o.Workers < 0 || o.Workers > dataloader.MaxWorkers, "workers %d: must be 0 (default) to %d", o.Workers, dataloader.MaxWorkers)
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Record == 0 {
		o.Record = defaultRecord
	}
	return errors.Join(errs...)
}

// field is a Field with what follows from it.
type field struct {
	Field
	out    dataloader.Field
	size   int // bytes of a number
	bytes  int // of a sample, 0 with a Decoder
	fill   float64
	labels classes.Labels
	found  classes.Found // with FindClasses
}

// target is where the values of a column go. A column may have none, or several.
type target struct {
	field *field
	at    int // number of the field
	place int // index in the vector
}

// bind finds the columns of the fields. It returns the targets by column.
func bind(fields []Field, names []string) ([]*field, [][]target, error) {
	if fields == nil {
		if len(names) > mostFields {
			return nil, nil, fmt.Errorf("%d columns, each a field: at most %d; name those that become one vector in Options.Fields: %w",
				len(names), mostFields, dataloader.ErrOption)
		}
		for _, name := range names {
			fields = append(fields, Field{Name: name})
		}
	}
	all, targets := make([]*field, len(fields)), make([][]target, len(names))
	columns, twice := make(map[string]int, len(names)), make(map[string]bool)
	for i, name := range names {
		if _, ok := columns[name]; ok {
			twice[name] = true
		}
		columns[name] = i
	}
	var errs []error
	for k, f := range fields {
		bad := func(format string, args ...any) {
			if len(errs) < mostErrors {
				errs = append(errs, &dataloader.FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf(format, args...)})
			}
		}
		if f.Columns == nil {
			f.Columns = []string{f.Name}
		}
		x := &field{Field: f}
		all[k] = x
		if problem := x.complete(); problem != "" {
			bad("%s", problem)
		}
		for place, name := range f.Columns {
			i, ok := columns[name]
			if !ok {
				bad("there is no column %q, the columns are %q", name, short(names))
				continue
			}
			if twice[name] {
				bad("there are two columns %q", name)
			}
			targets[i] = append(targets[i], target{x, k, place})
		}
	}
	return all, targets, errors.Join(errs...)
}

// mostFields bounds the fields that are made of columns without Options.Fields, mostErrors the
// mistakes that are listed.
const mostFields, mostErrors = 10_000, 30

// short bounds a list for an error.
func short(names []string) []string { return names[:min(len(names), mostErrors)] }

// complete sets what follows from the field, or returns what is wrong.
func (x *field) complete() string {
	text := x.Classes != nil || x.FindClasses || x.Decoder != nil
	switch {
	case text && len(x.Columns) != 1:
		return "a field of text has one column"
	case x.Decoder != nil && (x.Classes != nil || x.FindClasses):
		return "set Classes or Decoder, not both"
	case x.Classes != nil && x.FindClasses:
		return "set Classes or FindClasses, not both"
	case len(x.Columns) == 0:
		return "it has no columns: leave Columns nil for the one called as the field"
	}
	if x.Decoder != nil {
		x.out = x.Decoder.Field(x.Name)
		return ""
	}
	if x.Type == 0 {
		x.Type = arena.Float32
		if text {
			x.Type = arena.Int32
		}
	}
	if !number.Stored(x.Type) {
		return fmt.Sprintf("type %v: must be float32, float64, uint8, int32 or int64", x.Type)
	}
	x.size = int(x.Type.Size())
	x.bytes = x.size * len(x.Columns)
	x.out = dataloader.Field{Name: x.Name, Type: x.Type, Scale: x.Scale, Shift: x.Shift}
	if len(x.Columns) > 1 {
		x.out.Shape = []int{len(x.Columns)}
	}
	if x.Fill != nil {
		if x.fill = *x.Fill; !number.Holds(x.Type, x.fill) {
			return fmt.Sprintf("%v does not hold the fill %v", x.Type, x.fill)
		}
	}
	if text {
		return x.labels.Set(x.Classes, x.FindClasses, x.Type, x.Fill)
	}
	return ""
}

// numbered returns the names of n columns without a header.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}
