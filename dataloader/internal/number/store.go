package number

import (
	"encoding/binary"
	"math"

	"github.com/evenkeel/evenkeel/arena"
)

// Stored reports whether Store writes numbers of a type.
func Stored(t arena.DType) bool {
	switch t {
	case arena.Float32, arena.Float64, arena.Uint8, arena.Int32, arena.Int64:
		return true
	}
	return false
}

// Bounds returns the least and the largest number of an integer type.
func Bounds(t arena.DType) (lo, hi int64) {
	switch t {
	case arena.Uint8:
		return 0, math.MaxUint8
	case arena.Int32:
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

// Store writes the number that b is to dst as a value of type t. wrong is "" or what is wrong with b.
func Store(t arena.DType, dst, b []byte) (wrong string) {
	switch t {
	case arena.Float32:
		x, wrong := Float32(b)
		binary.NativeEndian.PutUint32(dst, math.Float32bits(x))
		return wrong
	case arena.Float64:
		x, wrong := Float64(b)
		binary.NativeEndian.PutUint64(dst, math.Float64bits(x))
		return wrong
	}
	lo, hi := Bounds(t)
	x, wrong := Int(b, lo, hi)
	PutInt(t, dst, x)
	return wrong
}

// Holds reports whether a value of type t can be x: a whole number within its bounds if t is an
// integer type. Float32 rounds, and does not hold a finite x that would become infinite.
func Holds(t arena.DType, x float64) bool {
	if t == arena.Float32 {
		return math.IsInf(x, 0) || !math.IsInf(float64(float32(x)), 0)
	}
	if t.Float() {
		return true
	}
	lo, hi := Bounds(t)
	return x == math.Trunc(x) && x >= float64(lo) && (x <= float64(hi) && x < 1<<63)
}

// Put writes x, which t Holds, to dst as a value of type t.
func Put(t arena.DType, dst []byte, x float64) {
	switch t {
	case arena.Float32:
		binary.NativeEndian.PutUint32(dst, math.Float32bits(float32(x)))
	case arena.Float64:
		binary.NativeEndian.PutUint64(dst, math.Float64bits(x))
	default:
		PutInt(t, dst, int64(x))
	}
}

// PutInt writes x, which is within the bounds of the integer type t, to dst.
func PutInt(t arena.DType, dst []byte, x int64) {
	switch t {
	case arena.Uint8:
		dst[0] = uint8(x)
	case arena.Int32:
		binary.NativeEndian.PutUint32(dst, uint32(x))
	default:
		binary.NativeEndian.PutUint64(dst, uint64(x))
	}
}
