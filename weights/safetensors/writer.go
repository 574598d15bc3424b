package safetensors

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Writer writes one file to an io.Writer: the header at once, then the bytes of the tensors, in the
// order of Tensors. It is for one goroutine.
type Writer struct {
	w       io.Writer
	tensors []Tensor
	ends    []int64 // offsets of the tensors' ends in the data
	written int64   // bytes of data
	err     error   // of w

	sums       sums
	hasSum     bool
	checksumAt int64
	total      int64 // bytes of the file
}

// NewWriter writes the header. The tensors are sorted by falling size of their type's elements,
// then by name, so that every one is aligned for its type. All mistakes in names, types and shapes
// are in the error, which wraps ErrOption; nothing is written then.
//
// If metadata has ChecksumKey, 16 zeros are written as its value. They are to be replaced by what
// Checksum returns in the end, for which w must be able to go back; Create does so.
func NewWriter(w io.Writer, tensors []Tensor, metadata map[string]string) (*Writer, error) {
	sorted, err := layOut(tensors, metadata)
	if err != nil {
		return nil, err
	}
	x := &Writer{w: w, tensors: sorted}
	text := x.header(metadata)
	if len(text)-lengthBytes > MaxHeaderBytes {
		return nil, fmt.Errorf("a header of %d bytes, and %d are the most: write fewer or shorter names: %w",
			len(text)-lengthBytes, MaxHeaderBytes, ErrOption)
	}
	return x, x.put(text)
}

// layOut returns the tensors in the order of the file, or all mistakes.
func layOut(tensors []Tensor, metadata map[string]string) ([]Tensor, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, ErrOption)...))
	}
	sorted := make([]Tensor, len(tensors))
	seen := make(map[string]struct{}, len(tensors))
	total := int64(0)
	for i, t := range tensors {
		sorted[i] = t.clone()
		n, err := t.size()
		switch _, twice := seen[t.Name]; {
		case err != nil:
			bad("tensor %q: %v", shorten(t.Name), err)
		case twice:
			bad("tensor %q occurs twice", shorten(t.Name))
		case t.Name == metadataKey:
			bad("tensor %q: the format reserves this name", t.Name)
		case !utf8.ValidString(t.Name):
			bad("tensor %q: the name is not UTF-8", shorten(t.Name))
		case n > 1<<62-total:
			bad("tensor %q: the file has too many bytes", shorten(t.Name))
		default:
			total += n
		}
		seen[t.Name] = struct{}{}
	}
	for k, v := range metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			bad("metadata %q: the text is not UTF-8", shorten(k))
		}
	}
	slices.SortStableFunc(sorted, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(alignment(b.DType), alignment(a.DType)), cmp.Compare(a.Name, b.Name))
	})
	return sorted, errors.Join(errs...)
}

// alignment returns the bytes that an element is aligned to.
func alignment(d DType) int { return max(d.Bits(), 8) / 8 }

// header returns the length and the header, padded to a multiple of 8 bytes, and sets the places.
func (x *Writer) header(metadata map[string]string) []byte {
	b := append(make([]byte, lengthBytes, 256+128*len(x.tensors)), '{')
	if metadata != nil {
		b = append(b, `"`+metadataKey+`":{`...)
		for i, k := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			if k == ChecksumKey {
				x.hasSum, x.checksumAt = true, int64(len(b)+1)
				b = append(b, `"`+noDigits+`"`...)
				continue
			}
			b = appendString(b, metadata[k])
		}
		b = append(b, '}')
	}
	at := int64(0)
	for _, t := range x.tensors {
		if len(b) > lengthBytes+1 {
			b = append(b, ',')
		}
		b = append(appendString(b, t.Name), `:{"dtype":"`...)
		b = append(append(b, t.DType...), `","shape":[`...)
		for i, d := range t.Shape {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(d), 10)
		}
		b = strconv.AppendInt(append(b, `],"data_offsets":[`...), at, 10)
		at += t.Bytes()
		b = append(strconv.AppendInt(append(b, ','), at, 10), "]}"...)
		x.ends = append(x.ends, at)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	littleEndian.PutUint64(b, uint64(len(b)-lengthBytes))
	x.total = int64(len(b)) + at
	return b
}

// appendString appends s in JSON.
func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // no string is an error
		return b
	}
	return append(b, text...)
}

// Tensors returns the tensors in the order in which Write takes them.
func (x *Writer) Tensors() []Tensor {
	all := make([]Tensor, len(x.tensors))
	for i, t := range x.tensors {
		all[i] = t.clone()
	}
	return all
}

// Bytes returns the bytes of the whole file.
func (x *Writer) Bytes() int64 { return x.total }

// Write takes the next bytes of the tensors, one after the other: a call may hold a part of a
// tensor, or several. More bytes than the tensors have are an error, and none of the call are
// written.
func (x *Writer) Write(p []byte) (int, error) {
	if left := x.size() - x.written; int64(len(p)) > left {
		return 0, fmt.Errorf("%d bytes after the last tensor: %w", int64(len(p))-left, ErrOption)
	}
	err := x.put(p)
	if err != nil {
		return 0, err
	}
	x.written += int64(len(p))
	return len(p), nil
}

// size returns the bytes of the data.
func (x *Writer) size() int64 {
	if len(x.ends) == 0 {
		return 0
	}
	return x.ends[len(x.ends)-1]
}

// put writes bytes. After an error it returns that error.
func (x *Writer) put(p []byte) error {
	if x.err != nil {
		return x.err
	}
	if x.hasSum {
		x.sums.add(p)
	}
	n, err := x.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	x.err = err
	return err
}

// Checksum returns the digits of the checksum, and the offset in the file at which they replace the
// zeros. Call it after all bytes. Without ChecksumKey in the metadata the offset is 0.
func (x *Writer) Checksum() (digits string, offset int64) {
	if !x.hasSum {
		return "", 0
	}
	return x.sums.digits(), x.checksumAt
}

// Close returns an error that wraps ErrOption if bytes of a tensor are missing, and that of the
// io.Writer if it had one. It does not close that.
func (x *Writer) Close() error {
	if x.err != nil {
		return x.err
	}
	for i, end := range x.ends {
		if x.written < end {
			return fmt.Errorf("tensor %q: %d of its bytes are missing: %w", shorten(x.tensors[i].Name),
				min(end-x.written, x.tensors[i].Bytes()), ErrOption)
		}
	}
	return nil
}
