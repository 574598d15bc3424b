package weights

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// kind is a class of types whose numbers can become each other.
type kind uint8

const (
	other kind = iota // 8-bit floats, complex numbers and smaller types
	float
	whole
)

// kindOf returns the class of a type.
func kindOf(t safetensors.DType) kind {
	switch t {
	case safetensors.Float64, safetensors.Float32, safetensors.Float16, safetensors.BFloat16:
		return float
	case safetensors.Uint8, safetensors.Int8, safetensors.Uint16, safetensors.Int16, safetensors.Uint32, safetensors.Int32,
		safetensors.Uint64, safetensors.Int64, safetensors.Bool:
		return whole
	}
	return other
}

// convertible reports whether elements of a type can become those of another one.
func convertible(to, from safetensors.DType) bool {
	return kindOf(to) == kindOf(from) && kindOf(to) != other
}

// convert sets dst to the elements of src; both have the same number of them and are aligned.
// Floats are rounded to nearest, ties to even. It returns the index of the first integer that dst's
// type cannot hold, or -1. dst and src may be the same memory if the types are.
func convert(dst []byte, to safetensors.DType, src []byte, from safetensors.DType) int {
	if to == from {
		copy(dst, src)
		return -1
	}
	if kindOf(to) == whole {
		return convertWhole(dst, to, src, from)
	}
	switch to {
	case safetensors.Float32:
		toFloat32(dataloader.View[float32](dst), src, from)
	case safetensors.Float64:
		d := dataloader.View[float64](dst)
		eachFloat(src, from, func(i int, v float64) { d[i] = v })
	case safetensors.BFloat16:
		eachFloat(src, from, func(i int, v float64) { put16(dst, i, float16.ToBFloat16(float16.RoundToOdd(v))) })
	case safetensors.Float16:
		eachFloat(src, from, func(i int, v float64) { put16(dst, i, float16.ToFloat16(float16.RoundToOdd(v))) })
	}
	return -1
}

// toFloat32 sets dst to floats of a type.
func toFloat32(dst []float32, src []byte, from safetensors.DType) {
	switch from {
	case safetensors.BFloat16:
		for i := range dst {
			dst[i] = float16.FromBFloat16(get16(src, i))
		}
	case safetensors.Float16:
		for i := range dst {
			dst[i] = float16.FromFloat16(get16(src, i))
		}
	case safetensors.Float64:
		for i, v := range dataloader.View[float64](src) {
			dst[i] = float32(v)
		}
	}
}

// eachFloat calls f with each element, a float of a type.
func eachFloat(src []byte, from safetensors.DType, f func(i int, v float64)) {
	switch from {
	case safetensors.BFloat16:
		for i := range len(src) / 2 {
			f(i, float64(float16.FromBFloat16(get16(src, i))))
		}
	case safetensors.Float16:
		for i := range len(src) / 2 {
			f(i, float64(float16.FromFloat16(get16(src, i))))
		}
	case safetensors.Float32:
		for i, v := range dataloader.View[float32](src) {
			f(i, float64(v))
		}
	case safetensors.Float64:
		for i, v := range dataloader.View[float64](src) {
			f(i, v)
		}
	}
}

// convertWhole is convert for integers.
func convertWhole(dst []byte, to safetensors.DType, src []byte, from safetensors.DType) int {
	n := len(dst) * 8 / to.Bits()
	for i := range n {
		v, ok := wholeAt(src, from, i)
		switch to {
		case safetensors.Uint8:
			ok = ok && v >= 0 && v <= math.MaxUint8
			dst[i] = uint8(v)
		case safetensors.Int32:
			ok = ok && v >= math.MinInt32 && v <= math.MaxInt32
			dataloader.View[int32](dst)[i] = int32(v)
		case safetensors.Int64:
			dataloader.View[int64](dst)[i] = v
		default:
			ok = false
		}
		if !ok {
			return i
		}
	}
	return -1
}

// wholeAt returns element i. ok is false if an int64 cannot hold it.
func wholeAt(src []byte, t safetensors.DType, i int) (v int64, ok bool) {
	var u uint64
	width := t.Bits() / 8
	for k := range width {
		u |= uint64(src[i*width+k]) << (8 * k)
	}
	switch t {
	case safetensors.Int8:
		return int64(int8(u)), true
	case safetensors.Int16:
		return int64(int16(u)), true
	case safetensors.Int32:
		return int64(int32(u)), true
	case safetensors.Uint64:
		return int64(u), u <= math.MaxInt64
	}
	return int64(u), true
}

// numberAt returns element i as text.
func numberAt(b []byte, t safetensors.DType, i int) string {
	if kindOf(t) == whole {
		if v, ok := wholeAt(b, t, i); ok {
			return fmt.Sprint(v)
		}
		return fmt.Sprint(binary.LittleEndian.Uint64(b[8*i:]))
	}
	text := ""
	width := t.Bits() / 8
	one := append(make([]byte, 0, 8), b[i*width:(i+1)*width]...)
	eachFloat(one, t, func(_ int, v float64) { text = fmt.Sprint(v) })
	return text
}

// get16 returns element i of 16 bits.
func get16(b []byte, i int) uint16 { return binary.LittleEndian.Uint16(b[2*i:]) }

// put16 sets element i of 16 bits.
func put16(b []byte, i int, v uint16) { binary.LittleEndian.PutUint16(b[2*i:], v) }

// notFinite returns the number of elements that are NaN or infinite, and the index of the first.
func notFinite(b []byte, t safetensors.DType) (count int64, first int) {
	note := func(i int) {
		if count == 0 {
			first = i
		}
		count++
	}
	switch t {
	case safetensors.Float32:
		for i, v := range dataloader.View[int32](b) {
			if v&(255<<23) == 255<<23 {
				note(i)
			}
		}
	case safetensors.Float64:
		for i, v := range dataloader.View[int64](b) {
			if v&(2047<<52) == 2047<<52 {
				note(i)
			}
		}
	case safetensors.BFloat16:
		for i := range len(b) / 2 {
			if get16(b, i)&(255<<7) == 255<<7 {
				note(i)
			}
		}
	case safetensors.Float16:
		for i := range len(b) / 2 {
			if get16(b, i)&(31<<10) == 31<<10 {
				note(i)
			}
		}
	}
	return count, first
}
