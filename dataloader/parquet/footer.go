package parquet

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Layout of a file: "PAR1", column chunks, footer, its length in 4 bytes, "PAR1".
const (
	magic     = "PAR1"
	tail      = 8
	maxFooter = 64 << 20 // bytes

	maxElements = 1 << 16 // nodes of the schema
)

// element is one node of the schema, in the order of a walk that visits parents first.
type element struct {
	name       string
	physical   int // physical type, -1 for a group
	length     int // bytes of a fixed-length value
	repetition int // 0 required, 1 optional, 2 repeated
	children   int
	converted  int // old name of the logical type, -1 if none
	scale      int
	logical    int // field of the union LogicalType, 0 if none
	unit       string
	bits       int // of an integer
	signed     bool
}

// chunk is the part of one column in one row group.
type chunk struct {
	codec        int
	uncompressed int64
	compressed   int64
	data, dict   int64 // offsets in the file; dict 0: none
}

// rowGroup is one row group with the chunks of the selected columns.
type rowGroup struct {
	rows   int64
	chunks []chunk
}

// footer is the description of a file.
type footer struct {
	elements []element
	groups   []rowGroup
}

// readFooter reads the end of a file of the given size through read, which fills p from an offset.
func readFooter(name string, size int64, read func(p []byte, off int64) error) ([]byte, error) {
	bad := func(at int64, what, want, got string) error {
		return &dataloader.FormatError{File: name, Offset: at, What: what, Want: want, Got: got}
	}
	if size < int64(len(magic))+tail {
		return nil, bad(0, "size", "12 bytes or more", fmt.Sprint(size))
	}
	var head [4]byte
	if err := read(head[:], 0); err != nil {
		return nil, err
	}
	if string(head[:]) == "PARE" {
		return nil, bad(0, "magic number", `"PAR1"`, `"PARE", an encrypted file: decrypt it first`)
	}
	if string(head[:]) != magic {
		return nil, bad(0, "magic number", `"PAR1"`, fmt.Sprintf("%q", head[:]))
	}
	var end [tail]byte
	if err := read(end[:], size-tail); err != nil {
		return nil, err
	}
	if string(end[4:]) != magic {
		return nil, bad(size-4, "magic number at the end", `"PAR1"`, fmt.Sprintf("%q: the file is cut", end[4:]))
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if most := min(size-tail-int64(len(magic)), maxFooter); n > most {
		return nil, bad(size-tail, "length of the footer", fmt.Sprintf("at most %d bytes", most), fmt.Sprint(n))
	}
	b := make([]byte, n)
	return b, read(b, size-tail-n)
}

// parseSchema reads the schema from the bytes of a footer.
func parseSchema(b []byte) (*footer, error) {
	f := &footer{}
	c := &compact{b: b}
	c.each(func(id int, typ byte) {
		switch {
		case id == 2:
			c.structs(typ, func(i int) {
				if i == maxElements {
					c.fail(fmt.Errorf("more than %d columns", maxElements))
				}
				f.elements = append(f.elements, c.element())
			})
		case id == 8:
			c.fail(fmt.Errorf("encrypted columns: decrypt the file first"))
		default:
			c.skip(typ)
		}
	})
	if c.err == nil && len(f.elements) == 0 {
		c.fail(fmt.Errorf("no schema"))
	}
	return f, c.err
}

// element reads one SchemaElement.
func (c *compact) element() element {
	e := element{physical: -1, converted: -1}
	c.each(func(id int, typ byte) {
		switch id {
		case 1:
			e.physical = int(int32(c.number(typ)))
		case 2:
			e.length = int(int32(c.number(typ)))
		case 3:
			e.repetition = int(int32(c.number(typ)))
		case 4:
			if typ == cBinary {
				e.name = string(c.bytes())
			} else {
				c.skip(typ)
			}
		case 5:
			e.children = int(int32(c.number(typ)))
		case 6:
			e.converted = int(int32(c.number(typ)))
		case 7:
			e.scale = int(int32(c.number(typ)))
		case 10:
			if typ == cStruct {
				c.logical(&e)
			} else {
				c.skip(typ)
			}
		default:
			c.skip(typ)
		}
	})
	return e
}

// logical reads a LogicalType, a union of structures.
func (c *compact) logical(e *element) {
	c.each(func(id int, typ byte) {
		e.logical = id
		if typ != cStruct {
			c.skip(typ)
			return
		}
		c.each(func(part int, typ byte) {
			switch {
			case id == logicalDecimal && part == 1:
				e.scale = int(int32(c.number(typ)))
			case (id == logicalTime || id == logicalTimestamp) && part == 2 && typ == cStruct:
				c.each(func(unit int, typ byte) {
					if unit >= 1 && unit <= 3 {
						e.unit = [...]string{"", "ms", "us", "ns"}[unit]
					}
					c.skip(typ)
				})
			case id == logicalInteger && part == 1:
				e.bits = int(c.number(typ))
			case id == logicalInteger && part == 2:
				e.signed = typ == cTrue
				c.skip(typ)
			default:
				c.skip(typ)
			}
		})
	})
}

// parseGroups reads the row groups from the bytes of a footer. want has an entry for each leaf of
// the schema: the place of its chunk, or -1. places is the number of places.
func (f *footer) parseGroups(b []byte, want []int, places int) error {
	c := &compact{b: b}
	c.each(func(id int, typ byte) {
		if id != 4 {
			c.skip(typ)
			return
		}
		c.structs(typ, func(i int) {
			var g rowGroup
			columns := 0
			c.each(func(id int, typ byte) {
				switch id {
				case 1:
					g.chunks = make([]chunk, places)
					c.structs(typ, func(k int) {
						columns++
						if k < len(want) && want[k] >= 0 {
							g.chunks[want[k]] = c.chunk()
						} else {
							c.skip(cStruct)
						}
					})
				case 3:
					g.rows = c.number(typ)
				default:
					c.skip(typ)
				}
			})
			if c.err == nil && columns != len(want) && (columns > 0 || g.rows > 0) {
				c.fail(fmt.Errorf("row group %d has %d columns: want the %d of the schema", i, columns, len(want)))
			}
			if c.err == nil && (g.rows < 0 || g.rows > math.MaxInt) {
				c.fail(fmt.Errorf("row group %d has %d rows", i, g.rows))
			}
			for _, k := range g.chunks {
				if c.err == nil && g.rows > 0 && (k.data < int64(len(magic)) || k.compressed < 0 || k.uncompressed < 0) {
					c.fail(fmt.Errorf("row group %d has a column chunk of %d bytes at byte %d", i, k.compressed, k.data))
				}
			}
			if g.rows == 0 {
				g.chunks = nil // some writers leave them out
			}
			f.groups = append(f.groups, g)
		})
	})
	return c.err
}

// chunk reads one ColumnChunk.
func (c *compact) chunk() chunk {
	var k chunk
	c.each(func(id int, typ byte) {
		switch {
		case id == 1 && typ == cBinary:
			if other := c.bytes(); len(other) > 0 {
				c.fail(fmt.Errorf("a column is in another file, %q", other))
			}
		case id == 3 && typ == cStruct:
			c.each(func(id int, typ byte) {
				switch id {
				case 4:
					k.codec = int(int32(c.number(typ)))
				case 6:
					k.uncompressed = c.number(typ)
				case 7:
					k.compressed = c.number(typ)
				case 9:
					k.data = c.number(typ)
				case 11:
					k.dict = c.number(typ)
				default:
					c.skip(typ)
				}
			})
		case id == 8:
			c.fail(fmt.Errorf("an encrypted column: decrypt the file first"))
		default:
			c.skip(typ)
		}
	})
	return k
}
