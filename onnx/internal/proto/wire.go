package proto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrFormat is the class of errors of bytes that are not the message that was expected.
var ErrFormat = errors.New("not an ONNX file")

// A FormatError says where a file is not as the format wants it. It wraps ErrFormat.
type FormatError struct {
	File   string // "" if the bytes have no name
	Offset int64  // in the file; -1 if the error has no place
	Reason string
}

// Error names the file, the offset and the reason.
func (e *FormatError) Error() string {
	s := e.Reason
	if e.Offset >= 0 {
		s = fmt.Sprintf("offset %d: %s", e.Offset, s)
	}
	if e.File != "" {
		s = e.File + ": " + s
	}
	return s + ": " + ErrFormat.Error()
}

// Unwrap returns ErrFormat.
func (e *FormatError) Unwrap() error { return ErrFormat }

// maxDepth limits nested messages. A model needs 8.
const maxDepth = 16

// Wire types.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// A message is the bytes of one, and their place.
type message struct {
	b     []byte
	at    int64 // offset of b in the file
	depth int
}

// A field is one of a message. Its bytes alias the file's.
type field struct {
	number int
	wire   int
	u      uint64 // of a varint
	message
}

func (m message) errorf(format string, args ...any) error {
	return &FormatError{Offset: m.at, Reason: fmt.Sprintf(format, args...)}
}

// uvarint takes a varint off the front. Ten bytes hold 64 bits; more are refused.
func (m *message) uvarint() (uint64, error) {
	u, n := binary.Uvarint(m.b)
	if n <= 0 {
		return 0, m.errorf("bad varint")
	}
	m.skip(n)
	return u, nil
}

func (m *message) skip(n int) { m.b, m.at = m.b[n:], m.at+int64(n) }

// next takes a field off the front.
func (m *message) next() (field, error) {
	start := *m
	key, err := m.uvarint()
	if err != nil {
		return field{}, err
	}
	f := field{number: int(key >> 3 & math.MaxInt32), wire: int(key & 7)}
	if key>>3 == 0 || key>>3 >= 1<<29 {
		return f, start.errorf("field number %d", key>>3)
	}
	size := 0
	switch f.wire {
	case wireVarint:
		f.message = *m
		f.u, err = m.uvarint()
		return f, err
	case wire64:
		size = 8
	case wire32:
		size = 4
	case wireBytes:
		n, err := m.uvarint()
		if err != nil {
			return f, err
		}
		if n > uint64(len(m.b)) {
			return f, start.errorf("field %d has %d bytes, %d are left", f.number, n, len(m.b))
		}
		size = int(n)
	default:
		return f, start.errorf("field %d has wire type %d", f.number, f.wire)
	}
	if size > len(m.b) {
		return f, start.errorf("field %d has %d bytes, %d are left", f.number, size, len(m.b))
	}
	f.message = message{m.b[:size:size], m.at, m.depth + 1}
	m.skip(size)
	return f, nil
}

// fields calls visit for each field of a message.
func (m message) fields(visit func(field) error) error {
	if m.depth > maxDepth {
		return m.errorf("messages nest more than %d deep", maxDepth)
	}
	for len(m.b) > 0 {
		f, err := m.next()
		if err != nil {
			return err
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

func (f field) want(wire int) error {
	if f.wire != wire {
		return f.errorf("field %d has wire type %d, want %d", f.number, f.wire, wire)
	}
	return nil
}

func (f field) text(to *string) error {
	*to = string(f.b)
	return f.want(wireBytes)
}

func (f field) bytes(to *[]byte) error {
	*to = f.b
	return f.want(wireBytes)
}

func (f field) int(to *int64) error {
	*to = int64(f.u)
	return f.want(wireVarint)
}

// listCap returns the capacity for a packed list, whose elements have at least size bytes each.
func listCap[T any](to []T, f field, size int) []T {
	if n := len(f.b) / size; cap(to)-len(to) < n {
		return append(make([]T, 0, len(to)+n), to...)
	}
	return to
}

// varints appends a repeated integer, packed or not.
func varints[T int64 | uint64](to *[]T, f field) error {
	if f.wire == wireVarint {
		*to = append(*to, T(f.u))
		return nil
	}
	if err := f.want(wireBytes); err != nil {
		return err
	}
	for m := f.message; len(m.b) > 0; {
		u, err := m.uvarint()
		if err != nil {
			return err
		}
		*to = append(*to, T(u))
	}
	return nil
}

// floats appends a repeated float32, packed or not.
func floats(to *[]float32, f field) error {
	if f.wire != wire32 && f.wire != wireBytes || len(f.b)%4 != 0 {
		return f.errorf("field %d: floats in %d bytes of wire type %d", f.number, len(f.b), f.wire)
	}
	list := listCap(*to, f, 4)
	for b := f.b; len(b) > 0; b = b[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	*to = list
	return nil
}

// doubles appends a repeated float64, packed or not.
func doubles(to *[]float64, f field) error {
	if f.wire != wire64 && f.wire != wireBytes || len(f.b)%8 != 0 {
		return f.errorf("field %d: doubles in %d bytes of wire type %d", f.number, len(f.b), f.wire)
	}
	list := listCap(*to, f, 8)
	for b := f.b; len(b) > 0; b = b[8:] {
		list = append(list, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	*to = list
	return nil
}
