package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// parts are the fractions of scratch to which recomputation reduces it.
var parts = []float64{0.5, 0.25}

// planned is a net with the plans of its training step.
type planned struct {
	net    nets.Net
	whole  cut
	within []cut // with recomputation, by part
}

// cut is a plan and its options.
type cut struct {
	opt  trainer.Options
	plan *report.Plan
}

// step returns the program of a training step.
func (c cut) step() report.Program { return c.plan.Programs[0] }

// compare returns the scratch of c as a fraction of that of whole, and the extra time of its step
// by the cost model.
func (c cut) compare(whole cut) (share, longer float64) {
	p, q := c.step(), whole.step()
	return float64(p.Scratch) / float64(q.Scratch), float64(p.Time)/float64(q.Time) - 1
}

// plans plans nets for a device whose kernels need no workspace.
func plans(some []nets.Net) ([]planned, error) {
	all := make([]planned, 0, len(some))
	for _, n := range some {
		p, err := planOf(n, trainer.Options{Batch: n.Batch, Guard: trainer.GuardEach})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// planOf plans a net without recomputation, and with recomputation within parts of its scratch, or
// within the least scratch that recomputation reaches.
func planOf(n nets.Net, opt trainer.Options) (planned, error) {
	p := planned{net: n, whole: cut{opt: opt}}
	var err error
	if p.whole.plan, err = trainer.Plan(context.Background(), n.Model, opt); err != nil {
		return p, fmt.Errorf("%s: %w", n.Name, err)
	}
	scratch := p.whole.plan.Category("scratch")
	for _, part := range parts {
		c := cut{opt: opt}
		c.opt.Recompute.Auto = true
		c.opt.Memory = p.whole.plan.Total - scratch + int64(part*float64(scratch))
		if c.plan, err = trainer.Plan(context.Background(), n.Model, c.opt); err != nil {
			return p, fmt.Errorf("%s within %v of its scratch: %w", n.Name, part, err)
		}
		if c.plan.Total > c.opt.Memory { // recomputation does not reach this part
			c.opt.Memory = c.plan.Total
			if c.plan, err = trainer.Plan(context.Background(), n.Model, c.opt); err != nil {
				return p, fmt.Errorf("%s within the least that recomputation reaches: %w", n.Name, err)
			}
		}
		p.within = append(p.within, c)
	}
	return p, nil
}

// placed prints a row for each net: the bytes of scratch without reuse, as planned, and at the
// peak, which is the bound of all plans.
func placed(all []planned, out io.Writer) error {
	w := columns(out)
	fmt.Fprintln(w, "net\tbatch\tinstructions\tbuffers\tno reuse\tplanned\tbound\tratio\tby")
	for _, n := range all {
		p := n.whole.step()
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3f\t%s\n", n.net.Name, p.Batch, p.Instructions, len(p.Buffers), apart(p), p.Scratch, p.Live,
			float64(p.Scratch)/float64(p.Live), strings.TrimPrefix(strings.Join(p.Notes, ", "), "placed by "))
	}
	return w.Flush()
}

// apart returns the bytes of a program's buffers without reuse.
func apart(p report.Program) (bytes int64) {
	for _, b := range p.Buffers {
		bytes += arena.Round(b.Size)
	}
	return bytes
}

// recomputed prints a row for each net: the bytes of scratch with recomputation, as a share of
// those without, and the extra time of a step by the cost model.
func recomputed(all []planned, out io.Writer) error {
	w := columns(out)
	fmt.Fprint(w, "net\tplanned")
	for _, part := range parts {
		fmt.Fprintf(w, "\twithin %.0f %%\tshare\ttime", 100*part)
	}
	fmt.Fprintln(w)
	for _, n := range all {
		fmt.Fprintf(w, "%s\t%d", n.net.Name, n.whole.step().Scratch)
		for _, c := range n.within {
			share, longer := c.compare(n.whole)
			fmt.Fprintf(w, "\t%d\t%.1f %%\t%+.1f %%", c.step().Scratch, 100*share, 100*longer)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
