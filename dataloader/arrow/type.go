package arrow

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// leaf is a column with values and the way to it: the place in the schema, then in structures.
type leaf struct {
	table.Leaf
	path []int
}

// same reports whether two files have the same column.
func (l leaf) same(m leaf) bool {
	return l.Name == m.Name && slices.Equal(l.path, m.path) && l.Type.Kind == m.Type.Kind && l.Type.Width == m.Type.Width &&
		l.Type.String() == m.Type.String() && l.Type.Scale == m.Type.Scale && l.Refused == m.Refused
}

// leavesOf returns the columns of a schema.
func leavesOf(s *arrow.Schema) []leaf {
	var all []leaf
	for i, f := range s.Fields() {
		all = walk(all, f.Name, f.Type, []int{i})
	}
	return all
}

// walk adds the columns of a field.
func walk(all []leaf, name string, t arrow.DataType, path []int) []leaf {
	if e, ok := t.(arrow.ExtensionType); ok {
		t = e.StorageType()
	}
	if s, ok := t.(*arrow.StructType); ok {
		for i, f := range s.Fields() {
			all = walk(all, name+"."+f.Name, f.Type, append(path[:len(path):len(path)], i))
		}
		return all
	}
	typ, refused := typeOf(t)
	return append(all, leaf{table.Leaf{Name: name, Type: typ, Refused: refused}, path})
}

// typeOf returns the type of a column, or what it holds if that cannot be read.
func typeOf(t arrow.DataType) (table.Type, string) {
	var dims []int
	for {
		if e, ok := t.(arrow.ExtensionType); ok {
			t = e.StorageType()
			continue
		}
		switch l := t.(type) {
		case *arrow.FixedSizeListType:
			dims = append(dims, int(l.Len()))
			t = l.Elem()
			continue
		case *arrow.ListType:
			dims = append(dims, 0)
			t = l.Elem()
			continue
		case *arrow.LargeListType:
			dims = append(dims, 0)
			t = l.Elem()
			continue
		}
		break
	}
	if d, ok := t.(*arrow.DictionaryType); ok {
		t = d.ValueType
		if e, ok := t.(arrow.ExtensionType); ok {
			t = e.StorageType()
		}
		if _, twice := t.(*arrow.DictionaryType); twice {
			return table.Type{}, "a dictionary of dictionaries"
		}
	}
	typ := scalar(t)
	typ.Dims = dims
	if typ.Kind == 0 {
		return typ, fmt.Sprint(t)
	}
	if len(dims) > 4 {
		return typ, fmt.Sprintf("%d nested lists", len(dims))
	}
	return typ, ""
}

// kinds are the types whose values need no more description.
var kinds = map[arrow.Type]table.Kind{
	arrow.BOOL: table.Bool, arrow.INT8: table.Int8, arrow.INT16: table.Int16, arrow.INT32: table.Int32, arrow.INT64: table.Int64,
	arrow.UINT8: table.Uint8, arrow.UINT16: table.Uint16, arrow.UINT32: table.Uint32, arrow.UINT64: table.Uint64,
	arrow.FLOAT16: table.Float16, arrow.FLOAT32: table.Float32, arrow.FLOAT64: table.Float64,
	arrow.BINARY: table.Bytes, arrow.LARGE_BINARY: table.Bytes, arrow.BINARY_VIEW: table.Bytes,
	arrow.STRING: table.Text, arrow.LARGE_STRING: table.Text, arrow.STRING_VIEW: table.Text,
}

// units are the names of the units of times.
var units = map[arrow.TimeUnit]string{arrow.Second: "s", arrow.Millisecond: "ms", arrow.Microsecond: "us", arrow.Nanosecond: "ns"}

// scalar returns the type of one value, of kind 0 if it cannot be read.
func scalar(t arrow.DataType) table.Type {
	switch t := t.(type) {
	case *arrow.Date32Type:
		return table.Type{Kind: table.Int32, Unit: "days"}
	case *arrow.Date64Type:
		return table.Type{Kind: table.Int64, Unit: "ms"}
	case *arrow.Time32Type:
		return table.Type{Kind: table.Int32, Unit: units[t.Unit]}
	case *arrow.Time64Type:
		return table.Type{Kind: table.Int64, Unit: units[t.Unit]}
	case *arrow.TimestampType:
		return table.Type{Kind: table.Int64, Unit: units[t.Unit]}
	case *arrow.DurationType:
		return table.Type{Kind: table.Int64, Unit: units[t.Unit]}
	case arrow.DecimalType:
		return table.Type{Kind: table.Decimal, Width: t.BitWidth() / 8, Scale: int(t.GetScale())}
	case *arrow.FixedSizeBinaryType:
		return table.Type{Kind: table.Fixed, Width: t.ByteWidth}
	}
	return table.Type{Kind: kinds[t.ID()]}
}
