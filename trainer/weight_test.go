package trainer_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// weighted has the losses x·w, with a weight for each position of a sample, and w starting at start. An output is correct where x is 5.
func weighted(start float64, positions int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, weight := net.Input("x", batch, positions), net.Input("weight", batch, positions)
		w, five := net.Param("layer/w", layers.Constant{Value: start}, 1, 1), net.Param("layer/five", layers.Constant{Value: 5}, 1, positions)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		rows := gorgonia.Must(gorgonia.Reshape(x, []int{batch * positions, 1}))
		losses := gorgonia.Must(gorgonia.Mul(rows, w))
		out := gorgonia.Must(gorgonia.Reshape(losses, []int{batch, positions}))
		correct := gorgonia.Must(gorgonia.BroadcastEq(x, five, true, nil, []byte{0}))
		return trainer.Model{Inputs: net.Inputs(), Output: out, Loss: losses, Weight: weight, Correct: correct, Params: net.Params()}, nil
	}
}

// weighing is a dataset of samples of x, each position with a weight.
func weighing(t testing.TB, positions int, x, weight []float32) *dataloader.Slices {
	return columns(t, len(x)/positions, dataloader.Column("x", x, positions), dataloader.Column("weight", weight, positions))
}

// wOf reads the parameter of weighted.
func wOf(t testing.TB, tr *trainer.Trainer) float64 {
	t.Helper()
	ps, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	for _, p := range ps {
		if p.Name == "layer/w" {
			if err := p.Read(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	return decoded(b)[0]
}

// Six numbers with the weights 1 1 0 1 0 0, in windows of one update: the gradient is 7/3, however the window is cut into steps.
func TestWeightsArePartOfTheMean(t *testing.T) {
	x, w := []float32{1, 1, 1, 5, 7, 9}, []float32{1, 1, 0, 1, 0, 0}
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, c := range []struct{ positions, batch, steps int }{{1, 6, 1}, {1, 2, 3}, {1, 4, 2}, {1, 1, 8}, {3, 2, 1}, {3, 1, 2}, {2, 2, 2}} {
			for name, change := range map[string]func(*trainer.Options){
				"plain":   func(*trainer.Options) {},
				"each":    func(o *trainer.Options) { o.Guard = trainer.GuardEach },
				"scaled":  func(o *trainer.Options) { o.LossScale = optim.Scaling{Mode: optim.ScaleAlways} },
				"clipped": func(o *trainer.Options) { o.Clip.Norm = 100 },
			} {
				ds := weighing(t, c.positions, x, w)
				opt := trainer.Options{Device: dev, Batch: c.batch, Accumulate: c.steps, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1},
					Frozen: []string{"layer/five"}}
				change(&opt)
				tr := made(t, weighted(0.5, c.positions), opt)
				got := fit(t, tr, ds)
				if w := wOf(t, tr); !about(w, 0.5-7.0/3, 1e-6) {
					t.Errorf("%+v, %s: w = %v, want 1/2 - 7/3", c, name, w)
				}
				if !about(got.Loss, 0.5*7/3, 1e-6) || !about(got.Accuracy, 1.0/3, 1e-6) || got.Weight != 3 || got.Skipped != 0 {
					t.Errorf("%+v, %s: got %+v, want loss 7/6, accuracy 1/3, weight 3", c, name, got)
				}
				if got := evaluate(t, tr, ds); !about(got.Loss, (0.5-7.0/3)*7/3, 1e-6) || !about(got.Accuracy, 1.0/3, 1e-6) {
					t.Errorf("%+v, %s: evaluation got %+v", c, name, got)
				}
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A window whose weights are all 0 leaves no trace: the parameters are, to the bit, those of a training without its samples.
func TestAWindowWithoutWeightMakesNoUpdate(t *testing.T) {
	each(t, checkWeightless)
	// Here the next step is read before the result of a step is known.
	t.Run("late", func(t *testing.T) {
		checkWeightless(t, emutest.OpenChecked(t, emu.Options{Delay: 300 * time.Microsecond, Seed: random(t).Uint64()}))
	})
}

func checkWeightless(t *testing.T, dev kernels.Device) {
	for _, steps := range []int{1, 2} {
		for _, scale := range []optim.Scaling{{}, {Mode: optim.ScaleAlways}} {
			train := func(x, w []float32) (float64, trainer.Result, int64) {
				ds := weighing(t, 1, x, w)
				tr := made(t, weighted(1, 1), trainer.Options{Device: dev, Batch: 2, Accumulate: steps, Fields: ds.Fields(), Sequential: true,
					Optimizer: optim.Adam{Rate: 0.1}, LossScale: scale, Frozen: []string{"layer/five"}})
				fit(t, tr, ds)
				res := fit(t, tr, ds)
				return wOf(t, tr), res, tr.Stats().Updates
			}
			gap := []float32{1, 2, 3, 4, 1e30, 1e30, 1e30, 1e30, -5, 6, 7, 8}
			want, res, updates := train(append(gap[:4:4], gap[8:]...), []float32{1, 1, 1, 1, 1, 1, 1, 1})
			got, gaps, n := train(gap, []float32{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1})
			if got != want || n != updates || !about(gaps.Loss, res.Loss, 1e-7) {
				t.Errorf("%d steps a window, scaling %v: w = %v after %d updates, loss %v; without the weightless samples %v after %d, loss %v",
					steps, scale.Mode, got, n, gaps.Loss, want, updates, res.Loss)
			}
			if gaps.Skipped != 2/steps || gaps.Samples != 12 || gaps.Weight != 8 {
				t.Errorf("%d steps a window: got %+v, want %d skipped, 12 samples of weight 8", steps, gaps, 2/steps)
			}
		}
	}
	none := weighing(t, 1, []float32{1, 2}, []float32{0, 0})
	tr := made(t, weighted(1, 1), trainer.Options{Device: dev, Batch: 2, Fields: none.Fields(), Frozen: []string{"layer/five"}})
	if res := fit(t, tr, none); !math.IsNaN(res.Loss) || res.Skipped != 1 || wOf(t, tr) != 1 {
		t.Errorf("no weight at all: got %+v, w = %v", res, wOf(t, tr))
	}
}

// The unit of weights does not matter, also where float16 and a loss scale leave little room.
func TestTheUnitOfWeightsDoesNotMatter(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, steps := range []int{1, 2} {
			for _, precision := range []arena.DType{arena.Float32, arena.Float16} {
				var want trainer.Result
				for _, unit := range []float32{1, 1e-12, 1e8, 1e-30} {
					w := make([]float32, 24)
					for i := range w {
						w[i] = unit * float32(i%4) // the first step may have no weight
					}
					r := rand.New(rand.NewPCG(3, 5))
					x := make([]float32, 24*4)
					for i := range x {
						x[i] = float32(r.NormFloat64())
					}
					y := make([]uint8, 24)
					for i := range y {
						y[i] = uint8(r.IntN(3))
					}
					ds := columns(t, 24, dataloader.Column("x", x, 4), dataloader.Column("y", y), dataloader.Column("weight", w))
					tr := made(t, weightedSmall, trainer.Options{Device: dev, Batch: 4, Accumulate: steps, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.05},
						Precision: precision, Seed: 3, Clip: optim.Clip{Norm: 1}})
					for range 3 {
						fit(t, tr, ds)
					}
					got := evaluate(t, tr, ds)
					if unit == 1 {
						want = got
					}
					tol := 1e-5
					if precision == arena.Float16 {
						tol = 1e-2
					}
					if !about(got.Loss, want.Loss, tol) || !about(got.Accuracy, want.Accuracy, 1e-5) {
						t.Errorf("%d steps, %v, weights × %v: loss %v, accuracy %v; × 1: %v, %v", steps, precision, unit, got.Loss, got.Accuracy, want.Loss, want.Accuracy)
					}
				}
			}
		}
	})
}

// Where all parameters are frozen, batches without weight are skipped all the same.
func TestBatchesWithoutWeightAreSkippedWhereAllIsFrozen(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := weighing(t, 1, []float32{1, 2, 3, 4, 5, 6}, []float32{1, 1, 0, 0, 1, 1})
		tr := made(t, weighted(1, 1), trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Frozen: []string{"layer"}, Sequential: true})
		if res := fit(t, tr, ds); res.Skipped != 1 || res.Weight != 4 || !about(res.Loss, 3.5, 1e-6) {
			t.Errorf("got %+v, want one skipped, loss 14/4", res)
		}
	})
}

// A weight below 0 is an error that says so, also where the sum of weights is not below 0.
func TestANegativeWeightIsAnError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, w := range [][]float32{{1, -1}, {3, -1}, {0, -1}} {
			ds := weighing(t, 1, []float32{1, 2}, w)
			tr := made(t, weighted(1, 1), trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Frozen: []string{"layer/five"}})
			_, fitted := tr.Fit(t.Context(), ds)
			_, evaluated := tr.Evaluate(t.Context(), ds)
			for _, err := range []error{fitted, evaluated} {
				if !errors.Is(err, trainer.ErrNonFinite) || !strings.Contains(fmt.Sprint(err), "weights, which must be 0 or more") {
					t.Errorf("weights %v: got %v", w, err)
				}
			}
			if w := wOf(t, tr); w != 1 {
				t.Errorf("w = %v, want 1, as before", w)
			}
		}
	})
}

// weightedSmall is unweightedSmall with a weight for each sample.
func weightedSmall(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, weight := net.Input("x", batch, 4), net.Input("weight", batch)
	return net.WeightedClassifier(x, smallLogits(net, x), weight)
}

func unweightedSmall(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	return net.Classifier(x, smallLogits(net, x))
}

func smallLogits(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
	return net.Dense(net.Dense(x, "hidden", 8, layers.Tanh), "out", 3, nil)
}

// weighedByData computes the weights from the data: a third of the samples have none.
func weighedByData(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	weight, err := gorgonia.Max(gorgonia.Must(gorgonia.Rectify(x)), 1)
	if err != nil {
		return trainer.Model{}, err
	}
	return net.WeightedClassifier(x, smallLogits(net, x), weight)
}

// Equal weights learn like none, and streaming and resident, in 16 bits, and with recomputation.
func TestEqualWeightsLearnLikeNone(t *testing.T) {
	const n = 22
	plain := samples(t, n, 4, 3)
	x, y, w := make([]float32, n*4), make([]uint8, n), make([]float32, n)
	for i := range n {
		row := [][]byte{make([]byte, 16), make([]byte, 1)}
		if err := plain.Fetch(t.Context(), dataloader.At{Index: i}, row); err != nil {
			t.Fatal(err)
		}
		for k, v := range decoded(row[0]) {
			x[i*4+k] = float32(v)
		}
		y[i], w[i] = row[1][0], 0.25
	}
	ds := columns(t, n, dataloader.Column("x", x, 4), dataloader.Column("y", y), dataloader.Column("weight", w))
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, change := range map[string]func(*trainer.Options){
			"streaming": func(*trainer.Options) {},
			"resident":  func(o *trainer.Options) { o.Resident, o.Fields = []dataloader.Dataset{ds}, nil },
			"bfloat16":  func(o *trainer.Options) { o.Precision = arena.BFloat16 },
			"windows":   func(o *trainer.Options) { o.Batch, o.Accumulate = 4, 2 },
			"recompute": func(o *trainer.Options) { o.Recompute.Layers = []string{"hidden"} },
		} {
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.AdamW{Rate: 0.01}, Seed: 3}
			change(&opt)
			a := made(t, weightedSmall, opt)
			resA := fit(t, a, ds)
			opt.Fields, opt.Resident = plain.Fields(), nil
			b := made(t, unweightedSmall, opt)
			resB := fit(t, b, plain)
			tol := 1e-5
			if opt.Precision != 0 {
				tol = 1e-2
			}
			if !about(resA.Loss, resB.Loss, tol) || !about(resA.Accuracy, resB.Accuracy, 1e-6) || resA.Weight != n/4.0 {
				t.Errorf("%s: got %+v with equal weights, %+v without", name, resA, resB)
			}
			want := learned(t, b)
			for param, got := range learned(t, a) {
				g, w := decoded([]byte(got)), decoded([]byte(want[param]))
				for i := range g {
					if !about(g[i], w[i], tol) {
						t.Fatalf("%s: %s[%d] is %v with equal weights, %v without", name, param, i, g[i], w[i])
					}
				}
			}
		}
	})
}

func TestAWeightThatDoesNotFitIsRefused(t *testing.T) {
	for want, model := range map[string]trainer.ModelFunc{
		`weight "weight" is (3)`: func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			m, err := weightedSmall(g, batch)
			m.Weight = gorgonia.NewVector(g, gorgonia.Float32, gorgonia.WithShape(3), gorgonia.WithName("weight"))
			return m, err
		},
		`correct "half" is`: func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			m, err := weighted(1, 2)(g, batch)
			m.Correct = gorgonia.NewVector(g, gorgonia.Float32, gorgonia.WithShape(batch), gorgonia.WithName("half"))
			return m, err
		},
		`weight "weight" is float32 (8), loss "loss" is float32 ()`: func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			m, err := unweightedSmall(g, batch)
			m.Weight = layers.New(g).Input("weight", batch)
			m.Inputs = append(m.Inputs, m.Weight)
			return m, err
		},
		`model: weight "weight" is float32 (8, 1), must be float32 (8) like the losses`: func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x, weight := net.Input("x", batch, 4), net.Input("weight", batch, 1)
			return net.WeightedRegressor(x, net.Dense(x, "out", 3, nil), weight)
		},
	} {
		if _, err := trainer.Plan(t.Context(), model, trainer.Options{Batch: 8}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Labels of the class that is ignored count for nothing, in any position, although they are no class of the model: the same as weights of 0.
func TestIgnoredLabelsCountForNothing(t *testing.T) {
	const n, positions, padding = 7, 3, -100
	model := func(padded bool) trainer.ModelFunc {
		return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x, y := net.Input("x", batch, positions, 4), net.Indices("y", batch, positions)
			logits, labels := smallLogits(net, net.Reshape(x, "rows", batch*positions, 4)), net.Reshape(y, "labels", batch*positions)
			m := trainer.Model{Output: net.Reshape(logits, "logits", batch, positions, 3)}
			if padded {
				labels, m.Weight = net.Ignore(labels, "ignore", padding)
			} else {
				m.Weight = net.Input("weight", batch, positions)
			}
			m.Loss, m.Correct = net.CrossEntropy(logits, labels, "losses"), net.Correct(logits, labels, "correct")
			m.Inputs, m.Params = net.Inputs(), net.Params()
			return m, net.Err()
		}
	}
	r := random(t)
	x, y, safe, w := make([]float32, n*positions*4), make([]int32, n*positions), make([]int32, n*positions), make([]float32, n*positions)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		if y[i] = padding; i%positions < 1+i/positions%positions {
			y[i], w[i] = r.Int32N(3), 1
			safe[i] = y[i]
		}
	}
	column := dataloader.Column("x", x, positions, 4)
	padded := columns(t, n, column, dataloader.Column("y", y, positions))
	given := columns(t, n, column, dataloader.Column("y", safe, positions), dataloader.Column("weight", w, positions))
	each(t, func(t *testing.T, dev kernels.Device) {
		var all []map[string]string
		var results []trainer.Result
		for _, ds := range []*dataloader.Slices{padded, given} {
			tr := made(t, model(ds == padded), trainer.Options{Device: dev, Batch: 2, Accumulate: 2, Fields: ds.Fields(), Optimizer: optim.Adam{}})
			fit(t, tr, ds)
			res := fit(t, tr, ds)
			res.Uploaded = 0
			all, results = append(all, learned(t, tr)), append(results, res)
		}
		if names := differing(all[0], all[1]); names != nil || !reflect.DeepEqual(results[0], results[1]) {
			t.Errorf("ignored labels give %+v, weights of 0 give %+v; other parameters: %q", results[0], results[1], names)
		}
	})
}

// A label that is no class is named by its sample, also among labels of several positions with weights.
func TestABadLabelAmongIgnoredOnesIsNamed(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, y := net.Input("x", batch, 2, 4), net.Indices("y", batch, 2)
		logits := smallLogits(net, net.Reshape(x, "rows", batch*2, 4))
		labels, weight := net.Ignore(net.Reshape(y, "labels", batch*2), "ignore", -100)
		return trainer.Model{Inputs: net.Inputs(), Output: logits, Loss: net.CrossEntropy(logits, labels, "losses"), Weight: weight,
			Params: net.Params()}, net.Err()
	}
	ds := columns(t, 4, dataloader.Column("x", make([]float32, 32), 2, 4), dataloader.Column("y", []int32{0, -100, 1, 2, -100, 7, -100, 0}, 2))
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, model, trainer.Options{Device: dev, Batch: 2, Accumulate: 2, Fields: ds.Fields(), Sequential: true})
		_, err := tr.Fit(t.Context(), ds)
		var bad *trainer.NonFiniteError
		if !errors.As(err, &bad) || !errors.Is(err, trainer.ErrLabel) || bad.Sample != 2 || bad.BadLabel != 7 {
			t.Errorf("got %v, want label 7 of sample 2", err)
		}
	})
}
