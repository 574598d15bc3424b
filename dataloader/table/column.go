// Package table turns the columns of a table into the fields of a dataset. The formats of tables
// share it: a [Column] says which column becomes which field and by which rules, a [Type] describes
// the values in the file, and a [Target], made of both, converts values to the storage type of the
// field.
//
// Values keep their own type where the device has it. The others are stored by these rules:
//
//	in the table                  stored as    Column.Type may be
//	bool                          Uint8        any type: false is 0, true is 1
//	int8, int16, uint16           Int32        any type that holds the values
//	uint8                         Uint8        any type that holds the values
//	int32, int64                  itself       any type that holds the values
//	uint32, uint64                Int64        any type that holds the values
//	float16, float32, float64     itself       a floating-point type
//	decimal                       Float64      a floating-point type; Int32 or Int64: digits without the point
//	date                          Int32, days since 1970
//	time, timestamp, duration     Int64, in the unit of the column, see Type.Unit
//	bytes of one fixed length     Uint8        Uint8
//	text                          Int32        an integer type: the index in the classes
//	text or bytes with a Decoder  the field of the decoder
package table

import (
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/classes"
)

// Column selects one column of a table and says how it becomes a field. Only Name is needed.
type Column struct {
	// Name is the column's name in the table. A dot separates the names of a structure and of a
	// member. A structure with a member "bytes", as Hugging Face stores images, stands for it.
	Name string
	// Field is the name of the field; "": Name.
	Field string
	// Type is the storage type; 0: by the rules of the package. A value that Type cannot hold is an
	// error when it is read.
	Type arena.DType
	// Shape is the shape of the field for lists of a fixed length and bytes of a fixed length, with as
	// many elements; nil: the lengths of the lists, taken from the table's description or its first
	// row. Rows with another length are an error.
	Shape []int
	// Scale and Shift are those of the field: the device decodes a stored value x to Scale*x + Shift.
	Scale, Shift float64
	// Fill is stored for a missing value; nil: a missing value is an error. Bytes for a Decoder
	// cannot be filled. With Classes it is the index of one, or a negative number, which layers.Ignore
	// leaves out; with FindClasses the latter, since the indices depend on the table.
	Fill *float64
	// Classes lists the texts of a column of text. Its field is the index in the list. Another text is
	// an error.
	Classes []string
	// FindClasses makes the list: the texts that occur, at most 65,536 and 16 MiB, sorted by bytes. It
	// reads the column once more. Dataset.Classes returns it.
	FindClasses bool
	// Decoder decodes the bytes or text of each row, such as images.
	Decoder dataloader.Decoder
}

// Kind is how a value is represented in a table.
type Kind uint8

// Kinds of values. Numbers are little-endian.
const (
	Bool    Kind = iota + 1 // 1 byte: 0 or 1
	Int8                    // 1 byte
	Int16                   // 2 bytes
	Int32                   // 4 bytes
	Int64                   // 8 bytes
	Uint8                   // 1 byte
	Uint16                  // 2 bytes
	Uint32                  // 4 bytes
	Uint64                  // 8 bytes
	Float16                 // 2 bytes
	Float32                 // 4 bytes
	Float64                 // 8 bytes
	Decimal                 // Type.Width bytes, two's complement, big-endian
	Int96                   // 12 bytes: nanoseconds of the day in 8, Julian day in 4
	Fixed                   // Type.Width bytes of no further meaning
	Bytes                   // any number of bytes
	Text                    // any number of bytes, text
)

var kindNames = [...]string{"", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
	"float16", "float32", "float64", "decimal", "int96", "fixed bytes", "bytes", "text"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) && k > 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

var kindBytes = [...]int{Bool: 1, Int8: 1, Int16: 2, Int32: 4, Int64: 8, Uint8: 1, Uint16: 2, Uint32: 4, Uint64: 8,
	Float16: 2, Float32: 4, Float64: 8, Int96: 12, Text: 0}

// Type describes the values of a column.
type Type struct {
	Kind  Kind
	Width int    // bytes of a value of kind Decimal or Fixed
	Scale int    // digits after the point of a Decimal
	Unit  string // "days", "s", "ms", "us" or "ns" for dates and times, else ""
	Dims  []int  // lengths of the lists around a value, outermost first; 0: not known; nil: no list
}

// Bytes returns the size of a value in bytes, 0 if it varies.
func (t Type) Bytes() int {
	switch t.Kind {
	case Decimal, Fixed:
		return t.Width
	}
	return kindBytes[t.Kind]
}

// String returns the type as in "list of 3 × float32".
func (t Type) String() string {
	s := t.Kind.String()
	if t.Unit != "" {
		s += " in " + t.Unit
	}
	for _, d := range slices.Backward(t.Dims) {
		if d == 0 {
			s = "list of " + s
		} else {
			s = fmt.Sprintf("list of %d × %s", d, s)
		}
	}
	return s
}

// stored returns the storage type by the rules of the package, 0 if there is none.
func (t Type) stored() arena.DType {
	switch t.Kind {
	case Bool, Uint8, Fixed:
		return arena.Uint8
	case Int8, Int16, Uint16, Int32:
		return arena.Int32
	case Int64, Uint32, Uint64, Int96:
		return arena.Int64
	case Float16:
		return arena.Float16
	case Float32:
		return arena.Float32
	case Float64, Decimal:
		return arena.Float64
	}
	return 0
}

// problem returns why a column of type t cannot become a field by c, or "".
func (c Column) problem(t Type) string {
	variable := t.Kind == Bytes || t.Kind == Text
	to := c.Type
	if to == 0 {
		to = t.stored()
	}
	float := t.Kind == Float16 || t.Kind == Float32 || t.Kind == Float64
	labels := c.Classes != nil || c.FindClasses
	switch {
	case c.Decoder != nil && (!variable && t.Kind != Fixed || len(t.Dims) > 0):
		return fmt.Sprintf("the column holds %v: a Decoder takes bytes or text, one value a row", t)
	case c.Decoder != nil && (labels || c.Type != 0 || c.Shape != nil || c.Fill != nil):
		return "the field is the Decoder's: leave Type, Shape, Fill, Classes and FindClasses empty"
	case c.Decoder != nil:
		return ""
	case c.Classes != nil && c.FindClasses:
		return "set Classes or FindClasses, not both"
	case labels && !variable:
		return fmt.Sprintf("the column holds %v: Classes are for text", t)
	case labels && len(t.Dims) > 0:
		return fmt.Sprintf("the column holds %v: Classes are for one text a row", t)
	case labels:
		return ""
	case variable:
		return fmt.Sprintf("the column holds %v: set Classes or FindClasses for labels in text, or a Decoder", t)
	case t.Kind == Fixed && to != arena.Uint8:
		return fmt.Sprintf("the column holds %d bytes a row: they are stored as uint8, not %v", t.Width, to)
	case float && !real(to):
		return fmt.Sprintf("the column holds %v, which %v cannot store: choose a floating-point type", t, to)
	case t.Kind == Decimal && to == arena.Uint8:
		return "decimals are stored in a floating-point type, int32 or int64"
	case t.Kind == Decimal && (t.Width < 1 || t.Width > maxDecimal || t.Scale < -maxDigits || t.Scale > maxDigits):
		return fmt.Sprintf("a decimal of %d bytes with %d digits after the point: at most %d bytes and %d digits are read",
			t.Width, t.Scale, maxDecimal, maxDigits)
	case t.Bytes() < 1:
		return fmt.Sprintf("the column holds %v, which cannot be read", t)
	}
	return ""
}

// Limits of decimals: those of Arrow's decimal256.
const (
	maxDecimal = 32 // bytes
	maxDigits  = 76
)

// elements returns the product of dims, or -1 if it is not in [1, MaxInt32].
func elements(dims []int) int {
	n := 1
	for _, d := range dims {
		if d < 1 || n > math.MaxInt32/d {
			return -1
		}
		n *= d
	}
	return n
}

// NewTarget returns the target of column number k of a dataset: c applied to values of type t, all
// of whose Dims must be known. An impossible combination is a *dataloader.FieldError.
func NewTarget(k int, c Column, t Type) (*Target, error) {
	fail := func(format string, args ...any) (*Target, error) {
		return nil, &dataloader.FieldError{Index: k, Name: c.fieldName(), Problem: fmt.Sprintf(format, args...)}
	}
	if p := c.problem(t); p != "" {
		return fail("%s", p)
	}
	g := &Target{Type: t, Elements: elements(t.Dims), width: t.Bytes()}
	if g.Elements < 0 {
		return fail("lists of %v elements: each length must be 1 or more, and their product below 2^31", t.Dims)
	}
	if c.Decoder != nil {
		g.decoder, g.Field = c.Decoder, c.Decoder.Field(c.fieldName())
		return g, nil
	}
	g.Field = dataloader.Field{Name: c.fieldName(), Type: c.Type, Shape: slices.Clone(c.Shape), Scale: c.Scale, Shift: c.Shift}
	if c.Type == 0 {
		g.Field.Type = t.stored()
	}
	natural := slices.Clone(t.Dims)
	if t.Kind == Fixed {
		natural = append(natural, t.Width)
	}
	if c.Shape == nil {
		g.Field.Shape = natural
	}
	if c.Classes != nil || c.FindClasses {
		if g.Field.Type == 0 {
			g.Field.Type = arena.Int32
		}
		if p := g.labels.Set(c.Classes, c.FindClasses, g.Field.Type, c.Fill); p != "" {
			return fail("%s", p)
		}
	}
	if c.FindClasses {
		g.found = new(classes.Found)
	}
	if g.Field.Bytes() < 0 || g.Field.Type.Size() == 0 || elements(g.Field.Shape) != elements(natural) {
		return fail("shape %v of %v: the column has %v, %d elements", g.Field.Shape, g.Field.Type, natural, elements(natural))
	}
	if c.Fill != nil {
		g.filled = make([]byte, g.Field.Type.Size())
		if p := g.store([]float64{*c.Fill}, g.filled); p != nil {
			return fail("fill %v: want %s", *c.Fill, p.Want)
		}
	}
	g.bytes = int(g.Field.Bytes())
	g.plain()
	return g, nil
}

// fieldName returns the name of the field.
func (c Column) fieldName() string {
	if c.Field != "" {
		return c.Field
	}
	return c.Name
}

// real reports whether t is a floating-point type.
func real(t arena.DType) bool { return t.Float() || t.Half() }
