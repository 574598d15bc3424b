package trainer_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/metrics"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// metricCase is a model with every metric. Its output has, for each sample, the logits of classes, a score and a value.
type metricCase struct {
	classes, bins int
	ignore        bool // labels of -1 count for nothing
	weighted      bool // the field weight counts
}

func (c metricCase) model(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, y := net.Input("x", batch, 4), net.Labels("y", batch)
	target, yes := net.Input("target", batch, 1), net.Labels("yes", batch)
	logits, value := net.Dense(x, "logits", c.classes, nil), net.Dense(x, "value", 1, nil)
	score := layers.Sigmoid(net, net.Dense(x, "score", 1, nil), "score")
	labels, weight := y, (*gorgonia.Node)(nil)
	if c.weighted {
		weight = net.Input("weight", batch)
	}
	if c.ignore {
		labels, weight = net.Ignore(y, "ignore", -1)
	}
	losses := net.CrossEntropy(logits, labels, "losses")
	loss := net.Mean(net.Add(losses, net.Mean(net.Add(net.Square(score, ""), net.Square(value, ""), ""), "", layers.Reduce{Axes: []int{1}}), ""), "loss", layers.Reduce{})
	yes2 := net.Reshape(yes, "", batch, 1)
	confusion := metrics.Confusion(net, logits, labels, weight)
	binary := metrics.BinaryConfusion(net, score, yes2, 0.5, weight)
	binary.Name = "binary"
	return trainer.Model{
		Inputs: net.Inputs(), Params: net.Params(), Loss: loss, Output: net.Concat(gorgonia.Nodes{logits, score, value}, "output", 1),
		Metrics: []layers.Metric{
			metrics.Accuracy(net, logits, labels, weight), metrics.TopK(net, logits, labels, 2, weight),
			confusion, metrics.OfConfusion(confusion, "macro F1", metrics.Matrix.MacroF1), binary,
			metrics.AUC(net, score, yes2, c.bins, weight),
			metrics.MSE(net, value, target, weight), metrics.RMSE(net, value, target, weight), metrics.MAE(net, value, target, weight),
			metrics.R2(net, value, target, weight), metrics.Perplexity(net, losses, weight),
			{Name: "squares", Sum: net.Sum(net.Square(value, ""), "", layers.Reduce{})},
			{Name: "columns", Sum: net.Sum(logits, "", layers.Reduce{Axes: []int{0}})},
			metrics.Mean(net, "label", labels, weight),
		},
	}, net.Err()
}

// rows are the data of a metricCase.
type metricRows struct {
	ds             *dataloader.Slices
	y, yes         []int32
	target, weight []float64 // as float32 holds them
}

func (c metricCase) rows(t testing.TB, r *rand.Rand, n int) metricRows {
	x, target, weight := make([]float32, 4*n), make([]float32, n), make([]float32, n)
	d := metricRows{y: make([]int32, n), yes: make([]int32, n), target: make([]float64, n), weight: make([]float64, n)}
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range n {
		target[i], weight[i] = float32(r.NormFloat64()), float32(r.IntN(4))/2
		d.y[i], d.yes[i] = r.Int32N(int32(c.classes)), r.Int32N(2)
		d.target[i], d.weight[i] = float64(target[i]), 1
		if c.weighted {
			d.weight[i] = float64(weight[i])
		}
		if c.ignore && r.IntN(3) == 0 {
			d.y[i], d.weight[i] = -1, 0
		}
	}
	all := []dataloader.Array{dataloader.Column("x", x, 4), dataloader.Column("y", d.y), dataloader.Column("target", target, 1), dataloader.Column("yes", d.yes)}
	if c.weighted {
		all = append(all, dataloader.Column("weight", weight))
	}
	d.ds = columns(t, n, all...)
	return d
}

// want computes every metric from what Predict yields.
func (c metricCase) want(d metricRows, out []float64) map[string]float64 {
	n, width := len(d.y), c.classes+2
	var w, right, two, se, ae, sy, sy2, loss, squares, labels float64
	matrix, binary := make([]float64, c.classes*c.classes), make([]float64, 4)
	for i := range n {
		row := out[i*width:][:width]
		logits, score, value, wi := row[:c.classes], row[c.classes], row[c.classes+1], d.weight[i]
		squares += value * value
		if d.yes[i] < 0 || wi == 0 {
			continue
		}
		w += wi
		order := places(logits)
		label := int(d.y[i])
		if order[0] == label {
			right += wi
		}
		if slices.Contains(order[:2], label) {
			two += wi
		}
		labels += wi * float64(label)
		matrix[label*c.classes+order[0]] += wi
		k := int(d.yes[i]) * 2
		if score > 0.5 {
			k++
		}
		binary[k] += wi
		e := value - d.target[i]
		se, ae = se+wi*e*e, ae+wi*math.Abs(e)
		sy, sy2 = sy+wi*d.target[i], sy2+wi*d.target[i]*d.target[i]
		sum := 0.0
		for _, l := range logits {
			sum += math.Exp(l)
		}
		loss += wi * (math.Log(sum) - logits[label])
	}
	spread := 0.0 // in two passes
	for i, y := range d.target {
		spread += d.weight[i] * (y - sy/w) * (y - sy/w)
	}
	r2 := 1 - se/spread
	if spread < 1e-12*sy2 || w == 0 {
		r2 = math.NaN()
	}
	f1, f1n := 0.0, 0.0
	for k := range c.classes {
		tp, sum := matrix[k*c.classes+k], 0.0
		for j := range c.classes {
			sum += matrix[k*c.classes+j] + matrix[j*c.classes+k]
		}
		if sum > 0 {
			f1, f1n = f1+2*tp/sum, f1n+1
		}
	}
	return map[string]float64{"accuracy": right / w, "top-2": two / w, "confusion": right / w, "macro F1": f1 / f1n,
		"binary": (binary[0] + binary[3]) / w, "MSE": se / w, "RMSE": math.Sqrt(se / w), "MAE": ae / w, "R2": r2, "perplexity": math.Exp(loss / w),
		"squares": squares / float64(n), "columns": math.NaN(), "label": labels / w}
}

// places returns the places of the elements of a row, the largest first.
func places(row []float64) []int {
	at := make([]int, len(row))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(i, j int) int {
		switch {
		case row[i] > row[j]:
			return -1
		case row[i] < row[j]:
			return 1
		}
		return 0
	})
	return at
}

// area returns the AUC and half the share of pairs in one bin, from all pairs.
func (c metricCase) area(d metricRows, out []float64) (auc, bound float64) {
	score := func(i int) float64 { return out[i*(c.classes+2)+c.classes] }
	bin := func(i int) int { return min(int(score(i)*float64(c.bins)), c.bins-1) }
	pairs := 0.0
	for i, yes := range d.yes {
		for j, no := range d.yes {
			if yes != 1 || no != 0 {
				continue
			}
			w := d.weight[i] * d.weight[j]
			pairs += w
			switch {
			case score(i) > score(j):
				auc += w
			case score(i) == score(j):
				auc += w / 2
			}
			if bin(i) == bin(j) {
				bound += w / 2
			}
		}
	}
	return auc / pairs, bound / pairs
}

// equal reports whether a and b are as good as equal, or both NaN.
func equal(a, b, tol float64) bool {
	return a == b || about(a, b, tol) || math.IsNaN(a) && math.IsNaN(b)
}

// Over any number of samples and any batch, metrics are those of the predictions: counts exactly, others to rounding.
func TestMetricsAreThoseOfThePredictions(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		r := random(t)
		for trial := range 12 {
			c := metricCase{classes: 2 + r.IntN(4), bins: 1 + r.IntN(20), ignore: trial%3 == 1, weighted: trial%3 == 2}
			n := 1 + r.IntN(30)
			d := c.rows(t, r, n)
			opt := trainer.Options{Device: dev, Batch: 1 + r.IntN(9), EvalBatch: r.IntN(12), Fields: d.ds.Fields(), Seed: r.Uint64(),
				Optimizer: optim.Adam{Rate: 0.05}, TrainMetrics: trial%2 == 0}
			if trial%4 == 3 {
				opt.Fields, opt.Resident = nil, []dataloader.Dataset{d.ds}
			}
			tr := made(t, c.model, opt)
			trained := fit(t, tr, d.ds)
			if got := len(trained.Metrics) > 0; got != opt.TrainMetrics {
				t.Fatalf("Fit measured metrics: %v, TrainMetrics is %v", got, opt.TrainMetrics)
			}
			got := evaluate(t, tr, d.ds)
			out := outputs(t, tr, d.ds)
			label := fmt.Sprintf("%+v, %d samples, batch %d of evaluation", c, n, max(opt.EvalBatch, opt.Batch))
			for name, want := range c.want(d, out) {
				m, ok := got.Metric(name)
				tol := 1e-12
				if name == "perplexity" || name == "squares" { // float32 on the device
					tol = 1e-5
				}
				if !ok || !equal(m.Value, want, tol) {
					t.Errorf("%s: %s is %v (%v), want %v", label, name, m.Value, ok, want)
				}
			}
			exact, half := c.area(d, out)
			m, _ := got.Metric("AUC")
			auc, bound, err := metrics.AUCOf(m.Sum)
			if err != nil || !equal(auc, m.Value, 0) || !equal(bound, half, 1e-12) || math.Abs(auc-exact) > bound+1e-12 || math.IsNaN(auc) != math.IsNaN(exact) {
				t.Errorf("%s: AUC is %v ± %v, %v; exact is %v, half of the pairs in a bin %v", label, auc, bound, err, exact, half)
			}
		}
	})
}

// ones is a model whose loss is the mean of a parameter, with metrics of x.
func measuring(build func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, y := net.Input("x", batch, 3), net.Labels("y", batch)
		out := net.Dense(x, "out", 1, nil)
		m := trainer.Model{Loss: net.Mean(out, "loss", layers.Reduce{}), Output: out, Metrics: build(net, x, y)}
		m.Inputs, m.Params = net.Inputs(), net.Params()
		return m, nil
	}
}

func TestAWrongMetricIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		elsewhere := gorgonia.NewGraph()
		var other *gorgonia.Node
		trainer.Alone(func() { other = gorgonia.NewScalar(elsewhere, gorgonia.Float32, gorgonia.WithName("other")) })
		for want, build := range map[string]func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric{
			`metric 1 has no name`: func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric {
				s := net.Sum(x, "", layers.Reduce{})
				return []layers.Metric{{Name: "a", Sum: s}, {Sum: s}}
			},
			`two metrics are called "a"`: func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric {
				s := net.Sum(x, "", layers.Reduce{})
				return []layers.Metric{{Name: "a", Sum: s}, {Name: "a", Sum: s}}
			},
			`metric "a" has no Sum`: func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric {
				return []layers.Metric{{Name: "a"}}
			},
			`model's metric "a" "other" is not in the graph`: func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric {
				return []layers.Metric{{Name: "a", Sum: other}}
			},
			`metric "rows" is (4) at batch 4 and (8) at batch 8`: func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric {
				return []layers.Metric{{Name: "rows", Sum: net.Sum(x, "", layers.Reduce{Axes: []int{1}})}}
			},
		} {
			_, err := trainer.New(t.Context(), measuring(build), trainer.Options{Device: dev, Batch: 4})
			if !errors.Is(err, trainer.ErrModel) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
}

// Integers and wide floats are sums as they are, also over ranks, of which some may have no samples.
func TestSumsOfAnyTypeAreAdded(t *testing.T) {
	ds := columns(t, 5, dataloader.Column("x", []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 3), dataloader.Column("y", []int32{5, 4, 3, 2, 1}))
	model := measuring(func(net *layers.Net, x, y *gorgonia.Node) []layers.Metric {
		s := net.Sum(x, "", layers.Reduce{Axes: []int{0}})
		labels := net.Sum(net.Cast(y, "", gorgonia.Float32), "", layers.Reduce{})
		return []layers.Metric{
			{Name: "float32", Sum: s}, {Name: "float64", Sum: net.Cast(s, "", gorgonia.Float64)}, {Name: "int", Sum: net.Cast(s, "", gorgonia.Int)},
			{Name: "labels", Sum: labels}, {Name: "labels again", Sum: labels, Value: func(s []float64) float64 { return s[0] }},
		}
	})
	each(t, func(t *testing.T, dev kernels.Device) {
		for n := 1; n <= 4; n++ {
			_, results := trainedTogether(t, n, model, trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), TrainMetrics: true}, ds)
			for k, res := range results {
				for i, name := range []string{"float32", "float64", "int"} {
					if m := res.Metrics[i]; m.Name != name || !slices.Equal(m.Sum, []float64{35, 40, 45}) || !math.IsNaN(m.Value) {
						t.Errorf("%d ranks, result %d: got %+v, want sums 35, 40, 45 and no value", n, k, m)
					}
				}
				if a, b := res.Metrics[3], res.Metrics[4]; a.Value != 3 || b.Value != 15 {
					t.Errorf("%d ranks, result %d: got %+v and %+v, want 3 and 15", n, k, a, b)
				}
				if _, ok := res.Metric("other"); ok {
					t.Error("there is a metric called other")
				}
			}
		}
	})
}

// measured is a classifier of samples with metrics of every kind of sum.
func measured(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	logits := net.Dense(net.Dense(x, "hidden", 8, layers.ReLU), "out", 3, nil)
	m, err := net.Classifier(x, logits)
	if err != nil {
		return m, err
	}
	y := m.Inputs[1]
	confusion := metrics.Confusion(net, logits, y, nil)
	score := net.At(net.Softmax(logits, ""), "", 1, 0)
	positive := net.Equal(net.Cast(y, "", gorgonia.Float32), net.Constant(0.0, ""), "")
	m.Metrics = []layers.Metric{metrics.Accuracy(net, logits, y, nil), metrics.TopK(net, logits, y, 2, nil), confusion,
		metrics.OfConfusion(confusion, "mean IoU", metrics.Matrix.MeanIoU), metrics.AUC(net, score, positive, 100, nil),
		metrics.R2(net, score, positive, nil), {Name: "logits", Sum: net.Sum(logits, "", layers.Reduce{Axes: []int{0}})}}
	return m, net.Err()
}

// A device of exactly the plan's bytes measures all metrics, one of a byte less is refused, and bytes in use stay the same.
func TestMetricsArePartOfThePlan(t *testing.T) {
	parallel(t)
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) {
			ds, val := samples(t, 21, 4, 3), samples(t, 13, 4, 3)
			for _, train := range []bool{false, true} {
				opt := trainer.Options{Device: d.open(t, 0), Batch: 8, EvalBatch: 5, Fields: ds.Fields(), Optimizer: optim.Adam{}, TrainMetrics: train}
				plan, err := trainer.Plan(t.Context(), measured, opt)
				if err != nil {
					t.Fatal(err)
				}
				plain, err := trainer.Plan(t.Context(), small, opt)
				if err != nil {
					t.Fatal(err)
				}
				if plan.Category("results") <= plain.Category("results")+2*9*8 { // a matrix of float64 for each slot, and others
					t.Errorf("results have %d bytes with metrics, %d without", plan.Category("results"), plain.Category("results"))
				}
				if d.name != "cuda" { // the driver's own allocations have a granularity
					opt.Device = d.open(t, plan.Total)
				}
				opt.Memory = plan.Total - 1
				if tr, err := trainer.New(t.Context(), measured, opt); !errors.As(err, new(*trainer.CapacityError)) {
					t.Errorf("a byte less: got %v, %v", tr, err)
				}
				opt.Memory = plan.Total
				tr := made(t, measured, opt)
				want := inUse(tr)
				var first trainer.Result
				for epoch := range 5 {
					fit(t, tr, ds)
					res := evaluate(t, tr, val)
					if again := evaluate(t, tr, val); fmt.Sprint(again) != fmt.Sprint(res) {
						t.Errorf("%+v, then %+v", res, again)
					}
					if acc, _ := res.Metric("accuracy"); acc.Value != res.Accuracy {
						t.Errorf("accuracy %v, the metric says %v", res.Accuracy, acc.Value)
					}
					if got := inUse(tr); got != want {
						t.Fatalf("epoch %d: %d bytes in use, %d before", epoch, got, want)
					}
					if epoch == 0 {
						first = res
					}
				}
				if fmt.Sprint(first.Metrics) == fmt.Sprint(evaluate(t, tr, val).Metrics) {
					t.Error("metrics have not changed by training")
				}
			}
		})
	}
}

func TestStepsWithMetricsAllocateNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if dev.Name() == "emu" {
			t.Skip("needs a device that makes no heap objects of its own")
		}
		ds := samples(t, 8*12+3, 4, 3)
		noHeapObjects(t, measured, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, TrainMetrics: true}, ds)
	})
}

// Fit measures metrics before the updates of its steps, and they change no bit of what is learned.
func TestMetricsChangeNothingThatIsLearned(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 21, 4, 3)
		var all []map[string]string
		for _, train := range []bool{false, true} {
			tr := made(t, measured, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}, TrainMetrics: train, Seed: 5})
			for range 3 {
				res := fit(t, tr, ds)
				if m, ok := res.Metric("accuracy"); ok != train || ok && m.Value != res.Accuracy {
					t.Errorf("TrainMetrics %v: accuracy %v, the metric is %+v", train, res.Accuracy, m)
				}
			}
			all = append(all, learned(t, tr))
		}
		if names := differing(all[0], all[1]); names != nil {
			t.Errorf("parameters %q differ", names)
		}
	})
}

// TestEdgesOfMetrics has labels that are no class, scores at and beyond the ends of the bins, and weights of rows of several elements.
func TestEdgesOfMetrics(t *testing.T) {
	nan := math.NaN()
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, y, w := net.Input("x", batch, 2, 2), net.Indices("y", batch, 2), net.Input("w", batch) // [B, C, positions]
		score, target := net.Input("score", batch), net.Input("target", batch)
		p := net.Param("p", layers.Ones{}, 1)
		yes := net.At(y, "", 1, 0)
		m := trainer.Model{Loss: net.Mean(net.Square(p, ""), "loss", layers.Reduce{}), Inputs: net.Inputs(), Params: net.Params(), Output: net.Mul(w, p, "")}
		m.Metrics = []layers.Metric{metrics.Accuracy(net, x, y, w), metrics.Confusion(net, x, y, w), metrics.MSE(net, x, x, w),
			metrics.Mean(net, "x", x, w), metrics.AUC(net, score, yes, 2, w), metrics.R2(net, score, target, w)}
		return m, net.Err()
	}
	for _, c := range []struct {
		what      string
		y         []int32
		w, score  []float32
		target    float32
		want, sum []float64 // values, and the sums of AUC
	}{
		{"all in range", []int32{1, 0, 0, 0, 1, 1}, []float32{1, 2, 0}, []float32{1, 0, 0.5}, 3, []float64{4.0 / 6, 4.0 / 6, 0, 0.25, 1, nan}, []float64{0, 2, 1, 0}},
		{"no class, without weight", []int32{1, 0, 0, 0, 2, -1}, []float32{1, 2, 0}, []float32{1, 0, 0.5}, 0, []float64{4.0 / 6, 4.0 / 6, 0, 0.25, 1, nan}, []float64{0, 2, 1, 0}},
		{"no class: above", []int32{1, 0, 0, 0, 2, 0}, []float32{1, 1, 1}, []float32{1, 0, 0.5}, 3, []float64{3.0 / 6, nan, 0, 3.0 / 6, nan, nan}, nil},
		{"no class: below", []int32{1, 0, 0, 0, 0, -1}, []float32{1, 1, 1}, []float32{1, 0, 0.5}, 0.1, []float64{4.0 / 6, nan, 0, 3.0 / 6, 0.75, nan}, nil},
		{"scores beyond", []int32{1, 0, 0, 0, 0, 0}, []float32{1, 1, 1}, []float32{7, -7, 0.5}, 3, []float64{4.0 / 6, 4.0 / 6, 0, 3.0 / 6, 0.75, nan}, []float64{0, 1, 1, 1}},
		{"score without a number", []int32{1, 0, 0, 0, 0, 0}, []float32{1, 1, 1}, []float32{float32(nan), 0, 0.5}, 3, []float64{4.0 / 6, 4.0 / 6, 0, 3.0 / 6, nan, nan}, nil},
		{"one class", []int32{0, 0, 0, 0, 0, 0}, []float32{1, 1, 1}, []float32{1, 0, 0.5}, 3, []float64{3.0 / 6, 3.0 / 6, 0, 3.0 / 6, nan, nan}, []float64{0, 1, 0, 2}},
		{"no weight", []int32{1, 0, 0, 0, 0, 0}, []float32{0, 0, 0}, []float32{1, 0, 0.5}, 3, []float64{nan, nan, nan, nan, nan, nan}, []float64{0, 0, 0, 0}},
	} {
		// By its logits, the first sample is of classes 1 and 0, the others are of classes 0 and 1.
		x := []float32{0, 1, 2, 0, 0, 0, -1, 1, 0, 0, -1, 4}
		ds := columns(t, 3, dataloader.Column("x", x, 2, 2), dataloader.Column("y", c.y, 2), dataloader.Column("w", c.w),
			dataloader.Column("score", c.score), dataloader.Column("target", []float32{c.target, c.target, c.target}))
		each(t, func(t *testing.T, dev kernels.Device) {
			tr := made(t, model, trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields()})
			res := evaluate(t, tr, ds)
			for i, want := range c.want {
				if m := res.Metrics[i]; !equal(m.Value, want, 1e-12) {
					t.Errorf("%s: %s is %v, want %v; %v", c.what, m.Name, m.Value, want, m.Sum)
				}
			}
			if m := res.Metrics[4]; c.sum != nil && !slices.Equal(m.Sum, c.sum) {
				t.Errorf("%s: the bins have %v, want %v", c.what, m.Sum, c.sum)
			}
		})
	}
}

// Steps and Step train models with metrics, with fields that only metrics read, and with the bits of Fit.
func TestOwnLoopsTrainModelsWithMetrics(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		r := random(t)
		c := metricCase{classes: 3, bins: 5}
		d := c.rows(t, r, 11)
		for _, train := range []bool{false, true} {
			opt := trainer.Options{Device: dev, Batch: 4, EvalBatch: 3, Fields: d.ds.Fields(), Sequential: true, TrainMetrics: train}
			a, b := made(t, c.model, opt), made(t, c.model, opt)
			fit(t, a, d.ds)
			for _, err := range b.Steps(t.Context(), d.ds) {
				if err != nil {
					t.Fatal(err)
				}
				if res := evaluate(t, b, d.ds); len(res.Metrics) != 14 {
					t.Errorf("%d metrics in the body", len(res.Metrics))
				}
			}
			if names := differing(learned(t, a), learned(t, b)); names != nil {
				t.Errorf("parameters %q differ", names)
			}
			_, err := b.Step(t.Context(), trainer.Batch{Rows: 2, Fill: func(f trainer.Fields) error {
				clear(f.Float32("x"))
				clear(f.Int32("y"))
				if train {
					clear(f.Float32("target"))
					clear(f.Int32("yes"))
				}
				return nil
			}})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
