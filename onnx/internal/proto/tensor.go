package proto

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/internal/float16"
)

// Bits returns the size of an element in bits, 0 for a type that has no fixed size here.
func (t DataType) Bits() int {
	switch t {
	case Uint8, Int8, Bool:
		return 8
	case Uint16, Int16, Float16, BFloat16:
		return 16
	case Float, Int32, Uint32:
		return 32
	case Int64, Double, Uint64:
		return 64
	}
	return 0
}

// IsFloat reports whether elements are floating-point numbers.
func (t DataType) IsFloat() bool {
	return t == Float || t == Double || t == Float16 || t == BFloat16
}

func (t *Tensor) errorf(format string, args ...any) error {
	return &FormatError{Offset: -1, Reason: fmt.Sprintf("tensor %q: ", t.Name) + fmt.Sprintf(format, args...)}
}

// maxElements keeps a tensor's bytes countable in an int64.
const maxElements = math.MaxInt64 / 8

// Elements returns the number of elements. A negative dimension and a product beyond 2^60 are
// errors.
func (t *Tensor) Elements() (int64, error) {
	n := int64(1)
	for _, d := range t.Dims {
		switch {
		case d < 0:
			return 0, t.errorf("dimension %d", d)
		case n > maxElements/max(d, 1) && !slices.Contains(t.Dims, 0):
			return 0, t.errorf("dimensions %v: more than %d elements", t.Dims, int64(maxElements))
		}
		n *= d // may wrap around where another dimension is 0, which makes it 0
	}
	return n, nil
}

// Check returns an error unless the tensor has as many elements as its dimensions say, of a type
// with a fixed size, in one place: Raw or the list of its type. A tensor whose elements are in
// another file needs its bytes in Raw first, with External and Location cleared.
func (t *Tensor) Check() error {
	n, err := t.Elements()
	if err != nil {
		return err
	}
	bits := t.Type.Bits()
	switch {
	case bits == 0:
		return t.errorf("elements of %v are not read", t.Type)
	case t.Location != LocationDefault:
		return t.errorf("the elements are in another file")
	case t.Segment:
		return t.errorf("segments are not read")
	}
	lists := []int{len(t.Floats), len(t.Int32s), len(t.Int64s), len(t.Doubles), len(t.Uint64s), len(t.Strings)}
	total := 0
	for _, l := range lists {
		total += l
	}
	if t.HasRaw && total == 0 {
		if int64(len(t.Raw)) != n*int64(bits)/8 {
			return t.errorf("%d bytes for %v of %v", len(t.Raw), t.Type, t.Dims)
		}
		return nil
	}
	if t.HasRaw && len(t.Raw) > 0 || int64(total) != n || lists[t.list()] != total {
		return t.errorf("%d elements in lists and %d bytes for %v of %v", total, len(t.Raw), t.Type, t.Dims)
	}
	return nil
}

// list returns the index of the list of the type, in the order of the struct.
func (t *Tensor) list() int {
	switch t.Type {
	case Float:
		return 0
	case Int64:
		return 2
	case Double:
		return 3
	case Uint32, Uint64:
		return 4
	case String:
		return 5
	}
	return 1
}

// Float64 returns element i of a tensor that passed Check. Integers beyond 2^53 are rounded.
func (t *Tensor) Float64(i int) float64 {
	if !t.Type.IsFloat() {
		if v := t.Int64(i); t.Type == Uint64 {
			return float64(uint64(v))
		} else {
			return float64(v)
		}
	}
	le := binary.LittleEndian
	switch t.Type {
	case Float:
		if len(t.Floats) > 0 {
			return float64(t.Floats[i])
		}
		return float64(math.Float32frombits(le.Uint32(t.Raw[4*i:])))
	case Double:
		if len(t.Doubles) > 0 {
			return t.Doubles[i]
		}
		return math.Float64frombits(le.Uint64(t.Raw[8*i:]))
	}
	var bits uint16
	if len(t.Int32s) > 0 {
		bits = uint16(t.Int32s[i])
	} else {
		bits = le.Uint16(t.Raw[2*i:])
	}
	if t.Type == BFloat16 {
		return float64(float16.FromBFloat16(bits))
	}
	return float64(float16.FromFloat16(bits))
}

// Int64 returns element i of a tensor of integers or bools that passed Check. A uint64 keeps its
// bits.
func (t *Tensor) Int64(i int) int64 {
	switch {
	case len(t.Int64s) > 0:
		return t.Int64s[i]
	case len(t.Uint64s) > 0:
		return int64(t.Uint64s[i])
	}
	var u uint64
	if len(t.Int32s) > 0 {
		u = uint64(t.Int32s[i])
	} else {
		size := t.Type.Bits() / 8
		for k, b := range t.Raw[size*i : size*(i+1)] {
			u |= uint64(b) << (8 * k)
		}
	}
	switch t.Type {
	case Int8:
		return int64(int8(u))
	case Int16:
		return int64(int16(u))
	case Int32:
		return int64(int32(u))
	case Uint8:
		return int64(uint8(u))
	case Uint16:
		return int64(uint16(u))
	case Uint32:
		return int64(uint32(u))
	case Bool:
		if u != 0 {
			return 1
		}
		return 0
	}
	return int64(u)
}
