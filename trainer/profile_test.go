package trainer_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/profile"
)

// Whatever is measured, parameters have the bits of a plain epoch, and of a loop that is left early.
func TestAProfileTrainsAsFitDoes(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 37, 4, 3)
		for _, accumulate := range []int{1, 2} {
			opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.Adam{}, Accumulate: accumulate, Seed: 5}
			plain, profiled := made(t, small, opt), made(t, small, opt)
			fit(t, plain, ds)
			p, err := profiled.Profile(t.Context(), ds, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if p.Steps != 10 || !maps.Equal(learned(t, plain), learned(t, profiled)) {
				t.Errorf("accumulate %d: a profile of %d batches has learned other bits than an epoch", accumulate, p.Steps)
			}
			step := 0
			for _, err := range plain.Steps(t.Context(), ds) {
				if err != nil {
					t.Fatal(err)
				}
				if step++; step == 4 {
					break
				}
			}
			if p, err = profiled.Profile(t.Context(), ds, 5-accumulate); err != nil {
				t.Fatal(err)
			}
			if p.Steps != 4 || !maps.Equal(learned(t, plain), learned(t, profiled)) {
				t.Errorf("accumulate %d: %d batches were profiled, want 4 with the bits of 4", accumulate, p.Steps)
			}
			fit(t, plain, ds)
			if fit(t, profiled, ds); !maps.Equal(learned(t, plain), learned(t, profiled)) {
				t.Errorf("accumulate %d: the epoch after a profile learns other bits", accumulate)
			}
		}
	})
}

// The numbers of a profile add up: rows to the total, the total to the events, and operations to those of
// the summary.
func TestTheNumbersOfAProfileAddUp(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Workers: 2})
		p, err := tr.Profile(t.Context(), ds, 3)
		if err != nil {
			t.Fatal(err)
		}
		var total profile.Cost
		kinds := map[profile.Kind]int{}
		for _, e := range p.Events {
			if kinds[e.Kind]++; e.Kind <= profile.Wait {
				total.Calls, total.Time, total.Flops, total.Bytes = total.Calls+1, total.Time+e.End-e.Begin, total.Flops+e.Flops, total.Bytes+e.Bytes
			}
			if e.End < e.Begin || e.Begin < 0 || e.Step < 1 || e.Step > 3 && e.Kind != profile.Fetch {
				t.Errorf("event %+v", e)
			}
		}
		for _, rows := range [][]profile.Cost{p.Layers, p.Operations} {
			sum := profile.Cost{}
			for _, c := range rows {
				sum.Calls, sum.Time, sum.Flops, sum.Bytes, sum.Ideal = sum.Calls+c.Calls, sum.Time+c.Time, sum.Flops+c.Flops, sum.Bytes+c.Bytes, sum.Ideal+c.Ideal
			}
			want := p.Total
			if want.Name = ""; sum != want {
				t.Errorf("rows add up to %+v, want %+v", sum, want)
			}
			if sum.Ideal = 0; sum != total {
				t.Errorf("events add up to %+v, rows to %+v", total, sum)
			}
		}
		if s := tr.Summary().Total; p.Total.Flops != 3*(s.Forward+s.Backward) {
			t.Errorf("%d operations in 3 steps, the summary has %d in one", p.Total.Flops, s.Forward+s.Backward)
		}
		if p.Compute <= 0 || p.Busy < p.Compute || p.Elapsed < p.Busy || p.Peak.Flops <= 0 || p.Peak.Bytes <= 0 || p.Peak.Bus <= 0 {
			t.Errorf("computes for %v of %v busy of %v, peak %+v", p.Compute, p.Busy, p.Elapsed, p.Peak)
		}
		if !dev.Unified() && kinds[profile.Copy] != 3+3 {
			t.Errorf("%d copies, want 3 uploads and 3 downloads", kinds[profile.Copy])
		}
		if kinds[profile.Fetch] == 0 || kinds[profile.Slot] < 3*2 {
			t.Errorf("kinds of events: %v", kinds)
		}
	})
}

// A step that is not profiled is as long as ever after one that was: nothing is measured any more.
func TestNothingIsMeasuredAfterAProfile(t *testing.T) {
	dev := &untimed{openCPU(t), nil}
	ds := samples(t, 32, 4, 3)
	tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
	if _, err := tr.Profile(t.Context(), ds, 2); err != nil {
		t.Fatal(err)
	}
	if dev.last == nil || len(dev.last.Take()) != 0 {
		t.Fatal("the device was not timed, or its timings were not taken")
	}
	fit(t, tr, ds)
	if n := len(dev.last.Take()); n != 0 {
		t.Errorf("%d timings of an epoch that is not profiled", n)
	}
}

// untimed is a device that shows its last timeline.
type untimed struct {
	kernels.Device
	last *kernels.Timeline
}

func (d *untimed) TimeWork(s arena.Stream, tl *kernels.Timeline) error {
	if tl != nil {
		d.last = tl
	}
	return d.Device.(kernels.WorkTimer).TimeWork(s, tl)
}

func TestAProfileThatCannotBeIsATypedError(t *testing.T) {
	ds := samples(t, 12, 4, 3)
	tr := made(t, small, trainer.Options{Device: struct{ kernels.Device }{openCPU(t)}, Batch: 4, Fields: ds.Fields()})
	var untimed *trainer.UntimedError
	if _, err := tr.Profile(t.Context(), ds, 1); !errors.As(err, &untimed) || untimed.Device != "cpu" || !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("a device that does not measure: %v", err)
	}
	timed := made(t, small, trainer.Options{Device: openCPU(t), Batch: 4, Fields: ds.Fields()})
	if _, err := timed.Profile(t.Context(), ds, 0); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("0 batches: %v", err)
	}
	var none context.Context
	if _, err := timed.Profile(none, ds, 1); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("no context: %v", err)
	}
	for range timed.Steps(t.Context(), ds) {
		if _, err := timed.Profile(t.Context(), ds, 1); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("in a body: %v", err)
		}
		break
	}
	if err := timed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tr := range []*trainer.Trainer{nil, {}, timed} {
		if _, err := tr.Profile(t.Context(), ds, 1); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("not open: %v", err)
		}
	}
}
