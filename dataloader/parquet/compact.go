package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// compact reads Thrift's compact protocol, in which the footer and the page headers are written.
// It allocates nothing: bytes are slices of the input. After an error every method returns zeros.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
type compact struct {
	b     []byte
	at    int
	depth int
	err   error
}

// Types of the compact protocol.
const (
	cStop = iota
	cTrue
	cFalse
	cInt8
	cInt16
	cInt32
	cInt64
	cDouble
	cBinary
	cList
	cSet
	cMap
	cStruct
)

// maxNesting limits the nesting of structures. Parquet's own have 6.
const maxNesting = 32

// errCut: the input ends within a value.
var errCut = errors.New("ends within a value")

// fail keeps the first error.
func (c *compact) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// next returns the next n bytes.
func (c *compact) next(n int) []byte {
	if c.err == nil && n > len(c.b)-c.at {
		c.fail(errCut)
	}
	if c.err != nil {
		return nil
	}
	c.at += n
	return c.b[c.at-n : c.at]
}

func (c *compact) byte() byte {
	if b := c.next(1); b != nil {
		return b[0]
	}
	return 0
}

// uvarint returns an unsigned number of 7 bits a byte.
func (c *compact) uvarint() uint64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.b[c.at:])
	switch {
	case n == 0:
		c.fail(errCut)
	case n < 0:
		c.fail(errors.New("a number of more than 64 bits"))
	default:
		c.at += n
		return v
	}
	return 0
}

// int returns a signed number, in zigzag coding.
func (c *compact) int() int64 {
	v := c.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// bytes returns a string, as a slice of the input.
func (c *compact) bytes() []byte {
	n := c.uvarint()
	if c.err == nil && n > uint64(len(c.b)-c.at) {
		c.fail(errCut)
	}
	return c.next(int(n))
}

// list returns the number and the type of the elements that follow. Each has a byte or more, so
// that the number is at most that of the bytes left.
func (c *compact) list() (n int, typ byte) {
	b := c.byte()
	size := uint64(b >> 4)
	if size == 15 {
		size = c.uvarint()
	}
	if c.err == nil && size > uint64(len(c.b)-c.at) {
		c.fail(errCut)
	}
	if c.err != nil {
		return 0, 0
	}
	return int(size), b & 15
}

// each calls f for the number and the type of each field of a structure. f must read the field.
func (c *compact) each(f func(id int, typ byte)) {
	if c.depth++; c.depth > maxNesting {
		c.fail(fmt.Errorf("more than %d nested structures", maxNesting))
	}
	id := 0
	for c.err == nil {
		b := c.byte()
		typ := b & 15
		if typ == cStop {
			break
		}
		if d := int(b >> 4); d != 0 {
			id += d
		} else {
			id = int(int16(c.int()))
		}
		f(id, typ)
	}
	c.depth--
}

// structs calls f at the start of each structure in a list. Another type is skipped.
func (c *compact) structs(typ byte, f func(i int)) {
	if typ != cList {
		c.skip(typ)
		return
	}
	n, of := c.list()
	for i := 0; i < n && c.err == nil; i++ {
		if of == cStruct {
			f(i)
		} else {
			c.skipElement(of)
		}
	}
}

// number returns an integer field, 0 for one of another type.
func (c *compact) number(typ byte) int64 {
	switch typ {
	case cInt16, cInt32, cInt64:
		return c.int()
	case cInt8:
		return int64(int8(c.byte()))
	}
	c.skip(typ)
	return 0
}

// skip reads a field of the given type.
func (c *compact) skip(typ byte) {
	switch typ {
	case cTrue, cFalse:
	case cInt8:
		c.next(1)
	case cInt16, cInt32, cInt64:
		c.uvarint()
	case cDouble:
		c.next(8)
	case cBinary:
		c.bytes()
	case cList, cSet:
		c.skipList()
	case cMap:
		c.skipMap()
	case cStruct:
		c.each(func(_ int, typ byte) { c.skip(typ) })
	default:
		c.fail(fmt.Errorf("type %d, which does not exist", typ))
	}
}

// skipElement reads an element of a list, where a boolean has a byte of its own.
func (c *compact) skipElement(typ byte) {
	if typ == cTrue || typ == cFalse {
		typ = cInt8
	}
	c.skip(typ)
}

func (c *compact) skipList() {
	if c.depth++; c.depth > maxNesting {
		c.fail(fmt.Errorf("more than %d nested lists", maxNesting))
	}
	n, of := c.list()
	for i := 0; i < n && c.err == nil; i++ {
		c.skipElement(of)
	}
	c.depth--
}

func (c *compact) skipMap() {
	if c.depth++; c.depth > maxNesting {
		c.fail(fmt.Errorf("more than %d nested maps", maxNesting))
	}
	if n := c.uvarint(); n > 0 {
		types := c.byte()
		for i := uint64(0); i < n && c.err == nil; i++ {
			c.skipElement(types >> 4)
			c.skipElement(types & 15)
		}
	}
	c.depth--
}
