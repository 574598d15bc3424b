package table

import (
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/classes"
)

// Target converts the values of a column to a field. It is safe for concurrent use.
type Target struct {
	Field    dataloader.Field
	Type     Type
	Elements int // values of a row

	width   int // bytes of a value in the table; 0: any number
	bytes   int // bytes of the field
	copies  bool
	decoder dataloader.Decoder
	labels  classes.Labels
	found   *classes.Found // not nil while classes are found
	filled  []byte         // fill in the storage type
}

// Problem says why a value cannot be stored. It unwraps to [dataloader.ErrFormat].
type Problem struct {
	At        int // number of the value among those that were to be converted
	Want, Got string
}

// Error returns what was wanted and found.
func (p *Problem) Error() string {
	return fmt.Sprintf("value %d: want %s, got %s", p.At, p.Want, p.Got)
}

// Unwrap returns dataloader.ErrFormat.
func (p *Problem) Unwrap() error { return dataloader.ErrFormat }

// Variable reports whether the values are texts or bytes of any length, which Text takes, and not
// numbers, which Convert takes.
func (t *Target) Variable() bool { return t.Type.Kind == Bytes || t.Type.Kind == Text }

// Encoded reports whether a Decoder writes the field.
func (t *Target) Encoded() bool { return t.decoder != nil }

// Decode writes the field of sample at from its encoded bytes. Only for an Encoded target.
func (t *Target) Decode(at dataloader.At, encoded, dst []byte) error {
	return t.decoder.Decode(at, encoded, dst)
}

// Classes returns the classes of a column with Column.Classes or FindClasses, else nil.
func (t *Target) Classes() []string { return t.labels.Texts() }

// Finding reports whether the classes of the column, with Column.FindClasses, are not known yet. Text
// then collects the texts and writes nothing, and missing values are left out, until Found.
func (t *Target) Finding() bool { return t.found != nil }

// Found makes the collected texts the classes of column c, number k of a dataset. Types that cannot
// hold their number are a *dataloader.FieldError. Nothing else may use the target at the same time.
func (t *Target) Found(k int, c Column) error {
	if t.found == nil {
		return nil
	}
	problem := t.labels.Set(t.found.Sorted(), true, t.Field.Type, c.Fill)
	if t.found = nil; problem != "" {
		return &dataloader.FieldError{Index: k, Name: c.fieldName(), Problem: problem}
	}
	return nil
}

// Text writes the index of a text in the classes.
func (t *Target) Text(dst, text []byte) *Problem {
	if t.found != nil {
		if want := t.found.Add(text); want != "" {
			return &Problem{Want: want, Got: "more of them"}
		}
		return nil
	}
	k, ok := t.labels.Of(text)
	if !ok {
		return &Problem{Want: fmt.Sprintf("one of the %d texts in Classes", t.labels.Len()), Got: quoted(text)}
	}
	v := [1]int64{int64(k)}
	return t.storeInts(v[:], dst)
}

// quoted returns the text in quotes, cut to 40 bytes.
func quoted(text []byte) string {
	if len(text) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", text[:40], len(text))
	}
	return fmt.Sprintf("%q", text)
}

// Missing writes n values in place of missing ones. Without Column.Fill, and for a Decoder, it is a
// Problem.
func (t *Target) Missing(dst []byte, n int) *Problem {
	if t.found != nil {
		return nil
	}
	if t.decoder != nil {
		return &Problem{Want: "bytes for the Decoder (files that a table names by their path must be put into it)", Got: "null"}
	}
	if t.filled == nil {
		return &Problem{Want: "a value, or Column.Fill for missing ones", Got: "null"}
	}
	size := len(t.filled)
	for i := range n * t.perValue() {
		copy(dst[i*size:(i+1)*size], t.filled)
	}
	return nil
}

// Size returns the bytes of one converted value in the field.
func (t *Target) Size() int { return int(t.Field.Type.Size()) * t.perValue() }

// perValue returns the elements of the field that a value becomes: the bytes of a Fixed, else 1.
func (t *Target) perValue() int {
	if t.Type.Kind == Fixed {
		return t.Type.Width
	}
	return 1
}
