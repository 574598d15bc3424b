package arena

import "fmt"

// DType is the storage type of one element.
type DType uint8

// The storage types. Arithmetic uses Float32 and Float64. The 16-bit types store values between
// operations; the integer types store data (pixels, labels, indices) and the flags in which kernels
// report errors.
const (
	Float32 DType = iota + 1
	Float64
	Uint8
	Int32
	Int64
	BFloat16 // the upper half of a float32: 8 exponent bits, 7 fraction bits
	Float16  // IEEE 754 binary16: 5 exponent bits, 10 fraction bits
)

// Size returns the size of one element in bytes, 0 for an unknown type.
func (d DType) Size() int64 {
	switch d {
	case Float32, Int32:
		return 4
	case Float64, Int64:
		return 8
	case BFloat16, Float16:
		return 2
	case Uint8:
		return 1
	}
	return 0
}

// Float reports whether d is a type of arithmetic: Float32 or Float64.
func (d DType) Float() bool { return d == Float32 || d == Float64 }

// Half reports whether d is a 16-bit floating-point type, which stores values but is not a type of
// arithmetic.
func (d DType) Half() bool { return d == BFloat16 || d == Float16 }

// String returns the name of the type, such as "float32" or "bfloat16".
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
	case BFloat16:
		return "bfloat16"
	case Float16:
		return "float16"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}
