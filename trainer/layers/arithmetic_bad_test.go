package layers_test

import (
	"math"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// matrices is an input [3, 4].
func matrices(n *layers.Net) *gorgonia.Node { return n.Input("x", 3, 4) }

func TestBadArithmeticIsAnErrorThatNamesTheOperationAndTheCure(t *testing.T) {
	one := func(f func(n *layers.Net, x *gorgonia.Node)) func(n *layers.Net) {
		return func(n *layers.Net) { f(n, matrices(n)) }
	}
	product := func(a, b []int, tr layers.Transposed) func(n *layers.Net) {
		return func(n *layers.Net) { n.MatMul(n.Input("a", a...), n.Input("b", b...), "p", tr) }
	}
	einsum := func(spec string) func(n *layers.Net) {
		return func(n *layers.Net) { n.Einsum(spec, "e", matrices(n), n.Input("y", 3, 5)) }
	}
	for _, c := range []struct {
		name  string
		build func(n *layers.Net)
		is    error
		want  []string
	}{
		{"shapes that do not broadcast", one(func(n *layers.Net, x *gorgonia.Node) { n.Add(x, n.Input("y", 3), "a") }), layers.ErrShape,
			[]string{`add "a"`, `"x" and "y"`, "(3, 4) and (3)", "equal or 1"}},
		{"two types", one(func(n *layers.Net, x *gorgonia.Node) { n.Type = tensor.Float64; n.Mul(x, n.Input("y", 4), "") }), layers.ErrShape,
			[]string{`mul of "x"`, "float64", "Cast"}},
		{"integers", func(n *layers.Net) { n.Exp(n.Indices("x", 3), "e") }, layers.ErrShape, []string{`exp "e"`, "int", "Cast"}},
		{"nothing", func(n *layers.Net) { n.Sub(matrices(n), nil, "s") }, layers.ErrNode, []string{`sub "s"`, "nil"}},
		{"clamp upside down", one(func(n *layers.Net, x *gorgonia.Node) { layers.Clamp(2, 1)(n, x, "c") }), kernels.ErrAttrs, []string{`clamp "c"`, "2", "1"}},
		{"clamp to NaN", one(func(n *layers.Net, x *gorgonia.Node) { layers.Clamp(math.NaN(), 1)(n, x, "c") }), kernels.ErrAttrs, []string{`clamp "c"`, "NaN"}},
		{"elu of infinity", one(func(n *layers.Net, x *gorgonia.Node) { layers.ELU(math.Inf(1))(n, x, "c") }), kernels.ErrAttrs, []string{`elu "c"`, "finite"}},
		{"infinite power", one(func(n *layers.Net, x *gorgonia.Node) { n.Power(x, "p", math.Inf(1)) }), kernels.ErrAttrs, []string{`power "p"`, "finite"}},
		{"affine of NaN", one(func(n *layers.Net, x *gorgonia.Node) { n.Affine(x, "a", 1, math.NaN()) }), kernels.ErrAttrs, []string{`affine "a"`, "finite"}},
		{"axis outside", one(func(n *layers.Net, x *gorgonia.Node) { n.Sum(x, "s", layers.Reduce{Axes: []int{2}}) }), layers.ErrShape, []string{`sum "s"`, "(3, 4)", "axis 2"}},
		{"axis twice", one(func(n *layers.Net, x *gorgonia.Node) { n.Mean(x, "m", layers.Reduce{Axes: []int{1, -1}}) }), layers.ErrShape, []string{`mean "m"`, "axis 1", "twice"}},
		{"softmax along two axes", one(func(n *layers.Net, x *gorgonia.Node) { n.Softmax(x, "s", 0, 1) }), layers.ErrShape, []string{`softmax "s"`, "[0 1]"}},
		{"log softmax of a scalar", one(func(n *layers.Net, x *gorgonia.Node) { n.LogSoftmax(n.Sum(x, "", layers.Reduce{}), "s") }), layers.ErrShape, []string{`log softmax "s"`, "no axis -1"}},
		{"matrices that do not multiply", product([]int{2, 3}, []int{2, 3}, layers.Transposed{}), layers.ErrShape, []string{`matmul "p"`, "(2, 3) and (2, 3)", "3 columns, 2 rows"}},
		{"batches that do not broadcast", product([]int{2, 2, 3}, []int{4, 3, 2}, layers.Transposed{}), layers.ErrShape, []string{`matmul "p"`, "(2, 2, 3)", "leading"}},
		{"transposed vector", product([]int{3}, []int{3, 2}, layers.Transposed{A: true}), layers.ErrShape, []string{`matmul "p"`, "vector"}},
		{"product of a scalar", one(func(n *layers.Net, x *gorgonia.Node) {
			n.MatMul(n.Sum(x, "", layers.Reduce{}), x, "p", layers.Transposed{})
		}), layers.ErrShape, []string{`matmul "p"`, "use Mul"}},
		{"ellipsis", einsum("...i,ij->...j"), kernels.ErrAttrs, []string{`einsum "e"`, "each axis a letter"}},
		{"no result", einsum("ij,ik"), kernels.ErrAttrs, []string{`einsum "e"`, "->"}},
		{"three operands", einsum("i,i,i->i"), kernels.ErrAttrs, []string{"3 operands", "two at a time"}},
		{"diagonal", einsum("ii,ik->ik"), kernels.ErrAttrs, []string{"twice", "identity"}},
		{"digit", einsum("i1,ik->ik"), kernels.ErrAttrs, []string{"letters"}},
		{"letter in the result only", einsum("ij,ik->ijm"), kernels.ErrAttrs, []string{`'m'`, "Repeat"}},
		{"too few operands", einsum("ij->ji"), layers.ErrShape, []string{"1 operands, got 2"}},
		{"too few letters", einsum("i,ik->k"), layers.ErrShape, []string{"operand 0", "(3, 4)"}},
		{"sizes that differ", einsum("ij,ji->i"), layers.ErrShape, []string{`'j'`, "4", "3", "(3, 5)"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.build, c.is, c.want...) })
	}
}
