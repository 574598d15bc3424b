package dataloader

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// IDX is a file in the IDX format: one array of numbers. MNIST and similar data sets are published
// in it.
//
//	offset 0  bytes 0, 0, type, rank    type 8 = uint8, 12 = int32, 13 = float32, 14 = float64
//	offset 4  dimensions                rank × uint32, big-endian; the first counts the samples
//	then      elements                  row-major, big-endian, to the end of the file
type IDX struct {
	File string // path of the file, "" for a reader
	Type arena.DType
	Dims []int  // the first is the number of samples
	Data []byte // row-major, in the byte order of this machine
}

// IDXLimit is the default limit of OpenIDX and ReadIDX, in bytes of elements: 1 GiB.
const IDXLimit = 1 << 30

// maxRank limits the number of dimensions of an IDX file.
const maxRank = 8

// OpenIDX reads the IDX file at path, as ReadIDX does.
func OpenIDX(path string, limit int64) (*IDX, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(-1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return readIDX(path, f, size, limit)
}

// ReadIDX reads one array in the IDX format, plain or compressed with gzip, up to the end of r. A
// violation of the format is a *FormatError, and so is an array with more than limit bytes of
// elements. limit 0 means IDXLimit; a negative one is an error that wraps ErrOption. Memory grows
// with the bytes that are read, whatever size the header claims.
func ReadIDX(r io.Reader, limit int64) (*IDX, error) {
	return readIDX("", r, -1, limit)
}

// readIDX reads r, which has size bytes; -1: the size is not known.
func readIDX(file string, r io.Reader, size, limit int64) (*IDX, error) {
	if limit == 0 {
		limit = IDXLimit
	}
	if limit < 0 {
		return nil, fmt.Errorf("idx limit %d bytes: must be 0 (default) or more: %w", limit, ErrOption)
	}
	p := &idxParser{x: &IDX{File: file}, size: size, whole: size >= 0}
	b := bufio.NewReaderSize(r, 1<<16)
	p.r = b
	if magic, err := b.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, p.fail("gzip header", "a gzip stream", "something else", err)
		}
		defer z.Close()
		p.r = z
		if size >= 0 {
			// Deflate expands by a factor below 1032 (zlib technical details).
			p.size = size * 1032
		}
		p.whole = false
	}
	if err := p.header(limit); err != nil {
		return nil, err
	}
	if err := p.elements(); err != nil {
		return nil, err
	}
	return p.x, nil
}

// idxParser reads one IDX file.
type idxParser struct {
	x     *IDX
	r     io.Reader
	at    int64 // bytes read so far
	size  int64 // upper bound of the bytes in r, or -1
	bytes int64 // bytes of the elements
	whole bool  // size is exact: header has checked that r holds all elements
}

// fail returns the error for the current position: a *FormatError, unless err is an error of the
// medium.
func (p *idxParser) fail(what, want, got string, err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return &FormatError{File: p.x.File, Offset: p.at, What: what, Want: want, Got: got, Err: err}
	}
	return fmt.Errorf("idx %s: %s at byte %d: %w", p.x.File, what, p.at, err)
}

// header reads the type and the dimensions. It checks that the elements can exist before memory is
// allocated for them.
func (p *idxParser) header(limit int64) error {
	var magic [4]byte
	if err := p.fill(magic[:], "magic number"); err != nil {
		return err
	}
	p.at = 0
	if magic[0] != 0 || magic[1] != 0 {
		return p.fail("magic number", "00 00 type rank", fmt.Sprintf("% x", magic), nil)
	}
	p.at = 2
	switch magic[2] {
	case 0x08:
		p.x.Type = arena.Uint8
	case 0x0c:
		p.x.Type = arena.Int32
	case 0x0d:
		p.x.Type = arena.Float32
	case 0x0e:
		p.x.Type = arena.Float64
	default:
		return p.fail("type", "08 (uint8), 0c (int32), 0d (float32) or 0e (float64)", idxType(magic[2]), nil)
	}
	p.at = 3
	rank := int(magic[3])
	if rank < 1 || rank > maxRank {
		return p.fail("rank", fmt.Sprintf("1 to %d dimensions", maxRank), fmt.Sprint(rank), nil)
	}
	p.at = 4
	if err := p.dims(rank, limit); err != nil {
		return err
	}
	if p.size >= 0 && p.bytes > p.size-p.at {
		return p.fail("elements", fmt.Sprintf("%d bytes for %v", p.bytes, p.x.Dims),
			fmt.Sprintf("at most %d", max(0, p.size-p.at)), io.ErrUnexpectedEOF)
	}
	return nil
}

// dims reads the dimensions and checks that their product, in bytes, is at most limit.
func (p *idxParser) dims(rank int, limit int64) error {
	p.bytes = p.x.Type.Size()
	for i := range rank {
		what := fmt.Sprintf("dimension %d", i)
		var raw [4]byte
		if err := p.fill(raw[:], what); err != nil {
			return err
		}
		d := int64(binary.BigEndian.Uint32(raw[:]))
		if d == 0 && i > 0 || d > math.MaxInt32 {
			p.at -= 4
			return p.fail(what, fmt.Sprintf("1 to %d", math.MaxInt32), fmt.Sprint(d), nil)
		}
		if d > 0 && p.bytes > limit/d {
			p.at -= 4
			return p.fail(what, fmt.Sprintf("at most %d bytes of elements", limit),
				fmt.Sprintf("%v × %d × %d bytes or more", p.x.Dims, d, p.x.Type.Size()), nil)
		}
		p.bytes *= d
		p.x.Dims = append(p.x.Dims, int(d))
	}
	return nil
}

// idxType returns the name of a type code that is not supported.
func idxType(b byte) string {
	switch b {
	case 0x09:
		return "09 (int8)"
	case 0x0b:
		return "0b (int16)"
	}
	return fmt.Sprintf("%02x", b)
}

// fill reads the whole of b.
func (p *idxParser) fill(b []byte, what string) error {
	n, err := io.ReadFull(p.r, b)
	p.at += int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return p.fail(what, fmt.Sprintf("%d bytes", len(b)), fmt.Sprint(n), err)
	}
	return nil
}

// elements reads the elements and checks that nothing follows them. Memory grows with the bytes
// that are read.
func (p *idxParser) elements() error {
	var err error
	room := min(p.bytes, 1<<20)
	if p.whole {
		room = p.bytes
	}
	buf := make([]byte, 0, room)
	for int64(len(buf)) < p.bytes {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(p.bytes, 2*int64(cap(buf))))
			copy(grown, buf)
			buf = grown
		}
		var n int
		n, err = io.ReadFull(p.r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		p.at += int64(n)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return p.fail("elements", fmt.Sprintf("%d bytes for %v", p.bytes, p.x.Dims), fmt.Sprint(len(buf)), err)
		}
	}
	var extra [1]byte
	switch n, err := io.ReadFull(p.r, extra[:]); {
	case n > 0:
		return p.fail("end", fmt.Sprintf("nothing after %d bytes of elements for %v", p.bytes, p.x.Dims), "more bytes", nil)
	case err != io.EOF:
		return p.fail("end", "the end of the file", "an error", err)
	}
	p.x.Data = native(buf, p.x.Type)
	return nil
}

// native converts big-endian elements to the byte order of this machine, in place, or back.
func native(b []byte, t arena.DType) []byte {
	var probe [2]byte
	binary.NativeEndian.PutUint16(probe[:], 1)
	size := int(t.Size())
	if size == 1 || probe[1] == 1 {
		return b
	}
	for i := 0; i < len(b); i += size {
		slices.Reverse(b[i : i+size])
	}
	return b
}

// Len returns the number of samples: the first dimension.
func (x *IDX) Len() int {
	if len(x.Dims) == 0 {
		return 0
	}
	return x.Dims[0]
}

// Array returns the file as a field called name, for FromSlices, without copying it. Without a
// shape, a sample has the dimensions of the file after the first. A shape must have the same number
// of elements; FromSlices checks it.
func (x *IDX) Array(name string, shape ...int) Array {
	if len(shape) == 0 && len(x.Dims) > 0 {
		shape = x.Dims[1:]
	}
	return Array{Field: Field{Name: name, Type: x.Type, Shape: slices.Clone(shape)}, data: x.Data}
}

// CheckLabels returns a *FormatError unless the file holds one integer for each sample, in [0,
// classes).
func (x *IDX) CheckLabels(classes int) error {
	head := int64(4 + 4*len(x.Dims))
	if x.Type.Float() {
		return &FormatError{File: x.File, Offset: 2, What: "type", Want: "an integer type for labels", Got: x.Type.String()}
	}
	if len(x.Dims) != 1 {
		return &FormatError{File: x.File, Offset: 3, What: "rank", Want: "1 dimension for labels", Got: fmt.Sprint(x.Dims)}
	}
	size := int(x.Type.Size())
	if size == 0 || len(x.Data)/size < x.Len() {
		return &FormatError{File: x.File, Offset: head, What: "elements", Want: fmt.Sprint(x.Len()), Got: fmt.Sprintf("%d bytes of %v", len(x.Data), x.Type)}
	}
	for i := range x.Len() {
		label := int64(x.Data[i*size])
		switch x.Type {
		case arena.Int32:
			label = int64(int32(binary.NativeEndian.Uint32(x.Data[i*size:])))
		case arena.Int64:
			label = int64(binary.NativeEndian.Uint64(x.Data[i*size:]))
		}
		if label < 0 || label >= int64(classes) {
			return &FormatError{File: x.File, Offset: head + int64(i*size), What: fmt.Sprintf("label of sample %d", i),
				Want: fmt.Sprintf("0 to %d", classes-1), Got: fmt.Sprint(label)}
		}
	}
	return nil
}

// Bytes encodes the array in the IDX format, uncompressed.
func (x *IDX) Bytes() ([]byte, error) {
	code, ok := map[arena.DType]byte{arena.Uint8: 0x08, arena.Int32: 0x0c, arena.Float32: 0x0d, arena.Float64: 0x0e}[x.Type]
	if !ok {
		return nil, fmt.Errorf("idx: type %v: want uint8, int32, float32 or float64: %w", x.Type, ErrOption)
	}
	if len(x.Dims) < 1 || len(x.Dims) > maxRank {
		return nil, fmt.Errorf("idx: %d dimensions: want 1 to %d: %w", len(x.Dims), maxRank, ErrOption)
	}
	want := x.Type.Size()
	out := []byte{0, 0, code, byte(len(x.Dims))}
	for i, d := range x.Dims {
		if d < 0 || d == 0 && i > 0 || int64(d) > math.MaxInt32 || d > 0 && want > math.MaxInt64/int64(d) {
			return nil, fmt.Errorf("idx: dimensions %v: %w", x.Dims, ErrOption)
		}
		want *= int64(d)
		out = binary.BigEndian.AppendUint32(out, uint32(d))
	}
	if want != int64(len(x.Data)) {
		return nil, fmt.Errorf("idx: %d bytes for %v of %v: want %d: %w", len(x.Data), x.Dims, x.Type, want, ErrOption)
	}
	return append(out, native(bytes.Clone(x.Data), x.Type)...), nil
}
