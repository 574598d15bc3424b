package parquet

import (
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader/table"
)

// Physical types.
const (
	physicalBool = iota
	physicalInt32
	physicalInt64
	physicalInt96
	physicalFloat
	physicalDouble
	physicalBytes
	physicalFixed
)

// Fields of the union LogicalType that are read.
const (
	logicalString    = 1
	logicalMap       = 2
	logicalList      = 3
	logicalEnum      = 4
	logicalDecimal   = 5
	logicalDate      = 6
	logicalTime      = 7
	logicalTimestamp = 8
	logicalInteger   = 10
	logicalJSON      = 12
	logicalFloat16   = 15
)

// Old names of logical types.
const (
	convertedUTF8            = 0
	convertedMap             = 1
	convertedMapKeyValue     = 2
	convertedList            = 3
	convertedEnum            = 4
	convertedDecimal         = 5
	convertedDate            = 6
	convertedTimeMillis      = 7
	convertedTimeMicros      = 8
	convertedTimestampMillis = 9
	convertedTimestampMicros = 10
	convertedUint8           = 11
	convertedUint64          = 14
	convertedInt8            = 15
	convertedInt64           = 18
	convertedJSON            = 19
)

// leaf is a column with values.
type leaf struct {
	name     string // members of structures are separated by dots
	physical int
	length   int   // bytes of a physicalFixed
	def      int   // definition level of a value
	repeats  []int // definition level of each list around the value, outermost first
	typ      table.Type
	refused  string // why it cannot be read, or ""
}

// same reports whether two leaves have the same type and levels.
func (l leaf) same(m leaf) bool {
	if len(l.repeats) != len(m.repeats) {
		return false
	}
	return l.name == m.name && l.physical == m.physical && l.length == m.length && l.typ.Kind == m.typ.Kind &&
		l.typ.Width == m.typ.Width && l.typ.Scale == m.typ.Scale && l.typ.Unit == m.typ.Unit
}

// node is a place of the walk over the schema.
type node struct {
	path    []string
	def     int
	repeats []int
	list    int // 1: the repeated node of a list, 2: its element; their names do not count
	refused string
	depth   int
}

// leavesOf returns the columns of a schema.
func leavesOf(elements []element) ([]leaf, error) {
	w := &walker{left: elements[1:]}
	for range elements[0].children {
		if err := w.walk(node{}); err != nil {
			return nil, err
		}
	}
	if len(w.left) > 0 {
		return nil, fmt.Errorf("the schema has %d nodes that belong to no group", len(w.left))
	}
	return w.leaves, nil
}

type walker struct {
	left   []element
	leaves []leaf
}

// walk reads the node at the front of left and all below it.
func (w *walker) walk(n node) error {
	if len(w.left) == 0 {
		return fmt.Errorf("the schema has fewer nodes than its groups count")
	}
	if n.depth++; n.depth > maxNesting {
		return fmt.Errorf("more than %d nested groups", maxNesting)
	}
	e := w.left[0]
	w.left = w.left[1:]
	if n.list == 0 {
		n.path = append(n.path[:len(n.path):len(n.path)], e.name)
	}
	switch e.repetition {
	case 1:
		n.def++
	case 2:
		n.def++
		n.repeats = append(n.repeats[:len(n.repeats):len(n.repeats)], n.def)
	}
	if e.physical >= 0 {
		w.add(n, e)
		return nil
	}
	below := n
	below.list = 0
	switch {
	case n.list == 1 && e.children == 1:
		below.list = 2
	case e.logical == logicalMap || e.converted == convertedMap || e.converted == convertedMapKeyValue:
		below.refused = "a map"
	case (e.logical == logicalList || e.converted == convertedList) && e.children == 1:
		below.list = 1
	case len(n.repeats) > 0:
		below.refused = "a list of structures"
	}
	if n.refused != "" {
		below.refused = n.refused
	}
	for range e.children {
		if err := w.walk(below); err != nil {
			return err
		}
	}
	return nil
}

// add adds the leaf e.
func (w *walker) add(n node, e element) {
	l := leaf{name: strings.Join(n.path, "."), physical: e.physical, length: e.length,
		def: n.def, repeats: n.repeats, refused: n.refused}
	l.typ = typeOf(e)
	if len(n.repeats) > 0 {
		l.typ.Dims = make([]int, len(n.repeats))
	}
	if l.refused == "" && l.typ.Kind == 0 {
		l.refused = fmt.Sprintf("physical type %d, logical type %d (%d)", e.physical, e.logical, e.converted)
	}
	w.leaves = append(w.leaves, l)
}

// typeOf returns the type of the values of e, of kind 0 if it cannot be read.
func typeOf(e element) table.Type {
	decimal := e.logical == logicalDecimal || e.logical == 0 && e.converted == convertedDecimal
	switch e.physical {
	case physicalBool:
		return table.Type{Kind: table.Bool}
	case physicalInt32:
		if decimal {
			return table.Type{Kind: table.Decimal, Width: 4, Scale: e.scale}
		}
		return table.Type{Kind: integer(e, table.Int32), Unit: unitOf(e)}
	case physicalInt64:
		if decimal {
			return table.Type{Kind: table.Decimal, Width: 8, Scale: e.scale}
		}
		return table.Type{Kind: integer(e, table.Int64), Unit: unitOf(e)}
	case physicalInt96:
		return table.Type{Kind: table.Int96, Unit: "ns"}
	case physicalFloat:
		return table.Type{Kind: table.Float32}
	case physicalDouble:
		return table.Type{Kind: table.Float64}
	case physicalBytes:
		if decimal {
			return table.Type{}
		}
		switch {
		case e.logical == logicalString, e.logical == logicalEnum, e.logical == logicalJSON,
			e.converted == convertedUTF8, e.converted == convertedEnum, e.converted == convertedJSON:
			return table.Type{Kind: table.Text}
		}
		return table.Type{Kind: table.Bytes}
	case physicalFixed:
		switch {
		case e.length < 1:
			return table.Type{}
		case decimal:
			return table.Type{Kind: table.Decimal, Width: e.length, Scale: e.scale}
		case e.logical == logicalFloat16 && e.length == 2:
			return table.Type{Kind: table.Float16}
		}
		return table.Type{Kind: table.Fixed, Width: e.length}
	}
	return table.Type{}
}

// integer returns the kind of an integer, which is physical unless e says otherwise.
func integer(e element, physical table.Kind) table.Kind {
	signed := [...]table.Kind{table.Int8, table.Int16, table.Int32, table.Int64}
	unsigned := [...]table.Kind{table.Uint8, table.Uint16, table.Uint32, table.Uint64}
	kind := physical
	switch {
	case e.logical == logicalInteger:
		for k := range signed {
			if e.bits == 8<<k && e.signed {
				kind = signed[k]
			} else if e.bits == 8<<k {
				kind = unsigned[k]
			}
		}
	case e.logical != 0:
	case e.converted >= convertedUint8 && e.converted <= convertedUint64:
		kind = unsigned[e.converted-convertedUint8]
	case e.converted >= convertedInt8 && e.converted <= convertedInt64:
		kind = signed[e.converted-convertedInt8]
	}
	if wide := kind == table.Int64 || kind == table.Uint64; wide != (physical == table.Int64) {
		return physical
	}
	return kind
}

// unitOf returns the unit of a date or time, or "".
func unitOf(e element) string {
	switch e.logical {
	case logicalDate:
		return "days"
	case logicalTime, logicalTimestamp:
		return e.unit
	case 0:
	default:
		return ""
	}
	switch e.converted {
	case convertedDate:
		return "days"
	case convertedTimeMillis, convertedTimestampMillis:
		return "ms"
	case convertedTimeMicros, convertedTimestampMicros:
		return "us"
	}
	return ""
}
