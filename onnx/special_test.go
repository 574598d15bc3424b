package onnx_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

// values is a vector of floats.
func values(name string, xs ...float32) proto.Tensor {
	t := proto.Tensor{Name: name, Type: proto.Float, Dims: []int64{int64(len(xs))}, HasRaw: true}
	for _, x := range xs {
		t.Raw = binary.LittleEndian.AppendUint32(t.Raw, math.Float32bits(x))
	}
	return t
}

// text is an attribute.
func text(name, s string) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrString, S: []byte(s)}
}

// same reports whether two slices are equal; NaN equals itself.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

func TestAnInfiniteSlopeConcernsNegativeNumbers(t *testing.T) {
	g := one("PRelu", []string{"x", "slope"}, []proto.Tensor{ // a slope that a model computes: parameters are finite
		values("a", 0, 0, 0, 3)})
	g.nodes = []proto.Node{node("Constant", nil, "b", reals("value_floats", 1)), node("Div", []string{"b", "a"}, "slope"), node("PRelu", []string{"x", "slope"}, "y")}
	want := []float32{2, -inf, 0, -2, nan, inf, 7, 9}
	if y := predicted(t, g, 2, []float32{2, -1, 0, -6, nan, inf, 7, 9}); !same(y, want) {
		t.Errorf("%v, want %v", y, want)
	}
}

// An ignored row counts for nothing, whatever is in it, and so does the weight of its class.
func TestAnIgnoredRowOfALossMayBeAnything(t *testing.T) {
	for _, op := range []string{"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"} {
		for _, weights := range [][]float32{nil, {1, inf, 1, 1}} {
			for _, reduction := range []string{"none", "sum", "mean"} {
				in, inits := []string{"x", "class"}, []proto.Tensor{ints("class", 0, 1, 2)}
				if weights != nil {
					in, inits = append(in, "weights"), append(inits, values("weights", weights...))
				}
				g := one(op, in, inits, number("ignore_index", 1), text("reduction", reduction))
				g.inputs[0] = input("x", 1, 4, 3) // 3 rows of 4 classes, in columns
				g.nodes[0].Outputs[0] = "loss"
				g.nodes = append(g.nodes, node("Expand", []string{"loss", "shape"}, "y")) // a row for each sample
				g.inits = append(g.inits, ints("shape", 1, 3))
				g.inits[0].Dims = []int64{1, 3}
				for _, bad := range []float32{nan, inf, -inf} {
					x := []float32{0, 1, -1e4, -1e4, bad, -1e4, -1e4, 2, 0, -1e4, 3, -1e4} // losses of 0 in rows 0 and 2
					if y := predicted(t, g, 1, x); !same(y, []float32{0, 0, 0}) {
						t.Errorf("%s, %s, weights %v, %v: %v, want 0", op, reduction, weights, bad, y)
					}
				}
			}
		}
	}
}

// Widths below 0 cut first; what is left is repeated, as in onnxruntime.
func TestPaddingWithElementsOfAnAxisThatIsCut(t *testing.T) {
	for _, c := range []struct {
		mode   string
		lo, hi int64
		want   []float32
	}{
		{"wrap", -1, 2, []float32{2, 3, 4, 2, 3}},
		{"wrap", 2, -1, []float32{2, 3, 1, 2, 3}},
		{"wrap", -1, 5, []float32{2, 3, 4, 2, 3, 4, 2, 3}},
		{"wrap", -2, 6, []float32{3, 4, 3, 4, 3, 4, 3, 4}},
		{"wrap", 3, -3, []float32{1, 1, 1, 1}},
		{"wrap", -1, -1, []float32{2, 3}},
		{"wrap", 5, 0, []float32{4, 1, 2, 3, 4, 1, 2, 3, 4}},
		{"reflect", -1, 2, []float32{2, 3, 4, 3, 2}},
		{"reflect", 2, -1, []float32{3, 2, 1, 2, 3}},
		{"reflect", 2, -2, []float32{1, 2, 1, 2}}, // of 1, 2
		{"edge", -1, 2, []float32{2, 3, 4, 4, 4}},
		{"edge", 3, -3, []float32{1, 1, 1, 1}},
	} {
		g := one("Pad", []string{"x", "pads"}, []proto.Tensor{ints("pads", 0, c.lo, 0, c.hi)}, mode(c.mode))
		if y := predicted(t, g, 1, []float32{1, 2, 3, 4}); !same(y, c.want) {
			t.Errorf("%s by %d and %d: %v, want %v", c.mode, c.lo, c.hi, y, c.want)
		}
	}
}

// The specification, its reference and onnxruntime disagree where a window is shorter than the
// stride: such a node is refused.
func TestTransposedConvolutionsWithPaddingBelowZeroAreRefused(t *testing.T) {
	for _, pad := range []string{"SAME_UPPER", "SAME_LOWER"} {
		for stride, fits := range map[int64]bool{2: true, 3: true, 4: false, 7: false} {
			g := image("ConvTranspose", text("auto_pad", pad), numbers("strides", 1, stride))
			g.inits = []proto.Tensor{floats("w", 2, 3, 3, 3)}
			_, err := onnx.Parse(g.bytes(t), onnx.Options{})
			if fits != (err == nil) || !fits && (!errors.Is(err, kernels.ErrUnsupported) || !strings.Contains(err.Error(), "give pads")) {
				t.Errorf("%s with a stride of %d: %v", pad, stride, err)
			}
		}
	}
}

// NaN counts as the largest, as in the reference of the specification.
func TestHardmaxFindsTheFirstNaN(t *testing.T) {
	x := []float32{1, nan, 2, nan, nan, nan, nan, nan, 1, inf, inf, 2, -inf, -inf, -inf, -inf}
	want := []float32{0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0}
	for _, opset := range []int64{11, 13} {
		g := one("Hardmax", []string{"x"}, nil)
		g.opset = opset
		if y := predicted(t, g, 4, x); !same(y, want) {
			t.Errorf("opset %d: %v, want %v", opset, y, want)
		}
	}
}

// Floats become the nearest int64, NaN 0; other types take the low bits of it. Constants do, too.
func TestCastsOfFloatsThatNoIntegerHolds(t *testing.T) {
	x := []float32{nan, 1e20, -inf, -1.5}
	for typ, want := range map[proto.DataType][]float32{
		proto.Int64: {0, 1 << 63, -1 << 63, -1},
		proto.Int32: {0, -1, 0, -1},
		proto.Uint8: {0, 255, 0, 255},
	} {
		g := one("Cast", []string{"x"}, nil, number("to", int64(typ)))
		g.nodes = []proto.Node{node("Cast", []string{"x"}, "i", number("to", int64(typ))), node("Cast", []string{"i"}, "y", number("to", 1))}
		if y := predicted(t, g, 1, x); !same(y, want) {
			t.Errorf("%v: %v, want %v", typ, y, want)
		}
		g.nodes = []proto.Node{node("Constant", nil, "c", reals("value_floats", x...)), node("Cast", []string{"c"}, "i", number("to", int64(typ))),
			node("Cast", []string{"i"}, "f", number("to", 1)), node("Add", []string{"x", "f"}, "y")}
		if y := predicted(t, g, 1, make([]float32, 4)); !same(y, want) {
			t.Errorf("constants to %v: %v, want %v", typ, y, want)
		}
	}
}

// Constants whose result is too large to be folded are operands of the model: an attempt to fold
// them leaves nothing behind.
func TestConstantsThatAreTooLargeToFoldAreComputed(t *testing.T) {
	for op, f := range map[string]func(a, b float32) float32{
		"Max":  func(a, b float32) float32 { return max(a, b) },
		"Min":  func(a, b float32) float32 { return min(a, b) },
		"Mean": func(a, b float32) float32 { return (a + b) / 2 },
	} {
		g := graph{inputs: []proto.ValueInfo{input("x", 0, 4, 4)}, outputs: []string{"y"}, nodes: []proto.Node{
			node("Constant", nil, "row", reals("value_floats", 0, 1, 2, 3)), node("Unsqueeze", []string{"row", "one"}, "column"),
			node(op, []string{"column", "row"}, "table"), node("Add", []string{"x", "table"}, "y")},
			inits: []proto.Tensor{ints("one", 1)}}
		m, err := onnx.Parse(g.bytes(t), onnx.Options{FoldElements: 8}) // of 16
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		y := predictedBy(t, m, 1, make([]float32, 16))
		for i, got := range y {
			if want := f(float32(i/4), float32(i%4)); got != want {
				t.Errorf("%s: element %d is %v, want %v", op, i, got, want)
			}
		}
	}
}
