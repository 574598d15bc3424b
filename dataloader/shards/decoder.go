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
)

// Integer returns a decoder of a decimal integer as text, such as that of a .cls file, with white
// space around it. type is uint8, int32 or int64. Another text, and a number outside the range of the
// type, is a *dataloader.FormatError.
func Integer(t arena.DType) dataloader.Decoder {
	switch t {
	case arena.Uint8:
		return number{t, 0, math.MaxUint8}
	case arena.Int32:
		return number{t, math.MinInt32, math.MaxInt32}
	case arena.Int64:
		return number{t, math.MinInt64, math.MaxInt64}
	}
	return number{t: t} // its field is refused by Open
}

// Class returns a decoder of the number of a class as text, from 0 to classes - 1, to an int32.
func Class(classes int) dataloader.Decoder {
	return number{arena.Int32, 0, int64(min(classes, math.MaxInt32)) - 1}
}

// number decodes integers.
type number struct {
	t           arena.DType
	least, most int64
}

// Field implements dataloader.Decoder.
func (n number) Field(name string) dataloader.Field {
	f := dataloader.Field{Name: name, Type: n.t}
	if n.t != arena.Uint8 && n.t != arena.Int32 && n.t != arena.Int64 || n.most < n.least {
		f.Type = math.MaxUint8
	}
	return f
}

// Decode implements dataloader.Decoder.
func (n number) Decode(_ dataloader.At, encoded, dst []byte) error {
	v, ok := parseInt(bytes.TrimSpace(encoded))
	if !ok || v < n.least || v > n.most {
		return wrong("integer", fmt.Sprintf("a number from %d to %d", n.least, n.most), encoded)
	}
	putInt(dst, n.t, v)
	return nil
}

// parseInt is strconv.ParseInt of decimal digits, without an allocation.
func parseInt(b []byte) (v int64, ok bool) {
	digits, negative := bytes.CutPrefix(b, []byte("-"))
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	u := uint64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = 10*u + uint64(c-'0') // 19 digits fit
	}
	if negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}

// putInt stores an integer that is in the range of the type.
func putInt(dst []byte, t arena.DType, v int64) {
	switch t {
	case arena.Uint8:
		dst[0] = uint8(v)
	case arena.Int32:
		binary.NativeEndian.PutUint32(dst, uint32(v))
	case arena.Int64:
		binary.NativeEndian.PutUint64(dst, uint64(v))
	}
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
