package trainer_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Loss, rate and norm of a step are the numbers that Go computes: the gradient of w is the row, and SGD moves w by rate times it.
func TestTheNumbersOfAStepAreThoseComputedInGo(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		rows := [][]float64{{3, 4, 0}, {1, 2, 2}, {-2, 3, 6}, {0, 0, 0}, {8, 4, 1}}
		var x []float64
		for _, r := range rows {
			x = append(x, r...)
		}
		ds := columns(t, len(rows), dataloader.Column("x", x, 3))
		schedule := optim.Step{Every: 2, Factor: 0.5}
		tr := made(t, linear(3, tensor.Float64), trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(), Sequential: true,
			Optimizer: optim.SGD{Rate: 0.25}, Schedule: schedule, GradientNorm: true})
		w := make([]float64, 3)
		for i, s := range stepwise(t, tr, ds, nil) {
			loss, norm, rate := 0.0, 0.0, schedule.Rate(0.25, int64(i+1))
			for k, v := range rows[i] {
				loss += v * w[k]
				norm += v * v
				w[k] -= rate * v
			}
			want := trainer.Step{Number: int64(i + 1), Step: i + 1, Steps: 5, Samples: 1, Weight: 1, Loss: loss, Rate: rate,
				Norm: math.Sqrt(norm), Updated: true}
			got := s
			got.Accuracy, got.Uploaded = 0, 0
			if !math.IsNaN(s.Accuracy) || s.Uploaded != 24 || !reflect.DeepEqual(got, want) {
				t.Errorf("step %d: got %+v, want %+v", i, s, want)
			}
		}
	})
}

// moves returns the L2 norm of the change of all parameters.
func moves(before, after map[string]string) float64 {
	sum := 0.0
	for name, b := range before {
		for i := 0; i < len(b); i += 4 {
			d := float64(number(b[i:])) - float64(number(after[name][i:]))
			sum += d * d
		}
	}
	return math.Sqrt(sum)
}

func number(b string) float32 { return math.Float32frombits(binary.NativeEndian.Uint32([]byte(b[:4]))) }

// The norm is that of the gradients which the update starts from, in natural units: what SGD moves the parameters by, over its rate.
func TestTheNormIsInNaturalUnits(t *testing.T) {
	scaled := optim.Scaling{Mode: optim.ScaleAlways, Initial: 1024, Interval: 2}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 45, 4, 3)
		for name, model := range map[string]trainer.ModelFunc{"means": small, "weights": weighedByData} {
			for _, opt := range []trainer.Options{
				{Batch: 8},
				{Batch: 8, Guard: trainer.GuardEach},
				{Batch: 8, LossScale: scaled},
				{Batch: 4, Accumulate: 3},
				{Batch: 4, Accumulate: 3, LossScale: scaled},
				{Batch: 8, Clip: optim.Clip{Norm: 1e9}},
				{Batch: 8, Frozen: []string{"hidden"}},
			} {
				opt.Device, opt.Fields, opt.GradientNorm, opt.Optimizer = dev, ds.Fields(), opt.Clip.Norm == 0, optim.SGD{Rate: 0.5}
				tr := made(t, model, opt)
				what := fmt.Sprintf("%s, %+v", name, opt.LossScale)
				before := learned(t, tr)
				stepwise(t, tr, ds, func(s trainer.Step) {
					after := learned(t, tr)
					moved := moves(before, after) / 0.5
					switch {
					case !s.Updated && !math.IsNaN(s.Norm) || s.Updated && !about(s.Norm/moved, 1, 1e-4):
						t.Errorf("%s, accumulate %d, step %d: norm %v, parameters moved %v", what, opt.Accumulate, s.Step, s.Norm, moved)
					case s.Updated != (opt.Accumulate == 0 || s.Step%3 == 0 || s.Step == s.Steps):
						t.Errorf("%s, accumulate %d, step %d: %+v", what, opt.Accumulate, s.Step, s)
					}
					before = after
				})
			}
		}
	})
}

// The norm before clipping has the bits of one that is not clipped, and computing it changes no bit of what is learned.
func TestTheNormIsThatBeforeClipping(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 45, 4, 3)
		steps := func(opt trainer.Options) ([]trainer.Step, map[string]string) {
			opt.Device, opt.Batch, opt.Fields, opt.Optimizer = dev, 8, ds.Fields(), optim.Adam{}
			tr := made(t, small, opt)
			return stepwise(t, tr, ds, nil), learned(t, tr)
		}
		free, plain := steps(trainer.Options{GradientNorm: true})
		clipped, _ := steps(trainer.Options{Clip: optim.Clip{Norm: 1e-3}})
		none, want := steps(trainer.Options{})
		if free[0].Norm != clipped[0].Norm || !(free[0].Norm > 1e-2) || !math.IsNaN(none[0].Norm) {
			t.Errorf("norm %v, clipped %v, not computed %v", free[0].Norm, clipped[0].Norm, none[0].Norm)
		}
		if d := differing(plain, want); len(d) > 0 {
			t.Errorf("%q differ", d)
		}
	})
}

// A step whose gradients overflow is skipped, and says so.
func TestASkippedStepSaysSo(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 45, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Precision: arena.Float16, GradientNorm: true,
			LossScale: optim.Scaling{Initial: 1 << 20}})
		before, skips := learned(t, tr), 0
		stepwise(t, tr, ds, func(s trainer.Step) {
			after := learned(t, tr)
			if changed := len(differing(before, after)) > 0; s.Skipped == changed || s.Updated != changed || finite(s.Norm) != changed {
				t.Errorf("%+v, parameters changed %v", s, changed)
			}
			if s.Skipped {
				skips++
			}
			before = after
		})
		if skips == 0 || skips == 6 {
			t.Errorf("%d of 6 steps skipped", skips)
		}
	})
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// The norm takes memory that the plan counts: a device of its size trains, and GuardEach keeps all gradients for it.
func TestTheNormIsInThePlan(t *testing.T) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) {
			ds := samples(t, 45, 4, 3)
			for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
				opt := trainer.Options{Device: d.open(t, 0), Batch: 8, Optimizer: optim.Adam{}, Fields: ds.Fields(), GradientNorm: true, Guard: guard}
				plan, err := trainer.Plan(t.Context(), classifier(4, 64, 3), opt)
				if err != nil {
					t.Fatal(err)
				}
				gradients := int64(0)
				for _, r := range plan.Regions {
					if r.Name == "gradients" {
						gradients = r.Bytes
					}
				}
				if want := int64(4 * (4*64 + 64 + 64*3 + 3)); gradients < want {
					t.Errorf("guard %d: %d bytes of gradients, want %d", guard, gradients, want)
				}
				opt.Device = d.open(t, plan.Total)
				tr := made(t, classifier(4, 64, 3), opt)
				for _, s := range stepwise(t, tr, ds, nil) {
					if !(s.Norm > 0) {
						t.Errorf("guard %d: %+v", guard, s)
					}
				}
				if got := tr.Stats().Arena.Reserved; got != plan.Total {
					t.Errorf("guard %d: %d bytes reserved, planned %d", guard, got, plan.Total)
				}
				opt.Device = d.open(t, plan.Total-1)
				if _, err := trainer.New(t.Context(), classifier(4, 64, 3), opt); !errors.Is(err, arena.ErrCapacity) {
					t.Errorf("guard %d: a byte less: got %v, want a CapacityError", guard, err)
				}
			}
		})
	}
}
