package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// numbersOf returns the elements of float32 parameters, by name.
func numbersOf(t testing.TB, list func() ([]trainer.Param, error)) map[string][]float64 {
	t.Helper()
	ps, err := list()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]float64)
	for _, p := range ps {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			t.Fatal(err)
		}
		all[p.Name] = decoded(b)
	}
	return all
}

// averages are the kinds of averages that tests try.
var averages = []optim.Average{
	{Decay: 0.9}, {Decay: 0.5, Start: 4}, {Decay: 0.75, Every: 3}, {Uniform: true}, {Uniform: true, Start: 6, Every: 2},
}

// Averages are those of the formula, in float64, over the parameters after each update: with one step an update and with windows, with guards of both
// kinds, and with frozen layers, which have none.
func TestAveragesAreThoseOfTheFormula(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for i, average := range averages {
			opt := trainer.Options{Device: dev, Batch: 8, Optimizer: optim.Adam{Rate: 0.05}, Average: average, Guard: trainer.Guard(i % 2), Accumulate: 1 + i%3}
			if i == 3 {
				opt.Frozen = []string{"hidden/b"}
			}
			ds := samples(t, 8*opt.Accumulate, 4, 3) // an update an epoch
			opt.Fields = ds.Fields()
			opt = exactly(t, mix{model: small}, opt)
			tr := made(t, small, opt)
			want := numbersOf(t, tr.Params)
			if got := numbersOf(t, tr.Averaged().Params); !equalNumbers(got, want, 0) {
				t.Errorf("%+v: averages start at %v, want the parameters %v", average, got, want)
			}
			sum, n := make(map[string][]float64), 0.
			for update := range 20 {
				fit(t, tr, ds)
				now := numbersOf(t, tr.Params)
				since := int64(update+1) - max(1, average.Start)
				averaged := since >= 0 && since%max(1, average.Every) == 0
				if averaged {
					n++
				}
				for name, w := range now {
					if sum[name] == nil {
						sum[name] = make([]float64, len(w))
					}
					for i := range w {
						switch {
						case average.Uniform && averaged:
							sum[name][i] += w[i]
							want[name][i] = sum[name][i] / n
						case since <= 0:
							want[name][i] = w[i]
						case averaged:
							want[name][i] = average.Decay*want[name][i] + (1-average.Decay)*w[i]
						}
					}
				}
				if got := numbersOf(t, tr.Averaged().Params); !equalNumbers(got, want, 1e-6) {
					t.Fatalf("%+v, update %d: averages %v, want %v", average, update+1, got, want)
				}
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// equalNumbers reports whether all elements agree up to tol.
func equalNumbers(got, want map[string][]float64, tol float64) bool {
	if len(got) != len(want) {
		return false
	}
	for name, w := range want {
		if !slices.EqualFunc(got[name], w, func(a, b float64) bool { return math.Abs(a-b) <= tol }) {
			return false
		}
	}
	return true
}

// Evaluation and prediction with averages have the bits of a trainer whose parameters are these, also with short last batches and resident data.
func TestAveragesEvaluateAndPredictLikeParameters(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, test := samples(t, 21, 4, 3), samples(t, 13, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, EvalBatch: 10, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.5}, Average: optim.Average{Decay: 0.8}}
		tr := made(t, small, opt)
		opt.Average = optim.Average{}
		plain, other := made(t, small, opt), made(t, small, opt)
		for range 3 {
			if got, want := fit(t, tr, ds), fit(t, plain, ds); !reflect.DeepEqual(got, want) {
				t.Errorf("with averages %+v, without %+v", got, want)
			}
		}
		if d := differing(learned(t, tr), learned(t, plain)); len(d) > 0 {
			t.Errorf("with averages, %q are learned otherwise", d)
		}
		copyAll(t, other, tr.Averaged().Params)
		got, err := tr.Averaged().Evaluate(t.Context(), test)
		if err != nil {
			t.Fatal(err)
		}
		got.Input = dataloader.Stalls{} // which differs from run to run
		if want := evaluate(t, other, test); !reflect.DeepEqual(got, want) || reflect.DeepEqual(got, evaluate(t, tr, test)) {
			t.Errorf("with averages %+v, with these as parameters %+v, with the parameters %+v", got, want, evaluate(t, tr, test))
		}
		var rows []float64
		for p, err := range tr.Averaged().Predict(t.Context(), test) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, p.Output...)
		}
		if want := outputs(t, other, test); !slices.Equal(rows, want) || slices.Equal(rows, outputs(t, tr, test)) {
			t.Errorf("with averages %v, with these as parameters %v", rows, want)
		}
		if got, want := fit(t, tr, ds), fit(t, plain, ds); !reflect.DeepEqual(got, want) {
			t.Errorf("after an evaluation with averages %+v, without %+v", got, want)
		}
	})
}

// copyAll writes parameters to those of the same names.
func copyAll(t testing.TB, to *trainer.Trainer, from func() ([]trainer.Param, error)) {
	t.Helper()
	src, err := from()
	if err != nil {
		t.Fatal(err)
	}
	dst, err := to.Params()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range src {
		b := make([]byte, p.Spec.Bytes())
		if err := errors.Join(p.Read(b), dst[i].Write(b)); err != nil {
			t.Fatal(err)
		}
	}
}

// An update that is skipped or fails leaves the averages as they are.
func TestAnUpdateThatDoesNotHappenLeavesTheAverages(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good, overflowing, failing := pairs(t, 1, -2, 0.5, 3), pairs(t, beyond, 1), pairs(t, float32(math.NaN()), 1)
		opt := trainer.Options{Device: dev, Batch: 1, Fields: good.Fields(), Sequential: true, Optimizer: optim.SGD{Rate: 0.1},
			Average: optim.Average{Decay: 0.5}, LossScale: optim.Scaling{Mode: optim.ScaleAlways}}
		tr := made(t, affine, opt)
		fit(t, tr, good)
		want := numbersOf(t, tr.Averaged().Params)
		if res := fit(t, tr, overflowing); res.Skipped != 1 {
			t.Fatalf("%+v, want a skipped update", res)
		}
		if got := numbersOf(t, tr.Averaged().Params); !equalNumbers(got, want, 0) {
			t.Errorf("after a skipped update: %v, want %v", got, want)
		}
		if _, err := tr.Fit(t.Context(), failing); !errors.Is(err, trainer.ErrNonFinite) {
			t.Fatalf("NaN: got %v", err)
		}
		if got := numbersOf(t, tr.Averaged().Params); !equalNumbers(got, want, 0) {
			t.Errorf("after a failed update: %v, want %v", got, want)
		}
		fit(t, tr, good)
		if got := numbersOf(t, tr.Averaged().Params); equalNumbers(got, want, 0) {
			t.Error("a later update leaves the averages too")
		}
	})
}

// Averages take the bytes of the trained parameters, on the device or with the state in pinned host memory; one byte less is refused.
func TestAveragesTakeTheBytesOfTheTrainedParameters(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 20, 4, 3)
		for _, offload := range []trainer.Offload{{}, {State: true}, {State: true, Parameters: true}, {Parameters: true}} {
			if dev.Unified() && (offload.State || offload.Parameters) {
				continue
			}
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Offload: offload, Frozen: []string{"hidden/b"}}
			plain, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Average = optim.Average{Uniform: true}
			plan, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			want := arena.Round(4*4*8) + arena.Round(4*8*3) + arena.Round(4*3)
			onDevice, onHost := plan.Category("averages"), plan.Offloaded-plain.Offloaded
			if offload.State {
				onDevice, onHost = onHost, onDevice
			}
			if onDevice != want || onHost != 0 {
				t.Errorf("offload %v: averages have %d bytes where they belong and %d elsewhere, want %d and 0", offload, onDevice, onHost, want)
			}
			opt.Memory = plan.Total
			tr := made(t, small, opt)
			inUse, from := inUse(tr), numbersOf(t, tr.Averaged().Params)
			for range 4 {
				fit(t, tr, ds)
				if _, err := tr.Averaged().Evaluate(t.Context(), ds); err != nil {
					t.Fatal(err)
				}
			}
			if s := tr.Stats().Arena; s.InUse != inUse || s.Reserved != plan.Total {
				t.Errorf("offload %v: %d bytes in use of %d, want %d of %d", offload, s.InUse, s.Reserved, inUse, plan.Total)
			}
			if equalNumbers(numbersOf(t, tr.Averaged().Params), from, 0) {
				t.Errorf("offload %v: the averages have not moved", offload)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
			opt.Memory--
			var e *trainer.CapacityError
			if _, err := trainer.New(t.Context(), small, opt); !errors.As(err, &e) || e.Need != plan.Total {
				t.Errorf("offload %v: a byte less: got %v, want a CapacityError", offload, err)
			}
		}
	})
}

// Where averages lie changes no bit of them: large matrices, whose averages move in parts.
func TestOffloadedAveragesHaveTheSameBits(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if dev.Unified() {
			t.Skip("needs a device with memory of its own")
		}
		model, ds := classifier(300, 600, 3), samples(t, 16, 300, 3)
		var want map[string][]float64
		for _, offload := range []trainer.Offload{{}, {State: true}, {State: true, Parameters: true}, {Parameters: true}} {
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Offload: offload, Average: optim.Average{Decay: 0.7}}
			opt = exactly(t, mix{model: model}, opt)
			tr := made(t, model, opt)
			fit(t, tr, ds)
			got := numbersOf(t, tr.Averaged().Params)
			if want == nil {
				want = got
			}
			if !equalNumbers(got, want, 0) {
				t.Errorf("offload %v: the averages differ", offload)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWrongAveragesAreRefused(t *testing.T) {
	ds := samples(t, 8, 4, 3)
	for want, a := range map[string]optim.Average{
		"Decay is 1,":       {Decay: 1},
		"Decay is -0.5":     {Decay: -0.5},
		"Decay is NaN":      {Decay: math.NaN()},
		"both set":          {Decay: 0.5, Uniform: true},
		"neither Decay nor": {Start: 3},
		"Start is -1":       {Uniform: true, Start: -1, Every: -2},
		"Every is -2":       {Uniform: true, Start: -1, Every: -2},
	} {
		_, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 8, Average: a})
		if wantError(err, trainer.ErrOption, want) != "" {
			t.Errorf("%+v: got %v, want %q", a, err, want)
		}
	}
	tr := made(t, small, trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields()})
	check := func(when string, sentinel error, want string) {
		t.Helper()
		_, errEvaluate := tr.Averaged().Evaluate(context.Background(), ds)
		_, errParams := tr.Averaged().Params()
		var errPredict error
		for _, err := range tr.Averaged().Predict(context.Background(), ds) {
			errPredict = err
		}
		for _, err := range []error{errEvaluate, errParams, errPredict} {
			if m := wantError(err, sentinel, want); m != "" {
				t.Errorf("%s: %s", when, m)
			}
		}
	}
	check("without averages", trainer.ErrOption, "set Options.Average")
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	check("closed", trainer.ErrClosed, "")
	tr = nil
	check("nil", trainer.ErrClosed, "")
}

// wantError describes how err differs from an error that wraps sentinel and contains text; empty: it does not.
func wantError(err, sentinel error, text string) string {
	if !errors.Is(err, sentinel) || !strings.Contains(fmt.Sprint(err), text) {
		return fmt.Sprintf("got %v, want an error that wraps %q and contains %q", err, sentinel, text)
	}
	return ""
}

// With all parameters frozen by their names, Fit computes the running statistics of averaged parameters, and changes nothing else.
func TestRunningStatisticsAreComputedAgainForAverages(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		_, models, _ := mixNets()
		ds := samplesFor(t, "normed", 32)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Average: optim.Average{Uniform: true}}
		tr := made(t, models["normed"], opt)
		fit(t, tr, ds)
		for _, p := range must(tr.Params()) {
			if !p.Statistic {
				opt.Frozen = append(opt.Frozen, p.Name)
			}
		}
		opt.Average = optim.Average{}
		again := made(t, models["normed"], opt)
		copyAll(t, again, tr.Averaged().Params)
		before := learned(t, again)
		fit(t, again, ds)
		moved := differing(before, learned(t, again))
		var want []string
		for _, p := range must(again.Params()) {
			if p.Statistic {
				want = append(want, p.Name)
			}
		}
		if slices.Sort(want); !slices.Equal(moved, want) || len(want) == 0 {
			t.Errorf("%q changed, want %q", moved, want)
		}
	})
}

// must returns v, of a call that cannot fail here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Averages of resident data and under the checks of Options.Debug.
func TestAveragesOfResidentDataAndUnderDebug(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 21, 4, 3)
		var want map[string]string
		for _, opt := range []trainer.Options{{Fields: ds.Fields()}, {Resident: []dataloader.Dataset{ds}}, {Fields: ds.Fields(), Debug: dev.Unified()}} {
			opt.Device, opt.Batch, opt.Average = dev, 8, optim.Average{Decay: 0.5}
			tr := made(t, small, exactly(t, mix{model: small}, opt))
			for range 3 {
				fit(t, tr, ds)
				if res, err := tr.Averaged().Evaluate(t.Context(), ds); err != nil || res.Samples != 21 {
					t.Fatalf("%+v, %v", res, err)
				}
			}
			got := learnedFrom(t, tr.Averaged().Params)
			if want == nil {
				want = got
			}
			if d := differing(got, want); len(d) > 0 {
				t.Errorf("%+v: the averages of %q differ", opt, d)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// With several objectives, the average of a parameter moves with the updates of the first objective that trains it, and counts these.
func TestAveragesFollowTheirObjectives(t *testing.T) {
	const decay = 0.75
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8*6, 4, 3)
		tr := made(t, rivals, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.2},
			Objectives: []trainer.Objective{{Name: "b", Every: 2}}, Average: optim.Average{Decay: decay, Start: 2}})
		updates, want := map[string]int{}, numbersOf(t, tr.Params)
		for s, err := range tr.Steps(t.Context(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			updates[s.Objective]++
			for name, w := range numbersOf(t, tr.Params) {
				if statistic := name == "norm/mean" || name == "norm/variance"; !statistic && strings.HasPrefix(name, "b/") != (s.Objective == "b") {
					continue // the trunk is of both: it follows the first
				} else if statistic || updates[s.Objective] <= 2 {
					want[name] = w
					continue
				}
				for i := range w {
					want[name][i] = decay*want[name][i] + (1-decay)*w[i]
				}
			}
			for name, got := range numbersOf(t, tr.Averaged().Params) {
				if !equalNumbers(map[string][]float64{name: got}, map[string][]float64{name: want[name]}, 1e-6) {
					t.Fatalf("step %d, %s: the average of %q is %v, want %v", s.Step, s.Objective, name, got, want[name])
				}
			}
		}
		if updates["a"] != 6 || updates["b"] != 3 {
			t.Errorf("updates %v, want 6 of a and 3 of b", updates)
		}
	})
}

// An objective whose parameters are all frozen moves no average; those of the others move as if they were first.
func TestAveragesOfTheSecondObjectiveAlone(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8*2, 4, 3)
		tr := made(t, rivals, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.2},
			Frozen: []string{"trunk", "norm", "a/"}, Average: optim.Average{Decay: 0.5}})
		before := numbersOf(t, tr.Params)
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		for name, got := range numbersOf(t, tr.Averaged().Params) {
			if moved := !equalNumbers(map[string][]float64{name: got}, map[string][]float64{name: before[name]}, 0); moved != strings.HasPrefix(name, "b/") {
				t.Errorf("the average of %q moved: %v", name, moved)
			}
		}
	})
}
