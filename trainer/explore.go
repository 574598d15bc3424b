package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// ExploreOptions configure Explore. The zero value is a good default.
type ExploreOptions struct {
	// MaxBatch makes Explore also search the largest batch, up to MaxBatch, of each choice that is
	// not beaten (see Explore). Default 0: no search. It costs several plans for each of these
	// choices.
	MaxBatch int
	// Progress is called in the caller's goroutine: in phase ExploreCombinations after each plan,
	// in phase ExploreBatches after each choice. Default: no call.
	Progress func(ExploreProgress)
}

// ExploreProgress counts the finished plans or choices of a phase.
type ExploreProgress struct {
	Phase ExplorePhase
	Done  int // plans or choices that are finished, 1 to Total
	Total int
}

// ExplorePhase is one of the two parts of an exploration.
type ExplorePhase uint8

// The phases, in their order.
const (
	ExploreCombinations ExplorePhase = iota // each combination of options is planned
	ExploreBatches                          // the largest batch of choices not beaten is searched
)

// String returns the name of the phase: "combinations" or "largest batches".
func (p ExplorePhase) String() string {
	if p == ExploreBatches {
		return "largest batches"
	}
	return "combinations"
}

// Exploration is the result of Explore: a table of choices, and the options of each.
type Exploration struct {
	report.Choices
	Options []Options // Options[i] are those of Choices.Choices[i], ready for New
}

// Explore plans the model under every combination of the options that save memory: optimizer,
// guard, batch and accumulation, recomputation, precision, what ranks share, and offloading. It marks the combinations
// that fit in Options.Memory, or in the free memory of Options.Device if Memory is 0, and
// recommends one. All of them have the same number of samples in an update, Batch·Accumulate.
// Explore leaves out a batch for which the model function returns an error.
//
// Choices are compared within groups. One group holds all choices that would train to the same
// results as opt. The remaining choices are grouped by optimizer. A choice is beaten if another one
// of its group needs no more memory and no more time; of two equal choices the first beats the
// second. See report.Choices.Beaten.
//
// Explore allocates no device memory and trains nothing. It ignores Options.Progress. Cancelling
// ctx stops the search.
func Explore(ctx context.Context, model ModelFunc, opt Options, explore ExploreOptions) (*Exploration, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if explore.MaxBatch < 0 || explore.MaxBatch > math.MaxInt32 {
		return nil, fmt.Errorf("largest batch %d: must be 0 to %d: %w", explore.MaxBatch, math.MaxInt32, ErrOption)
	}
	limit, _, err := opt.limit()
	if err != nil {
		return nil, err
	}
	cache := new(programCache)
	given, err := newPlanned(ctx, model, opt, cache)
	if err != nil {
		return nil, err
	}
	e := &explorer{ExploreOptions: explore, model: model, cache: cache, limit: limit, givenTime: given.time()}
	opt.Memory = limit
	return e.explore(ctx, opt, given.axes())
}

// explorer plans combinations of options.
type explorer struct {
	ExploreOptions
	model     ModelFunc
	cache     *programCache
	limit     int64 // bytes
	givenTime int64 // of an update with the given options, by the cost model
	budget    *searchBudget
}

// explore plans all combinations of settings of the axes.
func (e *explorer) explore(ctx context.Context, opt Options, axes []axis) (*Exploration, error) {
	// Every axis multiplies the combinations: 3 optimizers, 2 guards, 7 batches, 2 recomputations
	// and 2 precisions are 168. Programs that several of them have in common are compiled once.
	all := combination{opt: opt}.each(axes)
	x := &Exploration{Choices: report.Choices{Limit: e.limit, Best: -1}}
	for _, a := range axes {
		x.Axes = append(x.Axes, a.name)
	}
	forEach(all, func(c *combination) {
		if c.err = ctx.Err(); c.err == nil {
			c.err = e.plan(ctx, c.opt, &c.choice)
		}
	}, e.report(ExploreCombinations))
	// The choices keep the order of combinations, whichever plan was done first.
	var best *combination
	for i := range all {
		c := &all[i]
		switch {
		case c.err != nil && (c.opt.Batch != opt.Batch || c.opt.Shard != opt.Shard) && ctx.Err() == nil: // the model refuses this batch, or a rule needs whole parameters
			continue
		case c.err != nil:
			return nil, c.err
		case c.choice.Fits && (best == nil || c.better(best)):
			best, x.Best = c, len(x.Options)
		}
		x.Choices.Choices, x.Options = append(x.Choices.Choices, c.choice), append(x.Options, c.opt)
	}
	return x, e.findLargestBatches(ctx, x)
}

// findLargestBatches sets MaxBatch of each choice that no other beats.
func (e *explorer) findLargestBatches(ctx context.Context, x *Exploration) error {
	if e.MaxBatch == 0 {
		return nil
	}
	// The table shows these only; the others would cost most of the time.
	var shown []int
	for i := range x.Choices.Choices {
		if !x.Beaten(i) {
			shown = append(shown, i)
		}
	}
	forEach(shown, func(i *int) {
		c := &x.Choices.Choices[*i]
		var err error
		known := sizedBatch{x.Options[*i].Batch, c.Total}
		if c.MaxBatch, _, err = e.largest(ctx, x.Options[*i], known); err != nil { // the model refuses a batch
			c.MaxBatch = -1
		}
	}, e.report(ExploreBatches))
	return ctx.Err()
}

// forEach calls f for every element, as many at once as there are processors, and report in the
// caller's goroutine after each.
func forEach[T any](all []T, f func(*T), report func(done, total int)) {
	// Both channels have room for all, so that no goroutine waits for a caller that has panicked in
	// report.
	done, sem := make(chan struct{}, len(all)), make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range all {
		go func() {
			sem <- struct{}{}
			f(&all[i])
			<-sem
			done <- struct{}{}
		}()
	}
	for i := range all {
		<-done
		report(i+1, len(all))
	}
}

// report returns a function that calls Progress.
func (e *explorer) report(phase ExplorePhase) func(done, total int) {
	return func(done, total int) {
		if e.Progress != nil {
			e.Progress(ExploreProgress{Phase: phase, Done: done, Total: total})
		}
	}
}

// plan sets the costs of a choice: its bytes, and its time relative to that of the given options.
// MaxBatch is not known yet.
func (e *explorer) plan(ctx context.Context, opt Options, c *report.Choice) error {
	p, err := newPlanned(ctx, e.model, opt, e.cache)
	if err != nil {
		return err
	}
	c.Total, c.Fits = p.layout.Total(), p.layout.Total() <= e.limit
	c.Time = float64(p.time())/float64(e.givenTime) - 1
	c.Regions = report.Plan{Regions: p.layout.Regions()}.Categories()
	c.MaxBatch = -1
	return nil
}

// time returns the time of an update of all objectives, each by a full window, by the cost model.
// Choices with other batches are compared by it, since all have as many samples in an update: 4
// steps of 16 against one of 64.
func (p *planned) time() int64 {
	var n int64
	steps := max(1, p.opt.Accumulate)
	for step := range steps {
		k := p.order[0]
		k.stage = len(p.opt.Unfreeze)
		k.window, _, _ = p.opt.window(compile.Train, step, steps)
		for k.objective = range p.objectives(compile.Train) {
			n += p.programs[k].Work().Time / int64(p.every(k.objective))
		}
	}
	for i := range p.objectives(compile.Train) {
		if averages := p.programs[averagesKey(i)]; averages != nil {
			n += averages.Work().Time / int64(p.every(i))
		}
	}
	return n
}

// explorer returns an explorer of other options for the model of p.
func (p *planned) explorer(limit int64) *explorer {
	return &explorer{model: p.model, cache: p.cache, limit: limit, givenTime: p.time()}
}

// sizedBatch is a batch and the bytes of its plan.
type sizedBatch struct {
	rows  int // 0: no batch
	bytes int64
}

// largest returns the largest batch of a step, up to MaxBatch, that fits, and the plan of the
// smallest batch that the model function accepts, 1 or 2. It returns 0 if none fits. If the budget
// ends the search, it returns the largest batch so far, and no plan if it has made none. known is a
// batch whose size is known, or none. The next batch to try is where a line through the largest
// batch that is known to fit and the smallest that is known not to meets the limit. Example: batch
// 10 needs 100 bytes, 50 needs 500, and the limit is 300. The line says 30: one plan of 30 and one
// of 31 settle it, where bisection needs five.
func (e *explorer) largest(ctx context.Context, opt Options, known sizedBatch) (n int, least *planned, err error) {
	plan := func(batch int) (*planned, error) {
		opt.Batch = batch
		return newPlanned(ctx, e.model, opt, e.cache)
	}
	good := sizedBatch{rows: 1}
	if !e.budget.affordsOne(&opt) {
		return 0, nil, nil
	}
	least, err = plan(good.rows)
	if errors.Is(err, frontend.ErrRows) && e.MaxBatch > 1 { // batch normalization needs 2 rows
		good.rows = 2
		least, err = plan(good.rows)
	}
	if err != nil || least.layout.Total() > e.limit {
		return 0, least, err
	}
	good.bytes = least.layout.Total()
	bad := sizedBatch{rows: e.MaxBatch + 1} // without bytes: not planned yet
	if known.bytes > e.limit {
		bad = known
	} else if known.rows > good.rows {
		good = known
	}
	// Invariant: good fits, bad does not, or is above MaxBatch. Plans grow nearly linearly with the
	// batch, so a line predicts the limit well. Under recomputation they do not: bisect. step makes
	// guesses bolder, since several batches may have plans of one size: places are multiples of
	// arena.Align.
	for step := 1; bad.rows-good.rows > 1 && e.budget.affordsOne(&opt); step *= 2 {
		n := e.guess(good, bad, step, opt.Recompute.Auto)
		p, err := plan(n)
		switch {
		case err != nil:
			return 0, least, err
		case p.layout.Total() <= e.limit:
			good = sizedBatch{n, p.layout.Total()}
		default:
			bad = sizedBatch{n, p.layout.Total()}
		}
	}
	return good.rows, least, nil
}

// guess returns the batch between good and bad that largest tries next.
func (e *explorer) guess(good, bad sizedBatch, step int, bisect bool) int {
	n := good.rows + (bad.rows-good.rows)/2
	room := float64(e.limit - good.bytes)
	switch {
	case bad.bytes == 0:
		n = good.rows + max(1, int(float64(good.rows)*room/float64(max(good.bytes, 1)))) + step - 1
	case !bisect && bad.rows-good.rows > step:
		n = good.rows + int(float64(bad.rows-good.rows)*room/float64(bad.bytes-good.bytes))
		n = min(max(n, good.rows+step/2), bad.rows-step/2)
	}
	return min(max(n, good.rows+1), bad.rows-1)
}
