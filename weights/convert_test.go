package weights_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/weights"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// countdown is a context that ends after it was asked so many times.
type countdown struct {
	context.Context
	left int
}

var errCountdown = errors.New("countdown")

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return errCountdown
	}
	return nil
}

// Every 16-bit float becomes a float32 and comes back, and so do the neighbours of each midpoint
// between two, also from float64.
func TestSixteenBitFloatsAreRoundedToNearestEven(t *testing.T) {
	for name, c := range map[string]struct {
		to      func(float32) uint16
		from    func(uint16) float32
		dtype   safetensors.DType
		largest uint16
	}{
		"float16":  {float16.ToFloat16, float16.FromFloat16, safetensors.Float16, 0x7bff},
		"bfloat16": {float16.ToBFloat16, float16.FromBFloat16, safetensors.BFloat16, 0x7f7f},
	} {
		narrow := func(v float64) uint16 {
			var out [2]byte
			weights.Convert(out[:], c.dtype, rawBytes([]float64{v}), safetensors.Float64)
			return binary.LittleEndian.Uint16(out[:])
		}
		for h := range uint16(0x8000) {
			for _, sign := range []uint16{0, 0x8000} {
				v := c.from(sign | h)
				if h > c.largest+1 { // NaN
					if back := c.to(v); v == v || back&^0x8000 <= c.largest+1 {
						t.Fatalf("%s: %04x is %v and becomes %04x", name, sign|h, v, back)
					}
					continue
				}
				if back := c.to(v); back != sign|h {
					t.Fatalf("%s: %04x is %v and becomes %04x", name, sign|h, v, back)
				}
				if h >= c.largest {
					continue
				}
				middle := (float64(c.from(h)) + float64(c.from(h+1))) / 2
				even := h + h&1
				s := 1 - 2*float64(sign>>15)
				below, above := math.Nextafter(middle, 0), math.Nextafter(middle, math.Inf(1))
				if got := [3]uint16{narrow(s * below), narrow(s * middle), narrow(s * above)}; got != [3]uint16{sign | h, sign | even, sign | (h + 1)} {
					t.Fatalf("%s: around %v: got %04x, want %04x %04x %04x", name, s*middle, got, sign|h, sign|even, sign|(h+1))
				}
				if m := float32(middle); float64(m) == middle {
					got := [3]uint16{c.to(float32(s) * math.Nextafter32(m, 0)), c.to(float32(s) * m), c.to(float32(s) * math.Nextafter32(m, math.MaxFloat32))}
					if got != [3]uint16{sign | h, sign | even, sign | (h + 1)} {
						t.Fatalf("%s: around float32 %v: got %04x", name, float32(s)*m, got)
					}
				}
			}
		}
		if got := c.to(math.MaxFloat32); got != c.largest+1 {
			t.Errorf("%s: the largest float32 becomes %04x, want infinity", name, got)
		}
		if got := narrow(-1e300); got != 0x8000|(c.largest+1) {
			t.Errorf("%s: -1e300 becomes %04x, want -infinity", name, got)
		}
	}
}

func TestNumbersOfAnotherTypeAreConverted(t *testing.T) {
	le := binary.LittleEndian
	bytes16 := func(x ...uint16) (b []byte) {
		for _, v := range x {
			b = le.AppendUint16(b, v)
		}
		return b
	}
	f32, f64 := rawBytes([]float32{1.5, -2, 0}), rawBytes([]float64{1.5, -2, 0})
	half, brain := bytes16(0x3e00, 0xc000, 0), bytes16(0x3fc0, 0xc000, 0)
	for _, from := range []struct {
		t safetensors.DType
		b []byte
	}{{"F32", f32}, {"F64", f64}, {"F16", half}, {"BF16", brain}} {
		for _, to := range []struct {
			t safetensors.DType
			b []byte
		}{{"F32", f32}, {"F64", f64}, {"F16", half}, {"BF16", brain}} {
			got := make([]byte, len(to.b))
			if bad := weights.Convert(got, to.t, from.b, from.t); bad >= 0 || string(got) != string(to.b) {
				t.Errorf("%s to %s: got % x, %d; want % x", from.t, to.t, got, bad, to.b)
			}
		}
	}
	for _, c := range []struct {
		to, from safetensors.DType
		src      []byte
		want     []byte
		bad      int
	}{
		{"I32", "I8", []byte{0x80, 0x7f}, rawBytes([]int32{-128, 127}), -1},
		{"I32", "U8", []byte{0x80, 0x7f}, rawBytes([]int32{128, 127}), -1},
		{"I32", "BOOL", []byte{1, 0}, rawBytes([]int32{1, 0}), -1},
		{"I64", "I16", bytes16(0x8000, 1), rawBytes([]int64{-32768, 1}), -1},
		{"I64", "U16", bytes16(0x8000, 1), rawBytes([]int64{32768, 1}), -1},
		{"I64", "U32", rawBytes([]int32{-1, 1}), rawBytes([]int64{math.MaxUint32, 1}), -1},
		{"I32", "I64", rawBytes([]int64{math.MinInt32, math.MaxInt32}), rawBytes([]int32{math.MinInt32, math.MaxInt32}), -1},
		{"I32", "I64", rawBytes([]int64{0, math.MaxInt32 + 1}), nil, 1},
		{"I32", "I64", rawBytes([]int64{math.MinInt32 - 1}), nil, 0},
		{"I32", "U32", rawBytes([]int32{0, -1}), nil, 1},
		{"U8", "I32", rawBytes([]int32{255, 0}), []byte{255, 0}, -1},
		{"U8", "I32", rawBytes([]int32{0, 256}), nil, 1},
		{"U8", "I32", rawBytes([]int32{-1}), nil, 0},
		{"I64", "U64", rawBytes([]int64{math.MaxInt64, -1}), nil, 1},
	} {
		got := make([]byte, len(c.src)*8/c.from.Bits()*c.to.Bits()/8)
		if bad := weights.Convert(got, c.to, c.src, c.from); bad != c.bad || bad < 0 && string(got) != string(c.want) {
			t.Errorf("%s to %s: got % x, %d; want % x, %d", c.from, c.to, got, bad, c.want, c.bad)
		}
	}
}

func TestNumbersThatAreNotFiniteAreCounted(t *testing.T) {
	inf, nan := math.Inf(-1), math.NaN()
	x32 := []float32{1, math.MaxFloat32, float32(inf), 0, float32(nan)}
	for dtype, b := range map[safetensors.DType][]byte{"F32": rawBytes(x32), "F64": rawBytes([]float64{1, math.MaxFloat64, inf, 0, nan})} {
		if n, first := weights.NotFinite(b, dtype); n != 2 || first != 2 {
			t.Errorf("%s: got %d from %d", dtype, n, first)
		}
	}
	for _, dtype := range []safetensors.DType{"F16", "BF16"} {
		b := make([]byte, 10)
		weights.Convert(b, dtype, rawBytes([]float32{1, 6e4, float32(inf), 0, float32(nan)}), "F32")
		if n, first := weights.NotFinite(b, dtype); n != 2 || first != 2 {
			t.Errorf("%s: got %d from %d", dtype, n, first)
		}
	}
	if n, _ := weights.NotFinite([]byte{255, 255, 255, 255}, "I32"); n != 0 {
		t.Errorf("integers: got %d", n)
	}
}

// rawBytes returns the bytes of numbers.
func rawBytes[T any](x []T) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		panic(err)
	}
	return b
}
