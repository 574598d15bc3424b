package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// More slots change no bit of training, and cost the bytes of a slot each, in the arena and pinned.
func TestMoreSlotsCostASlotEachAndChangeNoBit(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 52, 4, 3) // the last batch is short
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Keep: []string{"*/grad"}}
		var want string
		var two *report.Plan
		for _, slots := range []int{0, 2, 4, 6} {
			opt.Slots = slots
			plan, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			if slots == 2 {
				two = plan
			}
			if slots > 2 {
				more := int64(slots-2) * plan.Category("slot 0")
				if plan.Category("slot 0") == 0 || plan.Total != two.Total+more || !dev.Unified() && plan.Pinned-arena.StageBytes(plan.Total) != two.Pinned-arena.StageBytes(two.Total)+more {
					t.Errorf("%d slots: %d bytes, %d pinned; 2 slots: %d, %d; want %d more", slots, plan.Total, plan.Pinned, two.Total, two.Pinned, more)
				}
			}
			var kept []float32
			opt.Memory = plan.Total
			var tr *trainer.Trainer
			opt.Progress = func(p trainer.Progress) {
				if p.StepNumber == 0 { // an evaluation has no gradients
					return
				}
				grads := make([]float32, 4*8)
				if err := tr.Read("hidden/w/grad", grads); err != nil {
					t.Fatalf("%d slots, step %d: %v", slots, p.Step, err)
				}
				kept = append(kept, grads...)
			}
			tr = made(t, small, opt)
			if s := tr.Stats(); s.Arena.Reserved != plan.Total || s.Pinned != plan.Pinned {
				t.Errorf("%d slots: %d bytes and %d pinned, planned %d and %d", slots, s.Arena.Reserved, s.Pinned, plan.Total, plan.Pinned)
			}
			got := ""
			for range 2 {
				fit, err := tr.Fit(t.Context(), ds)
				if err != nil {
					t.Fatal(err)
				}
				eval, err := tr.Evaluate(t.Context(), ds)
				if err != nil {
					t.Fatal(err)
				}
				got += fmt.Sprint(math.Float64bits(fit.Loss), math.Float64bits(eval.Loss), fit.Steps, " ")
			}
			got += fmt.Sprint(kept)
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%d slots: other losses or gradients than with 2", slots)
			}
		}
	})
}

// The caller of Steps finds the values of its own step, and may use the slots for a batch of its own.
func TestStepsWithMoreSlots(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 64, 4, 3)
		var want []string
		for _, slots := range []int{2, 6} {
			tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Slots: slots, Keep: []string{"*/grad"}})
			var got []string
			for step, err := range tr.Steps(t.Context(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				grads := make([]float32, 4*8)
				if err := tr.Read("hidden/w/grad", grads); err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(step.Loss, grads))
				if step.Step == 3 { // takes the slots
					outputs(t, tr, ds)
				}
			}
			if want == nil {
				want = got
			}
			if len(got) != 8 || !slices.Equal(got, want) {
				t.Errorf("%d slots: %d steps, or other values than with 2", slots, len(got))
			}
		}
	})
}

// jittery is a dataset of which one of some batches takes long.
type jittery struct {
	dataloader.Dataset
	batch, every int
	slow         time.Duration
	read         atomic.Int64
}

func (j *jittery) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if n := int(j.read.Add(1)) - 1; n%(j.batch*j.every) == 0 {
		time.Sleep(j.slow)
	}
	return j.Dataset.Fetch(ctx, at, dst)
}

// Where the latency of data varies, more slots leave fewer stalls, and are chosen; else two are. The latencies are multiples of the step that
// was measured just before. A machine that is busy otherwise may change a trial, but hardly all tries.
func TestTuneSlotsMeasuresTheJitterOfTheData(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const batch = 8
		ds := samples(t, 60*batch, 4, 3)
		opt := trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields(), Workers: 1,
			Progress: func(trainer.Progress) { time.Sleep(time.Millisecond) }} // a slow step
		tune := func(ds dataloader.Dataset) (slots int, two, eight trainer.SlotsTrial) {
			slots, trials, err := trainer.TuneSlots(t.Context(), small, ds, opt, trainer.TuneOptions{Steps: 60, Gain: 0.06})
			if err != nil {
				t.Fatal(err)
			}
			if len(trials) != 3 || trials[0].Slots != 8 || trials[1].Slots != 4 || trials[2].Slots != 2 {
				t.Fatalf("trials %+v", trials)
			}
			return slots, trials[2], trials[0]
		}
		for what, c := range map[string]struct {
			every, slow int // one of every batches takes slow steps
			right       func(slots int, two, eight float64) bool
		}{
			"jitter":              {10, 6, func(slots int, two, eight float64) bool { return slots > 2 && eight < two-0.1 }},
			"slow without jitter": {1, 2, func(slots int, _, _ float64) bool { return slots == 2 }},
			"fast":                {1, 0, func(slots int, _, _ float64) bool { return slots == 2 }},
		} {
			right := false
			for try := 0; try < 8 && !right; try++ {
				_, fast, _ := tune(ds)
				step := fast.Input.Elapsed / time.Duration(fast.Steps)
				slots, two, eight := tune(&jittery{Dataset: ds, batch: batch, every: c.every, slow: time.Duration(c.slow) * step})
				t.Logf("%s: steps of %v, %d slots; of 2: %v; of 8: %v", what, step, slots, two.Input, eight.Input)
				right = c.right(slots, two.Input.Share(), eight.Input.Share())
			}
			if !right {
				t.Errorf("%s: another number in all tries", what)
			}
		}
	})
}

// jumpy is a dataset that becomes slow after some samples: trials before wait less, by chance.
type jumpy struct {
	dataloader.Dataset
	read, from atomic.Int64
	slow       time.Duration
}

func (j *jumpy) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if j.read.Add(1) > j.from.Load() {
		time.Sleep(j.slow)
	}
	return j.Dataset.Fetch(ctx, at, dst)
}

// A trial of a few steps is noise: two slots are returned.
func TestTuneSlotsDoesNotChooseByAFewSteps(t *testing.T) {
	for what, c := range map[string]struct {
		samples int
		slow    time.Duration
		steps   int // measured
	}{
		"one step":   {8, 10 * time.Millisecond, 1},
		"nine steps": {11 * 8, time.Millisecond, 9},
	} {
		ds := &jumpy{Dataset: samples(t, c.samples, 4, 3), slow: c.slow}
		ds.from.Store(int64(2 * c.samples)) // the third trial is that of two slots
		opt := trainer.Options{Device: emutest.OpenChecked(t, emu.Options{}), Batch: 8, Fields: ds.Fields(), Workers: 1}
		slots, trials, err := trainer.TuneSlots(t.Context(), small, ds, opt, trainer.TuneOptions{Gain: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		for _, trial := range trials {
			if trial.Steps != c.steps {
				t.Errorf("%s: %d steps were measured, want %d", what, trial.Steps, c.steps)
			}
		}
		if slots != 2 {
			t.Errorf("%s: %d slots, %+v", what, slots, trials)
		}
	}
}

// A Fetch that ignores its context is named once, and the memory of the trial goes when it returns.
func TestTuneSlotsClosesATrialThatIsStuckWhenItCan(t *testing.T) {
	good := samples(t, 12, 4, 3)
	dev := emutest.OpenChecked(t, emu.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	release := make(chan struct{})
	ds := &faulty{good, func(_ context.Context, at dataloader.At) error {
		if at.Index == 5 {
			stop()
			<-release
		}
		return nil
	}}
	_, _, err := trainer.TuneSlots(ctx, small, ds, trainer.Options{Device: dev, Batch: 4, Fields: good.Fields()}, trainer.TuneOptions{})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, dataloader.ErrStuck) || strings.Count(err.Error(), "is in Fetch of sample") != 1 {
		t.Errorf("got %v, want Canceled, and ErrStuck once", err)
	}
	if dev.Ledger().DeviceBytes == 0 {
		t.Error("the memory is gone while the Fetch may write")
	}
	close(release)
	within(t, 10*time.Second, "the end of the trial", func() {
		for l := dev.Ledger(); !l.Empty(); l = dev.Ledger() {
			time.Sleep(time.Millisecond)
		}
	})
}

func TestTuneSlotsLeavesOutPlansThatDoNotFit(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	opt := trainer.Options{Device: emutest.OpenChecked(t, emu.Options{}), Batch: 4, Fields: ds.Fields(), Slots: 4}
	plan, err := trainer.Plan(t.Context(), small, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Memory = plan.Total
	slots, trials, err := trainer.TuneSlots(t.Context(), small, ds, opt, trainer.TuneOptions{Steps: 5})
	if err != nil || slots > 4 || len(trials) != 3 || !errors.Is(trials[0].Err, arena.ErrCapacity) || trials[1].Err != nil || trials[2].Err != nil {
		t.Errorf("got %d slots, %+v, %v", slots, trials, err)
	}
	opt.Memory = 1
	if _, _, err := trainer.TuneSlots(t.Context(), small, ds, opt, trainer.TuneOptions{Steps: 5}); !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("nothing fits: got %v", err)
	}
}

// A refusal counts the slots, and names the most that would fit.
func TestARefusalNamesTheSlotsThatFit(t *testing.T) {
	opt := trainer.Options{Batch: 4, Fields: samples(t, 4, 4, 3).Fields()}
	planned := func(slots int) *report.Plan {
		opt.Slots = slots
		plan, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	opt.Device = emutest.OpenChecked(t, emu.Options{})
	totals, all := map[int]int64{}, planned(64)
	for slots := 2; slots <= 64; slots += 2 {
		totals[slots] = planned(slots).Total
	}
	for _, c := range []struct {
		memory int64
		slots  int
	}{{totals[64] - 1, 62}, {totals[62], 62}, {totals[62] - 1, 60}, {totals[20] + 1, 20}, {totals[20], 20}, {totals[2], 2}, {totals[2] - 1, 0}} {
		opt.Slots, opt.Memory = 64, c.memory
		_, err := trainer.New(t.Context(), small, opt)
		var e *trainer.CapacityError
		if !errors.As(err, &e) || e.Slots != 64 || e.FitsSlots != c.slots {
			t.Fatalf("%d bytes: got %v, want %d slots", c.memory, err, c.slots)
		}
		text := err.Error()
		if want := fmt.Sprintf(", 64 slots %d,", all.Category("slot")); !strings.Contains(text, want) || strings.Contains(text, "slot 1 ") {
			t.Errorf("got %q, want %q", text, want)
		}
		if want := fmt.Sprintf("Slots %d instead of 64 would fit; ", c.slots); strings.Contains(text, want) != (c.slots > 0) {
			t.Errorf("%d bytes: got %q, want %q", c.memory, text, want)
		}
		if c.memory == totals[2] && !strings.Contains(text, "not even the smallest batch would fit with Slots 64") {
			t.Errorf("got %q", text)
		}
	}
}

func TestBadNumbersOfSlotsAreRefused(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	for _, slots := range []int{-2, 1, 3, 66} {
		_, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Fields: ds.Fields(), Slots: slots})
		if !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), "an even number from 2 to 64") {
			t.Errorf("%d slots: got %v", slots, err)
		}
	}
	for want, tune := range map[string]trainer.TuneOptions{"most 3": {Most: 3}, "most 66": {Most: 66}, "steps 4": {Steps: 4}, "gain 2": {Gain: 2}, "gain NaN": {Gain: math.NaN()}} {
		if _, _, err := trainer.TuneSlots(t.Context(), small, ds, trainer.Options{Batch: 4}, tune); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	var none context.Context
	if _, _, err := trainer.TuneSlots(none, small, ds, trainer.Options{Batch: 4}, trainer.TuneOptions{}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("no context: got %v", err)
	}
}
