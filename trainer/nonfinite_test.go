package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// poisoned returns samples whose value j of sample i is v.
func poisoned(t *testing.T, n, i, j int, v float32) dataloader.Dataset {
	x, y := make([]float32, n*4), make([]uint8, n)
	for k := range x {
		x[k] = float32(k%7) - 3
	}
	x[i*4+j] = v
	return columns(t, n, dataloader.Column("x", x, 4), dataloader.Column("y", y))
}

func TestNotFiniteDataNameFieldAndSample(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			good := samples(t, 10, 4, 3)
			for _, v := range []float64{math.NaN(), math.Inf(1)} {
				bad := poisoned(t, 10, 6, 1, float32(v))
				tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields(), Keep: weights, Guard: guard,
					Resident: []dataloader.Dataset{bad}, Sequential: true})
				resident, streamed := bad, &faulty{Dataset: bad}
				for _, ds := range []dataloader.Dataset{resident, streamed} {
					first := true
					for _, pass := range []func(context.Context, dataloader.Dataset) (trainer.Result, error){tr.Evaluate, tr.Fit} {
						_, err := pass(context.Background(), ds)
						var e *trainer.NonFiniteError
						if !errors.As(err, &e) || !errors.Is(err, trainer.ErrNonFinite) || e.Sample != 6 || !strings.HasSuffix(e.Label, "x") || e.Op != "" || e.Index != 1 {
							t.Errorf("guard %d, %v, evaluation %v: got %v, want element 1 of field x, sample 6", guard, v, first, err)
						}
						if !strings.Contains(fmt.Sprint(err), "step 1") {
							t.Errorf("%q does not name step 1", err)
						}
						first = false
					}
				}
				fit(t, tr, good)
				if loss := evaluate(t, tr, good).Loss; math.IsNaN(loss) {
					t.Error("training went on with bad parameters")
				}
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestALabelOutsideTheClassesIsNamed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := samples(t, 10, 4, 3)
		x, y := make([]float32, 40), make([]uint8, 10)
		y[7] = 3
		bad := columns(t, 10, dataloader.Column("x", x, 4), dataloader.Column("y", y))
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields(), Keep: weights, Resident: []dataloader.Dataset{bad}})
		for _, ds := range []dataloader.Dataset{bad, &faulty{Dataset: bad}} {
			for _, pass := range []func(context.Context, dataloader.Dataset) (trainer.Result, error){tr.Fit, tr.Evaluate} {
				_, err := pass(context.Background(), ds)
				var e *trainer.NonFiniteError
				if !errors.As(err, &e) || !errors.Is(err, trainer.ErrLabel) || e.Sample != 7 || e.BadLabel != 3 || e.Classes != 3 {
					t.Errorf("got %v, want label 3 of sample 7", err)
				}
			}
		}
		for _, label := range []int64{-1, 3, 1 << 40, math.MinInt64} {
			wide := columns(t, 1, dataloader.Column("x", x[:4], 4), dataloader.Column("y", []int64{label}))
			w := made(t, small, trainer.Options{Device: dev, Batch: 2, Fields: wide.Fields()})
			if _, err := w.Fit(context.Background(), wide); !errors.Is(err, trainer.ErrLabel) || !strings.Contains(err.Error(), fmt.Sprint(label)) {
				t.Errorf("got %v, want label %d", err, label)
			}
		}
	})
}

// logOf is a head whose logarithm is of 0 where x is.
func logOf(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	h := net.Dense(x, "body", 4, nil)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	l, err := gorgonia.Log(x)
	if err != nil {
		return trainer.Model{}, err
	}
	gorgonia.WithName("head/log")(l)
	return net.Classifier(x, gorgonia.Must(gorgonia.Add(h, l)))
}

func TestALogarithmOfZeroNamesItsLayerAndChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			x, y := make([]float32, 48), make([]uint8, 12)
			for i := range x {
				x[i] = float32(i%5) + 1
			}
			good := columns(t, 12, dataloader.Column("x", slices.Clone(x), 4), dataloader.Column("y", y))
			x[6*4+2], y[6] = 0, 2 // the right class has probability 0
			x[7*4+1] = 0          // a later one
			bad := columns(t, 12, dataloader.Column("x", x, 4), dataloader.Column("y", y))
			opt := trainer.Options{Device: dev, Batch: 4, Fields: good.Fields(), Guard: guard, Keep: []string{"body/w"}, Sequential: true, Optimizer: optim.Adam{}}
			tr := made(t, logOf, opt)
			_, err := tr.Fit(context.Background(), bad)
			var e *trainer.NonFiniteError
			if !errors.As(err, &e) || e.Label != "head/log" || e.Op != "log" || e.Index != 2*4+2 || !math.IsInf(e.Value, -1) || !strings.Contains(err.Error(), "step 1") {
				t.Errorf("guard %d: got %v, want -Inf at element 10 of log head/log at step 1", guard, err)
			}
			if n := tr.Stats().Updates; n != 1 {
				t.Errorf("guard %d: %d updates, want the one before", guard, n)
			}
			// What it learned is what the first batch taught, and no more.
			first, err := dataloader.Subset(bad, 0, 4)
			if err != nil {
				t.Fatal(err)
			}
			other := made(t, logOf, opt)
			fit(t, other, first)
			got, want := kept(t, tr, good, "body/w"), kept(t, other, good, "body/w")
			if string(got["body/w"]) != string(want["body/w"]) {
				t.Errorf("guard %d: the failed step has changed parameters", guard)
			}
			fit(t, tr, good)
		}
	})
}

// terms has a loss of two terms: the mean of x·w, and that of x ÷ z.
func terms(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, z := net.Input("x", batch, 1), net.Input("z", batch, 1)
	w := net.Param("layer/w", layers.Ones{}, 1, 1)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	xw := gorgonia.Must(gorgonia.Mul(x, w))
	first, second := gorgonia.Must(gorgonia.Mean(xw)), gorgonia.Must(gorgonia.HadamardDiv(x, z))
	gorgonia.WithName("term1/mean")(first)
	gorgonia.WithName("term2/quotient")(second)
	loss := gorgonia.Must(gorgonia.Add(first, gorgonia.Must(gorgonia.Mean(second))))
	return trainer.Model{Inputs: net.Inputs(), Output: xw, Loss: loss, Params: net.Params()}, nil
}

func TestTheTermOfALossThatIsNotFiniteIsNamed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := columns(t, 4, dataloader.Column("x", []float32{1, 2, 3, 0}, 1), dataloader.Column("z", []float32{1, 2, 3, 0}, 1))
		tr := made(t, terms, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Sequential: true})
		for what, pass := range map[string]func(context.Context, dataloader.Dataset) (trainer.Result, error){"fit": tr.Fit, "evaluate": tr.Evaluate} {
			_, err := pass(context.Background(), ds)
			var e *trainer.NonFiniteError
			if !errors.As(err, &e) || e.Label != "term2/quotient" || e.Op != "div" || e.Index != 3 || !math.IsNaN(e.Value) {
				t.Errorf("%s: got %v, want NaN at element 3 of div term2/quotient", what, err)
			}
		}
	})
}

func TestAGradientThatIsNotFiniteStopsTheStep(t *testing.T) {
	// The loss is the square root of w·x: finite at w = 0, where its gradient is not.
	root := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 1)
		w := net.Param("root/w", layers.Zeros{}, 1, 1)
		b := net.Param("other/b", layers.Ones{}, 1, 1)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		s := gorgonia.Must(gorgonia.Sqrt(gorgonia.Must(gorgonia.Mul(x, w))))
		loss := gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Add(s, gorgonia.Must(gorgonia.Mul(x, b))))))
		return trainer.Model{Inputs: net.Inputs(), Output: s, Loss: loss, Params: net.Params()}, nil
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := columns(t, 4, dataloader.Column("x", []float32{1, 1, 1, 1}, 1))
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			keep := []string{"root/w", "other/b"}
			tr := made(t, root, trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Guard: guard, Keep: keep})
			before := kept(t, tr, ds, keep...)
			_, err := tr.Fit(context.Background(), ds)
			var e *trainer.NonFiniteError
			if !errors.As(err, &e) || !errors.Is(err, trainer.ErrNonFinite) {
				t.Fatalf("guard %d: got %v, want a NonFiniteError", guard, err)
			}
			after := kept(t, tr, ds, keep...)
			if string(after["root/w"]) != string(before["root/w"]) || guard == trainer.GuardStep && string(after["other/b"]) != string(before["other/b"]) {
				t.Errorf("guard %d: parameters %v, were %v, after %v", guard, after, before, err)
			}
		}
	})
}

func TestARateOutOfRangeIsAnErrorBeforeTheUpdate(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, rate := range []float64{math.NaN(), -1e-30, 1e300} {
			ds := numbers(t, 1, 1, 1)
			tr := made(t, scalar(0), trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(),
				Optimizer: optim.SGD{Rate: 1}, Schedule: third(rate)})
			_, err := tr.Fit(context.Background(), ds)
			if want := fmt.Sprintf("third: the rate of update 3 is %v", rate); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if n, w := tr.Stats().Updates, weight(t, tr); n != 2 || w != -2 {
				t.Errorf("rate %v: w = %v after %d updates, want -2 after 2", rate, w, n)
			}
		}
	})
}

// third is a schedule with a rate of its own at update 3.
type third float64

func (r third) Rate(base float64, t int64) float64 {
	if t == 3 {
		return float64(r)
	}
	return base
}

// A rate that decays to nothing ends in updates that change no bit, and never in an error.
func TestARateThatDecaysToNothingChangesNothing(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, o := range optimizers() {
			for name, schedule := range map[string]optim.Schedule{"step": optim.Step{Every: 1, Factor: 0.01}, "cosine": optim.Cosine{Steps: 10}} {
				tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: o.Optimizer, Schedule: schedule})
				fit(t, tr, ds) // 10 updates: the rate is 1e-18 of the first, or nearly 0
				before := learned(t, tr)
				for range 2 {
					fit(t, tr, ds)
				}
				if !maps.Equal(learned(t, tr), before) {
					t.Errorf("%s, %s: parameters change at a rate of 0", o.Name, name)
				}
				if n := tr.Stats().Updates; n != 30 {
					t.Errorf("%s, %s: %d updates, want 30", o.Name, name, n)
				}
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
