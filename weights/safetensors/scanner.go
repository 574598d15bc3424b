package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep values are nested, as the reference does.
const maxDepth = 127

// scanner reads JSON from memory. It keeps the first error, after which all methods return zeros.
// encoding/json does not serve here: it ignores the case of names, takes null for 0, replaces what
// is not UTF-8 and lets a name occur twice.
type scanner struct {
	data []byte
	at   int
	file string
	base int64 // offset of data in the file
	err  error
}

// newScanner returns a scanner of all of data, which must be UTF-8.
func newScanner(data []byte, file string, base int64) *scanner {
	s := &scanner{data: data, file: file, base: base}
	for i := 0; i < len(data); {
		if data[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			s.failAt(i, "", "the text is not UTF-8")
			break
		}
		i += n
	}
	return s
}

// failAt records an error at an index of data.
func (s *scanner) failAt(at int, tensor, format string, args ...any) {
	if s.err == nil {
		s.err = &FormatError{File: s.file, Offset: s.base + int64(at), Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
	}
}

// next returns the first byte after white space, which it does not consume; 0 at the end.
func (s *scanner) next() byte {
	if s.err != nil {
		return 0
	}
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// expect consumes white space and the byte c.
func (s *scanner) expect(c byte) {
	if got := s.next(); got == c && s.at < len(s.data) {
		s.at++
	} else if s.err == nil {
		s.failAt(s.at, "", "want %q, got %s", c, s.found())
	}
}

// found describes the next byte for an error.
func (s *scanner) found() string {
	if s.at >= len(s.data) {
		return "the end"
	}
	return strconv.QuoteToASCII(string(s.data[s.at : s.at+1]))
}

// end reports an error unless only white space is left.
func (s *scanner) end() {
	if s.next(); s.err == nil && s.at < len(s.data) {
		s.failAt(s.at, "", "%s follows the object", s.found())
	}
}

// object reads an object. It calls member before each value, which that must consume; at is the
// index of the name. A name that occurs twice is an error.
func (s *scanner) object(member func(name string, at int)) {
	seen := map[string]struct{}{}
	s.list('{', '}', func() {
		s.next()
		at := s.at
		name := s.str()
		if _, twice := seen[name]; twice && s.err == nil {
			s.failAt(at, "", "the name %q occurs twice", shorten(name))
		}
		seen[name] = struct{}{}
		s.expect(':')
		if s.err == nil {
			member(name, at)
		}
	})
}

// list reads what is between two brackets, separated by commas. item consumes one.
func (s *scanner) list(first, last byte, item func()) {
	s.expect(first)
	if s.next() == last {
		s.at++
		return
	}
	for s.err == nil {
		item()
		if s.next() == last && s.err == nil {
			s.at++
			return
		}
		s.expect(',')
	}
}

// str reads a string.
func (s *scanner) str() string {
	s.expect('"')
	start := s.at
	for s.err == nil && s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return string(s.data[start : s.at-1])
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			s.failAt(s.at, "", "control character %#02x in a string", c)
		default:
			s.at++
		}
	}
	s.failAt(s.at, "", "a string does not end")
	return ""
}

// escaped reads the rest of a string that begins at start and has an escape at s.at.
func (s *scanner) escaped(start int) string {
	b := append([]byte(nil), s.data[start:s.at]...)
	for s.err == nil && s.at < len(s.data) {
		c := s.data[s.at]
		s.at++
		switch {
		case c == '"':
			return string(b)
		case c < ' ':
			s.failAt(s.at-1, "", "control character %#02x in a string", c)
		case c == '\\':
			b = s.escape(b)
		default:
			b = append(b, c)
		}
	}
	s.failAt(s.at, "", "a string does not end")
	return ""
}

// escape appends the character of an escape, of which the backslash is read.
func (s *scanner) escape(b []byte) []byte {
	if s.at >= len(s.data) {
		s.failAt(s.at, "", "a string does not end")
		return b
	}
	c := s.data[s.at]
	s.at++
	switch c {
	case '"', '\\', '/':
		return append(b, c)
	case 'b':
		return append(b, '\b')
	case 'f':
		return append(b, '\f')
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'u':
		at := s.at
		r := s.hex4()
		if utf16.IsSurrogate(r) {
			if s.at+1 < len(s.data) && s.data[s.at] == '\\' && s.data[s.at+1] == 'u' {
				s.at += 2
				r = utf16.DecodeRune(r, s.hex4())
			} else {
				r = utf8.RuneError
			}
			if r == utf8.RuneError {
				s.failAt(at, "", "half of a surrogate pair")
			}
		}
		return utf8.AppendRune(b, r)
	}
	s.failAt(s.at-1, "", "unknown escape")
	return b
}

// hex4 reads four hexadecimal digits.
func (s *scanner) hex4() (r rune) {
	for range 4 {
		var d byte
		if s.at < len(s.data) {
			d = s.data[s.at]
		}
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		case 'A' <= d && d <= 'F':
			d -= 'A' - 10
		default:
			s.failAt(s.at, "", "want four hexadecimal digits")
			return 0
		}
		r = r<<4 | rune(d)
		s.at++
	}
	return r
}

// number reads a number of any form and returns its text.
func (s *scanner) number() string {
	s.next()
	start := s.at
	digits := func() bool {
		from := s.at
		for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
			s.at++
		}
		return s.at > from
	}
	is := func(set string) bool {
		for i := range len(set) {
			if s.at < len(s.data) && s.data[s.at] == set[i] {
				s.at++
				return true
			}
		}
		return false
	}
	is("-")
	ok := is("0") || digits()
	if ok && is(".") {
		ok = digits()
	}
	if ok && is("eE") {
		is("+-")
		ok = digits()
	}
	if !ok {
		s.failAt(s.at, "", "want a value, got %s", s.found())
		return ""
	}
	return string(s.data[start:s.at])
}

// integer reads a number from 0 to the largest int64.
func (s *scanner) integer() int {
	s.next()
	at := s.at
	n, err := strconv.ParseUint(s.number(), 10, 64)
	if s.err == nil && (err != nil || n > math.MaxInt64) {
		s.failAt(at, "", "want a whole number from 0 to 2^63-1, got %s", shorten(string(s.data[at:s.at])))
	}
	return int(n)
}

// skip reads a value of any type. An array or object in it is depth deep.
func (s *scanner) skip(depth int) {
	c := s.next()
	if depth > maxDepth && (c == '{' || c == '[') {
		s.failAt(s.at, "", "values are nested more than %d deep", maxDepth)
		return
	}
	switch c {
	case '{':
		s.list('{', '}', func() {
			s.str()
			s.expect(':')
			s.skip(depth + 1)
		})
	case '[':
		s.list('[', ']', func() { s.skip(depth + 1) })
	case '"':
		s.str()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		at := s.at
		text := s.number()
		if _, err := strconv.ParseFloat(text, 64); err != nil && s.err == nil {
			s.failAt(at, "", "the number %s is out of range", shorten(text))
		}
	}
}

// word reads a literal.
func (s *scanner) word(w string) {
	if s.next(); s.err == nil && len(s.data)-s.at >= len(w) && string(s.data[s.at:s.at+len(w)]) == w {
		s.at += len(w)
		return
	}
	s.failAt(s.at, "", "want %s", w)
}

// littleEndian is the order of bytes in the file.
var littleEndian = binary.LittleEndian
