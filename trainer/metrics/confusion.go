package metrics

import (
	"errors"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// ErrSum is wrapped by errors about sums of another metric.
var ErrSum = errors.New("sums of another metric")

// Matrix is a confusion matrix. In its methods, tp are the samples of a class that were predicted as
// it, fp those of other classes that were, and fn those of the class that were not, each times its
// weight.
//
// A class that neither has samples nor was predicted has no numbers: they are NaN, and means over
// classes leave it out. A class that has samples and was never predicted has precision 0, one that was
// predicted and has no samples has recall 0.
type Matrix struct {
	Classes int
	Counts  []float64 // [Classes, Classes], by label and prediction
}

// ConfusionOf returns the matrix whose sums a pass measured: MetricResult.Sum of [Confusion],
// [BinaryConfusion] or [OfConfusion]. It does not copy them. If their number is not a square, it
// returns an error that wraps ErrSum.
func ConfusionOf(sum []float64) (Matrix, error) {
	c := confusionOf(sum)
	if len(sum) == 0 || c.Classes*c.Classes != len(sum) {
		return Matrix{}, fmt.Errorf("%d sums are not those of a confusion matrix: %w", len(sum), ErrSum)
	}
	return c, nil
}

func confusionOf(sum []float64) Matrix {
	return Matrix{Classes: int(math.Round(math.Sqrt(float64(len(sum))))), Counts: sum}
}

// OfConfusion returns a metric of the sums of confusion, such as the mean IoU:
//
//	metrics.OfConfusion(confusion, "mean IoU", metrics.Matrix.MeanIoU)
//
// Both metrics share one sum on the device.
func OfConfusion(confusion layers.Metric, name string, value func(Matrix) float64) layers.Metric {
	return layers.Metric{Name: name, Sum: confusion.Sum, Value: func(s []float64) float64 { return value(confusionOf(s)) }}
}

// At returns the weight of the samples with a label that were predicted as a class.
func (m Matrix) At(label, prediction int) float64 { return m.Counts[label*m.Classes+prediction] }

// Support returns the weight of the samples of a class.
func (m Matrix) Support(class int) (n float64) {
	for k := range m.Classes {
		n += m.At(class, k)
	}
	return n
}

// Predicted returns the weight of the samples that were predicted as a class.
func (m Matrix) Predicted(class int) (n float64) {
	for k := range m.Classes {
		n += m.At(k, class)
	}
	return n
}

// Total returns the weight of all samples.
func (m Matrix) Total() (n float64) {
	for _, c := range m.Counts {
		n += c
	}
	return n
}

// Accuracy returns the share of samples that were predicted right. It is also the micro average of
// precision, recall and F1, since each sample has one class.
func (m Matrix) Accuracy() float64 {
	right := 0.0
	for c := range m.Classes {
		right += m.At(c, c)
	}
	return right / m.Total()
}

// Precision returns tp / (tp + fp) of a class.
func (m Matrix) Precision(class int) float64 { return m.share(class, m.Predicted(class)) }

// Recall returns tp / (tp + fn) of a class.
func (m Matrix) Recall(class int) float64 { return m.share(class, m.Support(class)) }

// F1 returns 2·tp / (2·tp + fp + fn) of a class, the harmonic mean of precision and recall. It is also
// the Dice coefficient.
func (m Matrix) F1(class int) float64 {
	return 2 * m.At(class, class) / (m.Predicted(class) + m.Support(class))
}

// IoU returns tp / (tp + fp + fn) of a class, the intersection of labels and predictions over their
// union: the Jaccard index.
func (m Matrix) IoU(class int) float64 {
	return m.At(class, class) / (m.Predicted(class) + m.Support(class) - m.At(class, class))
}

// Dice returns 2·tp / (2·tp + fp + fn) of a class, the same as F1.
func (m Matrix) Dice(class int) float64 { return m.F1(class) }

// share returns tp / of, 0 if that is 0 / 0 for a class that occurs.
func (m Matrix) share(class int, of float64) float64 {
	if of == 0 && m.Predicted(class)+m.Support(class) > 0 {
		return 0
	}
	return m.At(class, class) / of
}

// MacroPrecision returns the mean of Precision over the classes that occur.
func (m Matrix) MacroPrecision() float64 { return m.mean(m.Precision) }

// MacroRecall returns the mean of Recall over the classes that occur.
func (m Matrix) MacroRecall() float64 { return m.mean(m.Recall) }

// MacroF1 returns the mean of F1 over the classes that occur.
func (m Matrix) MacroF1() float64 { return m.mean(m.F1) }

// MeanIoU returns the mean of IoU over the classes that occur.
func (m Matrix) MeanIoU() float64 { return m.mean(m.IoU) }

// MeanDice returns the mean of Dice over the classes that occur.
func (m Matrix) MeanDice() float64 { return m.mean(m.Dice) }

// mean returns the mean of f over the classes that have samples or were predicted; NaN if there are
// none.
func (m Matrix) mean(f func(class int) float64) float64 {
	sum, n := 0.0, 0
	for c := range m.Classes {
		if m.Predicted(c)+m.Support(c) != 0 {
			sum += f(c)
			n++
		}
	}
	return sum / float64(n)
}
