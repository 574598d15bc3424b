package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Exploration is what Explore found: a table, and the options behind each of its rows.
type Exploration struct {
	report.Choices
	Options []Options // of each choice: pass one to New
}

// setting is one way to have a lever.
type setting struct {
	name  string
	same  bool // the results are those that were asked for
	apply func(*Options)
}

// lever is a way of trading something for bytes. The first setting is what was asked for.
type lever struct {
	name     string
	settings []setting
}

// Indices of the levers. The last is there only where a device has memory of its own.
const (
	ofOptimizer = iota
	ofGradients
	ofBatch
	ofRecompute
	ofPrecision
	ofHost
)

// Explore plans the model in every combination of the ways that the trainer has of trading time, or another optimizer, for bytes, and says which
// fit in Options.Memory, or in what is free on Options.Device where that is 0. An update stays one of as many samples as asked for,
// Batch·Accumulate. For each that no other beats it looks for the largest batch of a step, most at most; 0 leaves that out. A batch that
// the model function refuses is no choice, and where the search meets one there is no largest batch. It is arithmetic: nothing is allocated or
// trained. Options.Progress hears of every combination that was planned, in epoch 0, and of every largest batch that was found, in epoch 1, as of a step. A done ctx ends it.
func Explore(ctx context.Context, model ModelFunc, opt Options, most int) (*Exploration, error) {
	if most < 0 || most > math.MaxInt32 {
		return nil, fmt.Errorf("largest batch %d: must be 0 to %d: %w", most, math.MaxInt32, ErrOption)
	}
	limit, _, err := opt.limit()
	if err != nil {
		return nil, err
	}
	known := new(cache)
	asked, err := newBuildWith(ctx, model, opt, false, known)
	if err != nil {
		return nil, err
	}
	levers := opt.levers(asked)
	e := &explorer{model: model, known: known, limit: limit, most: most, asked: asked.time(), progress: opt.Progress}
	opt.Memory = limit
	return e.explore(ctx, opt, levers)
}

// limit returns the bytes that may be used, and what the device has where that is the limit.
func (o *Options) limit() (limit, total int64, err error) {
	switch {
	case o.Memory < 0:
		return 0, 0, fmt.Errorf("memory %d bytes: must not be negative: %w", o.Memory, ErrOption)
	case o.Memory > 0:
		return o.Memory, 0, nil
	case o.Device == nil:
		return 0, 0, fmt.Errorf("neither Memory nor Device is set, so there is no limit: %w", ErrOption)
	}
	return layout.Available(o.Device, 0)
}

// optimizers returns the given one, and those that keep fewer bytes of state, most first: of several that keep as many, the first.
func (o *Options) optimizers(asked *build) []setting {
	given := o.optimizer()
	name := fmt.Sprintf("%T", given)
	matrix := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2, 2}}
	most := asked.stateBytes(given)
	type other struct {
		setting
		bytes int64
	}
	var others []other
	for _, n := range optim.All() {
		if reflect.TypeOf(n.Optimizer) == reflect.TypeOf(given) && reflect.DeepEqual(n.Optimizer.States(matrix), given.States(matrix)) {
			name = n.Name
			continue
		}
		bytes := asked.stateBytes(n.Optimizer)
		if bytes < most && !slices.ContainsFunc(others, func(o other) bool { return o.bytes == bytes }) {
			others = append(others, other{setting{n.Name, false, func(o *Options) { o.Optimizer = n.Optimizer }}, bytes})
		}
	}
	slices.SortStableFunc(others, func(a, b other) int { return cmp.Compare(b.bytes, a.bytes) })
	settings := []setting{{name, true, func(*Options) {}}}
	for _, o := range others {
		settings = append(settings, o.setting)
	}
	return settings
}

// stateBytes is what o keeps for the parameters that are trained.
func (b *build) stateBytes(o optim.Optimizer) (bytes int64) {
	for _, name := range b.programs[b.order[0]].Trained {
		for _, s := range o.States(b.parameter(name).Spec) {
			bytes += arena.Round(s.Bytes())
		}
	}
	return bytes
}

// levers returns what can be changed in o, whose build is asked: the optimizer, and what leaves the results as they are.
func (o *Options) levers(asked *build) []lever {
	guards := []setting{{"kept", true, func(*Options) {}}}
	switch {
	case o.scaled() || o.Clip.Norm > 0: // which keep them under any guard
	case o.Guard == GuardEach:
		guards[0].name = "freed"
	default:
		guards = append(guards, setting{"freed", true, func(o *Options) { o.Guard = GuardEach }})
	}
	window := max(1, o.Accumulate)
	whole := o.Batch * window
	// Statistics of a batch are those of a step's samples.
	alike := len(asked.homes.Parts(ir.Statistics)) == 0
	batches := []setting{{batchName(o.Batch, window), true, func(*Options) {}}}
	for k := 1; k <= 64 && k <= whole; k *= 2 {
		if whole%k == 0 && k != window {
			batches = append(batches, setting{batchName(whole/k, k), alike, func(o *Options) { o.Batch, o.Accumulate = whole/k, k }})
		}
	}
	levers := []lever{
		ofOptimizer: {"optimizer", o.optimizers(asked)},
		ofGradients: {"gradients", guards},
		ofBatch:     {"batch", batches},
		ofRecompute: {"recompute", o.recomputations()},
		ofPrecision: {"precision", o.precisions()},
	}
	if away := o.offloads(); away != nil {
		levers = append(levers, lever{"on the host", away})
	}
	return levers
}

// offloads returns what is kept in host memory as given, and what else can be; nil where the device has no memory but the host's, or is not known.
func (o *Options) offloads() []setting {
	if o.Device == nil || o.Device.Unified() {
		return nil
	}
	settings := []setting{{o.Offload.String(), true, func(*Options) {}}}
	for _, more := range []Offload{{State: true, Layers: o.Offload.Layers}, {State: true, Parameters: true}} {
		if o.Offload.Parameters && !more.Parameters || more.String() == o.Offload.String() {
			continue
		}
		settings = append(settings, setting{more.String(), true, func(o *Options) { o.Offload = more }})
	}
	return settings
}

// precisions returns the given one, and bfloat16 in place of float32.
func (o *Options) precisions() []setting {
	if o.Precision.Half() {
		return []setting{{o.Precision.String(), true, func(*Options) {}}}
	}
	return []setting{{arena.Float32.String(), true, func(*Options) {}}, {arena.Bfloat16.String(), false, func(o *Options) { o.Precision = arena.Bfloat16 }}}
}

// recomputations returns the given one, and what the planner chooses.
func (o *Options) recomputations() []setting {
	auto := setting{"auto", true, func(o *Options) { o.Recompute = Recompute{Auto: true} }}
	switch {
	case o.Recompute.Auto:
		return []setting{auto}
	case len(o.Recompute.Layers) > 0:
		return []setting{{strings.Join(o.Recompute.Layers, ", "), true, func(*Options) {}}, auto}
	}
	return []setting{{"none", true, func(*Options) {}}, auto}
}

func batchName(rows, steps int) string {
	if steps == 1 {
		return fmt.Sprint(rows)
	}
	return fmt.Sprintf("%d × %d", steps, rows)
}

// explorer plans combinations.
type explorer struct {
	model ModelFunc
	known *cache
	limit int64
	most  int
	asked int64 // time of an update as it was asked for

	progress func(Progress) // nil: nobody listens
}

// combination is a setting of each lever.
type combination struct {
	opt     Options
	choice  report.Choice
	at      []int // which setting, by lever: 0 is what was asked for
	changes int   // settings that are others
	unlike  int   // those of them that change the results
	err     error
}

// with returns c with setting i of the next lever.
func (c combination) with(l lever, i int) combination {
	s := l.settings[i]
	s.apply(&c.opt)
	c.at = append(slices.Clone(c.at), i)
	c.choice.Settings = append(slices.Clone(c.choice.Settings), s.name)
	if i > 0 {
		c.changes++
	}
	if !s.same {
		c.unlike++
	}
	c.choice.Same = c.unlike == 0
	return c
}

// each returns c with every setting of the levers that are left, none of them or one; what was asked for comes first.
func (c combination) each(left []lever) []combination {
	if len(left) == 0 {
		return []combination{c}
	}
	var all []combination
	for i := range left[0].settings {
		all = append(all, c.with(left[0], i))
	}
	return all
}

// better reports whether c is to be recommended before d: fewer settings that change the results, an optimizer with more state, less time, to a
// per cent, fewer changes, fewer bytes.
func (c *combination) better(d *combination) bool {
	percent := func(c *combination) int { return int(math.Round(100 * c.choice.Time)) }
	return cmp.Or(c.unlike-d.unlike, c.at[ofOptimizer]-d.at[ofOptimizer], percent(c)-percent(d), c.changes-d.changes, cmp.Compare(c.choice.Total, d.choice.Total)) < 0
}

func (e *explorer) explore(ctx context.Context, opt Options, levers []lever) (*Exploration, error) {
	all := []combination{{opt: opt}}
	x := &Exploration{Choices: report.Choices{Limit: e.limit, Best: -1}}
	for _, l := range levers {
		x.Levers = append(x.Levers, l.name)
		var next []combination
		for _, c := range all {
			for i := range l.settings {
				next = append(next, c.with(l, i))
			}
		}
		all = next
	}
	each(all, func(c *combination) {
		if c.err = ctx.Err(); c.err == nil {
			c.err = e.plan(ctx, c.opt, &c.choice)
		}
	}, e.said(0))
	var best *combination
	for i := range all {
		c := &all[i]
		switch {
		case c.err != nil && c.opt.Batch != opt.Batch && ctx.Err() == nil: // the model takes no such batch
			continue
		case c.err != nil:
			return nil, c.err
		case c.choice.Fits && (best == nil || c.better(best)):
			best, x.Best = c, len(x.Options)
		}
		x.Choices.Choices, x.Options = append(x.Choices.Choices, c.choice), append(x.Options, c.opt)
	}
	return x, e.largestOf(ctx, x)
}

// largestOf finds the largest batch of each choice that the table shows.
func (e *explorer) largestOf(ctx context.Context, x *Exploration) error {
	if e.most == 0 {
		return nil
	}
	var shown []int
	for i := range x.Choices.Choices {
		if !x.Beaten(i) {
			shown = append(shown, i)
		}
	}
	each(shown, func(i *int) {
		c := &x.Choices.Choices[*i]
		var err error
		if c.MaxBatch, err = e.largest(ctx, x.Options[*i], c.Total); err != nil { // the model does not take every batch
			c.MaxBatch = -1
		}
	}, e.said(1))
	return ctx.Err()
}

// each does f to every element, as many at once as there are processors, and says in the caller's goroutine how many of how many are done.
func each[T any](all []T, f func(*T), said func(done, of int)) {
	done, turn := make(chan struct{}, len(all)), make(chan struct{}, runtime.GOMAXPROCS(0)) // nobody waits for a caller that has panicked
	for i := range all {
		go func() {
			turn <- struct{}{}
			f(&all[i])
			<-turn
			done <- struct{}{}
		}()
	}
	for i := range all {
		<-done
		said(i+1, len(all))
	}
}

// said tells how far a phase of the exploration has come.
func (e *explorer) said(phase int) func(done, of int) {
	return func(done, of int) {
		if e.progress != nil {
			e.progress(Progress{Epoch: phase, Step: done, Steps: of, Loss: math.NaN(), Accuracy: math.NaN()})
		}
	}
}

// plan fills in a choice.
func (e *explorer) plan(ctx context.Context, opt Options, c *report.Choice) error {
	b, err := newBuildWith(ctx, e.model, opt, false, e.known)
	if err != nil {
		return err
	}
	c.Total, c.Fits = b.layout.Total(), b.layout.Total() <= e.limit
	c.Time = float64(b.time())/float64(e.asked) - 1
	c.Regions = report.Plan{Regions: b.layout.Regions()}.Categories()
	c.MaxBatch = -1
	return nil
}

// largest returns the largest batch of a step that fits. It guesses by a line through the largest plan that fits and the smallest that does not.
func (e *explorer) largest(ctx context.Context, opt Options, total int64) (int, error) {
	at := func(batch int) (int64, error) {
		opt.Batch = batch
		b, err := newBuildWith(ctx, e.model, opt, false, e.known)
		if err != nil {
			return 0, err
		}
		return b.layout.Total(), nil
	}
	rows, good := opt.Batch, 1
	few, err := at(good)
	if errors.Is(err, frontend.ErrRows) && e.most > 1 {
		good = 2
		few, err = at(good)
	}
	if err != nil || few > e.limit {
		return 0, err
	}
	bad, many := e.most+1, int64(0) // not planned yet
	if total > e.limit {
		bad, many = rows, total
	} else if rows > good {
		good, few = rows, total
	}
	for step := 1; bad-good > 1; step *= 2 {
		n := good + (bad-good)/2
		switch {
		case many > 0 && !opt.Recompute.Auto:
			n = good + int(float64(bad-good)*float64(e.limit-few)/float64(many-few))
		case many == 0:
			n = good + max(1, int(float64(good)*float64(e.limit-few)/float64(max(few, 1)))) + step - 1
		}
		n = min(max(n, good+1), bad-1)
		bytes, err := at(n)
		switch {
		case err != nil:
			return 0, err
		case bytes <= e.limit:
			good, few = n, bytes
		default:
			bad, many = n, bytes
		}
	}
	return good, nil
}

// time returns what the cost model says of an update of a full window.
func (b *build) time() int64 {
	var n int64
	steps := max(1, b.opt.Accumulate)
	for step := range steps {
		w, _, _ := b.opt.window(compile.Train, step, steps)
		for _, k := range b.order {
			if k.mode == compile.Train && k.window == w && k.rows == b.opt.Batch {
				n += b.programs[k].Work().Time
				break
			}
		}
	}
	return n
}

// cheapest returns a change to b's options that fits into limit at little cost, as text and as options; "" where none does. A refusal must not take
// long: it looks at the guard, recomputation and precision with the batch that was asked for, and at the fewest steps of an update that fit, and at
// another optimizer only where none of these is enough.
func (b *build) cheapest(ctx context.Context, limit int64) (change string, opt Options, err error) {
	levers := b.opt.levers(b)
	e := &explorer{model: b.model, known: new(cache), limit: limit, asked: b.time()}
	asked := b.opt
	asked.Memory = limit
	whole := combination{opt: asked}
	for o := range levers[ofOptimizer].settings {
		c := whole.with(levers[ofOptimizer], o)
		var best *combination
		for p := 0; p < len(levers[ofPrecision].settings) && best == nil; p++ { // another precision changes the results
			var tried []combination
			for g := range levers[ofGradients].settings {
				for r := range levers[ofRecompute].settings {
					tried = append(tried, c.with(levers[ofGradients], g).with(levers[ofBatch], 0).with(levers[ofRecompute], r).with(levers[ofPrecision], p).each(levers[ofHost:])...)
				}
			}
			best = e.best(ctx, tried)
		}
		for k := 1; k < len(levers[ofBatch].settings); k++ {
			if fewer := e.best(ctx, []combination{c.with(levers[ofGradients], 0).with(levers[ofBatch], k).with(levers[ofRecompute], 0).with(levers[ofPrecision], 0).each(levers[ofHost:])[0]}); fewer != nil {
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
			return best.changed(levers), best.opt, nil
		}
	}
	return "", opt, nil
}

// best plans some combinations and returns the best of those that fit, nil where none does. One that the model refuses does not.
func (e *explorer) best(ctx context.Context, some []combination) (best *combination) {
	each(some, func(c *combination) { c.err = e.plan(ctx, c.opt, &c.choice) }, e.said(0))
	for i := range some {
		if c := &some[i]; c.err == nil && c.choice.Fits && (best == nil || c.better(best)) {
			best = c
		}
	}
	return best
}

// changed says what c changes, and what that costs.
func (c *combination) changed(levers []lever) string {
	var changes []string
	for i, s := range c.choice.Settings {
		if c.at[i] > 0 {
			changes = append(changes, levers[i].name+" "+s)
		}
	}
	return fmt.Sprintf("%s would fit in %s, for %+.0f %% of time", strings.Join(changes, ", "), layout.FormatBytes(c.choice.Total), 100*c.choice.Time)
}
