package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	if opt.Memory < 0 {
		return 0, fmt.Errorf("memory %d bytes: must not be negative: %w", opt.Memory, ErrOption)
	}
	ctx := context.Background()
	limit := opt.Memory
	if limit == 0 {
		if opt.Device == nil {
			return 0, fmt.Errorf("neither Memory nor Device is set, so there is no limit: %w", ErrOption)
		}
		info, err := opt.Device.Info()
		if err != nil {
			return 0, err
		}
		limit = info.Free
	}
	total := func(batch int) (*build, error) {
		opt.Batch = batch
		return newBuild(ctx, model, opt, false)
	}
	least := 1
	b, err := total(least)
	if errors.Is(err, compile.ErrRows) && most > 1 {
		least = 2
		b, err = total(least)
	}
	if err != nil {
		return 0, err
	}
	if b.layout.Total() > limit {
		return 0, b.short(limit, 0)
	}
	return largest(least, most, func(batch int) (bool, error) {
		b, err := total(batch)
		return err == nil && b.layout.Total() <= limit, err
	})
}

// largest returns the largest n up to most that fits, given that least does. It doubles, then bisects.
func largest(least, most int, fits func(int) (bool, error)) (int, error) {
	good, bad := least, most+1
	for n := 2 * least; n <= most && bad > most; n *= 2 {
		ok, err := fits(n)
		if err != nil {
			return 0, err
		}
		if ok {
			good = n
		} else {
			bad = n
		}
	}
	for bad-good > 1 {
		n := good + (bad-good)/2
		ok, err := fits(n)
		if err != nil {
			return 0, err
		}
		if ok {
			good = n
		} else {
			bad = n
		}
	}
	return good, nil
}

// report turns the build into data.
func (b *build) report() *report.Plan {
	p := &report.Plan{Device: "any device", Mode: "streaming", Regions: b.layout.Regions(), Total: b.layout.Total()}
	if b.opt.Device != nil {
		p.Device = b.opt.Device.Name()
		if !b.opt.Device.Unified() {
			p.Pinned = 2*(b.homes.Bytes(ir.Slot)+b.homes.Bytes(ir.Results)+b.homes.Bytes(ir.Guard)) + arena.StageBytes(p.Total)
		}
	}
	if len(b.opt.Resident) > 0 {
		p.Mode = "resident"
		if b.opt.Fields != nil {
			p.Mode = "resident and streaming"
		}
	}
	for _, k := range b.order {
		p.Programs = append(p.Programs, b.program(b.programs[k]))
	}
	return p
}

func (b *build) program(p *ir.Program) report.Program {
	r := report.Program{Name: p.Name, Batch: p.Batch, Instructions: len(p.Instrs), Scratch: p.Plan.Bytes, Live: p.Plan.Live,
		Buffers: p.Problem.Buffers, Offsets: p.Plan.Offsets, Notes: []string{"placed by " + p.Plan.Method}}
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

// CapacityError says that a plan does not fit, why, and what would. It wraps arena.ErrCapacity.
type CapacityError struct {
	Need, Have int64 // bytes
	Batch      int   // that was asked for, 0 for a graph as it is
	EvalBatch  int   // rows of evaluation and prediction, where they are more than Batch, else 0
	Fits       int   // the largest batch that fits beside that, 0 for none
	Plan       *report.Plan
}

func (e *CapacityError) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "the plan needs %s, there are %s: %s missing", bytesOf(e.Need), bytesOf(e.Have), bytesOf(e.Need-e.Have))
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
	case e.Fits > 0:
		fmt.Fprintf(&s, "batch %d in place of %d would fit", e.Fits, e.Batch)
	case e.EvalBatch > 0:
		fmt.Fprintf(&s, "evaluation in batches of %d needs that much: lower EvalBatch, to %d for what training alone needs", e.EvalBatch, e.Batch)
	default:
		s.WriteString("not even a batch of 1 would fit")
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

// short returns the error about a limit that the plan is above.
func (b *build) short(limit int64, fits int) error {
	e := &CapacityError{Need: b.layout.Total(), Have: limit, Batch: b.opt.Batch, Fits: fits, Plan: b.report()}
	if b.opt.EvalBatch > b.opt.Batch {
		e.EvalBatch = b.opt.EvalBatch
	}
	return e
}

// fits returns an error where the plan is above Options.Memory or what the device has.
func (b *build) fits(ctx context.Context) error {
	limit := b.opt.Memory
	info, err := b.opt.Device.Info()
	if err != nil {
		return fmt.Errorf("memory of %s: %w", b.opt.Device.Name(), err)
	}
	if limit == 0 || limit > info.Free {
		limit = info.Free
	}
	if b.layout.Total() <= limit {
		return nil
	}
	opt := b.opt
	opt.Memory = limit
	fits := 0
	if b.opt.Batch > 1 {
		if fits, err = MaxBatch(b.model, opt, b.opt.Batch-1); err != nil && !errors.Is(err, arena.ErrCapacity) && !errors.Is(err, compile.ErrRows) {
			return err
		}
	}
	return b.short(limit, fits)
}
