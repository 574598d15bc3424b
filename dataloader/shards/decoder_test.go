package shards_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
)

// value decodes a text and prints the number, or "error".
func value(t testing.TB, d dataloader.Decoder, text string) string {
	t.Helper()
	f := d.Field("y")
	dst := bytes.Repeat([]byte{0xaa}, int(f.Bytes()))
	if err := d.Decode(dataloader.At{}, []byte(text), dst); err != nil {
		refused(t, text, err)
		return "error"
	}
	switch f.Type {
	case arena.Uint8:
		return fmt.Sprint(dst[0])
	case arena.Int32:
		return fmt.Sprint(int32(binary.NativeEndian.Uint32(dst)))
	case arena.Int64:
		return fmt.Sprint(int64(binary.NativeEndian.Uint64(dst)))
	case arena.Float32:
		return fmt.Sprint(math.Float32frombits(binary.NativeEndian.Uint32(dst)))
	}
	return fmt.Sprint(math.Float64frombits(binary.NativeEndian.Uint64(dst)))
}

func TestIntegersAreReadExactly(t *testing.T) {
	for _, c := range []struct {
		d          dataloader.Decoder
		text, want string
	}{
		{shards.Integer(arena.Int64), "9223372036854775807", "9223372036854775807"},
		{shards.Integer(arena.Int64), " -9223372036854775808\r\n", "-9223372036854775808"},
		{shards.Integer(arena.Int64), "9223372036854775808", "error"},
		{shards.Integer(arena.Int64), "-9223372036854775809", "error"},
		{shards.Integer(arena.Int64), "99999999999999999999", "error"},
		{shards.Integer(arena.Int64), "9007199254740993", "9007199254740993"},
		{shards.Integer(arena.Int32), "2147483647", "2147483647"},
		{shards.Integer(arena.Int32), "2147483648", "error"},
		{shards.Integer(arena.Int32), "-2147483648", "-2147483648"},
		{shards.Integer(arena.Uint8), "255", "255"},
		{shards.Integer(arena.Uint8), "256", "error"},
		{shards.Integer(arena.Uint8), "-1", "error"},
		{shards.Integer(arena.Uint8), "", "error"},
		{shards.Integer(arena.Uint8), "-", "error"},
		{shards.Integer(arena.Uint8), "1 2", "error"},
		{shards.Integer(arena.Uint8), "1.0", "error"},
		{shards.Integer(arena.Uint8), "0x1", "error"},
		{shards.Integer(arena.Uint8), "1_0", "error"},
		{shards.Integer(arena.Uint8), "+1", "error"},
		{shards.Integer(arena.Uint8), "007", "7"},
		{shards.Integer(arena.Uint8), "0000000000000000000000007", "7"},
		{shards.Class(10), "9\n", "9"},
		{shards.Class(10), "10", "error"},
		{shards.Class(10), "-1", "error"},
	} {
		if got := value(t, c.d, c.text); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestMembersOfJSONAreRead(t *testing.T) {
	for _, c := range []struct {
		path       string
		t          arena.DType
		text, want string
	}{
		{"label", arena.Int32, `{"a": {"label": 1}, "label": 7, "z": [1, {"label": 2}]}`, "7"},
		{"box.1", arena.Float32, ` {"box": [0.25, -1.5e1, {}]} `, "-15"},
		{"a.b.c", arena.Int64, `{"a":{"x":[],"b":{"c":9007199254740993}}}`, "9007199254740993"},
		{"0", arena.Uint8, `[255]`, "255"},
		{"a", arena.Uint8, `{"a":256}`, "error"},
		{"a", arena.Int32, `{"a":2147483648}`, "error"},
		{"a", arena.Int32, `{"a":1.0}`, "error"},
		{"a", arena.Int32, `{"a":"1"}`, "error"},
		{"a", arena.Int32, `{"a":true}`, "error"},
		{"a", arena.Int32, `{"a":null}`, "error"},
		{"a", arena.Int32, `{"a":{}}`, "error"},
		{"a", arena.Float64, `{"a":1e999}`, "error"},
		{"a", arena.Float64, `{"a":NaN}`, "error"},
		{"a", arena.Int32, `{"a":1,"a":2}`, "error"},
		{"a", arena.Int32, `{"b":1}`, "error"},
		{"a", arena.Int32, `{"a":1} trailing`, "error"},
		{"a", arena.Int32, `{"a":1}{"a":1}`, "error"},
		{"a", arena.Int32, `{"a":1`, "error"},
		{"a", arena.Int32, `{"a":`, "error"},
		{"a.b", arena.Int32, `{"a":1}`, "error"},
		{"2", arena.Int32, `[1,2]`, "error"},
		{"a", arena.Int32, ``, "error"},
		{"a", arena.Int32, `{"b":[[[`, "error"},
	} {
		if got := value(t, shards.JSON(c.path, c.t), c.text); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.path, c.text, got, c.want)
		}
	}
}

func TestRawBytesMustHaveTheLength(t *testing.T) {
	d := shards.Raw(arena.Float32, 2)
	dst := make([]byte, 8)
	if err := d.Decode(dataloader.At{}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}, dst); err != nil {
		t.Fatal(err)
	}
	if v := dataloader.View[float32](dst); v[0] != 1 || v[1] != 2 {
		t.Errorf("got %v", v)
	}
	for _, n := range []int{0, 7, 9} {
		if err := d.Decode(dataloader.At{}, make([]byte, n), dst); !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
}

func FuzzDecoders(f *testing.F) {
	f.Add(`{"a":[1,{"b":2}]}`, "a.1.b")
	f.Add("123", "0")
	f.Fuzz(func(t *testing.T, text, path string) {
		for _, d := range []dataloader.Decoder{shards.JSON(path, arena.Int64), shards.JSON(path, arena.Float32), shards.Integer(arena.Int32), shards.Raw(arena.Uint8, 4)} {
			value(t, d, text)
		}
	})
}
