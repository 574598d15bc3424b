package safetensors

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// MaxHeaderBytes is the largest header that the format allows, without the 8 bytes of its length.
const MaxHeaderBytes = 100_000_000

const (
	lengthBytes = 8 // of the length of the header
	metadataKey = "__metadata__"
)

// entry is a tensor in the data of a file.
type entry struct {
	Tensor
	begin, end int64 // offsets from the start of the file
	part       int   // index of its file
	at         int   // index of its name in the header
}

// header is the parsed header of a file.
type header struct {
	tensors  []entry // in order of place
	metadata map[string]string
	checksum checksum
}

// readHeader reads and checks the header of a file of size bytes.
func readHeader(r io.ReaderAt, size int64, file string) (*header, error) {
	var length [lengthBytes]byte
	if size < lengthBytes {
		return nil, &FormatError{File: file, Offset: size, Reason: fmt.Sprintf("the file has %d bytes, and the length of the header takes 8", size)}
	}
	if err := readAt(r, length[:], 0, file); err != nil {
		return nil, err
	}
	n := littleEndian.Uint64(length[:])
	if n > MaxHeaderBytes {
		return nil, &FormatError{File: file, Reason: fmt.Sprintf("a header of %d bytes, and %d are the most", n, MaxHeaderBytes)}
	}
	if int64(n) > size-lengthBytes {
		return nil, &FormatError{File: file, Reason: fmt.Sprintf("a header of %d bytes in a file of %d: the file is cut", n, size)}
	}
	text := make([]byte, n)
	if err := readAt(r, text, lengthBytes, file); err != nil {
		return nil, err
	}
	h, err := parseHeader(text, file)
	if err != nil {
		return nil, err
	}
	return h, h.place(lengthBytes+int64(n), size, file)
}

// readAt fills b from an offset. A file that has become shorter is a *FormatError.
func readAt(r io.ReaderAt, b []byte, offset int64, file string) error {
	n, err := r.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF || err == nil:
		return &FormatError{File: file, Offset: offset + int64(n), Reason: "the file is cut", Err: io.ErrUnexpectedEOF}
	}
	return fmt.Errorf("%s: read at byte %d: %w", cmp.Or(file, "input"), offset+int64(n), err)
}

// parseHeader parses the JSON of a header.
func parseHeader(text []byte, file string) (*header, error) {
	s := newScanner(text, file, lengthBytes)
	h := &header{}
	s.object(func(name string, at int) {
		if name == metadataKey {
			h.metadata = s.strings(func(key string, at int) {
				if key == ChecksumKey {
					h.checksum.at = lengthBytes + int64(at)
				}
			})
			return
		}
		h.tensors = append(h.tensors, s.tensor(name, at))
	})
	s.end()
	if s.err != nil {
		return nil, s.err
	}
	h.checksum.parse(h.metadata, text)
	return h, nil
}

// strings reads an object of strings, or null. value, if it is not nil, is called with each key and
// the index of its value's first character.
func (s *scanner) strings(value func(key string, at int)) map[string]string {
	if s.next() == 'n' {
		s.word("null")
		return nil
	}
	m := map[string]string{}
	s.object(func(key string, _ int) {
		s.next()
		if value != nil {
			value(key, s.at+1)
		}
		m[key] = s.str()
	})
	return m
}

// tensor reads the value of a tensor.
func (s *scanner) tensor(name string, at int) entry {
	e := entry{Tensor: Tensor{Name: name}, at: at}
	var hasType, hasShape, hasPlace bool
	s.object(func(key string, _ int) {
		switch key {
		case "dtype":
			hasType = true
			s.next()
			at := s.at
			t := DType(s.str())
			if t.Bits() == 0 && s.err == nil {
				s.failAt(at, name, "unknown type %q", shorten(string(t)))
			}
			e.DType = t
		case "shape":
			hasShape = true
			e.Shape = []int{}
			s.list('[', ']', func() { e.Shape = append(e.Shape, s.integer()) })
		case "data_offsets":
			hasPlace = true
			s.expect('[')
			e.begin = int64(s.integer())
			s.expect(',')
			e.end = int64(s.integer())
			s.expect(']')
		default:
			s.skip(3)
		}
	})
	if s.err == nil && !(hasType && hasShape && hasPlace) {
		s.failAt(at, name, `it needs "dtype", "shape" and "data_offsets"`)
	}
	if f, ok := s.err.(*FormatError); ok && f.Tensor == "" {
		f.Tensor = name
	}
	return e
}

// place sorts the tensors and checks that they tile the bytes from data to size.
func (h *header) place(data, size int64, file string) error {
	slices.SortFunc(h.tensors, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.Name, b.Name))
	})
	at := int64(0)
	for i := range h.tensors {
		e := &h.tensors[i]
		bad := func(format string, args ...any) error {
			return &FormatError{File: file, Offset: lengthBytes + int64(e.at), Tensor: e.Name, Reason: fmt.Sprintf(format, args...)}
		}
		n, err := e.size()
		switch {
		case err != nil:
			return bad("%v", err)
		case e.end < e.begin || e.end-e.begin != n:
			return bad("%v takes %d bytes, and its place is %d to %d", e.Tensor, n, e.begin, e.end)
		case e.begin < at:
			return bad("its place %d to %d overlaps the tensor before it, which ends at %d", e.begin, e.end, at)
		case e.begin > at:
			return bad("its place %d to %d leaves a hole after %d", e.begin, e.end, at)
		case n > size-data-at:
			return bad("its place ends at byte %d of the data, which have %d: the file is cut", e.end, size-data)
		}
		at = e.end
		e.begin, e.end = e.begin+data, e.end+data
	}
	if at != size-data {
		return &FormatError{File: file, Offset: data + at, Reason: fmt.Sprintf("%d bytes belong to no tensor", size-data-at)}
	}
	return nil
}
