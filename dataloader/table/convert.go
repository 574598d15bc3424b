package table

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
)

// littleEndian reports whether this machine stores numbers as tables do.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// plain finds out whether converting is copying.
func (t *Target) plain() {
	switch t.Type.Kind {
	case Bool, Uint8, Fixed:
		t.copies = t.Field.Type == arena.Uint8
	case Int32, Int64, Float16, Float32, Float64:
		t.copies = littleEndian && t.Field.Type == t.Type.stored()
	}
}

// Copies reports whether Convert copies: the values in the table are those of the field.
func (t *Target) Copies() bool { return t.copies }

// convertAt is the number of values that Convert converts at once.
const convertAt = 128

// Convert writes n values, packed in src, to dst in the storage type of the field. src has n times
// Type.Bytes() bytes, dst n times Size().
func (t *Target) Convert(dst, src []byte, n int) *Problem {
	if t.copies {
		copy(dst[:n*t.width], src[:n*t.width])
		return nil
	}
	size := t.Size()
	for done := 0; done < n; {
		k := min(n-done, convertAt)
		if p := t.convert(dst[done*size:(done+k)*size], src[done*t.width:(done+k)*t.width], k); p != nil {
			p.At += done
			return p
		}
		done += k
	}
	return nil
}

// convert converts at most convertAt values.
func (t *Target) convert(dst, src []byte, n int) *Problem {
	var ints [convertAt]int64
	var floats [convertAt]float64
	switch t.Type.Kind {
	case Float16, Float32, Float64:
		loadFloats(floats[:n], src, t.Type.Kind)
		return t.store(floats[:n], dst)
	case Decimal:
		if real(t.Field.Type) {
			loadDecimals(floats[:n], src, t.width, t.Type.Scale)
			return t.store(floats[:n], dst)
		}
		for i := range n {
			v, ok := smallDecimal(src[i*t.width : (i+1)*t.width])
			if !ok {
				return &Problem{At: i, Want: "a decimal whose digits fit in an int64", Got: "more"}
			}
			ints[i] = v
		}
	case Int96:
		for i := range n {
			v, ok := int96(src[i*12:])
			if !ok {
				return &Problem{At: i, Want: "a time between the years 1677 and 2262, in ns", Got: "another"}
			}
			ints[i] = v
		}
	case Uint64:
		for i := range n {
			v := binary.LittleEndian.Uint64(src[8*i:])
			if v > math.MaxInt64 {
				return &Problem{At: i, Want: fmt.Sprintf("at most %d", int64(math.MaxInt64)), Got: fmt.Sprint(v)}
			}
			ints[i] = int64(v)
		}
	default:
		loadInts(ints[:n], src, t.Type.Kind)
	}
	return t.storeInts(ints[:n], dst)
}

// loadInts reads the integers of a kind.
func loadInts(v []int64, src []byte, k Kind) {
	for i := range v {
		switch k {
		case Bool, Uint8:
			v[i] = int64(src[i])
		case Int8:
			v[i] = int64(int8(src[i]))
		case Int16:
			v[i] = int64(int16(binary.LittleEndian.Uint16(src[2*i:])))
		case Uint16:
			v[i] = int64(binary.LittleEndian.Uint16(src[2*i:]))
		case Int32:
			v[i] = int64(int32(binary.LittleEndian.Uint32(src[4*i:])))
		case Uint32:
			v[i] = int64(binary.LittleEndian.Uint32(src[4*i:]))
		case Int64:
			v[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
		}
	}
}

// loadFloats reads the numbers of a floating-point kind.
func loadFloats(v []float64, src []byte, k Kind) {
	for i := range v {
		switch k {
		case Float16:
			v[i] = float64(float16.FromFloat16(binary.LittleEndian.Uint16(src[2*i:])))
		case Float32:
			v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
		case Float64:
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		}
	}
}

// smallDecimal returns the digits of a decimal as an integer, and whether they fit.
func smallDecimal(b []byte) (int64, bool) {
	var v int64
	if len(b) > 0 && b[0] >= 0x80 {
		v = -1
	}
	sign := byte(v)
	for i, x := range b {
		if left := len(b) - i; left > 8 && x != sign || left == 8 && x>>7 != sign>>7 {
			return 0, false
		}
		v = v<<8 | int64(x)
	}
	return v, true
}

// loadDecimals reads decimals of the given width, rounded to the nearest float64.
func loadDecimals(v []float64, src []byte, width, scale int) {
	for i := range v {
		b := src[i*width : (i+1)*width]
		if n, ok := smallDecimal(b); ok && n >= -1<<53 && n <= 1<<53 && scale >= 0 && scale <= 22 {
			v[i] = float64(n) / math.Pow10(scale) // both are exact, so that one rounding is left
			continue
		}
		n := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
		r := new(big.Rat).SetInt(power)
		if scale > 0 {
			r.Inv(r)
		}
		v[i], _ = r.Mul(r, new(big.Rat).SetInt(n)).Float64()
	}
}

// int96 returns an old timestamp of Parquet in nanoseconds since 1970, and whether it fits.
func int96(b []byte) (int64, bool) {
	const perDay, epoch = 86400 * 1e9, 2440588
	ns, day := int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint32(b[8:]))-epoch
	if ns < 0 || ns >= perDay || day < -106751 || day > 106750 {
		return 0, false
	}
	return day*perDay + ns, true
}

// storeInts writes integers in the storage type of the field.
func (t *Target) storeInts(v []int64, dst []byte) *Problem {
	out := func(i int, low, high int64) *Problem {
		return &Problem{At: i, Want: fmt.Sprintf("%d to %d for %v", low, high, t.Field.Type), Got: fmt.Sprint(v[i])}
	}
	switch t.Field.Type {
	case arena.Uint8:
		for i, x := range v {
			if x < 0 || x > math.MaxUint8 {
				return out(i, 0, math.MaxUint8)
			}
			dst[i] = byte(x)
		}
	case arena.Int32:
		for i, x := range v {
			if x != int64(int32(x)) {
				return out(i, math.MinInt32, math.MaxInt32)
			}
			binary.NativeEndian.PutUint32(dst[4*i:], uint32(x))
		}
	case arena.Int64:
		for i, x := range v {
			binary.NativeEndian.PutUint64(dst[8*i:], uint64(x))
		}
	case arena.Float32:
		for i, x := range v {
			binary.NativeEndian.PutUint32(dst[4*i:], math.Float32bits(float32(x)))
		}
	default:
		for i, x := range v {
			f := [1]float64{float64(x)}
			if p := t.store(f[:], dst[i*int(t.Field.Type.Size()):]); p != nil {
				p.At = i
				return p
			}
		}
	}
	return nil
}

// store writes floating-point numbers in the storage type of the field. Column.Fill, which is one,
// may be stored as an integer too.
func (t *Target) store(v []float64, dst []byte) *Problem {
	for i, x := range v {
		var y float64
		switch t.Field.Type {
		case arena.Float64:
			y = x
			binary.NativeEndian.PutUint64(dst[8*i:], math.Float64bits(x))
		case arena.Float32:
			y = float64(float32(x))
			binary.NativeEndian.PutUint32(dst[4*i:], math.Float32bits(float32(x)))
		case arena.Float16:
			h := float16.ToFloat16(float16.RoundToOdd(x))
			y = float64(float16.FromFloat16(h))
			binary.NativeEndian.PutUint16(dst[2*i:], h)
		case arena.BFloat16:
			h := float16.ToBFloat16(float16.RoundToOdd(x))
			y = float64(float16.FromBFloat16(h))
			binary.NativeEndian.PutUint16(dst[2*i:], h)
		default:
			if n := int64(x); float64(n) == x && x < 1<<63 {
				whole := [1]int64{n}
				return t.storeInts(whole[:], dst)
			}
			return &Problem{At: i, Want: fmt.Sprintf("a whole number for %v", t.Field.Type), Got: fmt.Sprint(x)}
		}
		if math.IsInf(y, 0) && !math.IsInf(x, 0) {
			return &Problem{At: i, Want: fmt.Sprintf("a number in the range of %v", t.Field.Type), Got: fmt.Sprint(x)}
		}
	}
	return nil
}
