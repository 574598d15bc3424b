package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/classes"
)

// Magic is the first bytes of a pack.
const Magic = "EVKPACK1"

const (
	fixedBytes   = 16      // before the description
	mostHeader   = 1 << 20 // bytes of a description
	mostRecord   = 1 << 30 // bytes of a record
	recordsAlign = 4096
	sumsAlign    = 8
	chunkBytes   = 1 << 20
	leastChunk   = 1 << 12
	mostChunk    = 1 << 30
	encodedType  = "encoded"
	encodedBytes = 16 // of an encoded field in a record
	encodedAlign = 8
)

// castagnoli is the polynomial of the checksums, for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// layout is the description in a file. See the package documentation.
type layout struct {
	Version     int               `json:"version"`
	Count       int64             `json:"count"`
	Record      int64             `json:"record"`
	Records     int64             `json:"records"`
	Values      int64             `json:"values"`
	ValueBytes  int64             `json:"valueBytes"`
	Longest     int64             `json:"longest"`
	Sums        int64             `json:"sums"`
	Chunk       int64             `json:"chunk"`
	Fingerprint string            `json:"fingerprint"`
	Fields      []field           `json:"fields"`
	Notes       map[string]string `json:"notes,omitempty"`
}

// field is a field in the description.
type field struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Shape   []int    `json:"shape"`
	Scale   float64  `json:"scale,omitempty"`
	Shift   float64  `json:"shift,omitempty"`
	Classes []string `json:"classes,omitempty"`
	Offset  int64    `json:"offset"`
}

// types lists the storage types by name.
var types = func() map[string]arena.DType {
	m := map[string]arena.DType{}
	for _, t := range []arena.DType{arena.Float32, arena.Float64, arena.Uint8, arena.Int32, arena.Int64,
		arena.Float16, arena.BFloat16} {
		m[t.String()] = t
	}
	return m
}()

// size returns the bytes of the field in a record and its alignment, or -1.
func (f field) size() (bytes, align int64) {
	if f.Type == encodedType {
		return encodedBytes, encodedAlign
	}
	return f.stored().Bytes(), types[f.Type].Size()
}

// stored returns the field of a sample; that of an encoded field comes from its decoder.
func (f field) stored() dataloader.Field {
	g := dataloader.Field{Name: f.Name, Type: arena.DType(math.MaxUint8), Shape: f.Shape, Scale: f.Scale, Shift: f.Shift}
	if t, ok := types[f.Type]; ok {
		g.Type = t
	}
	return g
}

// classProblem returns why the values of the field cannot be labels of its classes, or "".
func (f field) classProblem() string {
	if f.Classes == nil {
		return ""
	}
	if f.Type == encodedType {
		return "it is encoded"
	}
	problem := new(classes.Labels).Set(f.Classes, false, types[f.Type], nil)
	return problem
}

// up returns n rounded up to a multiple of align, a power of two, or -1 if that overflows.
func up(n, align int64) int64 {
	if n < 0 || n > math.MaxInt64-align+1 {
		return -1
	}
	return (n + align - 1) &^ (align - 1)
}

// place sets the offsets of the fields, those of the parts and the size of a record, from Fields,
// Count, Chunk, ValueBytes and the bytes of the description. It returns an error if a size is too
// large for a file.
func (l *layout) place(header int64) error {
	at, most := int64(0), int64(1)
	for k := range l.Fields {
		n, align := l.Fields[k].size()
		if n < 0 || n > mostRecord {
			return fmt.Errorf("field %q of shape %v: must have at most %d bytes: %w",
				l.Fields[k].Name, l.Fields[k].Shape, mostRecord, dataloader.ErrOption)
		}
		l.Fields[k].Offset = up(at, align)
		at, most = l.Fields[k].Offset+n, max(most, align)
		if at > mostRecord {
			return fmt.Errorf("a sample has more than %d bytes, the most that a record holds: %w", mostRecord, dataloader.ErrOption)
		}
	}
	l.Record, l.Records = up(at, most), up(fixedBytes+header, recordsAlign)
	if l.Count > (math.MaxInt64>>2)/l.Record {
		return fmt.Errorf("%d samples of %d bytes: too large for a file: %w", l.Count, l.Record, dataloader.ErrOption)
	}
	l.Values = l.Records + l.Count*l.Record
	l.Sums = up(l.Values+l.ValueBytes, sumsAlign)
	return nil
}

// chunks returns the numbers of checksums of records and of values.
func (l *layout) chunks() (records, values int64) {
	ceil := func(n int64) int64 { return n/l.Chunk + min(n%l.Chunk, 1) }
	return ceil(l.Count * l.Record), ceil(l.ValueBytes)
}

// size returns the bytes of the file.
func (l *layout) size() int64 {
	records, values := l.chunks()
	return l.Sums + 4*(records+values)
}

// encode returns the fixed part and the description, with spaces up to n bytes of description.
func (l *layout) encode(n int64) ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if len(text) > mostHeader {
		return nil, fmt.Errorf("the description of fields, classes and notes has %d bytes: at most %d: %w", len(text), mostHeader, dataloader.ErrOption)
	}
	text = append(text, bytes.Repeat([]byte(" "), max(0, int(n)-len(text)))...)
	b := binary.LittleEndian.AppendUint32([]byte(Magic), uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(text, castagnoli))
	return append(b, text...), nil
}

// problem is a mistake in a file, at an offset.
func problem(file string, at int64, what, want, got string, err error) error {
	return &dataloader.FormatError{File: file, Offset: at, What: what, Want: want, Got: got, Err: err}
}

// decode checks the description of a file of the given size. read reads from the file.
func decode(file string, size int64, read func(p []byte, at int64) error) (*layout, error) {
	var fixed [fixedBytes]byte
	if size < fixedBytes {
		return nil, problem(file, 0, "file", fmt.Sprintf("a pack of at least %d bytes", fixedBytes), fmt.Sprintf("%d bytes", size), io.ErrUnexpectedEOF)
	}
	if err := read(fixed[:], 0); err != nil {
		return nil, err
	}
	if string(fixed[:8]) != Magic {
		return nil, problem(file, 0, "magic", fmt.Sprintf("%q: a pack", Magic), fmt.Sprintf("%q", fixed[:8]), nil)
	}
	n := int64(binary.LittleEndian.Uint32(fixed[8:]))
	if n > mostHeader {
		return nil, problem(file, 8, "bytes of the description", fmt.Sprintf("at most %d", mostHeader), fmt.Sprint(n), nil)
	}
	if fixedBytes+n > size {
		return nil, problem(file, 8, "description", fmt.Sprintf("%d bytes", n), fmt.Sprintf("%d", size-fixedBytes), io.ErrUnexpectedEOF)
	}
	text := make([]byte, n)
	if err := read(text, fixedBytes); err != nil {
		return nil, err
	}
	if want, got := binary.LittleEndian.Uint32(fixed[12:]), crc32.Checksum(text, castagnoli); got != want {
		return nil, problem(file, 12, "checksum of the description", fmt.Sprintf("%08x", got), fmt.Sprintf("%08x: the file is damaged", want), nil)
	}
	l := new(layout)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		return nil, problem(file, fixedBytes, "description", "the JSON object of a pack", "another text", err)
	}
	if what, want, got := l.check(); what != "" {
		return nil, problem(file, fixedBytes, what, want, got, nil)
	}
	switch want := l.size(); {
	case size < want:
		return nil, problem(file, size, "file", fmt.Sprintf("%d bytes", want), fmt.Sprintf("%d: the file was cut", size), io.ErrUnexpectedEOF)
	case size > want:
		return nil, problem(file, want, "end", "nothing after the checksums", fmt.Sprintf("%d bytes", size-want), nil)
	}
	return l, nil
}

// check returns the first mistake in a description, or "".
func (l *layout) check() (what, want, got string) {
	bad := func(what, want string, got any) (string, string, string) { return what, want, fmt.Sprint(got) }
	switch {
	case l.Version != 1:
		return bad("version", "1: this program is older than the file", l.Version)
	case l.Count < 1 || l.Count > math.MaxInt:
		return bad("count", "1 or more samples", l.Count)
	case l.Chunk < leastChunk || l.Chunk > mostChunk || bits.OnesCount64(uint64(l.Chunk)) != 1:
		return bad("chunk", fmt.Sprintf("a power of two from %d to %d", leastChunk, mostChunk), l.Chunk)
	case l.ValueBytes < 0 || l.ValueBytes > math.MaxInt64>>2:
		return bad("valueBytes", "0 or more", l.ValueBytes)
	case l.Longest < 0 || l.Longest > l.ValueBytes:
		return bad("longest", fmt.Sprintf("0 to %d", l.ValueBytes), l.Longest)
	case len(l.Fields) == 0:
		return bad("fields", "1 or more", 0)
	case l.Records < fixedBytes || l.Records > math.MaxInt64>>2 || l.Records%recordsAlign != 0:
		return bad("records", fmt.Sprintf("a multiple of %d", recordsAlign), l.Records)
	}
	want1 := *l
	want1.Fields = append([]field(nil), l.Fields...)
	encoded := false
	names := map[string]bool{}
	for k, f := range l.Fields {
		switch n, _ := f.size(); {
		case f.Name == "" || names[f.Name]:
			return bad(fmt.Sprintf("name of field %d", k), "a name of its own", fmt.Sprintf("%q", f.Name))
		case n <= 0:
			return bad(fmt.Sprintf("field %q", f.Name), "a known type and a shape of dimensions of 1 or more", fmt.Sprintf("type %q, shape %v", f.Type, f.Shape))
		}
		if p := f.classProblem(); p != "" {
			return bad(fmt.Sprintf("classes of field %q", f.Name), "labels of the field", p)
		}
		names[f.Name] = true
		encoded = encoded || f.Type == encodedType
	}
	if !encoded && l.ValueBytes != 0 {
		return bad("valueBytes", "0: no field is encoded", l.ValueBytes)
	}
	if err := want1.place(l.Records - fixedBytes); err != nil {
		return bad("fields", "samples that fit a file", err)
	}
	for k, f := range want1.Fields {
		if l.Fields[k].Offset != f.Offset {
			return bad(fmt.Sprintf("offset of field %q", f.Name), fmt.Sprint(f.Offset), l.Fields[k].Offset)
		}
	}
	if l.Record != want1.Record || l.Values != want1.Values || l.Sums != want1.Sums || l.Sums < 0 {
		return bad("record, values, sums", fmt.Sprint(want1.Record, want1.Values, want1.Sums), fmt.Sprint(l.Record, l.Values, l.Sums))
	}
	return "", "", ""
}
