package metrics

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Accuracy measures the share of labels that are the class of the largest logit; of equal logits the
// first counts.  logits [B, C] with labels [B], or [B, C, ...] with [B, ...]; labels are integers, of
// which those outside 0..C-1 are wrong. The shape of weight is that of labels, or its first dimensions.
//
//	value Σ w·hit / Σ w     sums [2] Σ w·hit, Σ w
func Accuracy(net *layers.Net, logits, labels, weight *gorgonia.Node) layers.Metric {
	const name = "accuracy"
	if !classes(net, name, logits, labels) {
		return layers.Metric{Name: name}
	}
	hit := net.Equal(wide(net, net.ArgMax(logits, "", 1)), wide(net, labels), "")
	return layers.Metric{Name: name, Sum: total(net, name, weight, hit), Value: ratio}
}

// TopK measures the share of labels that are among the classes of the k largest logits; of equal
// logits the first ones count. The metric is called top-k, such as top-5; arguments and sums are those
// of [Accuracy].
func TopK(net *layers.Net, logits, labels *gorgonia.Node, k int, weight *gorgonia.Node) layers.Metric {
	name := fmt.Sprintf("top-%d", k)
	if !classes(net, name, logits, labels) {
		return layers.Metric{Name: name}
	}
	_, best := net.TopK(logits, "", 1, k)
	each := slices.Insert(slices.Clone(labels.Shape()), 1, 1) // [B, 1, ...]
	hits := net.Equal(wide(net, best), net.Reshape(wide(net, labels), "", each...), "")
	if net.Err() != nil {
		return layers.Metric{Name: name}
	}
	hit := net.Sum(hits, "", layers.Reduce{Axes: []int{1}})
	return layers.Metric{Name: name, Sum: total(net, name, weight, hit), Value: ratio}
}

// Confusion measures the confusion matrix: how often a label was predicted as each class, the one of
// the largest logit. [ConfusionOf] makes precision, recall and other numbers of its sum, and
// [OfConfusion] makes one of them a metric of its own. Arguments are those of [Accuracy].
//
//	value accuracy     sums [C, C] Σ w by label and prediction
//
// A label outside 0..C-1 whose weight is not 0 makes the value NaN, and the numbers of class 0.
func Confusion(net *layers.Net, logits, labels, weight *gorgonia.Node) layers.Metric {
	const name = "confusion"
	if !classes(net, name, logits, labels) {
		return layers.Metric{Name: name}
	}
	return confusion(net, name, net.ArgMax(logits, "", 1), labels, weight, logits.Shape()[1])
}

// BinaryConfusion measures the confusion matrix [2, 2] of scores, of which those above the threshold
// are predicted as class 1. scores and labels have one shape, whose dimension 0 is the batch; labels
// are 0 or 1, integers or floats. The rest is as in [Confusion].
func BinaryConfusion(net *layers.Net, scores, labels *gorgonia.Node, threshold float64, weight *gorgonia.Node) layers.Metric {
	const name = "confusion"
	if !same(net, name, scores, labels) {
		return layers.Metric{Name: name}
	}
	above := net.Affine(wide(net, scores), "", 1, -threshold)
	return confusion(net, name, net.Greater(above, number(net, 0), ""), labels, weight, 2)
}

// confusion adds the matrix of labels and predictions.
func confusion(net *layers.Net, name string, prediction, labels, weight *gorgonia.Node, classes int) layers.Metric {
	m := layers.Metric{Name: name, Value: func(s []float64) float64 { return confusionOf(s).Accuracy() }}
	if net.Err() != nil {
		return m
	}
	shape := labels.Shape()
	w, _ := weights(net, name, weight, shape)
	if net.Err() != nil {
		return m
	}
	label, prediction := wide(net, labels), wide(net, prediction)
	each := ones(net, label)
	if w != nil {
		each = net.Mul(each, w, "")
	}
	zero := number(net, 0)
	valid := net.Mul(net.GreaterEqual(label, zero, ""), net.Less(label, number(net, classes), ""), "")
	// A label that is no class would be left out: its weight, w/0·0, becomes NaN instead, at label 0.
	each = chosen(net, each, net.Mul(net.Div(each, valid, ""), valid, ""))
	row := net.Where(valid, label, zero, "")
	cell := net.Add(net.Affine(row, "", float64(classes), 0), prediction, "")
	n := shape.TotalSize()
	sum := net.ScatterSum(net.Reshape(net.Cast(cell, "", tensor.Int), "", n), net.Reshape(each, "", n), "", classes*classes)
	m.Sum = net.Reshape(sum, "", classes, classes)
	return m
}

// classes reports whether logits and labels fit, and records an error if not.
func classes(net *layers.Net, name string, logits, labels *gorgonia.Node) bool {
	if !usable(net, name, logits, labels) {
		return false
	}
	s := logits.Shape()
	switch t := labels.Dtype(); {
	case len(s) < 2:
		net.Fail(fmt.Errorf("metric %q: logits %q are %v, must be [batch, classes] or [batch, classes, ...]: %w", name, logits.Name(), s, layers.ErrShape))
	case t == tensor.Float32 || t == tensor.Float64:
		net.Fail(fmt.Errorf("metric %q: labels %q are of type %v, must be of an integer type: %w", name, labels.Name(), t, layers.ErrShape))
	case !slices.Equal(labels.Shape(), slices.Delete(slices.Clone(s), 1, 2)):
		net.Fail(fmt.Errorf("metric %q: labels %q are %v, must be %v without its axis 1, the classes: %w", name, labels.Name(), labels.Shape(), s, layers.ErrShape))
	}
	return net.Err() == nil
}
