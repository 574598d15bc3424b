package trainer

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// programCache shares the programs of one model between plans whose options differ only in what
// does not affect a program. A cached program adds no initial values to a plan, so only plans of a
// complete cache can be trained; others can be inspected.
//
// Example: Explore plans adam and adafactor. Their training programs differ; those of evaluation and
// prediction do not, because relevantTo drops the optimizer there, and they are compiled once.
type programCache struct {
	complete bool // what adds initial values to a plan is compiled for that plan alone

	mu      sync.Mutex
	entries map[cacheKey][]*cacheEntry
	work    int64 // of all compilations so far; see workOf
}

// cacheKey identifies a program, apart from the options and the homes that it is compiled for.
type cacheKey struct {
	programKey
	first  bool        // of its objective in its plan
	budget int64       // of recomputation
	room   int         // rows of the largest batch of the plan, if those are more
	like   *ir.Program // of the full batch; plans that share it have the same pointer
}

// cacheEntry holds the programs of one cacheKey under the same relevant options, one for each state
// of the homes.
type cacheEntry struct {
	opt   Options // see relevantTo
	mu    sync.Mutex
	known []compilation
}

// compilation is the outcome of one compilation. Invariant: a compilation depends on earlier
// programs only through the homes, so if they give the same places again, the outcome is the same.
type compilation struct {
	program *ir.Program
	err     error
	before  [len(modelRegions)]int // initCounts before it
	after   [len(modelRegions)]int // initCounts after it
	placed  []ir.Part              // homes that it asked for
	metrics *metricSet             // of the plan that it was compiled for
	info    *modelInfo             // of the model; nil after an error
}

// relevantTo returns o without the fields that do not affect the compilation of program k. Fields
// that are not named here do.
func (o Options) relevantTo(k programKey) Options {
	o.Batch, o.EvalBatch = 0, 0 // k has its rows and its window
	if o.Shard != ShardState || o.Accumulate <= 1 {
		o.Accumulate = 0
	} else {
		o.Accumulate = 2 // as any window
	}
	o.Memory, o.Recompute.Auto = 0, false // they determine the budget
	o.Average = optim.Average{}           // k says whether it is one of the averages
	o.Objectives = slices.Clone(o.Objectives)
	for i := range o.Objectives {
		o.Objectives[i].Schedule, o.Objectives[i].Every = nil, 0
	}
	o.Schedule, o.Sequential, o.Sampler, o.Tail, o.Workers, o.Progress = nil, false, nil, 0, 0, nil
	switch {
	case k.mode != compile.Train:
		o.Optimizer, o.Guard, o.Recompute, o.Objectives, o.Unfreeze = nil, 0, Recompute{}, nil, nil
		o.GradientNorm, o.TrainMetrics, o.Group, o.SyncBatchNorm = false, false, nil, false
		o.Shard, o.Accumulate = 0, 0
	case !k.window.Updates() && o.Shard == ShardGradients: // parts depend on the optimizer
		o.Guard, o.GradientNorm = 0, false
	case !k.window.Updates():
		o.Optimizer, o.Guard, o.Objectives, o.GradientNorm = nil, 0, nil, false
	}
	return o
}

// entry returns the entry for program k of plan p.
func (c *programCache) entry(p *planned, k programKey, like *ir.Program) *cacheEntry {
	key := cacheKey{programKey: k, first: p.isFirst(k), like: like}
	if room := p.opt.room(); room > k.rows {
		key.room = room
	}
	if k.mode == compile.Train {
		key.budget = p.budget
	}
	opt := p.opt.relevantTo(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries[key] {
		if reflect.DeepEqual(e.opt, opt) {
			return e
		}
	}
	if c.entries == nil {
		c.entries = make(map[cacheKey][]*cacheEntry)
	}
	e := &cacheEntry{opt: opt}
	c.entries[key] = append(c.entries[key], e)
	return e
}

// compile is planned.compileNow, run at most once for all plans that need the same program. A
// caller that needs a program while another compiles it waits.
func (c *programCache) compile(ctx context.Context, p *planned, k programKey, like *ir.Program) (*ir.Program, error) {
	// Each entry has a lock of its own, so that different programs are compiled in parallel.
	e := c.entry(p, k, like)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.known {
		if known := &e.known[i]; (known.before == known.after || !c.complete) && p.tryReuse(known) {
			return known.program, known.err
		}
	}
	done := compilation{before: initCounts(&p.homes)}
	asked := len(p.homes.Asked())
	done.program, done.err = p.compileNow(ctx, k, like)
	if ctx.Err() != nil || errors.Is(done.err, ir.ErrHome) { // such an error holds for this plan only
		return done.program, done.err
	}
	done.info = p.info
	done.placed, done.after = slices.Clone(p.homes.Asked()[asked:]), initCounts(&p.homes)
	done.metrics = p.metrics
	e.known = append(e.known, done)
	if done.err == nil {
		c.mu.Lock()
		c.work += workOf(done.program)
		c.mu.Unlock()
	}
	return done.program, done.err
}

// worked returns the work of all compilations so far, as workOf estimates it.
func (c *programCache) worked() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.work
}

// initCounts returns the number of homes in each of the modelRegions.
func initCounts(h *ir.Homes) (n [len(modelRegions)]int) {
	for i, r := range modelRegions {
		n[i] = len(h.Parts(r))
	}
	return n
}

// tryReuse replays the allocations of a known compilation in p's homes and reports whether p can
// use its program. It returns false, and changes nothing, if the homes differ from those of that
// compilation or an offset would.
func (p *planned) tryReuse(known *compilation) bool {
	if initCounts(&p.homes) != known.before || !p.homes.Repeat(known.placed) {
		return false
	}
	if p.metrics == nil {
		p.metrics = known.metrics
	}
	if p.info == nil && known.info != nil {
		p.setInfo(known.info)
	}
	// compileNow would have recorded an initial value for each new home. Only the names are needed,
	// by checkNames.
	for i, r := range modelRegions {
		for _, home := range p.homes.Parts(r)[known.before[i]:] {
			p.initial[r] = append(p.initial[r], initialValue{name: home.Name})
		}
	}
	return true
}
