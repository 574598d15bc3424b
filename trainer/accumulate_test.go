package trainer_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// The gradient of a window is that of the mean over its samples, also in a short last one: -0.375 would be a tail divided by 4, -0.25 one left out.
func TestAWindowHasTheGradientOfTheMeanOverItsSamples(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1, 2, 3, 4, 5)
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			var at []float64
			opt := trainer.Options{Device: dev, Batch: 1, Accumulate: 4, Fields: ds.Fields(), Sequential: true, Optimizer: optim.SGD{Rate: 0.1}, Guard: guard}
			var tr *trainer.Trainer
			opt.Progress = func(trainer.Progress) { at = append(at, float64(tr.Stats().Updates)) }
			tr = made(t, scalar(0), opt)
			fit(t, tr, ds)
			if got := weight(t, tr); !about(got, -0.75, 1e-15) {
				t.Errorf("guard %d: w = %v after windows of 4 and 1, want -0.25 - 0.5", guard, got)
			}
			if want := []float64{0, 0, 0, 1, 2}; !slices.Equal(at, want) {
				t.Errorf("guard %d: updates after each step: %v, want %v", guard, at, want)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Windows of any number of steps over the same samples learn the same, with ragged last steps and short last windows, up to the rounding of sums.
func TestStepsOfAWindowLearnLikeOneLargeBatch(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, n := range []int{16, 21, 23} {
			ds := samples(t, n, 4, 3)
			for _, clip := range []optim.Clip{{}, {Norm: 0.01}} {
				var want map[string]string
				for _, k := range []int{1, 2, 4, 8} {
					opt := trainer.Options{Device: dev, Batch: 8 / k, Accumulate: k, EvalBatch: 8, Fields: ds.Fields(), Sequential: true, Clip: clip,
						Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}, Schedule: optim.Step{Every: 2, Factor: 0.5}, Seed: 3}
					plan, err := trainer.Plan(t.Context(), small, opt)
					if err != nil {
						t.Fatal(err)
					}
					opt.Memory = plan.Total
					tr := made(t, small, opt)
					for range 2 {
						fit(t, tr, ds)
					}
					if got, want := tr.Stats().Updates, int64(2*((n+7)/8)); got != want {
						t.Errorf("%d samples, %d steps a window: %d updates, want %d", n, k, got, want)
					}
					got := learned(t, tr)
					if want == nil {
						want = got
					}
					for name, b := range want {
						a, b := decoded([]byte(got[name])), decoded([]byte(b))
						for i := range b {
							if !about(a[i], b[i], 1e-6) {
								t.Fatalf("%d samples, clip %v, %d steps a window: %s[%d] is %v, want %v", n, clip, k, name, i, a[i], b[i])
							}
						}
					}
					if err := tr.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// With the smallest rate nothing but the running statistics moves: at each step, as without windows.
func TestRunningStatisticsMoveAtEachStepOfAWindow(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 37, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1.1e-19}, Sequential: true}
		alone := made(t, normed, opt)
		opt.Accumulate = 3
		windows := made(t, normed, opt)
		fit(t, alone, ds)
		fit(t, windows, ds)
		want := learned(t, alone)
		for name, got := range learned(t, windows) {
			if !slices.EqualFunc(decoded([]byte(got)), decoded([]byte(want[name])), func(a, b float64) bool { return about(a, b, 1e-15) }) {
				t.Errorf("windows of 3 steps learn another %q", name)
			}
		}
	})
}

// A pass that ends within a window leaves parameters as the last update left them, and nothing of the window goes into the next one.
func TestAnUnfinishedWindowIsForgotten(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := numbers(t, 1, 2, 3, 4, 5, 6, 7)
		broken := errors.New("broken")
		bad := &faulty{good, func(_ context.Context, at dataloader.At) error {
			if at.Index == 5 {
				return broken
			}
			return nil
		}}
		tr := made(t, scalar(0), trainer.Options{Device: dev, Batch: 1, Accumulate: 3, Fields: good.Fields(), Sequential: true, Optimizer: optim.SGD{Rate: 1}})
		if _, err := tr.Fit(context.Background(), bad); !errors.Is(err, broken) {
			t.Fatalf("got %v, want the reader's error", err)
		}
		if got := weight(t, tr); got != -2 || tr.Stats().Updates != 1 {
			t.Errorf("w = %v after %d updates, want -2 after 1", got, tr.Stats().Updates)
		}
		fit(t, tr, good)
		if got := weight(t, tr); got != -2-2-5-7 || tr.Stats().Updates != 4 {
			t.Errorf("w = %v after %d updates, want -16 after 4", got, tr.Stats().Updates)
		}
	})
}

// A step of a window that is not finite changes nothing, neither then nor at the end of the window, and the error names the tensor.
func TestAWindowThatIsNotFiniteChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for at := range 5 {
			x := []float64{1, 2, 3, 4, 5}
			x[at] = math.Inf(1)
			ds := numbers(t, x...)
			tr := made(t, scalar(1), trainer.Options{Device: dev, Batch: 1, Accumulate: 5, Fields: ds.Fields(), Sequential: true, Optimizer: optim.SGD{Rate: 1}})
			_, err := tr.Fit(context.Background(), ds)
			var e *trainer.NonFiniteError
			if !errors.As(err, &e) || e.Sample != at {
				t.Errorf("sample %d: got %v", at, err)
			}
			if got := weight(t, tr); got != 1 {
				t.Errorf("sample %d: w = %v, want 1", at, got)
			}
			good := numbers(t, 1, 1, 1, 1, 1)
			fit(t, tr, good)
			if got := weight(t, tr); got != 0 {
				t.Errorf("sample %d: w = %v after the next window, want 0", at, got)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Gradients have one place, in their region: scratch has no other.
func TestWindowsKeepOneCopyOfTheGradients(t *testing.T) {
	opt := trainer.Options{Device: openCPU(t), Batch: 4}
	alone, err := trainer.Plan(t.Context(), classifier(64, 4096, 3), opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Accumulate = 8
	windows, err := trainer.Plan(t.Context(), classifier(64, 4096, 3), opt)
	if err != nil {
		t.Fatal(err)
	}
	if len(windows.Programs) != len(alone.Programs)+3 {
		t.Errorf("%d programs, %d without windows", len(windows.Programs), len(alone.Programs))
	}
	// Products that begin with a sum need no more workspace. What they add are the step's share and where it starts.
	if grown := windows.Total - alone.Total; grown < 0 || grown > 4096 {
		t.Errorf("windows need %d bytes more than steps alone: %d and %d", grown, windows.Total, alone.Total)
	}
}

// Each step of a window has masks of its own.
func TestStepsOfAWindowDropOthers(t *testing.T) {
	masks, _ := dropped(t, openCPU(t), 0, 3)
	slices.Sort(masks)
	if n := len(slices.Compact(masks)); n != 3 {
		t.Errorf("%d masks in 3 steps", n)
	}
}

func TestABadWindowIsRefused(t *testing.T) {
	_, err := trainer.New(t.Context(), small, trainer.Options{Device: openCPU(t), Batch: 8, Accumulate: -1})
	if !errors.Is(err, trainer.ErrOption) {
		t.Errorf("got %v, want ErrOption", err)
	}
}
