package metrics

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// AUC measures the area under the ROC curve of scores, from 0 to 1, such as the sigmoid of logits: the
// probability that a positive sample has a higher score than a negative one, where equal scores count
// half. A score below 0 counts as 0, one above 1 as 1. scores and labels have one shape, whose
// dimension 0 is the batch. labels are 0 or 1, integers or floats; a label between counts as a positive
// and a negative sample with these weights. Labels of one class only give NaN, and so do a label outside
// 0 to 1 and a score that is NaN or infinite.
//
//	value AUC     sums [bins, 2] Σ w·label, Σ w·(1 - label) by score
//
// Scores are counted in bins of width 1/bins, and samples in one bin have equal scores. So the value is
// exact where the scores are multiples of 1/bins, up to 1. Else [AUCOf] returns a bound of the error. For
// scores spread over n bins it is about 1/(2n).
func AUC(net *layers.Net, scores, labels *gorgonia.Node, bins int, weight *gorgonia.Node) layers.Metric {
	m := layers.Metric{Name: "AUC", Value: func(s []float64) float64 {
		auc, _ := areaOf(s)
		return auc
	}}
	if !same(net, m.Name, scores, labels) {
		return m
	}
	if bins < 1 {
		net.Fail(fmt.Errorf("metric %q: %d bins: there must be 1 or more, such as 1000: %w", m.Name, bins, layers.ErrShape))
		return m
	}
	shape := scores.Shape()
	w, _ := weights(net, m.Name, weight, shape)
	score, y := wide(net, scores), wide(net, labels)
	no := net.Affine(y, "", -1, 1)
	// The root is NaN if a label is below 0 or above 1. It and the product with the score add 0 to others.
	wrong := net.Affine(net.Sqrt(net.Mul(y, no, ""), ""), "", 0, 0)
	wrong = net.Add(wrong, net.Affine(score, "", 0, 0), "")
	weigh := func(x *gorgonia.Node) *gorgonia.Node {
		if x = net.Add(x, wrong, ""); w != nil {
			x = chosen(net, w, net.Mul(x, w, ""))
		}
		return net.Reshape(x, "", shape.TotalSize(), 1)
	}
	bin := layers.Clamp(0, float64(bins-1))(net, net.Affine(score, "", float64(bins), 0), "")
	index := net.Reshape(net.Cast(bin, "", tensor.Int), "", shape.TotalSize())
	m.Sum = net.ScatterSum(index, net.Concat(gorgonia.Nodes{weigh(y), weigh(no)}, "", 1), "", bins)
	return m
}

// AUCOf returns the area under the ROC curve and a bound of its error by binning, both from the sums
// that a pass measured: MetricResult.Sum of [AUC]. The exact area is within auc ± bound: pairs of
// different classes in one bin count half, and are worth between 0 and 1. If the sums are not those of
// AUC, it returns an error that wraps ErrSum.
func AUCOf(sum []float64) (auc, bound float64, err error) {
	if len(sum) == 0 || len(sum)%2 != 0 {
		return 0, 0, fmt.Errorf("%d sums are not those of AUC: %w", len(sum), ErrSum)
	}
	auc, bound = areaOf(sum)
	return auc, bound, nil
}

func areaOf(sum []float64) (auc, bound float64) {
	var positive, negative, above, half float64
	for i := 0; i < len(sum); i += 2 {
		p, n := sum[i], sum[i+1]
		above += p * negative // pairs whose negative sample is in a lower bin
		half += p * n / 2
		positive += p
		negative += n
	}
	pairs := positive * negative
	return (above + half) / pairs, half / pairs
}
