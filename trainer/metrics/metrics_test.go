package metrics_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/metrics"
)

var nan = math.NaN()

// same reports whether numbers are equal but for rounding, or both NaN.
func same(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-14*math.Max(1, math.Abs(b)) || math.IsNaN(a) && math.IsNaN(b)
}

// Class 0 is in order, 1 was never predicted, 2 has no samples but was predicted, 3 does not occur.
func TestClassesThatAreMissing(t *testing.T) {
	m, err := metrics.ConfusionOf([]float64{
		6, 0, 2, 0,
		4, 0, 0, 0,
		0, 0, 0, 0,
		0, 0, 0, 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		got  func(class int) float64
		want []float64
		mean float64
		all  float64
	}{
		{"precision", m.Precision, []float64{0.6, 0, 0, nan}, 0.2, m.MacroPrecision()},
		{"recall", m.Recall, []float64{0.75, 0, 0, nan}, 0.25, m.MacroRecall()},
		{"F1", m.F1, []float64{12.0 / 18, 0, 0, nan}, 12.0 / 54, m.MacroF1()},
		{"Dice", m.Dice, []float64{12.0 / 18, 0, 0, nan}, 12.0 / 54, m.MeanDice()},
		{"IoU", m.IoU, []float64{0.5, 0, 0, nan}, 1.0 / 6, m.MeanIoU()},
		{"support", m.Support, []float64{8, 4, 0, 0}, 12, m.Total()},
		{"predictions", m.Predicted, []float64{10, 0, 2, 0}, 12, m.Total()},
	} {
		for class, want := range c.want {
			if got := c.got(class); !same(got, want) {
				t.Errorf("%s of class %d is %v, want %v", c.what, class, got, want)
			}
		}
		if !same(c.all, c.mean) {
			t.Errorf("%s of all is %v, want %v", c.what, c.all, c.mean)
		}
	}
	if m.Accuracy() != 0.5 || m.At(0, 2) != 2 || m.Classes != 4 {
		t.Errorf("accuracy %v, %v of class 0 predicted as 2, %d classes", m.Accuracy(), m.At(0, 2), m.Classes)
	}
	if none, _ := metrics.ConfusionOf(make([]float64, 4)); !math.IsNaN(none.Accuracy()) || !math.IsNaN(none.MacroF1()) {
		t.Errorf("of no samples: accuracy %v, F1 %v", none.Accuracy(), none.MacroF1())
	}
	for _, n := range []int{0, 3, 5} {
		if _, err := metrics.ConfusionOf(make([]float64, n)); !errors.Is(err, metrics.ErrSum) {
			t.Errorf("%d sums: got %v", n, err)
		}
	}
}

// The area of bins is within its bound of the exact one, and exact where each bin has one score.
func TestTheBoundOfTheAreaHolds(t *testing.T) {
	r := seed.Rand(t, 0)
	for range 300 {
		bins, n := 1+r.IntN(30), 1+r.IntN(60)
		coarse := r.IntN(2) == 0
		scores, labels, sum := make([]float64, n), make([]int, n), make([]float64, 2*bins)
		for i := range n {
			if scores[i] = r.Float64(); coarse { // ties
				scores[i] = float64(r.IntN(bins)) / float64(bins)
			}
			labels[i] = r.IntN(2)
			bin := int(scores[i] * float64(bins))
			if coarse {
				bin = int(math.Round(scores[i] * float64(bins)))
			}
			sum[2*bin+1-labels[i]]++
		}
		var exact, pairs float64
		for i := range n {
			for j := range n {
				if labels[i] != 1 || labels[j] != 0 {
					continue
				}
				pairs++
				if scores[i] > scores[j] {
					exact++
				} else if scores[i] == scores[j] {
					exact += 0.5
				}
			}
		}
		auc, bound, err := metrics.AUCOf(sum)
		if err != nil || pairs > 0 && math.Abs(auc-exact/pairs) > bound+1e-14 || pairs == 0 != math.IsNaN(auc) {
			t.Fatalf("%d bins: %v ± %v, %v; exact %v", bins, auc, bound, err, exact/pairs)
		}
		if coarse && pairs > 0 && !same(auc, exact/pairs) {
			t.Fatalf("scores on a grid of %d bins: %v, exact %v", bins, auc, exact/pairs)
		}
	}
	for _, n := range []int{0, 3} {
		if _, _, err := metrics.AUCOf(make([]float64, n)); !errors.Is(err, metrics.ErrSum) {
			t.Errorf("%d sums: got %v", n, err)
		}
	}
}

// built returns a net with inputs, in a graph of its own.
func built() (n *layers.Net, x, y *gorgonia.Node) {
	n = layers.New(gorgonia.NewGraph())
	return n, n.Input("x", 4, 3), n.Labels("y", 4)
}

func TestValuesOfSums(t *testing.T) {
	n, x, y := built()
	z := n.Input("z", 4, 3)
	for _, c := range []struct {
		m    layers.Metric
		sum  []float64
		want float64
	}{
		{metrics.Accuracy(n, x, y, nil), []float64{3, 4}, 0.75},
		{metrics.Accuracy(n, x, y, nil), []float64{0, 0}, nan},
		{metrics.TopK(n, x, y, 2, nil), []float64{1, 4}, 0.25},
		{metrics.MSE(n, x, z, nil), []float64{8, 2}, 4},
		{metrics.RMSE(n, x, z, nil), []float64{8, 2}, 2},
		{metrics.MAE(n, x, z, nil), []float64{8, 2}, 4},
		{metrics.Perplexity(n, n.Input("losses", 4), nil), []float64{2, 2}, math.E},
		{metrics.Perplexity(n, n.Input("more", 4), nil), []float64{720, 1}, math.Inf(1)},
		{metrics.R2(n, x, z, nil), []float64{1, 3, 5, 2}, -1},               // targets 1 and 2
		{metrics.R2(n, x, z, nil), []float64{1, 3 * 0.1, 3 * 0.01, 3}, nan}, // targets 0.1
		{metrics.R2(n, x, z, nil), []float64{1, 1 - 1e-15, 1, 1}, nan},      // the same, rounded
		{metrics.R2(n, x, z, nil), []float64{0, 0, 0, 3}, nan},              // targets 0
		{metrics.R2(n, x, z, nil), []float64{0, 1e4, 1e8, 1}, nan},          // one sample
		{metrics.AUC(n, x, z, 2, nil), []float64{0, 3, 2, 0}, 1},
		{metrics.AUC(n, x, z, 2, nil), []float64{1, 1, 1, 1}, 0.5},
		{metrics.AUC(n, x, z, 2, nil), []float64{0, 3, 0, 1}, nan}, // no positive one
	} {
		if got := c.m.Value(c.sum); !same(got, c.want) {
			t.Errorf("%s of %v is %v, want %v", c.m.Name, c.sum, got, c.want)
		}
		if c.m.Sum == nil || c.m.Sum.Shape().TotalSize() != len(c.sum) {
			t.Errorf("%s has the sum %v, want %d elements", c.m.Name, c.m.Sum, len(c.sum))
		}
	}
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}

func TestAMistakeIsTheErrorOfTheNet(t *testing.T) {
	for want, build := range map[string]func(n *layers.Net, x, y *gorgonia.Node){
		`metric "accuracy": a node is nil`:                     func(n *layers.Net, x, y *gorgonia.Node) { metrics.Accuracy(n, nil, y, nil) },
		`metric "accuracy": labels "x" are of type float32`:    func(n *layers.Net, x, y *gorgonia.Node) { metrics.Accuracy(n, x, x, nil) },
		`metric "accuracy": logits "y" are (4)`:                func(n *layers.Net, x, y *gorgonia.Node) { metrics.Accuracy(n, y, y, nil) },
		`metric "confusion": labels "i" are (4, 2)`:            func(n *layers.Net, x, y *gorgonia.Node) { metrics.Confusion(n, x, n.Indices("i", 4, 2), nil) },
		`metric "accuracy": weight "x" is (4, 3), must be (4)`: func(n *layers.Net, x, y *gorgonia.Node) { metrics.Accuracy(n, x, y, x) },
		`k is 4`: func(n *layers.Net, x, y *gorgonia.Node) { metrics.TopK(n, x, y, 4, nil) },
		`metric "MSE": "x" is (4, 3) and "z" is (4)`: func(n *layers.Net, x, y *gorgonia.Node) { metrics.MSE(n, x, n.Input("z", 4), nil) },
		`metric "R2": a node is nil`:                 func(n *layers.Net, x, y *gorgonia.Node) { metrics.R2(n, x, nil, nil) },
		`metric "AUC": 0 bins`:                       func(n *layers.Net, x, y *gorgonia.Node) { metrics.AUC(n, x, x, 0, nil) },
		`metric "AUC": weight "w" is (3)`:            func(n *layers.Net, x, y *gorgonia.Node) { metrics.AUC(n, x, x, 9, n.Input("w", 3)) },
		`metric "mine": "sum" is a scalar`: func(n *layers.Net, x, y *gorgonia.Node) {
			metrics.Mean(n, "mine", n.Sum(x, "sum", layers.Reduce{}), nil)
		},
	} {
		n, x, y := built()
		build(n, x, y)
		if err := n.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Sums of one shape serve every batch, and pictures have a label for each pixel.
func TestSumsDoNotDependOnTheBatch(t *testing.T) {
	for _, batch := range []int{1, 5} {
		n := layers.New(gorgonia.NewGraph())
		logits, labels, w := n.Input("x", batch, 3, 4, 2), n.Indices("y", batch, 4, 2), n.Input("w", batch)
		for _, c := range []struct {
			m    layers.Metric
			want []int
		}{
			{metrics.Accuracy(n, logits, labels, w), []int{2}}, {metrics.TopK(n, logits, labels, 2, nil), []int{2}},
			{metrics.Confusion(n, logits, labels, w), []int{3, 3}}, {metrics.MSE(n, logits, logits, w), []int{2}},
			{metrics.R2(n, logits, logits, w), []int{4}}, {metrics.AUC(n, logits, logits, 7, w), []int{7, 2}},
		} {
			if n.Err() != nil || !slices.Equal(c.m.Sum.Shape(), c.want) {
				t.Fatalf("batch %d: the sum of %s is %v, want %v; %v", batch, c.m.Name, c.m.Sum.Shape(), c.want, n.Err())
			}
		}
	}
}
