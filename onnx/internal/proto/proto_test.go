package proto_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// bytes is a field of a number with a length, number a varint.
func bytesOf(number int, b ...byte) []byte {
	out := binary.AppendUvarint(nil, uint64(number)<<3|2)
	out = binary.AppendUvarint(out, uint64(len(b)))
	return append(out, b...)
}

func numberOf(number int, u uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3), u)
}

func textOf(number int, s string) []byte { return bytesOf(number, []byte(s)...) }

// model is a file with one Relu node, one initializer with packed and unpacked dimensions, and a
// symbolic batch.
func model() []byte {
	attribute := slices.Concat(textOf(1, "alpha"), []byte{2<<3 | 5}, binary.LittleEndian.AppendUint32(nil, math.Float32bits(.5)))
	node := slices.Concat(textOf(1, "x"), textOf(1, ""), textOf(2, "y"), textOf(3, "n"), textOf(4, "LeakyRelu"), bytesOf(5, attribute...))
	tensor := slices.Concat(bytesOf(1, 2, 1), numberOf(1, 1), numberOf(2, 1), textOf(8, "w"), bytesOf(9, 0, 0, 128, 63, 0, 0, 0, 64))
	shape := slices.Concat(bytesOf(1, textOf(2, "N")...), bytesOf(1, numberOf(1, 3)...))
	value := slices.Concat(textOf(1, "x"), bytesOf(2, bytesOf(1, slices.Concat(numberOf(1, 1), bytesOf(2, shape...))...)...))
	graph := slices.Concat(bytesOf(1, node...), bytesOf(5, tensor...), bytesOf(11, value...))
	return slices.Concat(numberOf(1, 9), textOf(2, "us"), bytesOf(8, numberOf(2, 20)...), bytesOf(7, graph...))
}

func TestAModelIsRead(t *testing.T) {
	m, err := proto.Parse(model())
	if err != nil {
		t.Fatal(err)
	}
	n, w, x := m.Graph.Nodes[0], m.Graph.Initializers[0], m.Graph.Inputs[0]
	if m.IRVersion != 9 || m.Producer != "us" || m.Opsets[0].Version != 20 {
		t.Errorf("%+v", m)
	}
	if n.Op != "LeakyRelu" || n.Attribute("alpha").F != .5 || !slices.Equal(n.Inputs, []string{"x", ""}) {
		t.Errorf("node %+v", n)
	}
	if err := w.Check(); err != nil || !slices.Equal(w.Dims, []int64{2, 1, 1}) || w.Float64(0) != 1 || w.Float64(1) != 2 {
		t.Errorf("tensor %+v: %v", w, err)
	}
	if x.Dims[0].Param != "N" || x.Dims[1].Value != 3 || x.Type != proto.Float {
		t.Errorf("value %+v", x)
	}
}

func TestAModelCutAnywhereIsAFormatErrorOrAShorterModel(t *testing.T) {
	b := model()
	for cut := range b {
		m, err := proto.Parse(b[:cut])
		var fe *proto.FormatError
		if err != nil && (!errors.As(err, &fe) || !errors.Is(err, proto.ErrFormat)) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if err == nil && m.Graph == nil {
			t.Fatalf("cut at %d: no graph and no error", cut)
		}
	}
}

func TestBadFilesAreRefusedAtTheirOffset(t *testing.T) {
	deep := []byte{}
	for range 200 {
		deep = bytesOf(7, deep...)
	}
	graph := func(b []byte) []byte { return slices.Concat(bytesOf(8, numberOf(2, 20)...), bytesOf(7, b...)) }
	twice := slices.Concat(textOf(4, "Relu"), bytesOf(5, textOf(1, "a")...), bytesOf(5, textOf(1, "a")...))
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"a field longer than the file": {[]byte{7<<3 | 2, 100, 1}, "offset 0: field 7 has 100 bytes, 1 are left"},
		"a length of 2^64-1":           {append([]byte{7<<3 | 2}, binary.AppendUvarint(nil, math.MaxUint64)...), "bytes, 0 are left"},
		"field number 0":               {[]byte{0, 0}, "field number 0"},
		"a group":                      {[]byte{7<<3 | 3}, "wire type 3"},
		"an endless varint":            {slices.Repeat([]byte{255}, 11), "bad varint"},
		"a varint for a graph":         {numberOf(7, 1), "wire type 0, want 2"},
		"no graph":                     {numberOf(1, 9), "no graph"},
		"no opset":                     {bytesOf(7, textOf(2, "g")...), "no opset_import"},
		"two graphs":                   {slices.Concat(bytesOf(7), bytesOf(7)), "a second graph"},
		"an attribute twice":           {graph(bytesOf(1, twice...)), `attribute "a" twice`},
		"a node of no operator":        {graph(bytesOf(1)), "a node without a name"},
		"an initializer of no name":    {graph(bytesOf(5)), "an initializer without a name"},
	} {
		_, err := proto.Parse(c.b)
		if err == nil || !errors.Is(err, proto.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestTensorsOfTheWrongSizeAreRefused(t *testing.T) {
	raw := func(typ proto.DataType, bytes int, dims ...int64) *proto.Tensor {
		return &proto.Tensor{Name: "w", Type: typ, Dims: dims, Raw: make([]byte, bytes), HasRaw: true}
	}
	for name, c := range map[string]struct {
		t    *proto.Tensor
		good bool
	}{
		"right":               {raw(proto.Float, 24, 2, 3), true},
		"too long":            {raw(proto.Float, 28, 2, 3), false},
		"too short":           {raw(proto.Float, 20, 2, 3), false},
		"negative":            {raw(proto.Float, 24, -2, -3), false},
		"a product overflows": {raw(proto.Float, 24, 1<<62, 1<<62, 6), false},
		"no elements":         {raw(proto.Float, 0, 0, 1<<62), true},
		"strings":             {raw(proto.String, 8, 2), false},
		"a list":              {&proto.Tensor{Type: proto.Int64, Dims: []int64{2}, Int64s: []int64{1, -2}}, true},
		"the wrong list":      {&proto.Tensor{Type: proto.Float, Dims: []int64{2}, Int64s: []int64{1, -2}}, false},
		"a list and bytes":    {&proto.Tensor{Type: proto.Int8, Dims: []int64{2}, Int32s: []int64{1, 2}, Raw: []byte{1, 2}, HasRaw: true}, false},
	} {
		if err := c.t.Check(); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestElementsOfEveryType(t *testing.T) {
	for _, c := range []struct {
		typ  proto.DataType
		raw  []byte
		want float64
	}{
		{proto.Uint8, []byte{200}, 200}, {proto.Int8, []byte{0xfe}, -2}, {proto.Int16, []byte{0xfe, 0xff}, -2},
		{proto.Uint16, []byte{0xfe, 0xff}, 65534}, {proto.Int32, []byte{0xfe, 255, 255, 255}, -2},
		{proto.Uint32, []byte{0, 0, 0, 128}, 1 << 31}, {proto.Uint64, []byte{0, 0, 0, 0, 0, 0, 0, 128}, 1 << 63},
		{proto.Bool, []byte{2}, 1}, {proto.Float16, []byte{0, 0xbc}, -1}, {proto.Float16, []byte{1, 0}, math.Ldexp(1, -24)},
		{proto.Float16, []byte{0, 0xfc}, math.Inf(-1)}, {proto.BFloat16, []byte{0x80, 0x3f}, 1},
		{proto.Double, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, 1},
	} {
		x := &proto.Tensor{Type: c.typ, Dims: []int64{1}, Raw: c.raw, HasRaw: true}
		if err := x.Check(); err != nil || x.Float64(0) != c.want {
			t.Errorf("%v %v: %v, want %v (%v)", c.typ, c.raw, x.Float64(0), c.want, err)
		}
	}
	x := &proto.Tensor{Type: proto.Int32, Dims: []int64{2}, Int32s: []int64{-7, 9}}
	if x.Int64(0) != -7 || x.Float64(1) != 9 {
		t.Error(x.Int64(0), x.Float64(1))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(model())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := proto.Parse(b)
		if err != nil {
			if !errors.Is(err, proto.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for i := range m.Graph.Initializers {
			x := &m.Graph.Initializers[i]
			if x.Check() != nil {
				continue
			}
			if n, _ := x.Elements(); n > 0 {
				x.Float64(int(n - 1))
			}
		}
	})
}
