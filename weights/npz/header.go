package npz

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

const (
	magic          = "\x93NUMPY"
	maxHeaderBytes = 1 << 20 // of the description of an array
)

// layout is how the elements of an array are stored.
type layout struct {
	safetensors.Tensor
	data    int64 // offset of the elements in the entry
	fortran bool  // the first index varies fastest
	big     bool  // big endian
}

// plain reports whether the elements are stored as Read returns them.
func (l *layout) plain() bool {
	return !(l.fortran && len(l.Shape) > 1) && !(l.big && l.DType.Bits() > 8)
}

// dtypes are the types by kind and size in NumPy's descr.
var dtypes = map[string]safetensors.DType{
	"b1": safetensors.Bool, "u1": safetensors.Uint8, "i1": safetensors.Int8, "u2": safetensors.Uint16, "i2": safetensors.Int16,
	"u4": safetensors.Uint32, "i4": safetensors.Int32, "u8": safetensors.Uint64, "i8": safetensors.Int64,
	"f2": safetensors.Float16, "f4": safetensors.Float32, "f8": safetensors.Float64, "c8": safetensors.Complex64,
}

// descrOf returns the descr of a type, "" if NumPy has none.
func descrOf(t safetensors.DType) string {
	for descr, d := range dtypes {
		if d == t {
			if d.Bits() == 8 {
				return "|" + descr
			}
			return "<" + descr
		}
	}
	return ""
}

// parser reads the dictionary of a header: a Python literal.
type parser struct {
	text string
	at   int
	base int // offset of text in the entry
	err  *FormatError
}

// fail records the first mistake.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &FormatError{Offset: int64(p.base + p.at), Reason: fmt.Sprintf(format, args...)}
	}
}

// readHeader reads the description at the start of an entry. Its errors are *FormatErrors without
// the names of file and entry, or those of r.
func readHeader(r io.Reader) (*layout, error) {
	var start [12]byte
	n := 10
	read := func(b []byte, at int) error {
		k, err := io.ReadFull(r, b)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return &FormatError{Offset: int64(at + k), Reason: "the header is cut", Err: io.ErrUnexpectedEOF}
		}
		return err
	}
	if err := read(start[:n], 0); err != nil {
		return nil, err
	}
	if string(start[:6]) != magic {
		return nil, &FormatError{Reason: fmt.Sprintf("it begins with % x, and an array with % x", start[:6], magic)}
	}
	length := int(binary.LittleEndian.Uint16(start[8:]))
	switch version := start[6]; version {
	case 1:
	case 2, 3:
		if err := read(start[10:], 10); err != nil {
			return nil, err
		}
		n = 12
		length = int(min(binary.LittleEndian.Uint32(start[8:]), maxHeaderBytes+1))
	default:
		return nil, &FormatError{Offset: 6, Reason: fmt.Sprintf("version %d.%d of the format: 1 to 3 are read", version, start[7])}
	}
	if length > maxHeaderBytes {
		return nil, &FormatError{Offset: 8, Reason: fmt.Sprintf("a header of more than %d bytes", maxHeaderBytes)}
	}
	text := make([]byte, length)
	if err := read(text, n); err != nil {
		return nil, err
	}
	p := &parser{text: string(text), base: n}
	l := p.header()
	if p.err != nil {
		return nil, p.err
	}
	l.data = int64(n + length)
	return l, nil
}

// header reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, in any order.
func (p *parser) header() *layout {
	l := &layout{}
	seen := map[string]bool{}
	p.expect('{')
	for p.err == nil && p.next() != '}' {
		key := p.str()
		if seen[key] {
			p.fail("%q occurs twice", shorten(key))
		}
		seen[key] = true
		p.expect(':')
		switch key {
		case "descr":
			p.descr(l)
		case "fortran_order":
			l.fortran = p.boolean()
		case "shape":
			l.Shape = p.shape()
		default:
			p.fail("unknown key %q", shorten(key))
		}
		if p.next() != '}' {
			p.expect(',')
		}
	}
	p.expect('}')
	if p.next(); p.at < len(p.text) {
		p.fail("something follows the description")
	}
	if len(seen) != 3 {
		p.fail(`it needs "descr", "fortran_order" and "shape"`)
	}
	if p.err == nil && l.Bytes() == 0 && !slices.Contains(l.Shape, 0) {
		p.fail("shape %v has too many bytes", l.Shape[:min(len(l.Shape), 16)])
	}
	return l
}

// next returns the first byte after white space, 0 at the end.
func (p *parser) next() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r\f", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// expect reads a byte.
func (p *parser) expect(c byte) {
	if p.next() != c || p.at >= len(p.text) {
		p.fail("want %q in the description", c)
		return
	}
	p.at++
}

// str reads a string, which has no escapes in a header.
func (p *parser) str() string {
	quote := p.next()
	if quote == 'u' || quote == 'b' { // of Python 2
		p.at++
		quote = p.next()
	}
	if quote != '\'' && quote != '"' {
		p.fail("want a string in the description")
		return ""
	}
	from := p.at + 1
	n := strings.IndexByte(p.text[from:], quote)
	if n < 0 {
		p.fail("a string does not end")
		return ""
	}
	p.at = from + n + 1
	return p.text[from : from+n]
}

// descr reads the type.
func (p *parser) descr(l *layout) {
	if p.next() == '[' {
		p.fail("a structured array: save each of its fields as an array")
		return
	}
	at := p.at
	d := p.str()
	if p.err != nil {
		return
	}
	p.at = at          // of a mistake
	order := byte('=') // that of this machine, which is little endian
	if d != "" && strings.IndexByte("<>|=", d[0]) >= 0 {
		order, d = d[0], d[1:]
	}
	var ok bool
	switch l.DType, ok = dtypes[d]; {
	case strings.HasPrefix(d, "O"):
		p.fail("an array of Python objects, a pickle: it can run code, so that it is refused")
	case d == "V2":
		p.fail("raw elements of 2 bytes, which NumPy makes of bfloat16: save it as float32")
	case !ok:
		p.fail("type %q is not supported", shorten(d))
	}
	l.big = order == '>'
	p.str()
}

// boolean reads True or False.
func (p *parser) boolean() bool {
	p.next()
	for _, word := range []string{"True", "False"} {
		if strings.HasPrefix(p.text[p.at:], word) {
			p.at += len(word)
			return word == "True"
		}
	}
	p.fail("want True or False")
	return false
}

// shape reads a tuple of dimensions, which may have the L of Python 2.
func (p *parser) shape() []int {
	shape := []int{}
	p.expect('(')
	comma := true
	for p.err == nil && p.next() != ')' {
		if !comma {
			p.fail("want a comma between dimensions")
			break
		}
		from := p.at
		for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
			p.at++
		}
		n, err := strconv.ParseInt(p.text[from:p.at], 10, 64)
		if err != nil {
			p.at = from
			p.fail("want a dimension from 0 to 2^63-1")
		}
		shape = append(shape, int(n))
		if p.next() == 'L' {
			p.at++
		}
		if comma = p.next() == ','; comma {
			p.at++
		}
	}
	p.expect(')')
	if len(shape) == 1 && !comma {
		p.fail("want a comma after the one dimension")
	}
	return shape
}
