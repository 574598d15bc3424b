package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Mixup adds mix·x + (1 - mix)·partner for each row of a batch: x and partner are floats [B, …] of one
// shape, mix is floats [B], as dataloader.Pairs draws it. Use it for images, for one-hot targets, and
// for the losses of both labels, which are [B]:
//
//	loss := net.Mixup(net.CrossEntropy(y, label, "own"), net.CrossEntropy(y, other, "partner"), mix, "loss")
//
// A name may be empty.
func (n *Net) Mixup(x, partner, mix *gorgonia.Node, name string) *gorgonia.Node {
	layer := operation("mixup", name, x)
	if !n.floats(layer, x, partner, mix) || !n.partners(layer, x, partner) {
		return nil
	}
	m := n.overRows(layer, mix, x)
	if m == nil {
		return nil
	}
	return n.Add(partner, n.Mul(m, n.Sub(x, partner, ""), ""), name)
}

// CutMix adds images whose rectangle comes from a partner: x and partner are floats [B, C, H, W], box
// is floats [B, 4] with top, left, bottom and right of the rectangle in pixels, the last two excluded,
// as dataloader.Pairs draws it. Mix the targets with [Net.Mixup]. A name may be empty.
func (n *Net) CutMix(x, partner, box *gorgonia.Node, name string) *gorgonia.Node {
	layer := operation("cutmix", name, x)
	if !n.floats(layer, x, partner, box) || !n.partners(layer, x, partner) {
		return nil
	}
	s := x.Shape()
	if len(s) != 4 || !slices.Equal(box.Shape(), []int{s[0], 4}) {
		n.fail(fmt.Errorf("%s: x is %v, the box %v: x must be [B, C, H, W] and the box [B, 4]: %w", layer, s, box.Shape(), ErrShape))
		return nil
	}
	edge := func(i int) *gorgonia.Node {
		return n.Reshape(n.Slice(box, "", Range{Axis: 1, Start: i, End: i + 1}), "", s[0], 1, 1, 1)
	}
	rows, columns := n.counting(s[2], 1, 1, s[2], 1), n.counting(s[3], 1, 1, 1, s[3])
	inRows := n.Mul(n.GreaterEqual(rows, edge(0), ""), n.Less(rows, edge(2), ""), "")
	inColumns := n.Mul(n.GreaterEqual(columns, edge(1), ""), n.Less(columns, edge(3), ""), "")
	return n.Where(n.Mul(inRows, inColumns, ""), partner, x, name)
}

// counting adds the numbers from 0 to count-1 in a shape.
func (n *Net) counting(count int, dims ...int) *gorgonia.Node {
	numbers := make([]float64, count)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	return n.Constant(numbers, "", dims...)
}

// partners reports whether two nodes have one shape with a batch in front.
func (n *Net) partners(layer string, x, partner *gorgonia.Node) bool {
	if len(x.Shape()) > 0 && slices.Equal(x.Shape(), partner.Shape()) {
		return true
	}
	n.fail(fmt.Errorf("%s: x is %v and the partner %v: they must have one shape [B, …]: %w", layer, x.Shape(), partner.Shape(), ErrShape))
	return false
}

// overRows adds a value [B] in a shape that broadcasts over the rows of x.
func (n *Net) overRows(layer string, v, x *gorgonia.Node) *gorgonia.Node {
	rows := x.Shape()[0]
	if kernels.Shape(v.Shape()).Elems() != rows {
		n.fail(fmt.Errorf("%s: %q is %v: it must have one number for each of the %d rows: %w", layer, v.Name(), v.Shape(), rows, ErrShape))
		return nil
	}
	dims := slices.Repeat([]int{1}, len(x.Shape()))
	dims[0] = rows
	return n.Reshape(v, "", dims...)
}

// Standardize adds (x - mean)/deviation, with one mean and one deviation for each index of an axis: for
// images [B, C, H, W] axis 1, for a table [B, columns] axis 1. The numbers are constants, such as those
// of dataloader.Stats, which counts axes of one sample, so that its axis is one less. Images travel as
// bytes, and the device computes. A deviation must be above 0. A name may be empty.
func (n *Net) Standardize(x *gorgonia.Node, name string, axis int, mean, deviation []float64) *gorgonia.Node {
	layer := operation("standardize", name, x)
	if !n.floats(layer, x) {
		return nil
	}
	s := x.Shape()
	if axis < 0 || axis >= len(s) || len(mean) != s[axis] || len(deviation) != s[axis] {
		n.fail(fmt.Errorf("%s: axis %d of %v, %d means, %d deviations: give one of each for every index of the axis: %w",
			layer, axis, s, len(mean), len(deviation), ErrShape))
		return nil
	}
	scale := make([]float64, len(deviation))
	for i, d := range deviation {
		if scale[i] = 1 / d; !(d > 0) || !finite(d) || !finite(scale[i]) || !finite(mean[i]) {
			n.fail(fmt.Errorf("%s: mean %d is %v and deviation %v: must be finite, the deviation above 0: %w", layer, i, mean[i], d, kernels.ErrAttrs))
			return nil
		}
	}
	dims := slices.Repeat([]int{1}, len(s))
	dims[axis] = s[axis]
	return n.Mul(n.Sub(x, n.Constant(mean, "", dims...), ""), n.Constant(scale, "", dims...), name)
}
