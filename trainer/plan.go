package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Plan returns what every byte would be for, and allocates none of them. Pass the device that you will train on: its kernels may want
// workspaces, which are part of the plan. Where Options.Device is nil, the plan is one for a device whose kernels need none.
// Options.Memory is not looked at. Several goroutines may plan at once, but not from inside a model function.
func Plan(model ModelFunc, opt Options) (*report.Plan, error) {
	b, err := newBuild(context.Background(), model, opt, false)
	if err != nil {
		return nil, err
	}
	return b.report(), nil
}

// MaxBatch returns the largest batch, most at most, whose plan fits in Options.Memory, or in the memory of Options.Device that is free
// where that is 0. It is arithmetic: nothing is allocated or trained. Where not even a batch of 1 fits, or of 2 under batch normalization,
// it returns a *CapacityError.
func MaxBatch(model ModelFunc, opt Options, most int) (int, error) {
	if most < 1 {
		return 0, fmt.Errorf("largest batch %d: must be 1 or more: %w", most, ErrOption)
	}
	most = min(most, math.MaxInt32)
	limit, total, err := opt.limit()
	if err != nil {
		return 0, err
	}
	n, b, err := maxBatch(context.Background(), model, opt, limit, most)
	if err == nil && n == 0 {
		err = b.short(context.Background(), limit, total)
	}
	return n, err
}

// maxBatch returns the largest batch, most at most, that fits within limit, 0 where none does: then b is the build of the smallest.
func maxBatch(ctx context.Context, model ModelFunc, opt Options, limit int64, most int) (n int, b *build, err error) {
	total := func(batch int) (*build, error) {
		opt.Batch = batch
		return newBuild(ctx, model, opt, false)
	}
	least := 1
	b, err = total(least)
	if errors.Is(err, frontend.ErrRows) && most > 1 {
		least = 2
		b, err = total(least)
	}
	if err != nil || b.layout.Total() > limit {
		return 0, b, err
	}
	n, err = largest(least, most, func(batch int) (bool, error) {
		b, err := total(batch)
		return err == nil && b.layout.Total() <= limit, err
	})
	return n, b, err
}

// largest returns the largest n up to most that fits, given that least does. It doubles, then bisects.
func largest(least, most int, fits func(int) (bool, error)) (int, error) {
	good, bad := least, most+1
	for n := 2 * least; bad-good > 1; {
		ok, err := fits(n)
		switch {
		case err != nil:
			return 0, err
		case ok:
			good = n
		default:
			bad = n
		}
		if n = 2 * good; n >= bad {
			n = good + (bad-good)/2
		}
	}
	return good, nil
}

// report turns the build into data.
func (b *build) report() *report.Plan {
	p := &report.Plan{Device: "any device", Mode: "streaming", Regions: b.layout.Regions(), Total: b.layout.Total()}
	if b.opt.Device != nil {
		layout.AddDeviceMemory(p, b.opt.Device, b.beside()+b.staged)
	} else if b.opt.Offload.any() { // then the device has memory of its own
		p.Pinned = b.beside() + arena.StageBytes(p.Total)
	}
	p.Offloaded = b.offloadedBytes()
	if len(b.opt.Resident) > 0 {
		p.Mode = "resident"
		if b.opt.Fields != nil {
			p.Mode = "resident and streaming"
		}
	}
	for _, k := range b.order {
		q := layout.Describe(b.programs[k], b.opt.Device)
		if p.Pinned > 0 {
			q.Bus = b.bus(k)
		}
		p.Programs = append(p.Programs, q)
	}
	return p
}

// bus returns what crosses the bus in a step of program k.
func (b *build) bus(k key) (s report.Bus) {
	p := b.programs[k]
	early, late := b.places(k, p)
	for _, r := range slices.Concat(early, late) {
		s.Uploads += r.Size
	}
	s.Downloads = b.homes.Bytes(ir.Results) + b.homes.Bytes(ir.Guard)
	for _, in := range p.Instrs {
		switch in.Op {
		case kernels.Fetch:
			s.Fetches += p.Values[in.Out[0]].Spec.Bytes()
		case kernels.Stow:
			s.Stows += p.Values[in.Out[0]].Spec.Bytes()
		}
	}
	return s
}

// CapacityError says that a plan does not fit, why, and what would. It wraps arena.ErrCapacity.
type CapacityError struct {
	Need, Have int64 // bytes
	Total      int64 // bytes of the device, where it has too few free; 0: it is Options.Memory that is too small
	Batch      int   // that was asked for
	EvalBatch  int   // rows of evaluation and prediction, where they are more than Batch, else 0
	// Fits and FitsEval are the largest Batch and EvalBatch that would fit, together where both are set. 0 leaves one as it is; where both
	// are 0, nothing fits, or the model function refuses a batch that was tried; the message says which.
	Fits, FitsEval int
	// Change says which other options would fit at the least cost of time, for an update of as many samples; Options are those. Empty: none of those
	// that Explore tries.
	Change  string
	Options Options
	Plan    *report.Plan

	unknown error // why there is no answer to what would fit
}

func (e *CapacityError) Error() string {
	var s strings.Builder
	s.WriteString(layout.Shortage(e.Plan, e.Need, e.Have, e.Total))
	s.WriteString(": ")
	switch {
	case e.unknown != nil:
		fmt.Fprintf(&s, "which batch would fit cannot be said: %v", e.unknown)
	case e.Fits > 0 && e.FitsEval > 0:
		fmt.Fprintf(&s, "batch %d in place of %d would fit with EvalBatch %d in place of %d", e.Fits, e.Batch, e.FitsEval, e.EvalBatch)
	case e.Fits > 0:
		fmt.Fprintf(&s, "batch %d in place of %d would fit", e.Fits, e.Batch)
	case e.FitsEval > 0:
		fmt.Fprintf(&s, "EvalBatch %d in place of %d would fit", e.FitsEval, e.EvalBatch)
	default:
		s.WriteString("not even the smallest batch would fit")
	}
	if e.Change != "" {
		fmt.Fprintf(&s, "; %s", e.Change)
	}
	return s.String()
}

// Unwrap returns arena.ErrCapacity.
func (e *CapacityError) Unwrap() error { return arena.ErrCapacity }

// short returns the error about a limit that the plan is above, with what would fit. total is that of CapacityError.
func (b *build) short(ctx context.Context, limit, total int64) error {
	e := &CapacityError{Need: b.layout.Total(), Have: limit, Total: total, Batch: b.opt.Batch, Plan: b.report()}
	if b.opt.EvalBatch > b.opt.Batch {
		e.EvalBatch = b.opt.EvalBatch
	}
	var err error
	if e.Fits, e.FitsEval, e.unknown = b.fitting(ctx, limit); e.unknown != nil && ctx.Err() != nil {
		return e.unknown
	}
	if e.Change, e.Options, err = b.cheapest(ctx, limit); err != nil {
		return err
	}
	return e
}

// fitting returns the largest EvalBatch that fits beside Batch; where none does, the largest Batch beside EvalBatch; where none does
// again, the largest Batch with an EvalBatch no larger. What may stay as it is, and what does not fit, is 0.
func (b *build) fitting(ctx context.Context, limit int64) (batch, eval int, err error) {
	opt := b.opt
	if opt.EvalBatch > opt.Batch {
		fits := func(rows int) (bool, error) {
			opt := opt
			opt.EvalBatch = rows
			c, err := newBuild(ctx, b.model, opt, false)
			return err == nil && c.layout.Total() <= limit, err
		}
		if ok, err := fits(opt.Batch); err != nil {
			return 0, 0, err
		} else if ok {
			eval, err = largest(opt.Batch, opt.EvalBatch-1, fits)
			return 0, eval, err
		}
	}
	if opt.Batch == 1 {
		return 0, 0, nil
	}
	below := func() error {
		batch, _, err = maxBatch(ctx, b.model, opt, limit, opt.Batch-1)
		if errors.Is(err, frontend.ErrRows) { // of the only batch below
			return nil
		}
		return err
	}
	if err := below(); err != nil || batch > 0 || opt.EvalBatch <= opt.Batch {
		return batch, 0, err
	}
	opt.EvalBatch = 0
	err = below()
	return batch, batch, err
}

// fits returns an error where the plan is above Options.Memory or what the device has.
func (b *build) fits(ctx context.Context) error {
	have, total, err := layout.Available(b.opt.Device, b.opt.Memory)
	if err != nil || b.layout.Total() <= have {
		return err
	}
	return b.short(ctx, have, total)
}
