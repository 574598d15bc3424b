package arena

import "fmt"

// DType is the type in which one element is stored.
type DType uint8

// The storage types. Integers are for data (pixels, labels, indices) and status words;
// arithmetic is done in floating point.
const (
	Float32 DType = iota + 1
	Float64
	Uint8
	Int32
	Int64
)

// Size returns the bytes of one element, 0 for an unknown type.
func (d DType) Size() int64 {
	switch d {
	case Float32, Int32:
		return 4
	case Float64, Int64:
		return 8
	case Uint8:
		return 1
	}
	return 0
}

// Float reports whether d is a floating-point type.
func (d DType) Float() bool { return d == Float32 || d == Float64 }

// String returns the name of the matching Go type.
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
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}
