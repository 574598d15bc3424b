package layers_test

import (
	"math"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// badOps lists the mistakes of all families: what is added, the class of the error, and words in it.
func badOps() []badOp {
	cut := func(r ...layers.Range) func(n *layers.Net) {
		return func(n *layers.Net) { n.Slice(n.Input("x", 2, 6), "s", r...) }
	}
	return []badOp{
		{"slice of nothing", func(n *layers.Net) { n.Slice(nil, "s") }, layers.ErrNode, []string{`slice "s"`, "nil"}},
		{"slice without a name", func(n *layers.Net) { n.Slice(n.Input("x", 2), "", layers.Range{Axis: 1}) }, layers.ErrShape, []string{`slice of "x"`, "no axis 1"}},
		{"empty range", cut(layers.Range{Axis: 1, Start: 3, End: 3}), layers.ErrShape, []string{`slice "s"`, "3:3", "(2, 6)"}},
		{"range past the end", cut(layers.Range{Axis: 1, Start: 3, End: 7}), layers.ErrShape, []string{"3:7", "end ≤ 6"}},
		{"end before the start", cut(layers.Range{Axis: 1, Start: 3, End: -1}), layers.ErrShape, []string{"3:-1"}},
		{"start below 0", cut(layers.Range{Axis: 1, Start: -3, End: 6}), layers.ErrShape, []string{"-3:6"}},
		{"negative step", cut(layers.Range{Axis: 1, End: 6, Step: -1}), layers.ErrShape, []string{"step -1"}},
		{"two ranges of an axis", cut(layers.Range{Axis: 1, End: 6}, layers.Range{Axis: -1, End: 2}), layers.ErrShape, []string{"two ranges of axis 1"}},
		{"axis below the first", cut(layers.Range{Axis: -3, End: 1}), layers.ErrShape, []string{"no axis -3"}},
		{"index past the end", func(n *layers.Net) { n.At(n.Input("x", 2, 6), "a", 1, 6) }, layers.ErrShape, []string{`at "a"`, "index 6", "0..5"}},
		{"sizes that do not add up", func(n *layers.Net) { n.Split(n.Input("x", 2, 6), "p", 1, 2, 3) }, layers.ErrShape, []string{`split "p"`, "[2 3]", "6 of axis 1"}},
		{"sizes that overflow", func(n *layers.Net) { n.Split(n.Input("x", 2, 6), "p", 1, 1<<62, 1<<62, 1<<62, 1<<62, 6) }, layers.ErrShape, []string{`split "p"`}},
		{"reshape to another number", func(n *layers.Net) { n.Reshape(n.Input("x", 2, 6), "r", 5, -1) }, layers.ErrShape, []string{`reshape "r"`, "12 elements", "(5, -1)"}},
		{"two free dimensions", func(n *layers.Net) { n.Reshape(n.Input("x", 2, 6), "r", -1, -1) }, layers.ErrShape, []string{`reshape "r"`, "(-1, -1)"}},
		{"dimension of 0", func(n *layers.Net) { n.Reshape(n.Input("x", 2, 6), "r", 0, -1) }, layers.ErrShape, []string{"(0, -1)"}},
		{"shape that overflows", func(n *layers.Net) { n.Reshape(n.Input("x", 2, 6), "r", 1<<40, 1<<40) }, layers.ErrShape, []string{"2^46"}},
		{"an axis twice", func(n *layers.Net) { n.Transpose(n.Input("x", 2, 6), "t", 1, -1) }, kernels.ErrAttrs, []string{`transpose "t"`, "[1 1]"}},
		{"an axis too few", func(n *layers.Net) { n.Transpose(n.Input("x", 2, 6), "t", 1) }, kernels.ErrAttrs, []string{`transpose "t"`, "[1]"}},
		{"no repeats", func(n *layers.Net) { n.Repeat(n.Input("x", 2, 6), "r", 1, 0) }, layers.ErrShape, []string{`repeat "r"`, "count 0"}},
		{"repeats beyond all memory", func(n *layers.Net) { n.Repeat(n.Input("x", 2, 6), "r", 1, 1<<60) }, layers.ErrShape, []string{"repeat", "2^46"}},
		{"concat of nothing", func(n *layers.Net) { n.Concat(nil, "c", 0) }, layers.ErrNode, []string{`concat "c"`, "no inputs"}},
		{"concat of a nil node", func(n *layers.Net) { n.Concat(gorgonia.Nodes{n.Input("x", 2), nil}, "c", 0) }, layers.ErrNode, []string{`concat "c"`, "input 1", "nil"}},
		{"concat of two types", func(n *layers.Net) { n.Concat(gorgonia.Nodes{n.Input("x", 2), n.Indices("i", 2)}, "c", 0) }, layers.ErrShape, []string{`concat "c"`, "Cast"}},
		{"concat of other shapes", func(n *layers.Net) { n.Concat(gorgonia.Nodes{n.Input("x", 2, 3), n.Input("y", 3, 2)}, "c", 0) }, layers.ErrShape, []string{`concat "c"`, "axis 0"}},
		{"stack of other shapes", func(n *layers.Net) { n.Stack(gorgonia.Nodes{n.Input("x", 2, 3), n.Input("y", 3, 2)}, "s", 0) }, layers.ErrShape, []string{`stack "s"`, "(3, 2)"}},
		{"stack along an axis that is not there", func(n *layers.Net) { n.Stack(gorgonia.Nodes{n.Input("x", 2)}, "s", 3) }, layers.ErrShape, []string{`stack "s"`, "axis is 3"}},
		{"constant of another size", func(n *layers.Net) { n.Constant([]float64{1, 2, 3}, "c", 2, 2) }, layers.ErrShape, []string{`constant "c"`, "3 elements", "(2, 2)"}},
		{"scatter sum by floats", func(n *layers.Net) { n.ScatterSum(n.Input("i", 2), n.Input("x", 2), "s", 3) }, layers.ErrShape, []string{`scatter sum "s"`, "integer"}},
		{"scatter sum of integers", func(n *layers.Net) { n.ScatterSum(n.Indices("i", 2), n.Indices("x", 2), "s", 3) }, layers.ErrShape, []string{`scatter sum "s"`, "Cast"}},
		{"scatter sum into nothing", func(n *layers.Net) { n.ScatterSum(n.Indices("i", 2), n.Input("x", 2), "s", 0) }, layers.ErrShape, []string{`scatter sum "s"`, "0 rows"}},
		{"scatter sum of other rows", func(n *layers.Net) { n.ScatterSum(n.Indices("i", 2), n.Input("x", 3), "s", 4) }, kernels.ErrShape, []string{`scatter sum "s"`, "2 indices"}},
		{"constant of nothing", func(n *layers.Net) { n.Constant(nil, "c") }, layers.ErrShape, []string{`constant "c"`, "<nil>"}},
		{"constant without elements", func(n *layers.Net) { n.Constant([]int{}, "c") }, layers.ErrShape, []string{"0 elements"}},
		{"constant of a nil tensor", func(n *layers.Net) { n.Constant((*tensor.Dense)(nil), "c") }, layers.ErrNode, []string{"nil"}},
		{"constant beyond float32", func(n *layers.Net) { n.Constant([]float64{1, 1e39}, "c") }, layers.ErrShape, []string{"element 1", "1e+39", "float32"}},
		{"constant beyond all memory", func(n *layers.Net) { n.Constant(1, "c", 1<<50, 1<<50) }, layers.ErrShape, []string{"2^46"}},
		{"ignored class that float32 rounds", func(n *layers.Net) { n.Ignore(n.Labels("y", 2), "i", 1<<24+1) }, layers.ErrShape, []string{`ignore "i"`, "16777217", "float32", "Float64"}},
		{"ignored class that float64 rounds", func(n *layers.Net) {
			n.Type = tensor.Float64
			n.Ignore(n.Labels("y", 2), "", math.MaxInt)
		}, layers.ErrShape, []string{"ignore of", "9223372036854775807", "smaller"}},
		{"comparison of integers", func(n *layers.Net) { n.Less(n.Indices("a", 2), n.Indices("b", 2), "l") }, layers.ErrShape, []string{`less "l"`, "int", "Cast"}},
		{"comparison of two types", func(n *layers.Net) {
			a := n.Input("a", 2)
			n.Type = tensor.Float64
			n.Equal(a, n.Input("b", 2), "e")
		}, layers.ErrShape, []string{`equal "e"`, "float64", "float32", "Cast"}},
		{"comparison of other shapes", func(n *layers.Net) { n.Less(n.Input("a", 2), n.Input("b", 3), "l") }, layers.ErrShape, []string{`less "l"`, "(2)", "(3)"}},
		{"condition of integers", func(n *layers.Net) { n.Where(n.Indices("c", 2), n.Input("a", 2), n.Input("b", 2), "w") }, layers.ErrShape, []string{`where "w"`, "int", "float32 or float64"}},
		{"choices of two types", func(n *layers.Net) { n.Where(n.Input("c", 2), n.Input("a", 2), n.Indices("b", 2), "w") }, layers.ErrShape, []string{`where "w"`, "Cast"}},
		{"choices of other shapes", func(n *layers.Net) { n.Where(n.Input("c", 2), n.Input("a", 2), n.Input("b", 3), "w") }, layers.ErrShape, []string{`where "w"`, "(2)", "(3)"}},
		{"cast to no type", func(n *layers.Net) { n.Cast(n.Input("x", 2), "c", tensor.Dtype{}) }, layers.ErrShape, []string{`cast "c"`, "no type"}},
		{"cast to bytes", func(n *layers.Net) { n.Cast(n.Input("x", 2), "c", tensor.Uint8) }, layers.ErrShape, []string{`cast "c"`, "uint8", "tensor.Int"}},
		{"cast between integers", func(n *layers.Net) { n.Cast(n.Indices("x", 2), "c", tensor.Int) }, layers.ErrShape, []string{`cast "c"`, "floats to tensor.Int"}},
		{"running sum of integers", func(n *layers.Net) { n.CumSum(n.Indices("x", 2), "c", 0) }, layers.ErrShape, []string{`cumsum "c"`, "Cast"}},
		{"running sum along an axis that is not there", func(n *layers.Net) { n.CumSum(n.Input("x", 2), "c", 1) }, layers.ErrShape, []string{`cumsum "c"`, "no axis 1"}},
		{"none of the largest", func(n *layers.Net) { n.TopK(n.Input("x", 2, 6), "k", 1, 0) }, layers.ErrShape, []string{`topk "k"`, "k is 0", "6 elements"}},
		{"more than there are", func(n *layers.Net) { n.TopK(n.Input("x", 2, 6), "k", 1, 7) }, layers.ErrShape, []string{`topk "k"`, "k is 7"}},
		{"largest of integers", func(n *layers.Net) { n.ArgMax(n.Indices("x", 2), "m", 0) }, layers.ErrShape, []string{`argmax "m"`, "Cast"}},
		{"largest along an axis that is not there", func(n *layers.Net) { n.ArgMax(n.Input("x", 2), "m", 2) }, layers.ErrShape, []string{`argmax "m"`, "no axis 2"}},
		{"bools of Gorgonia", func(n *layers.Net) {
			x := n.Input("x", 2)
			n.Reshape(gorgonia.Must(gorgonia.Gt(x, x, false)), "r", 2, 1)
		}, layers.ErrShape, []string{`reshape "r"`, "bool", "comparisons"}},
		{"a name twice", func(n *layers.Net) {
			x := n.Input("x", 2, 3)
			n.Reshape(x, "r", 3, 2)
			n.Transpose(x, "r")
		}, layers.ErrName, []string{`transpose "r"`, "already"}},
		{"a node of another graph", func(n *layers.Net) { n.Transpose(layers.New(gorgonia.NewGraph()).Input("x", 2), "t") }, layers.ErrNode, []string{`transpose "t"`, "another graph"}},
	}
}

// badOp is a use of an operation that is an error.
type badOp struct {
	name  string
	build func(n *layers.Net)
	is    error
	want  []string
}

func TestBadOperationsAreErrorsThatNameOperationAndShapes(t *testing.T) {
	for _, c := range badOps() {
		t.Run(c.name, func(t *testing.T) { refused(t, c.build, c.is, c.want...) })
	}
}

// After an error operations return nil nodes, as many as without it.
func TestOperationsAfterAnErrorReturnNil(t *testing.T) {
	n := layers.New(gorgonia.NewGraph())
	x := n.Input("x", 2, 6)
	bad := n.At(x, "bad", 1, 6)
	first := n.Err()
	if bad != nil || first == nil {
		t.Fatalf("got %v, %v", bad, first)
	}
	if parts := n.Split(bad, "", 1, 3, 3); len(parts) != 2 || parts[0] != nil || parts[1] != nil {
		t.Errorf("got parts %v, want two nil nodes", parts)
	}
	top, index := n.TopK(bad, "", 0, 1)
	for name, y := range map[string]*gorgonia.Node{
		"topk": top, "index": index, "argmax": n.ArgMax(bad, "", 0), "cumsum": n.CumSum(bad, "", 0), "cast": n.Cast(x, "", tensor.Float64), "where": n.Where(bad, x, x, ""),
		"slice": n.Slice(bad, ""), "reshape": n.Reshape(bad, "", 1), "transpose": n.Transpose(x, ""), "repeat": n.Repeat(bad, "", 0, 2),
		"concat": n.Concat(gorgonia.Nodes{x, bad}, "", 0), "stack": n.Stack(nil, "", 0), "constant": n.Constant(1, ""), "less": n.Less(bad, x, ""),
	} {
		if y != nil {
			t.Errorf("%s: got a node", name)
		}
	}
	if n.Err() != first || layers.Failed(x.Graph()) != first {
		t.Errorf("got %v and %v, want the first error %v", n.Err(), layers.Failed(x.Graph()), first)
	}
	if err := layers.Failed(gorgonia.NewGraph()); err != nil || layers.Failed(nil) != nil {
		t.Errorf("a graph without nets failed: %v", err)
	}
}
