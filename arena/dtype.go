package arena

import "fmt"

// DType is the type in which one element is stored.
type DType uint8

// The storage types. Integers are for data (pixels, labels, indices) and status words, floating point of 16 bits for values
// that are kept; arithmetic is done in float32 and float64.
const (
	Float32 DType = iota + 1
	Float64
	Uint8
	Int32
	Int64
	Bfloat16 // the upper half of a float32: 8 bits of exponent, 7 of fraction
	Float16  // IEEE 754 binary16: 5 bits of exponent, 10 of fraction
)

// Size returns the bytes of one element, 0 for an unknown type.
func (d DType) Size() int64 {
	switch d {
	case Float32, Int32:
		return 4
	case Float64, Int64:
		return 8
	case Bfloat16, Float16:
		return 2
	case Uint8:
		return 1
	}
	return 0
}

// Float reports whether arithmetic is done in d.
func (d DType) Float() bool { return d == Float32 || d == Float64 }

// Half reports whether d is floating point of 16 bits, in which values are kept but nothing is computed.
func (d DType) Half() bool { return d == Bfloat16 || d == Float16 }

// String returns the type's name: that of Go where Go has it.
func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Uint8:
		return "uint8"
	case Int32:
		return "int32"
	case Int64:
		return "int64"
	case Bfloat16:
		return "bfloat16"
	case Float16:
		return "float16"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}
