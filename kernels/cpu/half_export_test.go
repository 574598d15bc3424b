package cpu

import "github.com/evenkeel/evenkeel/arena"

// A Conversion is one of a level's, of rows that lie strides apart. From and To are bytes of an element.
type Conversion struct {
	Name     string
	From, To int
	Run      func(dst, src []byte, rows, stride, n, pitch int)
}

// Conversions lists those of a level for t.
func Conversions(i Instructions, t arena.DType) []Conversion {
	c := halfAt(i.level(), t)
	return []Conversion{{"widen", 2, 4, c.widen}, {"round", 4, 4, c.round}, {"encode", 4, 2, c.encode}}
}

// AsBytes is the memory of x.
func AsBytes[T uint16 | float32](x []T) []byte { return bytesOf(x) }
