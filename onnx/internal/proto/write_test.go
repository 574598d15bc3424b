package proto

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

// full is a model with every field that is written, and with the values that a writer gets wrong:
// zeros, negative numbers, empty strings and lists.
func full() *Model {
	return &Model{
		IRVersion: 10, Producer: "evenkeel", ProducerVersion: "1", Opsets: []Opset{{"", 20}, {"com.example", 1}},
		Metadata: []Entry{{"key", "value"}, {"empty", ""}},
		Graph: &Graph{
			Name: "main",
			Nodes: []Node{{
				Name: "n", Op: "Op", Domain: "com.example", Inputs: []string{"x", "", "w"}, Outputs: []string{"y", ""},
				Attributes: []Attribute{
					{Name: "f", Type: AttrFloat, F: -0.5}, {Name: "f0", Type: AttrFloat}, {Name: "i", Type: AttrInt, I: -1}, {Name: "i0", Type: AttrInt},
					{Name: "s", Type: AttrString, S: []byte("text")}, {Name: "fs", Type: AttrFloats, Floats: []float32{0, 1, float32(math.Inf(-1))}},
					{Name: "is", Type: AttrInts, Ints: []int64{0, -1, 1 << 40}}, {Name: "ss", Type: AttrStrings, Strings: [][]byte{[]byte("a"), []byte("b")}},
					{Name: "t", Type: AttrTensor, T: &Tensor{Dims: []int64{1}, Type: Float, Raw: []byte{1, 2, 3, 4}, HasRaw: true}},
				},
			}},
			Initializers: []Tensor{
				{Name: "w", Dims: []int64{2}, Type: Float, Raw: []byte{1, 2, 3, 4, 5, 6, 7, 8}, HasRaw: true},
				{Name: "scalar", Type: Int64, Raw: make([]byte, 8), HasRaw: true},
				{Name: "none", Dims: []int64{0}, Type: Float, Raw: []byte{}, HasRaw: true},
				{Name: "far", Dims: []int64{1 << 40}, Type: Float, Location: LocationExternal, External: []Entry{{"location", "model.data"}, {"offset", "0"}}},
			},
			Inputs:     []ValueInfo{{Name: "x", Type: Float, HasShape: true, Dims: []Dim{{Param: "batch"}, {HasValue: true, Value: 3}, {HasValue: true}}}},
			Outputs:    []ValueInfo{{Name: "y", Type: Int64, HasShape: true}},
			ValueInfos: []ValueInfo{{Name: "z", Type: Bool}},
		},
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	var b bytes.Buffer
	n, err := Write(&b, full())
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d bytes, wrote %d: %v", n, b.Len(), err)
	}
	got, err := Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if want := full(); !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%+v\nwant\n%+v", got.Graph, want.Graph)
	}
}

func TestAModelThatProtobufCannotHoldIsRefused(t *testing.T) {
	m := full()
	raw := make([]byte, 1<<20)
	for range MaxBytes/len(raw) + 1 { // the same bytes again and again: nothing is copied
		m.Graph.Initializers = append(m.Graph.Initializers, Tensor{Name: "w", Dims: []int64{int64(len(raw))}, Type: Uint8, Raw: raw})
	}
	var b bytes.Buffer
	if n, err := Write(&b, m); err == nil || n != 0 || b.Len() != 0 {
		t.Errorf("%d bytes written, error %v", b.Len(), err)
	}
}
