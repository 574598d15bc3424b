package dataloader

import (
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// Sequences is sequences of different lengths, such as texts as token numbers, in memory. It is no
// Dataset: [Pad] and [PadBuckets] make datasets of it, whose samples have one shape.
type Sequences struct {
	name    string
	element Field
	data    []byte // the elements of all sequences, one after another
	starts  []int  // of each sequence, and the number of elements
}

// NewSequences returns sequences that it copies. Each is a row-major array of elements of the given
// shape; without a shape an element is a scalar. A sequence may be empty. One that is no whole number of
// elements is a *FieldError that names it.
func NewSequences[T Element](name string, sequences [][]T, shape ...int) (*Sequences, error) {
	s := &Sequences{name: name, element: Field{Name: name, Type: typeOf[T](), Shape: slices.Clone(shape)}, starts: []int{0}}
	if p := s.element.check(); p != "" {
		return nil, &FieldError{Name: name, Problem: p}
	}
	size := int(s.element.Bytes() / s.element.Type.Size())
	total := 0
	for i, q := range sequences {
		if len(q)%size != 0 {
			return nil, &FieldError{Name: name, Problem: fmt.Sprintf("sequence %d has %d numbers: an element of shape %v has %d", i, len(q), shape, size)}
		}
		total += len(q)
		s.starts = append(s.starts, total/size)
	}
	all := make([]T, 0, total)
	for _, q := range sequences {
		all = append(all, q...)
	}
	s.data = bytesOf(all)
	return s, nil
}

// Len returns the number of sequences.
func (s *Sequences) Len() int { return len(s.starts) - 1 }

// Length returns the number of elements of sequence i.
func (s *Sequences) Length(i int) int { return s.starts[i+1] - s.starts[i] }

// Lengths returns the number of elements of each sequence, as [Bucketed] takes it.
func (s *Sequences) Lengths() []int {
	all := make([]int, s.Len())
	for i := range all {
		all[i] = s.Length(i)
	}
	return all
}

// Field returns the name, the type and the shape of an element.
func (s *Sequences) Field() Field { return s.element }

// Elements returns the elements of sequence i, which [View] reads. The memory is that of s: the caller
// does not modify it.
func (s *Sequences) Elements(i int) []byte {
	n := int(s.element.Bytes())
	return s.data[s.starts[i]*n : s.starts[i+1]*n]
}

// PadOptions of Pad.
type PadOptions struct {
	// Length is the number of elements of every sample. 0: that of the longest sequence.
	Length int
	// Value is what the elements after the end of a sequence are, such as the number of a padding token.
	Value float64
	// Cut drops what a sequence has beyond Length. Default: such a sequence is an error.
	Cut bool
	// Mask adds a field of uint8 [Length], named "_mask" after the name of the sequences: 1 where there
	// is an element, 0 after the end.
	Mask bool
}

// Pad returns the sequences as a dataset of samples of one length, with two fields, or three with
// PadOptions.Mask:
//
//	NAME          [Length, shape of an element]   the elements, then PadOptions.Value
//	NAME_length   int32                           how many elements are there, after a cut
//	NAME_mask     uint8 [Length]                  1 for each of them, 0 for the padding
//
// A model has one planned shape, so that each sample costs the time and memory of Length. Give [PadBuckets]
// several lengths where that is too much. Labels and other fields are added with [Zip]. A sequence that
// is longer than Length is an error that wraps ErrOption and names it, unless Cut is set.
func Pad(s *Sequences, opt PadOptions) (*Slices, error) {
	if s == nil {
		return nil, fmt.Errorf("pad: no sequences: %w", ErrOption)
	}
	all := make([]int, s.Len())
	for i := range all {
		all[i] = i
	}
	return s.pad(all, opt)
}

// pad returns some of the sequences as a dataset.
func (s *Sequences) pad(which []int, opt PadOptions) (*Slices, error) {
	if len(which) == 0 {
		return nil, fmt.Errorf("pad %q: %w", s.name, ErrEmpty)
	}
	longest := 0
	for _, i := range which {
		longest = max(longest, s.Length(i))
	}
	length := opt.Length
	if length == 0 {
		length = max(1, longest)
	}
	if length < 0 || length > math.MaxInt32 {
		return nil, fmt.Errorf("pad %q: length %d: must be 0 (default) to %d: %w", s.name, length, math.MaxInt32, ErrOption)
	}
	if longest > length && !opt.Cut {
		i := which[slices.IndexFunc(which, func(i int) bool { return s.Length(i) > length })]
		return nil, fmt.Errorf("pad %q: sequence %d has %d elements, the longest %d: set Length %d, or Cut: %w", s.name, i, s.Length(i), longest, longest, ErrOption)
	}
	f := s.element
	f.Shape = append([]int{length}, f.Shape...)
	if f.Bytes() < 0 || f.Bytes() > int64(math.MaxInt)/int64(len(which)) {
		return nil, &FieldError{Name: s.name, Problem: fmt.Sprintf("%d sequences of shape %v overflow", len(which), f.Shape)}
	}
	padding, err := elementOf(f.Type, opt.Value)
	if err != nil {
		return nil, fmt.Errorf("pad %q: %w", s.name, err)
	}
	row, element := int(f.Bytes()), int(s.element.Bytes())
	values := alignedBytes(row * len(which))
	lengths, mask := make([]int32, len(which)), []uint8(nil)
	if opt.Mask {
		mask = make([]uint8, length*len(which))
	}
	for k, i := range which {
		n := min(length, s.Length(i))
		out := values[k*row : (k+1)*row]
		copied := copy(out, s.Elements(i)[:n*element])
		fillWith(out[copied:], padding)
		lengths[k] = int32(n)
		for p := range n * min(1, len(mask)) {
			mask[k*length+p] = 1
		}
	}
	columns := []Array{{Field: f, data: values}, Column(s.name+"_length", lengths)}
	if opt.Mask {
		columns = append(columns, Column(s.name+"_mask", mask, length))
	}
	return FromSlices(len(which), columns...)
}

// alignedBytes returns n bytes that are aligned for any type.
func alignedBytes(n int) []byte { return bytesOf(make([]float64, (n+7)/8))[:n] }

// fillWith repeats an element over b.
func fillWith(b, element []byte) {
	for n := copy(b, element); n > 0 && n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// elementOf returns x in a storage type, or an error if it is not exactly one, but for rounding of
// floats.
func elementOf(t arena.DType, x float64) ([]byte, error) {
	whole := x == math.Trunc(x)
	switch {
	case t == arena.Float64:
		return bytesOf([]float64{x}), nil
	case t == arena.Float32:
		return bytesOf([]float32{float32(x)}), nil
	case t == arena.Uint8 && whole && x >= 0 && x <= math.MaxUint8:
		return []byte{byte(x)}, nil
	case t == arena.Int32 && whole && math.Abs(x) <= math.MaxInt32:
		return bytesOf([]int32{int32(x)}), nil
	case t == arena.Int64 && whole && math.Abs(x) < 1<<53:
		return bytesOf([]int64{int64(x)}), nil
	}
	return nil, fmt.Errorf("value %v is no %v: %w", x, t, ErrOption)
}

// Bucket is the sequences of PadBuckets with lengths within two bounds.
type Bucket struct {
	Dataset *Slices
	Indices []int // of its sequences, in increasing order
	Length  int   // of its samples
}

// PadBuckets divides sequences by length and pads each bucket to one length: the bucket with bound b
// has the sequences that are longer than the bound before and at most b. bounds must increase. Each
// bucket is a dataset with a shape of its own, for a model that is planned for that shape; buckets
// without sequences are left out. A sequence that is longer than the last bound is an error, or goes to
// the last bucket if opt.Cut is set. opt.Length must be 0. Errors wrap ErrOption.
func PadBuckets(s *Sequences, bounds []int, opt PadOptions) ([]Bucket, error) {
	if s == nil || len(bounds) == 0 || opt.Length != 0 {
		return nil, fmt.Errorf("pad buckets: %d bounds, length %d: give sequences and one or more bounds, and no length: %w", len(bounds), opt.Length, ErrOption)
	}
	for k, b := range bounds {
		if b < 1 || k > 0 && b <= bounds[k-1] {
			return nil, fmt.Errorf("pad buckets: bound %d is %d: must be 1 or more and increase: %w", k, b, ErrOption)
		}
	}
	which := make([][]int, len(bounds))
	for i := range s.Len() {
		k, _ := slices.BinarySearch(bounds, s.Length(i))
		if k == len(bounds) {
			if !opt.Cut {
				return nil, fmt.Errorf("pad buckets: sequence %d has %d elements, the last bound is %d: raise it, or set Cut: %w", i, s.Length(i), bounds[k-1], ErrOption)
			}
			k--
		}
		which[k] = append(which[k], i)
	}
	var all []Bucket
	for k, w := range which {
		if len(w) == 0 {
			continue
		}
		opt.Length = bounds[k]
		ds, err := s.pad(w, opt)
		if err != nil {
			return nil, err
		}
		all = append(all, Bucket{Dataset: ds, Indices: w, Length: bounds[k]})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pad buckets: %w", ErrEmpty)
	}
	return all, nil
}
