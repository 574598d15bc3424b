package arrow

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// view reads the values of one column of a record batch where they are. It is safe for concurrent
// use.
type view struct {
	column   *column
	parents  []validity // of the structures around the column
	lists    []list     // outermost first
	valid    validity   // of the values
	kind     layout
	width    int    // bytes of a value
	data     []byte // values, or the bytes that offsets point to
	offsets  []byte // 4 or 8 bytes each, or views of 16
	buffers  [][]byte
	from     int // place of the first value
	indices  []byte
	indexLen int   // bytes of an index of a dictionary
	dict     *view // its values
}

// layout is how values are stored.
type layout uint8

const (
	packed     layout = iota // one after another
	bits                     // one bit each
	reversed                 // as packed, decimals with the lowest byte first
	offsets32                // bytes between offsets
	offsets64                // the same
	views                    // lengths with a few bytes, or with a place in buffers
	dictionary               // indices of a dictionary
)

// validity is a bitmap of values that are not missing; nil: none is.
type validity struct {
	bitmap []byte
	from   int
}

// missing reports whether value i is missing.
func (v validity) missing(i int) bool {
	i += v.from
	return v.bitmap != nil && v.bitmap[i/8]>>(i%8)&1 == 0
}

// list is one level of lists.
type list struct {
	valid   validity
	length  int // of each list
	offsets []byte
	width   int // bytes of an offset; 0: all have length by the type
	from    int
}

// listOf returns the level of lists that data are, each of the given length.
func listOf(data arrow.ArrayData, length int) list {
	l := list{valid: validOf(data), length: length, from: data.Offset()}
	switch data.DataType().ID() {
	case arrow.LIST:
		l.offsets, l.width = buffer(data, 1), 4
	case arrow.LARGE_LIST:
		l.offsets, l.width = buffer(data, 1), 8
	}
	return l
}

// start returns the first value of list i, and with it the end of list i-1.
func (l *list) start(i int) int { return offset(l.offsets, i+l.from, l.width) }

// newView returns the view of a column in a batch.
func newView(c *column, batch arrow.RecordBatch) (*view, error) {
	data := batch.Column(c.leaf.path[0]).Data()
	v := &view{column: c}
	for _, k := range c.leaf.path[1:] {
		data = unwrap(data)
		v.parents = append(v.parents, validOf(data))
		at := data.Offset()
		data = data.Children()[k]
		if at != 0 {
			data = array.NewSliceData(data, int64(at), int64(data.Len()))
		}
	}
	for _, length := range c.Type.Dims {
		data = unwrap(data)
		v.lists = append(v.lists, listOf(data, length))
		data = data.Children()[0]
	}
	return v, v.values(unwrap(data))
}

// unwrap returns the data of an extension type as those of the type that it is stored in.
func unwrap(d arrow.ArrayData) arrow.ArrayData {
	if e, ok := d.DataType().(arrow.ExtensionType); ok {
		return array.NewData(e.StorageType(), d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset())
	}
	return d
}

// buffer returns the bytes of buffer k, which may not exist.
func buffer(d arrow.ArrayData, k int) []byte {
	if b := d.Buffers(); k < len(b) && b[k] != nil {
		return slices.Clip(b[k].Bytes()) // so that nothing beyond it is read
	}
	return nil
}

// validOf returns the validity of an array.
func validOf(d arrow.ArrayData) validity {
	return validity{bitmap: buffer(d, 0), from: d.Offset()}
}

// values finds the values of the array.
func (v *view) values(d arrow.ArrayData) error {
	v.valid, v.from = validOf(d), d.Offset()
	v.data = buffer(d, 1)
	switch t := d.DataType().(type) {
	case *arrow.BooleanType:
		v.kind, v.width = bits, 1
	case *arrow.BinaryType, *arrow.StringType:
		v.kind, v.offsets, v.data = offsets32, buffer(d, 1), buffer(d, 2)
	case *arrow.LargeBinaryType, *arrow.LargeStringType:
		v.kind, v.offsets, v.data = offsets64, buffer(d, 1), buffer(d, 2)
	case arrow.BinaryViewDataType:
		v.kind, v.offsets = views, buffer(d, 1)
		for k := 2; k < len(d.Buffers()); k++ {
			v.buffers = append(v.buffers, buffer(d, k))
		}
	case arrow.DecimalType:
		v.kind, v.width = reversed, t.BitWidth()/8
	case *arrow.DictionaryType:
		if d.Dictionary() == nil {
			return fmt.Errorf("column %q: a dictionary that the file does not have", v.column.Field.Name)
		}
		v.kind, v.indices, v.indexLen = dictionary, buffer(d, 1), t.IndexType.(arrow.FixedWidthDataType).BitWidth()/8
		v.dict = &view{column: v.column}
		return v.dict.values(unwrap(d.Dictionary()))
	case arrow.FixedWidthDataType:
		v.kind, v.width = packed, t.BitWidth()/8
	default:
		return fmt.Errorf("column %q: %v is not read", v.column.Field.Name, t)
	}
	return nil
}

// problem returns the error for a value that cannot be stored.
func problem(want, got string) error { return &table.Problem{Want: want, Got: got} }

// fetch writes the field of a row of the batch.
func (v *view) fetch(row int, at dataloader.At, dst []byte) error {
	t := v.column.Target
	for _, p := range v.parents {
		if p.missing(row) {
			return v.fill(dst)
		}
	}
	from, n := row, 1
	for depth, l := range v.lists {
		if depth == 0 && l.valid.missing(from) {
			return v.fill(dst)
		}
		var err error
		if from, err = l.resolve(from, n); err != nil {
			return err
		}
		n *= l.length
	}
	if t.Variable() || t.Encoded() {
		if v.missing(from) {
			return v.fill(dst)
		}
		b, err := v.piece(from)
		if err != nil {
			return err
		}
		if t.Encoded() {
			return t.Decode(at, b, dst)
		}
		if p := t.Text(dst, b); p != nil {
			return p
		}
		return nil
	}
	return v.numbers(from, n, dst)
}

// fill writes a row of missing values.
func (v *view) fill(dst []byte) error {
	t := v.column.Target
	if p := t.Missing(dst, t.Elements); p != nil {
		return p
	}
	return nil
}

// resolve returns the first value of n lists from a place on, which follow one another and must have
// the length of all.
func (l *list) resolve(from, n int) (int, error) {
	if l.width == 0 {
		for i := range n {
			if l.valid.missing(from + i) {
				return 0, problem("a list", "null")
			}
		}
		return (from + l.from) * l.length, nil
	}
	first := l.start(from)
	last := first
	for i := from; i < from+n; i++ {
		end := l.start(i + 1)
		if l.valid.missing(i) {
			return 0, problem(fmt.Sprintf("a list of %d", l.length), "null")
		}
		if end-last != l.length {
			return 0, problem(fmt.Sprintf("lists of %d values", l.length), fmt.Sprint(end-last))
		}
		last = end
	}
	return first, nil
}

// offset returns offset i of 4 or 8 bytes. A negative one makes the caller's slice expression
// panic, which Fetch turns into an error.
func offset(b []byte, i, width int) int {
	if width == 4 {
		return int(int32(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return int(binary.LittleEndian.Uint64(b[8*i:]))
}

// missing reports whether value i is missing, itself or in the dictionary.
func (v *view) missing(i int) bool {
	return v.valid.missing(i) || v.kind == dictionary && v.dict.missing(v.entry(i))
}

// entry returns the index of value i in the dictionary.
func (v *view) entry(i int) int {
	b := v.indices[(i+v.from)*v.indexLen:]
	switch v.indexLen {
	case 1:
		return int(b[0])
	case 2:
		return int(binary.LittleEndian.Uint16(b))
	case 4:
		return int(binary.LittleEndian.Uint32(b))
	}
	return int(binary.LittleEndian.Uint64(b))
}

// piece returns the bytes of value i of any size.
func (v *view) piece(i int) ([]byte, error) {
	switch v.kind {
	case dictionary:
		return v.dict.piece(v.entry(i))
	case offsets32:
		return v.data[offset(v.offsets, i+v.from, 4):offset(v.offsets, i+v.from+1, 4)], nil
	case offsets64:
		return v.data[offset(v.offsets, i+v.from, 8):offset(v.offsets, i+v.from+1, 8)], nil
	case views:
		b := v.offsets[16*(i+v.from) : 16*(i+v.from)+16]
		n := int(int32(binary.LittleEndian.Uint32(b)))
		if n <= 12 {
			return b[4 : 4+n], nil
		}
		k, at := int(int32(binary.LittleEndian.Uint32(b[8:]))), int(int32(binary.LittleEndian.Uint32(b[12:])))
		return v.buffers[k][at : at+n], nil
	case packed:
		return v.data[(i+v.from)*v.width : (i+v.from+1)*v.width], nil
	}
	return nil, problem("text or bytes", "numbers")
}

// numbers writes n values from a place on.
func (v *view) numbers(from, n int, dst []byte) error {
	t := v.column.Target
	if v.kind == packed && v.valid.bitmap == nil {
		if p := t.Convert(dst, v.data[(from+v.from)*v.width:(from+v.from+n)*v.width], n); p != nil {
			return p
		}
		return nil
	}
	size := t.Size()
	for i := range n {
		to := dst[i*size : (i+1)*size]
		var p *table.Problem
		if v.missing(from + i) {
			p = t.Missing(to, 1)
		} else {
			p = v.number(from+i, to)
		}
		if p != nil {
			p.At += i
			return p
		}
	}
	return nil
}

// number writes value i.
func (v *view) number(i int, dst []byte) *table.Problem {
	t := v.column.Target
	switch v.kind {
	case dictionary:
		return v.dict.number(v.entry(i), dst)
	case bits:
		i += v.from
		b := [1]byte{v.data[i/8] >> (i % 8) & 1}
		return t.Convert(dst, b[:], 1)
	case reversed:
		var b [32]byte
		copy(b[:], v.data[(i+v.from)*v.width:(i+v.from+1)*v.width])
		slices.Reverse(b[:v.width])
		return t.Convert(dst, b[:v.width], 1)
	}
	return t.Convert(dst, v.data[(i+v.from)*v.width:(i+v.from+1)*v.width], 1)
}
