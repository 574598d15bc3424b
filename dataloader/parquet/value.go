package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/dataloader/table"
	"github.com/parquet-go/parquet-go/encoding/bytestreamsplit"
	"github.com/parquet-go/parquet-go/encoding/delta"
)

// pageValues are decoded values of a column: packed numbers, or pieces of data.
type pageValues struct {
	n      int
	width  int    // bytes of a value, 0 if they vary
	packed []byte // values of a fixed size
	data   []byte // values of any size
	starts []uint32
	ends   []uint32
}

// piece returns the bytes of value i.
func (v *pageValues) piece(i int) []byte {
	if v.width > 0 {
		return v.packed[i*v.width : (i+1)*v.width]
	}
	return v.data[v.starts[i]:v.ends[i]]
}

// valueReader decodes the values of pages. Its memory is reused from page to page.
type valueReader struct {
	leaf    *leaf
	width   int // bytes of a value in the file, 0 if they vary
	dict    pageValues
	has     bool // the dictionary has been read
	out     pageValues
	indices []int32
	packed  []byte
	words   []int32
	longs   []int64
	narrow  []byte
}

// begin prepares for a chunk of a column.
func (r *valueReader) begin(l *leaf) {
	r.leaf, r.has = l, false
	r.width = [...]int{1, 4, 8, 12, 4, 8, 0, l.length}[l.physical]
}

// readDict keeps a dictionary of n values, in the plain encoding.
func (r *valueReader) readDict(src []byte, n int, encoding int) error {
	if r.has {
		return errors.New("a second dictionary")
	}
	if encoding != encodingPlain && encoding != encodingPlainDict {
		return fmt.Errorf("a dictionary in encoding %d", encoding)
	}
	if r.leaf.physical == physicalBool {
		return errors.New("a dictionary of booleans")
	}
	v, err := r.plain(src, n)
	if err != nil {
		return err
	}
	d := &r.dict
	d.n, r.has = n, true
	d.packed = append(d.packed[:0], v.packed...)
	d.data = append(d.data[:0], v.data...)
	d.starts, d.ends = append(d.starts[:0], v.starts...), append(d.ends[:0], v.ends...)
	return nil
}

// read decodes n values. They are valid until the next call.
func (r *valueReader) read(src []byte, n int, encoding int) (*pageValues, error) {
	r.out.n, r.out.width = n, r.width
	switch encoding {
	case encodingPlain:
		return r.plain(src, n)
	case encodingPlainDict, encodingRLEDict:
		return r.lookup(src, n)
	case encodingRLE:
		return r.booleans(src, n)
	case encodingDelta:
		return r.deltas(src, n)
	case encodingDeltaBytes:
		return r.deltaBytes(src, n)
	case encodingSplit:
		return r.split(src, n)
	}
	name := encodingNames[encoding]
	if name == "" {
		name = fmt.Sprint(encoding)
	}
	return nil, fmt.Errorf("encoding %s is not read: write the column as PLAIN or with a dictionary", name)
}

// plain returns values that are one after another.
func (r *valueReader) plain(src []byte, n int) (*pageValues, error) {
	v := &r.out
	switch {
	case r.leaf.physical == physicalBool:
		if n > 8*len(src) {
			return nil, fmt.Errorf("%d booleans in %d bytes", n, len(src))
		}
		v.packed = slices.Grow(r.packed[:0], n)[:n]
		r.packed = v.packed
		for i := range v.packed {
			v.packed[i] = src[i/8] >> (i % 8) & 1
		}
	case r.width > 0:
		if n > len(src)/r.width {
			return nil, fmt.Errorf("%d values of %d bytes in %d bytes", n, r.width, len(src))
		}
		v.packed = src[:n*r.width]
	default:
		return v, r.pieces(src, n)
	}
	return v, nil
}

// pieces finds n values of any size, each after its length in 4 bytes.
func (r *valueReader) pieces(src []byte, n int) error {
	if n > len(src)/4 {
		return fmt.Errorf("%d values in %d bytes", n, len(src))
	}
	v := &r.out
	v.data = src
	v.starts, v.ends = slices.Grow(v.starts[:0], n)[:n], slices.Grow(v.ends[:0], n)[:n]
	at := 0
	for i := range n {
		if len(src)-at < 4 {
			return fmt.Errorf("value %d of %d starts after the end of the page", i, n)
		}
		size := binary.LittleEndian.Uint32(src[at:])
		at += 4
		if uint64(size) > uint64(len(src)-at) {
			return fmt.Errorf("value %d of %d has %d bytes where %d are left", i, n, size, len(src)-at)
		}
		v.starts[i] = uint32(at)
		at += int(size)
		v.ends[i] = uint32(at)
	}
	return nil
}

// lookup returns values of the dictionary.
func (r *valueReader) lookup(src []byte, n int) (*pageValues, error) {
	if !r.has {
		return nil, errors.New("values of a dictionary that the chunk does not have")
	}
	var err error
	if r.indices, err = indices(r.indices, src, n); err != nil {
		return nil, err
	}
	for _, k := range r.indices {
		if uint32(k) >= uint32(r.dict.n) {
			return nil, fmt.Errorf("index %d of a dictionary of %d values", uint32(k), r.dict.n)
		}
	}
	v := &r.out
	if r.width == 0 {
		v.data = r.dict.data
		v.starts, v.ends = slices.Grow(v.starts[:0], n)[:n], slices.Grow(v.ends[:0], n)[:n]
		for i, k := range r.indices {
			v.starts[i], v.ends[i] = r.dict.starts[k], r.dict.ends[k]
		}
		return v, nil
	}
	v.packed = slices.Grow(r.packed[:0], n*r.width)[:n*r.width]
	r.packed = v.packed
	gather(v.packed, r.dict.packed, r.indices, r.width)
	return v, nil
}

// gather copies the values of a dictionary with the given indices.
func gather(dst, dict []byte, indices []int32, width int) {
	switch width {
	case 4:
		for i, k := range indices {
			*(*[4]byte)(dst[4*i:]) = [4]byte(dict[4*int(k):])
		}
	case 8:
		for i, k := range indices {
			*(*[8]byte)(dst[8*i:]) = [8]byte(dict[8*int(k):])
		}
	default:
		for i, k := range indices {
			copy(dst[i*width:(i+1)*width], dict[int(k)*width:])
		}
	}
}

// booleans returns booleans that are coded as runs, after their size in 4 bytes.
func (r *valueReader) booleans(src []byte, n int) (*pageValues, error) {
	if r.leaf.physical != physicalBool {
		return nil, errors.New("encoding RLE for values that are not booleans")
	}
	src, _, err := sized(src)
	if err != nil {
		return nil, err
	}
	v := &r.out
	v.packed, err = levels(r.packed, src, 1, n)
	r.packed = v.packed
	return v, err
}

// sized returns the bytes after their number, which is 4 bytes, and the rest.
func sized(src []byte) (part, rest []byte, err error) {
	if len(src) < 4 {
		return nil, nil, errors.New("a size that is cut")
	}
	n := binary.LittleEndian.Uint32(src)
	if src = src[4:]; uint64(n) > uint64(len(src)) {
		return nil, nil, fmt.Errorf("%d bytes where %d are left", n, len(src))
	}
	return src[:n], src[n:], nil
}

// deltaTotal checks that a block of differences has n values, which the library would believe.
func deltaTotal(src []byte, n int) error {
	var head [3]uint64 // values of a block, mini-blocks of a block, values
	for i := range head {
		u, k := binary.Uvarint(src)
		if k <= 0 {
			return errors.New("a header of differences that is cut")
		}
		head[i], src = u, src[k:]
	}
	if head[1] == 0 || head[0]/head[1] > 1<<16 {
		return fmt.Errorf("blocks of %d differences in %d parts", head[0], head[1])
	}
	if head[2] != uint64(n) {
		return fmt.Errorf("%d differences for %d values", head[2], n)
	}
	return nil
}

// deltas returns integers that are stored as differences.
func (r *valueReader) deltas(src []byte, n int) (*pageValues, error) {
	if err := deltaTotal(src, n); err != nil {
		return nil, err
	}
	var e delta.BinaryPackedEncoding
	var err error
	v := &r.out
	v.packed = slices.Grow(r.packed[:0], n*r.width)[:n*r.width]
	r.packed = v.packed
	switch r.leaf.physical {
	case physicalInt32:
		if r.words, err = e.DecodeInt32(r.words[:0], src); err == nil && len(r.words) == n {
			for i, x := range r.words {
				binary.LittleEndian.PutUint32(v.packed[4*i:], uint32(x))
			}
			return v, nil
		}
	case physicalInt64:
		if r.longs, err = e.DecodeInt64(r.longs[:0], src); err == nil && len(r.longs) == n {
			for i, x := range r.longs {
				binary.LittleEndian.PutUint64(v.packed[8*i:], uint64(x))
			}
			return v, nil
		}
	default:
		return nil, errors.New("encoding DELTA_BINARY_PACKED for values that are not integers")
	}
	return nil, errors.Join(fmt.Errorf("want %d differences", n), err)
}

// deltaBytes returns values of any size, whose lengths, as differences, come first.
func (r *valueReader) deltaBytes(src []byte, n int) (*pageValues, error) {
	if r.width != 0 {
		return nil, errors.New("encoding DELTA_LENGTH_BYTE_ARRAY for values of one size")
	}
	if err := deltaTotal(src, n); err != nil {
		return nil, err
	}
	var e delta.LengthByteArrayEncoding
	v := &r.out
	data, offsets, err := e.DecodeByteArray(r.packed[:0], src, v.starts[:0])
	if err != nil || len(offsets) != n+1 {
		return nil, errors.Join(fmt.Errorf("want %d lengths", n), err)
	}
	r.packed, v.data = data, data
	v.starts, v.ends = offsets, append(v.ends[:0], offsets[1:]...)
	return v, nil
}

// split returns values whose first bytes come first, then their second bytes, and so on.
func (r *valueReader) split(src []byte, n int) (*pageValues, error) {
	if r.width < 2 || len(src) != n*r.width {
		return nil, fmt.Errorf("encoding BYTE_STREAM_SPLIT: %d bytes for %d values of %d", len(src), n, r.width)
	}
	var e bytestreamsplit.Encoding
	var err error
	v := &r.out
	v.packed, err = e.DecodeFixedLenByteArray(r.packed[:0], src, r.width)
	r.packed = v.packed
	return v, err
}

// adapt changes numbers from their physical type to that of the table: small integers have 4 bytes
// in the file, and decimals in integers are little-endian.
func (r *valueReader) adapt(v *pageValues) error {
	t := r.leaf.typ
	to := t.Bytes()
	if v.width > 0 {
		v.width = to
	}
	switch {
	case t.Kind == table.Decimal && r.leaf.physical != physicalFixed:
		r.narrow = append(r.narrow[:0], v.packed...)
		for i := 0; i < len(r.narrow); i += to {
			slices.Reverse(r.narrow[i : i+to])
		}
		v.packed = r.narrow
	case r.leaf.physical == physicalInt32 && to < 4:
		r.narrow = slices.Grow(r.narrow[:0], v.n*to)[:v.n*to]
		for i := range v.n {
			x := int32(binary.LittleEndian.Uint32(v.packed[4*i:]))
			low := r.narrow[i*to : (i+1)*to]
			var back int32
			switch t.Kind {
			case table.Int8:
				low[0], back = byte(x), int32(int8(x))
			case table.Uint8:
				low[0], back = byte(x), int32(uint8(x))
			case table.Int16:
				binary.LittleEndian.PutUint16(low, uint16(x))
				back = int32(int16(x))
			case table.Uint16:
				binary.LittleEndian.PutUint16(low, uint16(x))
				back = int32(uint16(x))
			}
			if back != x {
				return fmt.Errorf("value %d is %d: the column says %v", i, x, t.Kind)
			}
		}
		v.packed = r.narrow
	}
	return nil
}
