package table_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// little returns v in n bytes, the lowest first.
func little(v uint64, n int) []byte {
	return binary.LittleEndian.AppendUint64(nil, v)[:n]
}

// decimal returns v in n bytes, the highest first.
func decimal(v int64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[n-1-i] = byte(v >> min(8*i, 63))
	}
	return b
}

// number returns the stored bytes as text.
func number(t arena.DType, b []byte) string {
	switch t {
	case arena.Uint8:
		return fmt.Sprint(b[0])
	case arena.Int32:
		return fmt.Sprint(int32(binary.NativeEndian.Uint32(b)))
	case arena.Int64:
		return fmt.Sprint(int64(binary.NativeEndian.Uint64(b)))
	case arena.Float32:
		return fmt.Sprint(math.Float32frombits(binary.NativeEndian.Uint32(b)))
	case arena.Float64:
		return fmt.Sprint(math.Float64frombits(binary.NativeEndian.Uint64(b)))
	}
	return fmt.Sprintf("%04x", binary.NativeEndian.Uint16(b))
}

func TestConvert(t *testing.T) {
	t.Parallel()
	f32 := func(x float32) []byte { return little(uint64(math.Float32bits(x)), 4) }
	f64 := func(x float64) []byte { return little(math.Float64bits(x), 8) }
	minus := func(v int64) uint64 { return uint64(v) }
	for _, c := range []struct {
		name string
		t    table.Type
		to   arena.DType
		src  []byte
		want string // of the value; "!" and a part of the problem
	}{
		{"bool", table.Type{Kind: table.Bool}, 0, []byte{1}, "1"},
		{"int8", table.Type{Kind: table.Int8}, 0, []byte{0x80}, "-128"},
		{"int8 to uint8", table.Type{Kind: table.Int8}, arena.Uint8, []byte{0xff}, "!0 to 255"},
		{"int16", table.Type{Kind: table.Int16}, 0, little(minus(-2), 2), "-2"},
		{"uint16", table.Type{Kind: table.Uint16}, 0, little(65535, 2), "65535"},
		{"uint16 to uint8", table.Type{Kind: table.Uint16}, arena.Uint8, little(255, 2), "255"},
		{"uint16 above uint8", table.Type{Kind: table.Uint16}, arena.Uint8, little(256, 2), "!256"},
		{"uint32", table.Type{Kind: table.Uint32}, 0, little(1<<32-1, 4), "4294967295"},
		{"int64 to int32", table.Type{Kind: table.Int64}, arena.Int32, little(minus(math.MinInt32), 8), "-2147483648"},
		{"int64 below int32", table.Type{Kind: table.Int64}, arena.Int32, little(minus(math.MinInt32-1), 8), "!-2147483649"},
		{"int64 above int32", table.Type{Kind: table.Int64}, arena.Int32, little(1<<31, 8), "!2147483648"},
		{"int64 to float32", table.Type{Kind: table.Int64}, arena.Float32, little(1<<24+2, 8), "1.6777218e+07"},
		{"uint64", table.Type{Kind: table.Uint64}, 0, little(math.MaxInt64, 8), "9223372036854775807"},
		{"uint64 above", table.Type{Kind: table.Uint64}, 0, little(1<<63, 8), "!9223372036854775808"},
		{"float32", table.Type{Kind: table.Float32}, 0, f32(1.5), "1.5"},
		{"float32 to float64", table.Type{Kind: table.Float32}, arena.Float64, f32(0.1), "0.10000000149011612"},
		{"float64 to float32", table.Type{Kind: table.Float64}, arena.Float32, f64(0.1), "0.1"},
		{"float64 above float32", table.Type{Kind: table.Float64}, arena.Float32, f64(1e39), "!range of float32"},
		{"infinite", table.Type{Kind: table.Float64}, arena.Float32, f64(math.Inf(-1)), "-Inf"},
		{"float32 to float16", table.Type{Kind: table.Float32}, arena.Float16, f32(1), "3c00"},
		{"float64 to bfloat16", table.Type{Kind: table.Float64}, arena.BFloat16, f64(1), "3f80"},
		{"float64 above float16", table.Type{Kind: table.Float64}, arena.Float16, f64(65520), "!range of float16"},
		{"float16", table.Type{Kind: table.Float16}, 0, little(0x3c01, 2), "3c01"},
		{"float16 to float32", table.Type{Kind: table.Float16}, arena.Float32, little(0x3c00, 2), "1"},
		{"decimal of 4 bytes", table.Type{Kind: table.Decimal, Width: 4, Scale: 2}, 0, decimal(-12345, 4), "-123.45"},
		{"decimal of 5 bytes", table.Type{Kind: table.Decimal, Width: 5, Scale: 1}, 0, decimal(-1, 5), "-0.1"},
		{"decimal of 16 bytes", table.Type{Kind: table.Decimal, Width: 16, Scale: 2}, 0, decimal(12345, 16), "123.45"},
		{"large decimal", table.Type{Kind: table.Decimal, Width: 9}, 0, []byte{1, 0, 0, 0, 0, 0, 0, 0, 0}, "1.8446744073709552e+19"},
		{"large negative decimal", table.Type{Kind: table.Decimal, Width: 9, Scale: -1}, 0, []byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0}, "-1.844674407370955e+20"},
		{"digits", table.Type{Kind: table.Decimal, Width: 12, Scale: 2}, arena.Int64, decimal(-7, 12), "-7"},
		{"lowest digits", table.Type{Kind: table.Decimal, Width: 9}, arena.Int64, []byte{0xff, 0x80, 0, 0, 0, 0, 0, 0, 0}, "-9223372036854775808"},
		{"too many digits", table.Type{Kind: table.Decimal, Width: 9}, arena.Int64, []byte{0, 0x80, 0, 0, 0, 0, 0, 0, 0}, "!digits fit"},
		{"int96", table.Type{Kind: table.Int96}, 0, append(little(5, 8), little(2440589, 4)...), "86400000000005"},
		{"int96 far", table.Type{Kind: table.Int96}, 0, append(little(5, 8), little(1, 4)...), "!1677"},
		{"fixed", table.Type{Kind: table.Fixed, Width: 2}, 0, []byte{7, 8}, "7"},
	} {
		g, err := table.NewTarget(0, table.Column{Name: "x", Type: c.to}, c.t)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		// 200 values, of which the last is converted in the second part.
		const n = 200
		src := make([]byte, n*g.Type.Bytes())
		if c.t.Kind == table.Int96 {
			for i := range n {
				copy(src[12*i+8:], little(2440588, 4))
			}
		}
		copy(src[(n-1)*g.Type.Bytes():], c.src)
		dst := make([]byte, n*g.Size())
		p := g.Convert(dst, src, n)
		if part, bad := strings.CutPrefix(c.want, "!"); bad {
			if p == nil || p.At != n-1 || !strings.Contains(p.Error(), part) || !errors.Is(p, dataloader.ErrFormat) {
				t.Errorf("%s: got %v, want a problem of value %d with %q", c.name, p, n-1, part)
			}
			continue
		}
		if p != nil {
			t.Errorf("%s: %v", c.name, p)
		} else if got := number(g.Field.Type, dst[(n-1)*g.Size():]); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestImpossibleColumnsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column table.Column
		t      table.Type
		want   string
	}{
		{table.Column{}, table.Type{Kind: table.Text}, "set Classes"},
		{table.Column{Classes: []string{"a"}}, table.Type{Kind: table.Text, Dims: []int{2}}, "one text a row"},
		{table.Column{Classes: []string{"a"}, Type: arena.Float32}, table.Type{Kind: table.Text}, "whole numbers"},
		{table.Column{FindClasses: true}, table.Type{Kind: table.Int32}, "Classes are for text"},
		{table.Column{FindClasses: true}, table.Type{Kind: table.Bytes, Dims: []int{2}}, "one text a row"},
		{table.Column{FindClasses: true, Classes: []string{"a"}}, table.Type{Kind: table.Text}, "not both"},
		{table.Column{FindClasses: true, Decoder: bytesOnly{}}, table.Type{Kind: table.Text}, "FindClasses empty"},
		{table.Column{FindClasses: true, Fill: new(0.0)}, table.Type{Kind: table.Text}, "depend on the data"},
		{table.Column{FindClasses: true, Fill: new(-1.0), Type: arena.Uint8}, table.Type{Kind: table.Text}, "0 to 255"},
		{table.Column{Classes: []string{"a"}, Fill: new(1.0)}, table.Type{Kind: table.Text}, "label of the 1 classes"},
		{table.Column{Type: arena.Int32}, table.Type{Kind: table.Float16}, "floating-point"},
		{table.Column{Type: arena.Float32}, table.Type{Kind: table.Fixed, Width: 3}, "uint8"},
		{table.Column{}, table.Type{Kind: table.Decimal, Width: 33}, "at most 32 bytes"},
		{table.Column{}, table.Type{Kind: table.Decimal, Width: 4, Scale: 77}, "76 digits"},
		{table.Column{}, table.Type{Kind: table.Float32, Dims: []int{1 << 20, 1 << 20}}, "2^31"},
		{table.Column{}, table.Type{Kind: table.Float32, Dims: []int{0}}, "1 or more"},
		{table.Column{Shape: []int{2, 2}}, table.Type{Kind: table.Float32, Dims: []int{3}}, "3 elements"},
		{table.Column{Fill: new(300.0)}, table.Type{Kind: table.Uint8}, "0 to 255"},
		{table.Column{Fill: new(0.5)}, table.Type{Kind: table.Int64}, "whole number"},
		{table.Column{Fill: new(math.NaN())}, table.Type{Kind: table.Int64}, "whole number"},
		{table.Column{}, table.Type{}, "cannot be read"},
	} {
		c.column.Name, c.column.Field = "x", "y"
		_, err := table.NewTarget(3, c.column, c.t)
		var f *dataloader.FieldError
		if !errors.As(err, &f) || f.Index != 3 || f.Name != "y" || !strings.Contains(f.Problem, c.want) {
			t.Errorf("%v as %+v: got %v, want a FieldError with %q", c.t, c.column, err, c.want)
		}
	}
}

func TestBufferKeepsItsMemoryAndItsLimits(t *testing.T) {
	g, err := table.NewTarget(0, table.Column{Name: "x", Fill: new(9.0)}, table.Type{Kind: table.Int16, Dims: []int{2}})
	if err != nil {
		t.Fatal(err)
	}
	var b table.Buffer
	fill := func() {
		b.Reset(g, 3, 32)
		if p := b.Append([]byte{1, 0, 2, 0, 3, 0}, 3); p != nil {
			t.Fatal(p)
		}
		if p := b.AppendMissing(3); p != nil {
			t.Fatal(p)
		}
	}
	fill()
	dst := make([]byte, 8)
	if err := b.Fetch(1, dataloader.At{}, dst); err != nil || fmt.Sprint(dataloader.View[int32](dst)) != "[3 9]" {
		t.Errorf("row 1: %v, %v", dataloader.View[int32](dst), err)
	}
	if p := b.Append([]byte{1, 0}, 1); p == nil || p.At != 6 {
		t.Errorf("a seventh value of six: got %v", p)
	}
	if n := testing.AllocsPerRun(10, fill); n != 0 {
		t.Errorf("filled again: %v allocations, want 0", n)
	}
	b.Reset(g, 3, 23)
	if p := b.Append(make([]byte, 12), 6); p == nil || !strings.Contains(p.Want, "23 bytes") {
		t.Errorf("24 bytes of 23: got %v", p)
	}
}

// bytesOnly is a decoder.
type bytesOnly struct{}

func (bytesOnly) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Uint8}
}
func (bytesOnly) Decode(_ dataloader.At, encoded, dst []byte) error {
	dst[0] = encoded[0]
	return nil
}

func TestMissingValuesSayWhatToDo(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]table.Column{"Column.Fill": {Classes: []string{"a"}}, "put into it": {Decoder: bytesOnly{}}} {
		g, err := table.NewTarget(0, c, table.Type{Kind: table.Bytes})
		if err != nil {
			t.Fatal(err)
		}
		var b table.Buffer
		b.Reset(g, 2, 100)
		if p := b.AppendBytes([]byte("a")); p != nil {
			t.Fatal(p)
		}
		if p := b.AppendMissing(1); p != nil {
			t.Fatal(p)
		}
		if bad := b.Bad(); len(bad) != 1 || bad[0].At != 1 || !strings.Contains(bad[0].Want, want) || b.Values() != 2 {
			t.Errorf("got %v, want a problem of value 1 with %q", bad, want)
		}
		dst := []byte{9, 0, 0, 0}
		if err := b.Fetch(0, dataloader.At{}, dst[:g.Field.Bytes()]); err != nil || dst[0] == 9 {
			t.Errorf("row 0: %v, %v", dst, err)
		}
	}
}

func TestTextsAreCollectedUntilTheyAreClasses(t *testing.T) {
	t.Parallel()
	for fill, want := range map[*float64]string{nil: "Column.Fill", new(-1.0): ""} {
		c := table.Column{Name: "x", Type: arena.Int64, FindClasses: true, Fill: fill}
		g, err := table.NewTarget(0, c, table.Type{Kind: table.Text})
		if err != nil {
			t.Fatal(err)
		}
		var b table.Buffer
		for round := range 2 {
			if g.Finding() != (round == 0) {
				t.Fatalf("round %d: finding: %t", round, g.Finding())
			}
			b.Reset(g, 4, 4*g.Size())
			for _, text := range []string{"b", "a", "b"} {
				if p := b.AppendBytes([]byte(text)); p != nil {
					t.Fatal(p)
				}
			}
			if p := b.AppendMissing(1); p != nil || (len(b.Bad()) > 0) != (round == 1 && want != "") {
				t.Errorf("round %d: a missing value is %v, %v", round, p, b.Bad())
			}
			for range 2 { // the second call changes nothing
				if err := g.Found(0, c); err != nil || !slices.Equal(g.Classes(), []string{"a", "b"}) {
					t.Errorf("classes %q, %v", g.Classes(), err)
				}
			}
		}
		dst := make([]byte, 8)
		for row, label := range []int64{1, 0, 1, -1}[:b.Values()-len(b.Bad())] {
			if err := b.Fetch(row, dataloader.At{}, dst); err != nil || dataloader.View[int64](dst)[0] != label {
				t.Errorf("row %d: %v, %v, want %d", row, dst, err, label)
			}
		}
	}
	c := table.Column{Name: "x", Type: arena.Uint8, FindClasses: true}
	g, err := table.NewTarget(7, c, table.Type{Kind: table.Text})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 257 {
		if p := g.Text(nil, fmt.Append(nil, i)); p != nil {
			t.Fatal(p)
		}
	}
	var f *dataloader.FieldError
	if err := g.Found(7, c); !errors.As(err, &f) || f.Index != 7 || !strings.Contains(f.Problem, "257 classes") {
		t.Errorf("257 classes of uint8: got %v", err)
	}
}

func TestTheFilesOfAFolderAreThoseWithAnExtension(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{}
	for _, name := range []string{"a.x", "b.x.gz", "c.gz", "d.xx", ".e.x", "_f.x", "g.x/h.x", "x"} {
		fsys["d/"+name] = &fstest.MapFile{}
	}
	files, err := table.FS(fsys, "d")(".x", ".x.gz")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if got := fmt.Sprint(names); got != "[d/a.x d/b.x.gz]" {
		t.Errorf("got %s, want a.x and b.x.gz", got)
	}
	if err := table.Close(files); err != nil {
		t.Error(err)
	}
}
