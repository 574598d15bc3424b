package onnx_test

import (
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// real is an attribute of a float.
func real(name string, x float32) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrFloat, F: x}
}

// reals is an attribute of floats.
func reals(name string, xs ...float32) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrFloats, Floats: xs}
}

// mode is an attribute of text.
func mode(s string) proto.Attribute {
	return proto.Attribute{Name: "mode", Type: proto.AttrString, S: []byte(s)}
}

// predicted returns the first output of a model for the rows of x.
func predicted(t *testing.T, g graph, rows int, x []float32) []float32 {
	t.Helper()
	m, err := onnx.Parse(g.bytes(t), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return predictedBy(t, m, rows, x)
}

// predictedBy returns the first output of m.
func predictedBy(t *testing.T, m *onnx.Model, rows int, x []float32) []float32 {
	t.Helper()
	p, err := trainer.NewPredictor(t.Context(), m.Build, trainer.PredictorOptions{Device: devices["cpu"](t, 0), Batch: rows, Sizes: []int{rows}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	y := make([]float32, rows*p.Outputs()[0].Spec.Shape.Elems())
	if err := p.Predict(t.Context(), y, x); err != nil {
		t.Fatal(err)
	}
	return y
}

// Operators whose attributes became operands, or changed their meaning, compute in each version
// what the version says: the same numbers as the newer one in other words.
func TestVersionsOfOperators(t *testing.T) {
	in := func(dims ...int64) []proto.ValueInfo {
		return []proto.ValueInfo{input("x", append([]int64{0}, dims...)...)}
	}
	of := func(opset int64, dims []int64, inits []proto.Tensor, nodes ...proto.Node) graph {
		nodes[len(nodes)-1].Outputs = []string{"y"}
		return graph{opset: opset, inputs: in(dims...), inits: inits, nodes: nodes, outputs: []string{"y"}}
	}
	x := []string{"x"}
	number32 := func(name string, v float32) proto.Tensor {
		w := floats(name)
		bits := math.Float32bits(v)
		w.Raw = []byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)}
		return w
	}
	image, three := []int64{2, 4, 4}, []int64{2, 3}
	for name, c := range map[string]struct{ older, newer graph }{
		"Softmax": {of(11, three, nil, node("Softmax", x, "", number("axis", 1))), of(13, three, []proto.Tensor{ints("s", 0, 6), ints("r", 0, 2, 3)},
			node("Reshape", []string{"x", "s"}, "a"), node("Softmax", []string{"a"}, "b"), node("Reshape", []string{"b", "r"}, ""))},
		"LogSoftmax": {of(11, three, nil, node("LogSoftmax", x, "", number("axis", 2))), of(13, three, nil, node("LogSoftmax", x, ""))},
		"Squeeze": {of(11, []int64{1, 3}, nil, node("Squeeze", x, "", numbers("axes", 1))), of(13, []int64{1, 3}, []proto.Tensor{ints("a", 1)},
			node("Squeeze", []string{"x", "a"}, ""))},
		"Unsqueeze": {of(11, three, nil, node("Unsqueeze", x, "", numbers("axes", 1, -1))), of(13, three, []proto.Tensor{ints("a", 1, 4)},
			node("Unsqueeze", []string{"x", "a"}, ""))},
		"Clip": {of(10, three, nil, node("Clip", x, "", real("min", -0.5), real("max", 0.25))), of(13, three, []proto.Tensor{number32("lo", -0.5), number32("hi", 0.25)},
			node("Clip", []string{"x", "lo", "hi"}, ""))},
		"ReduceSum": {of(11, three, nil, node("ReduceSum", x, "", numbers("axes", 1), number("keepdims", 0))), of(13, three, []proto.Tensor{ints("a", 1)},
			node("ReduceSum", []string{"x", "a"}, "", number("keepdims", 0)))},
		"ReduceMean": {of(17, three, nil, node("ReduceMean", x, "", numbers("axes", -1))), of(18, three, []proto.Tensor{ints("a", 2)},
			node("ReduceMean", []string{"x", "a"}, ""))},
		"Pad": {of(10, three, nil, node("Pad", x, "", numbers("pads", 0, 0, 1, 0, 1, 0), real("value", 2))), of(13, three,
			[]proto.Tensor{ints("p", 0, 0, 1, 0, 1, 0), number32("v", 2)}, node("Pad", []string{"x", "p", "v"}, ""))},
		"Slice": {of(9, three, nil, node("Slice", x, "", numbers("starts", -2), numbers("ends", 99), numbers("axes", 2))), of(13, three,
			[]proto.Tensor{ints("a", 1), ints("b", 3), ints("c", -1)}, node("Slice", []string{"x", "a", "b", "c"}, ""))},
		"Dropout": {of(7, three, nil, node("Dropout", x, "", real("ratio", 0.5))), of(13, three, nil, node("Dropout", x, ""))},
		"Upsample": {of(7, image, nil, node("Upsample", x, "", reals("scales", 1, 1, 2, 2), mode("nearest"))), of(13, image, []proto.Tensor{ints("s", 0, 2, 8, 8)},
			node("Shape", x, "b", number("start", 0), number("end", 1)), node("Constant", nil, "c", numbers("value_ints", 2, 8, 8)),
			node("Concat", []string{"b", "c"}, "d", number("axis", 0)), node("Resize", []string{"x", "", "", "d"}, "", mode("nearest")))},
		"GroupNormalization": {of(18, image, []proto.Tensor{floats("g", 1), floats("b", 1)}, node("GroupNormalization", []string{"x", "g", "b"}, "", number("num_groups", 1))),
			of(21, image, []proto.Tensor{floats("g", 1), floats("b", 1), ints("s", 2)}, node("Expand", []string{"g", "s"}, "g2"), node("Expand", []string{"b", "s"}, "b2"),
				node("GroupNormalization", []string{"x", "g2", "b2"}, "", number("num_groups", 1)))},
	} {
		t.Run(name, func(t *testing.T) {
			const rows = 2
			size := rows
			for _, d := range c.older.inputs[0].Dims[1:] {
				size *= int(d.Value)
			}
			data := make([]float32, size)
			for i := range data {
				data[i] = float32(math.Sin(float64(7*i + 1)))
			}
			older, newer := predicted(t, c.older, rows, data), predicted(t, c.newer, rows, data)
			if !slices.Equal(older, newer) || slices.Max(older) == slices.Min(older) {
				t.Errorf("%v\n%v", older, newer)
			}
		})
	}
}

// An attribute of an older version means nothing in a newer one: its operand counts.
func TestAxesOfAnotherVersionAreNotRead(t *testing.T) {
	g := one("ReduceSum", []string{"x", "a"}, []proto.Tensor{ints("a", 1)}, numbers("axes", 0), number("keepdims", 0))
	if y := predicted(t, g, 2, []float32{1, 2, 3, 4, 5, 6, 7, 8}); !slices.Equal(y, []float32{10, 26}) {
		t.Error(y)
	}
}
