package trainer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// combination is one setting of each axis.
type combination struct {
	opt        Options
	choice     report.Choice
	at         []int // index of the setting, by axis; 0 is the given one
	changes    int   // settings other than the given ones
	newResults int   // those of them that change the results
	err        error
}

// with returns c with setting i of the next axis.
func (c combination) with(a axis, i int) combination {
	s := a.settings[i]
	s.apply(&c.opt)
	c.at = append(slices.Clone(c.at), i)
	c.choice.Settings = append(slices.Clone(c.choice.Settings), s.name)
	if i > 0 {
		c.changes++
	}
	if !s.same {
		c.newResults++
	}
	c.choice.Same = c.newResults == 0
	return c
}

// each returns c with every combination of the settings of the remaining axes. The given settings come
// first.
func (c combination) each(remaining []axis) []combination {
	all := []combination{c}
	for _, a := range remaining {
		var next []combination
		for _, c := range all {
			for i := range a.settings {
				next = append(next, c.with(a, i))
			}
		}
		all = next
	}
	return all
}

// better reports whether c is preferred to d: fewer settings that change the results, then an
// optimizer with more state, less time to a per cent, fewer changes, fewer bytes. The optimizer
// comes before the time because a smaller state costs accuracy, which no plan can measure; the
// bytes come last because a plan that fits need not be small.
func (c *combination) better(d *combination) bool {
	// The cost model is too rough for differences below a per cent to mean anything.
	percent := func(c *combination) int { return int(math.Round(100 * c.choice.Time)) }
	return cmp.Or(
		c.newResults-d.newResults,
		c.at[optimizerAxis]-d.at[optimizerAxis],
		percent(c)-percent(d),
		c.changes-d.changes,
		cmp.Compare(c.choice.Total, d.choice.Total),
	) < 0
}

// describe returns what c changes, and what that costs.
func (c *combination) describe(axes []axis) string {
	var changes []string
	for i, s := range c.choice.Settings {
		if c.at[i] > 0 {
			changes = append(changes, axes[i].name+" "+s)
		}
	}
	return fmt.Sprintf("%s would fit in %s, for %+d %% of time",
		strings.Join(changes, ", "), layout.FormatBytes(c.choice.Total), int(math.Round(100*c.choice.Time)))
}

// cheapestChange returns a change of the plan's options that fits in limit bytes and costs little
// time, as text and as options. The text is empty if there is none. A refusal must not take long,
// so it does not plan every combination: for each optimizer, given one first, it tries every guard
// and recomputation with the given batch, another precision only if none of these fits, and the
// fewest steps of an update that fit. It plans none that needs more than limit by arithmetic
// (leastBytes), and ends with the best so far when the budget is spent.
func (p *planned) cheapestChange(ctx context.Context, limit int64, budget *searchBudget) (
	change string, opt Options, err error,
) {
	// The explorer has no Progress: New and MaxBatch have no function to call.
	axes := p.axes()
	e := p.explorer(limit)
	e.budget = budget
	given := p.opt
	given.Memory = limit
	// Settings of this axis are in the order of preference, so the first optimizer with a
	// combination that fits is the result.
	for o := range axes[optimizerAxis].settings {
		c := combination{opt: given}.with(axes[optimizerAxis], o)
		var best *combination
		// The given batch: every guard, recomputation and offloading at once, then another
		// precision, which changes the results.
		for precision := 0; precision < len(axes[precisionAxis].settings) && best == nil; precision++ {
			var tried []combination
			for guard := range axes[gradientAxis].settings {
				for recompute := range axes[recomputeAxis].settings {
					tried = append(tried, c.withSettings(axes, guard, 0, recompute, precision)...)
				}
			}
			best = e.best(ctx, p.without(tried, limit))
		}
		// Other batches: all else as it is, the fewest steps of an update first.
		for batch := 1; batch < len(axes[batchAxis].settings); batch++ {
			if fewer := e.best(ctx, p.without(c.withSettings(axes, 0, batch, 0, 0)[:1], limit)); fewer != nil {
				if best == nil || fewer.better(best) {
					best = fewer
				}
				break
			}
		}
		if err := ctx.Err(); err != nil {
			return "", opt, err
		}
		if best != nil {
			return best.describe(axes), best.opt, nil
		}
	}
	return "", opt, nil
}

// withSettings returns c, which has an optimizer, with these settings of the next axes and every
// setting of the others.
func (c combination) withSettings(axes []axis, guard, batch, recompute, precision int) []combination {
	c = c.with(axes[gradientAxis], guard).with(axes[batchAxis], batch)
	c = c.with(axes[recomputeAxis], recompute).with(axes[precisionAxis], precision)
	return c.each(axes[otherAxes:])
}

// best plans combinations and returns the best of those that fit, or nil. A combination that the
// model refuses, or that the budget does not afford, does not fit.
func (e *explorer) best(ctx context.Context, some []combination) (best *combination) {
	// Some at once: what the budget affords must not depend on which plan is done first.
	for few := range slices.Chunk(some, searchStep) {
		e.budget.begin()
		few = slices.DeleteFunc(few, func(c combination) bool { return !e.budget.affords(&c.opt) })
		forEach(few, func(c *combination) { c.err = e.plan(ctx, c.opt, &c.choice) }, e.report(ExploreCombinations))
		for i := range few {
			if c := &few[i]; c.err == nil && c.choice.Fits && (best == nil || c.better(best)) {
				best = c
			}
		}
	}
	return best
}
