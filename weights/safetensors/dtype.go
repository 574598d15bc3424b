package safetensors

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// DType is the type of a tensor's elements, as the header spells it: "F32", "BF16".
type DType string

// The types of the format. F4, F6_E2M3 and F6_E3M2 take less than a byte; a tensor of them must end
// on a byte.
const (
	Bool       DType = "BOOL"
	Uint8      DType = "U8"
	Int8       DType = "I8"
	F8E5M2     DType = "F8_E5M2"
	F8E4M3     DType = "F8_E4M3"
	F8E8M0     DType = "F8_E8M0"
	F8E4M3FNUZ DType = "F8_E4M3FNUZ"
	F8E5M2FNUZ DType = "F8_E5M2FNUZ"
	F4         DType = "F4"
	F6E2M3     DType = "F6_E2M3"
	F6E3M2     DType = "F6_E3M2"
	Int16      DType = "I16"
	Uint16     DType = "U16"
	Float16    DType = "F16"
	BFloat16   DType = "BF16"
	Int32      DType = "I32"
	Uint32     DType = "U32"
	Float32    DType = "F32"
	Int64      DType = "I64"
	Uint64     DType = "U64"
	Float64    DType = "F64"
	Complex64  DType = "C64"
)

// stored has the types that values in an arena have, too.
var stored = map[arena.DType]DType{
	arena.Float64: Float64, arena.Float32: Float32, arena.Float16: Float16, arena.BFloat16: BFloat16,
	arena.Int64: Int64, arena.Int32: Int32, arena.Uint8: Uint8,
}

// TypeOf returns the type of values in an arena as a file has it, or "" if files do not have it.
func TypeOf(d arena.DType) DType { return stored[d] }

// Stored returns the type in an arena, or 0, which is none, if no value in an arena has this type.
func (d DType) Stored() arena.DType {
	for s, own := range stored {
		if own == d {
			return s
		}
	}
	return 0
}

// Bits returns the bits of one element, or 0 if the format has no such type.
func (d DType) Bits() int {
	switch d {
	case F4:
		return 4
	case F6E2M3, F6E3M2:
		return 6
	case Bool, Uint8, Int8, F8E5M2, F8E4M3, F8E8M0, F8E4M3FNUZ, F8E5M2FNUZ:
		return 8
	case Int16, Uint16, Float16, BFloat16:
		return 16
	case Int32, Uint32, Float32:
		return 32
	case Int64, Uint64, Float64, Complex64:
		return 64
	}
	return 0
}

// Tensor is the name, type and shape of a tensor.
type Tensor struct {
	Name  string
	DType DType
	Shape []int // [] is a scalar
}

// Bytes returns the bytes of the tensor's data. It is 0 if the type or the shape is not valid.
func (t Tensor) Bytes() int64 {
	n, _ := t.size()
	return n
}

// String returns the type and shape, as in "F32 [3 4]".
func (t Tensor) String() string { return fmt.Sprintf("%s %v", t.DType, t.Shape) }

// size returns the bytes of the data. Errors are texts for the reader's and the writer's own.
func (t Tensor) size() (int64, error) {
	n := uint64(1)
	for _, d := range t.Shape {
		if d < 0 {
			return 0, fmt.Errorf("dimension %d of shape %v is negative", d, short(t.Shape))
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 {
			return 0, fmt.Errorf("shape %v has more than 2^64 elements", short(t.Shape))
		}
		n = lo
	}
	b := t.DType.Bits()
	if b == 0 {
		return 0, fmt.Errorf("unknown type %q", shorten(string(t.DType)))
	}
	hi, n := bits.Mul64(n, uint64(b))
	switch {
	case hi != 0 || n/8 > 1<<62:
		return 0, fmt.Errorf("%s %v has too many bytes", t.DType, short(t.Shape))
	case n%8 != 0:
		return 0, fmt.Errorf("%s %v does not end on a byte", t.DType, short(t.Shape))
	}
	return int64(n / 8), nil
}

// short bounds a shape from a file for an error.
func short(shape []int) string {
	if len(shape) <= 16 {
		return fmt.Sprint(shape)
	}
	return fmt.Sprintf("%v… (%d dimensions)", shape[:16], len(shape))
}

// clone returns a copy that shares no memory.
func (t Tensor) clone() Tensor {
	t.Shape = slices.Clone(t.Shape)
	return t
}
