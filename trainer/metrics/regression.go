package metrics

import (
	"math"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// MSE measures the mean squared error over all elements of out. target has the shape of out, whose
// dimension 0 is the batch; weight has it too, or its first dimensions.
//
//	value Σ w·(out - target)² / Σ w     sums [2] Σ w·(out - target)², Σ w
func MSE(net *layers.Net, out, target, weight *gorgonia.Node) layers.Metric {
	return layers.Metric{Name: "MSE", Sum: squares(net, "MSE", out, target, weight), Value: ratio}
}

// RMSE measures the root of [MSE], from the same sums.
func RMSE(net *layers.Net, out, target, weight *gorgonia.Node) layers.Metric {
	return layers.Metric{Name: "RMSE", Sum: squares(net, "RMSE", out, target, weight),
		Value: func(s []float64) float64 { return math.Sqrt(ratio(s)) }}
}

// squares adds the sums of MSE.
func squares(net *layers.Net, name string, out, target, weight *gorgonia.Node) *gorgonia.Node {
	e := difference(net, name, out, target)
	return total(net, name, weight, net.Square(e, ""))
}

// difference adds out - target, nil if they do not fit.
func difference(net *layers.Net, name string, out, target *gorgonia.Node) *gorgonia.Node {
	if !same(net, name, out, target) {
		return nil
	}
	return net.Sub(wide(net, out), wide(net, target), "")
}

// MAE measures the mean absolute error over all elements of out. Arguments are those of [MSE].
//
//	value Σ w·|out - target| / Σ w     sums [2] Σ w·|out - target|, Σ w
func MAE(net *layers.Net, out, target, weight *gorgonia.Node) layers.Metric {
	e := difference(net, "MAE", out, target)
	return layers.Metric{Name: "MAE", Sum: total(net, "MAE", weight, net.Abs(e, "")), Value: ratio}
}

// R2 measures the coefficient of determination over all elements of out: 1 for a perfect prediction, 0
// for one that is as good as the mean of the targets. Arguments are those of [MSE].
//
//	value 1 - Σ w·(out - target)² / Σ w·(target - mean)²     mean Σ w·target / Σ w
//	sums [4] Σ w·(out - target)², Σ w·target, Σ w·target², Σ w
//
// Constant targets give NaN: then the denominator is 0. Targets are constant if their variance is less
// than 1e-13 of their mean square, which float32 can hardly hold. The error of the denominator by
// rounding is about 1e-15 of the mean square: standardize targets whose mean is 1e5 times their
// deviation or more.
func R2(net *layers.Net, out, target, weight *gorgonia.Node) layers.Metric {
	m := layers.Metric{Name: "R2", Value: determination}
	e := difference(net, m.Name, out, target)
	if e == nil {
		return m
	}
	y := wide(net, target)
	m.Sum = total(net, m.Name, weight, net.Square(e, ""), y, net.Square(y, ""))
	return m
}

// determination returns the value of R2.
func determination(s []float64) float64 {
	residual, y, y2, w := s[0], s[1], s[2], s[3]
	spread := y2 - y*y/w
	if spread <= 1e-13*y2 {
		return math.NaN()
	}
	return 1 - residual/spread
}

// Perplexity measures the exponential of the mean loss. losses are natural logarithms, such as those of
// [layers.Net.CrossEntropy], one for each row or each token of it.
//
//	value exp(Σ w·loss / Σ w)     sums [2] Σ w·loss, Σ w
//
// It is +Inf for a mean above 709. weight has the shape of losses, or its first dimensions.
func Perplexity(net *layers.Net, losses, weight *gorgonia.Node) layers.Metric {
	const name = "perplexity"
	return layers.Metric{Name: name, Sum: total(net, name, weight, losses),
		Value: func(s []float64) float64 { return math.Exp(ratio(s)) }}
}
