package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	humanize "github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Plan returns what every byte would be for, and allocates none of them. Pass the device that you will train on: its kernels may want
// workspaces, which are part of the plan. Where Options.Device is nil, the plan is one for a device whose kernels need none.
// Options.Memory is not looked at. Several goroutines may plan at once, but not from inside a model function.
func Plan(ctx context.Context, model ModelFunc, opt Options) (*report.Plan, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	b, err := newBuild(ctx, model, opt, false)
	if err != nil {
		return nil, err
	}
	return b.report(), nil
}

// MaxBatch returns the largest batch, most at most, whose plan fits in Options.Memory, or in the memory of Options.Device that is free
// where that is 0. It is arithmetic: nothing is allocated or trained. Where not even a batch of 1 fits, or of 2 under batch normalization,
// it returns a *CapacityError.
func MaxBatch(ctx context.Context, model ModelFunc, opt Options, most int) (int, error) {
	if ctx == nil {
		return 0, errNilContext
	}
	if most < 1 {
		return 0, fmt.Errorf("largest batch %d: must be 1 or more: %w", most, ErrOption)
	}
	most = min(most, math.MaxInt32)
	limit, total, err := opt.limit()
	if err != nil {
		return 0, err
	}
	n, b, err := maxBatch(ctx, model, opt, limit, most)
	if err == nil && n == 0 {
		err = b.short(ctx, limit, total)
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
	if errors.Is(err, compile.ErrRows) && most > 1 {
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
		outside(p, b.opt.Device, b.beside()+b.staged)
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
		q := b.program(b.programs[k])
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

// outside completes a plan for a device by what is taken there outside of the arena: pinned are bytes beside those that the arena pins.
func outside(p *report.Plan, dev kernels.Device, pinned int64) {
	p.Device = dev.Name()
	if info, err := dev.Info(); err == nil { // a device that was closed has no context
		p.Context = info.Context
	}
	if !dev.Unified() {
		p.Pinned = pinned + arena.StageBytes(p.Total)
	}
}

// staged returns the bytes that a device pins for itself to run p: one block, for the call that needs most.
func staged(dev kernels.Device, p *ir.Program) (bytes int64) {
	d, ok := dev.(interface {
		Staged(op *kernels.Op, in, out []kernels.Spec) int64
	})
	if !ok {
		return 0
	}
	for _, in := range p.Instrs {
		bytes = max(bytes, d.Staged(in.Op, p.Specs(in.In), p.Specs(in.Out)))
	}
	return bytes
}

func (b *build) program(p *ir.Program) report.Program {
	r := report.Program{Name: p.Name, Batch: p.Batch, Instructions: len(p.Instrs), Time: p.Work().Time, Scratch: p.Plan.Bytes, Live: p.Plan.Live,
		Buffers: p.Problem.Buffers, Offsets: p.Plan.Offsets, Notes: []string{"placed by " + p.Plan.Method}}
	r.Recomputed, r.Extra = again(p)
	if r.Recomputed > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d instructions compute activations again, in %.0f %% of the forward pass's time", r.Recomputed, 100*r.Extra))
	}
	slow, _ := b.opt.Device.(interface{ ByReference(op *kernels.Op) bool })
	for _, in := range p.Instrs {
		r.Labels = append(r.Labels, in.Label)
		switch {
		case in.Mark != "":
			r.Fallbacks = append(r.Fallbacks, in.Label)
		case slow != nil && slow.ByReference(in.Op):
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %s has no kernel on %s and runs by its reference, slowly, and allocates on the Go heap", in.Label, in.Op.Name, b.opt.Device.Name()))
		}
	}
	if at := int(p.Plan.LiveAt); at >= 0 && at < len(r.Labels) {
		r.LiveAt = r.Labels[at]
	}
	return r
}

// again returns how many instructions of p compute an activation again, and what part of the forward pass's time that takes.
func again(p *ir.Program) (n int, share float64) {
	var forward, extra ir.Work
	for i := range p.Instrs {
		in := &p.Instrs[i]
		switch {
		case kernels.Transfers(in.Op):
		case in.Again:
			n++
			extra = extra.Add(p.WorkOf(in))
		case !in.Back:
			forward = forward.Add(p.WorkOf(in))
		}
	}
	return n, float64(extra.Time) / float64(max(forward.Time, 1))
}

// CapacityError says that a plan does not fit, why, and what would. It wraps arena.ErrCapacity.
type CapacityError struct {
	Need, Have int64 // bytes
	Total      int64 // bytes of the device, where it has too few free; 0: it is Options.Memory that is too small
	Batch      int   // that was asked for, 0 for a graph as it is
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
	what := "the plan"
	if p := e.Plan.Programs; len(p) > 0 && p[0].Recomputed > 0 {
		what = "the plan, with recomputation,"
	}
	fmt.Fprintf(&s, "%s needs %s, there are %s", what, bytesOf(e.Need), bytesOf(e.Have))
	if e.Total > 0 {
		fmt.Fprintf(&s, " free of the device's %s", bytesOf(e.Total))
	}
	fmt.Fprintf(&s, ": %s missing", bytesOf(e.Need-e.Have))
	sep := " ("
	for _, r := range e.Plan.Regions {
		if r.Size > 0 {
			fmt.Fprintf(&s, "%s%s %d", sep, r.Name, r.Size)
			sep = ", "
		}
	}
	s.WriteString("; largest:")
	for _, t := range e.Plan.Top(5) {
		fmt.Fprintf(&s, " %s %d (%s)", t.Label(), t.Bytes, t.Region)
	}
	if e.Batch == 0 {
		s.WriteString(")")
		return s.String()
	}
	s.WriteString("): ")
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

func bytesOf(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes (%s)", n, humanize.IBytes(uint64(n)))
}

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
		if errors.Is(err, compile.ErrRows) { // of the only batch below
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
	have, total, err := room(b.opt.Device, b.opt.Memory)
	if err != nil || b.layout.Total() <= have {
		return err
	}
	return b.short(ctx, have, total)
}

// room returns the bytes that a plan may take: the limit, 0 for none, or what is free on the device where that is less. Then total is what
// the device has, else 0.
func room(dev kernels.Device, limit int64) (have, total int64, err error) {
	info, err := dev.Info()
	if err != nil {
		return 0, 0, fmt.Errorf("memory of %s: %w", dev.Name(), err)
	}
	if limit == 0 || limit > info.Free {
		return info.Free, info.Total, nil
	}
	return limit, 0, nil
}
