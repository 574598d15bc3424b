package shards

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/number"
)

// Integer returns a decoder of a decimal integer as text, such as that of a .cls file, with white
// space around it. type is uint8, int32 or int64. Another text, and a number outside the range of the
// type, is a *dataloader.FormatError.
func Integer(t arena.DType) dataloader.Decoder {
	least, most := number.Bounds(t)
	return integer{t, least, most} // Open refuses the field of another type
}

// Class returns a decoder of the number of a class as text, from 0 to classes - 1, to an int32.
func Class(classes int) dataloader.Decoder {
	return integer{arena.Int32, 0, int64(min(classes, math.MaxInt32)) - 1}
}

// integer decodes integers.
type integer struct {
	t           arena.DType
	least, most int64
}

// Field implements dataloader.Decoder.
func (i integer) Field(name string) dataloader.Field {
	f := dataloader.Field{Name: name, Type: i.t}
	if !number.Stored(i.t) || i.t.Float() || i.most < i.least {
		f.Type = math.MaxUint8
	}
	return f
}

// Decode implements dataloader.Decoder.
func (i integer) Decode(_ dataloader.At, encoded, dst []byte) error {
	text := bytes.TrimSpace(encoded)
	v, problem := number.Int(text, i.least, i.most)
	if problem != "" || text[0] == '+' {
		return wrong("integer", fmt.Sprintf("a number from %d to %d", i.least, i.most), encoded)
	}
	number.PutInt(i.t, dst, v)
	return nil
}

// wrong is the error of contents that a decoder does not take. It shows the first bytes.
func wrong(what, want string, got []byte) error {
	more := ""
	if len(got) > 40 {
		got, more = got[:40], "…"
	}
	return &dataloader.FormatError{What: what, Want: want, Got: fmt.Sprintf("%q%s", got, more)}
}

// Raw returns a decoder of numbers in little-endian binary, row-major, nothing before or after them.
func Raw(t arena.DType, shape ...int) dataloader.Decoder {
	return raw{dataloader.Field{Type: t, Shape: slices.Clone(shape)}}
}

// raw decodes binary numbers.
type raw struct{ field dataloader.Field }

// Field implements dataloader.Decoder.
func (r raw) Field(name string) dataloader.Field {
	f := r.field
	f.Name = name
	return f
}

// Decode implements dataloader.Decoder.
func (r raw) Decode(_ dataloader.At, encoded, dst []byte) error {
	if len(encoded) != len(dst) {
		return &dataloader.FormatError{What: "length", Want: fmt.Sprintf("%d bytes", len(dst)), Got: strconv.Itoa(len(encoded))}
	}
	copy(dst, encoded)
	if bigEndian {
		n := int(r.field.Type.Size())
		for i := 0; i+n <= len(dst); i += n {
			slices.Reverse(dst[i:][:n])
		}
	}
	return nil
}

// bigEndian reports whether this machine stores the most significant byte first.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
