package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// TuneOptions configure TuneSlots. The zero value is a good default.
type TuneOptions struct {
	// Most is the largest number of slots that is tried, an even number. Default: 8.
	Most int
	// Steps is the number of steps of each trial, the first fifth of which is not measured; an epoch
	// with fewer is run to its end. Default: 200.
	Steps int
	// Gain is the share of the time, 0 to 1, that more slots must save to be chosen. Default: 0.02.
	Gain float64
}

// SlotsTrial is what TuneSlots measured with a number of slots.
type SlotsTrial struct {
	Slots int
	Steps int               // that were measured; 0 after an error
	Input dataloader.Stalls // of the measured steps; zero after an error
	Err   error             // a *CapacityError: the plan does not fit
}

// TuneSlots chooses Options.Slots by measuring: it trains on ds for a few steps with Most slots, then
// with half of them, and so on down to 2, and returns the fewest with which the device waited for data
// no longer than with any other number, up to Gain of the time, and all trials. Each trial has a
// trainer of its own, planned like New does with that many slots, and closed before the next one; its
// order of samples is another one, so that a trial does not read what the one before has cached. A plan
// that does not fit is left out; if none does, the error is the *CapacityError of 2 slots.
//
// What is too short to measure says nothing, and 2 are returned: fewer than 10 measured steps, as of an
// epoch of a few steps, or less than a millisecond of waiting that more slots save, as with a resident
// dataset.
//
// If a Fetch ignores the end of its context, the error wraps dataloader.ErrStuck, and the trainer of the
// trial, with its memory, is closed in the background once that Fetch returns: keep the device open
// until then.
//
// It trains nothing that is kept: call it before New. Options.Progress is called in the trials too, since
// it is a part of a step; Checkpoint and Group are left out: of several ranks one measures, for all.
func TuneSlots(ctx context.Context, model ModelFunc, ds dataloader.Dataset, opt Options, tune TuneOptions) (slots int, trials []SlotsTrial, err error) {
	if ctx == nil {
		return 0, nil, errNilContext
	}
	if err := tune.check(); err != nil {
		return 0, nil, fmt.Errorf("tune slots: %w", err)
	}
	opt.Checkpoint, opt.Group = false, nil
	for n := tune.Most; n >= inFlight; n = n / 2 / inFlight * inFlight {
		opt.Slots = n
		trial := SlotsTrial{Slots: n}
		trial.Steps, trial.Input, err = tune.measure(ctx, model, ds, opt)
		var capacity *CapacityError
		if errors.As(err, &capacity) && n > inFlight {
			trial.Err = err
		} else if err != nil {
			return 0, trials, fmt.Errorf("tune slots: trial of %d: %w", n, err)
		}
		trials = append(trials, trial)
		opt.Seed++
	}
	return tune.choose(trials), trials, nil
}

// choose returns the fewest slots, of trials with fewer and fewer, with which the device waited no longer
// than with any other number, up to the gain.
func (o *TuneOptions) choose(trials []SlotsTrial) (slots int) {
	best, enough := time.Duration(math.MaxInt64), true
	for _, t := range trials {
		if t.Err == nil {
			best, enough = min(best, t.Input.Waited), enough && t.Steps >= leastMeasured
		}
	}
	for _, t := range trials {
		gain := max(leastGain.Seconds(), o.Gain*t.Input.Elapsed.Seconds())
		if t.Err == nil && (!enough || (t.Input.Waited-best).Seconds() <= gain) {
			slots = t.Slots
		}
	}
	return slots
}

// Measurements below these are noise.
const (
	leastMeasured = 10               // steps of a trial
	leastGain     = time.Millisecond // of waiting that more slots save
)

// check fills in the defaults and returns every mistake.
func (o *TuneOptions) check() error {
	if o.Most == 0 {
		o.Most = 8
	}
	if o.Steps == 0 {
		o.Steps = 200
	}
	if o.Gain == 0 {
		o.Gain = 0.02
	}
	bad := &mistakes{class: ErrOption}
	bad.checkSlots(fmt.Sprintf("most %d slots", o.Most), o.Most, 8)
	if o.Steps < 5 {
		bad.addf("steps %d: must be 5 or more, or 0 for 200", o.Steps)
	}
	if !(o.Gain > 0 && o.Gain <= 1) {
		bad.addf("gain %v: must be above 0 and at most 1, or 0 for 0.02", o.Gain)
	}
	return errors.Join(bad.errs...)
}

// measure trains for some steps, and returns the number of those after the first fifth, and who waited
// for whom in them.
func (o *TuneOptions) measure(ctx context.Context, model ModelFunc, ds dataloader.Dataset, opt Options) (
	steps int, in dataloader.Stalls, err error,
) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var first, last Progress
	done, report := false, opt.Progress
	opt.Progress = func(p Progress) {
		if report != nil {
			report(p)
		}
		steps := min(o.Steps, p.Steps)
		if p.Step <= steps/5 {
			first = p
		}
		if last = p; p.Step >= steps {
			done = true
			stop()
		}
	}
	t, err := New(ctx, model, opt)
	if err != nil {
		return 0, in, err
	}
	if _, err = t.Fit(ctx, ds); done {
		err = nil
	}
	closed := t.Close()
	if errors.Is(closed, dataloader.ErrStuck) {
		go t.closeWhenFree()
	}
	if !errors.Is(err, dataloader.ErrStuck) { // else it says what closed says
		err = errors.Join(err, closed)
	}
	a, b := first.Input, last.Input
	return last.Step - first.Step, dataloader.Stalls{Elapsed: b.Elapsed - a.Elapsed, Waited: b.Waited - a.Waited,
		Idle: b.Idle - a.Idle, Workers: b.Workers}, err
}

// closeWhenFree closes the trainer again until no Fetch is left that may write to its memory.
func (t *Trainer) closeWhenFree() {
	for errors.Is(t.Close(), dataloader.ErrStuck) { // which itself waits for the Fetch for a while
		time.Sleep(stuckInterval)
	}
}

// stuckInterval is the time between two attempts of closeWhenFree.
const stuckInterval = 20 * time.Millisecond
