package jsonl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/classes"
	"github.com/evenkeel/evenkeel/dataloader/internal/number"
)

// Options of Open. Fields are needed.
type Options struct {
	Fields []Field
	// Held is the number of decoded pieces in memory, as dataloader.BlockOptions.Held; 0: all.
	Held int
	// Line is the most bytes of a line; 0: 1 MiB.
	Line int
	// Unpacked is the most bytes that a compressed file may have when it is decompressed; 0: 256 MiB.
	Unpacked int64
	// Memory is the most bytes that the values of a piece take, as lines without lists take with
	// Field.Fill; 0: 1 GiB.
	Memory int64
}

// Field says how a member of the objects becomes a field.
type Field struct {
	Name string
	// Path is the key of the member; dots lead into objects, as in "meta.label". "": Name.
	Path string
	// Type is the type of the field: float32, float64, uint8, int32 or int64; 0: float32, or int32 with
	// Classes.
	Type arena.DType
	// Shape has the lengths of the lists; nil: a scalar.
	Shape []int
	// Scale and Shift are those of the field: the device decodes a stored value x to Scale*x + Shift.
	Scale, Shift float64
	// Fill is stored in place of null and of a member that is not there; nil: an error. With Classes it
	// is the index of one, or a negative number, which layers.Ignore leaves out; with FindClasses the
	// latter, since the indices depend on the file.
	Fill *float64
	// Classes lists the strings of the member: the field is the index in the list. Another string is an
	// error.
	Classes []string
	// FindClasses makes the list: the strings that occur, at most 65,536 and 16 MiB, sorted by bytes. It
	// decodes all lines once more. Dataset.Classes returns it.
	FindClasses bool
	// Decoder decodes the text of a string, or the JSON text of another value.
	Decoder dataloader.Decoder
}

// Defaults of Options.
const (
	defaultLine     = 1 << 20
	defaultUnpacked = 256 << 20
	defaultMemory   = 1 << 30
)

// check sets defaults and returns an error for wrong options.
func (o *Options) check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, dataloader.ErrOption)...))
		}
	}
	bad(len(o.Fields) == 0, "no fields: say which members become which field in Options.Fields")
	bad(o.Held < 0, "held %d: must be 0 (all) or more", o.Held)
	bad(o.Line < 0 || o.Line > 1<<30, "line of %d bytes: must be 0 (default) to 2^30", o.Line)
	bad(o.Unpacked < 0, "unpacked %d bytes: must be 0 (default) or more", o.Unpacked)
	bad(o.Memory < 0, "memory of %d bytes: must be 0 (default) or more", o.Memory)
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Line == 0 {
		o.Line = defaultLine
	}
	if o.Unpacked == 0 {
		o.Unpacked = defaultUnpacked
	}
	return errors.Join(errs...)
}

// field is a Field with what follows from it.
type field struct {
	Field
	out    dataloader.Field
	bytes  int // of a sample, 0 with a Decoder
	elems  int
	size   int // of an element
	labels classes.Labels
	found  *classes.Found // nil, but while classes are found
}

// node is a key on the way to members.
type node struct {
	children map[string]*node
	fields   []int // that the member becomes
}

// bind completes the fields, and returns the tree of their keys.
func bind(all []Field) ([]*field, *node, error) {
	root := new(node)
	var fields []*field
	var errs []error
	for k, f := range all {
		if f.Path == "" {
			f.Path = f.Name
		}
		x := &field{Field: f}
		fields = append(fields, x)
		problem := x.complete()
		at := root
		for key := range strings.SplitSeq(f.Path, ".") {
			if len(at.fields) > 0 {
				problem = fmt.Sprintf("path %q leads into another field", f.Path)
			}
			if at.children == nil {
				at.children = make(map[string]*node)
			}
			if at.children[key] == nil {
				at.children[key] = new(node)
			}
			at = at.children[key]
		}
		if at.fields = append(at.fields, k); at.children != nil {
			problem = fmt.Sprintf("path %q is on the way to another field", f.Path)
		}
		if problem != "" {
			errs = append(errs, &dataloader.FieldError{Index: k, Name: f.Name, Problem: problem})
		}
	}
	return fields, root, errors.Join(errs...)
}

// complete sets what follows from the field, or returns what is wrong.
func (x *field) complete() string {
	text := x.Classes != nil || x.FindClasses
	switch {
	case x.Decoder != nil && (text || x.Fill != nil || x.Shape != nil):
		return "a Decoder decides alone: clear Classes, FindClasses, Fill and Shape"
	case x.Decoder != nil:
		x.out = x.Decoder.Field(x.Name)
		return ""
	case x.Classes != nil && x.FindClasses:
		return "set Classes or FindClasses, not both"
	case x.Classes != nil && len(x.Classes) == 0:
		return "it has no classes: list them, or set FindClasses"
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
	x.out = dataloader.Field{Name: x.Name, Type: x.Type, Shape: x.Shape, Scale: x.Scale, Shift: x.Shift}
	if x.out.Bytes() < 0 || x.out.Bytes() > 1<<30 {
		return fmt.Sprintf("shape %v: lengths must be 1 or more, and all elements at most 2^30 bytes", x.Shape)
	}
	x.size, x.bytes = int(x.Type.Size()), int(x.out.Bytes())
	x.elems = x.bytes / x.size
	if x.Fill != nil && !number.Holds(x.Type, *x.Fill) {
		return fmt.Sprintf("%v does not hold the fill %v", x.Type, *x.Fill)
	}
	if text {
		return x.labels.Set(x.Classes, x.FindClasses, x.Type, x.Fill)
	}
	return ""
}
