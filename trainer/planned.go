package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// streamed is the dataset index of programs whose batches come through the slots. Other indices are
// those of Options.Resident.
const streamed = -1

// programKey identifies a program of a plan.
type programKey struct {
	mode      compile.Mode
	rows      int            // of the batch
	dataset   int            // index into Options.Resident, or streamed
	window    compile.Window // of the step; Alone unless mode is Train
	objective int            // index in Model.Objectives of the one that it trains; 0 unless mode is Train or Average
	stage     int            // of Options.Unfreeze; 0 unless mode is Train
	averaged  bool           // evaluation or prediction with the averages of parameters
	idle      bool           // this rank has no samples in the step
	distinct  bool           // see compile.Config; only while it is compiled
}

// planned holds what is decided before memory exists: programs, the homes of their values, and the
// layout of the arena.
//
//	ModelFunc ─► graph ─► program ─► homes, scratch ─► layout
//
// After New a plan changes in one way only: programs of short batches are added, in the memory that
// is there, and dropped.
type planned struct {
	opt    Options
	model  ModelFunc
	cache  *programCache // nil: every program is compiled for this plan
	budget int64         // bytes of scratch that training programs aim at by recomputation; 0: no aim
	info   *modelInfo    // nil before the first program is compiled
	own    []*Options    // by objective: opt with the options of that objective
	rules  [][]groupRule // by objective and group
	stage  int           // stages of Options.Unfreeze that are unfrozen

	prepack bool // predictions may read prepacked weights: of a predictor

	residents []extent // by index in Options.Resident

	homes    ir.Homes // of values that outlive a step; all programs share them
	programs map[programKey]*ir.Program
	order    []programKey // of compilation; the first program trains
	initial  initialValues
	metrics  *metricSet // nil before the first compilation

	kept []string // names of Options.Keep, see keptNames

	distinct map[int]bool // batch sizes of graphs in which every node is known to be one

	scratch int64 // bytes: the largest need of any program
	staging int64 // bytes: the most that the device pins for itself to run a program

	layout       arena.Layout
	captured     arena.Region     // copy of the state, if the memory is unified: see layOutState
	captureBytes int64            // of that copy, wherever it is; 0 unless Options.Checkpoint is set
	regions      []layout.Regions // by slot, or by lane of a predictor: where the regions of programs start in the arena
}

// budgetTries bounds how often newPlanned retries with a smaller budget because buffers could not
// be placed in it.
const budgetTries = 3

// newPlanned compiles all programs for full batches and lays out the arena. If
// Options.Recompute.Auto is set, it recomputes as much as the plan needs to fit. If cache is nil,
// every program is compiled.
func newPlanned(ctx context.Context, model ModelFunc, opt Options, cache *programCache) (*planned, error) {
	if err := opt.check(false); err != nil {
		return nil, err
	}
	if model == nil {
		return nil, fmt.Errorf("no model function: %w", ErrModel)
	}
	p, err := planWithin(ctx, model, opt, 0, cache)
	if err != nil || !opt.Recompute.Auto || opt.Memory == 0 && opt.Device == nil {
		return p, err
	}
	limit, _, err := opt.limit()
	if err != nil {
		return nil, err
	}
	// The budget is what the limit leaves for scratch. The search minimises live bytes; subtract
	// the placement overhead and retry. Example: the limit is 100 and all other regions need 30, so
	// the budget is 70. If 70 live bytes are placed in 75, the total is 105, and the next budget is
	// 65.
	plain, budget := p, limit-p.layout.Total()+p.scratch
	for try := 0; p.layout.Total() > limit && budget > 0 && try < budgetTries; try++ {
		if p, err = planWithin(ctx, model, opt, budget, cache); err != nil {
			return nil, err
		}
		if p.trainingLive() > budget { // no known choice meets the budget
			break
		}
		budget -= p.layout.Total() - limit
	}
	if p.layout.Total() <= limit {
		return p, nil
	}
	// Nothing fits. Recompute as much as possible; another order may still beat the plain plan.
	if p, err = planWithin(ctx, model, opt, 1, cache); err != nil || p.layout.Total() < plain.layout.Total() {
		return p, err
	}
	return plain, nil
}

// planWithin makes a plan whose training programs aim at budget bytes of scratch by recomputation;
// 0 means no aim.
func planWithin(ctx context.Context, model ModelFunc, opt Options, budget int64, cache *programCache) (
	*planned, error,
) {
	p := &planned{opt: opt, model: model, cache: cache, budget: budget, programs: make(map[programKey]*ir.Program)}
	for i, ds := range opt.Resident {
		data, err := readExtent(ds)
		if err != nil {
			return nil, fmt.Errorf("resident dataset %d: %w", i, err)
		}
		p.residents = append(p.residents, data)
	}
	if err := p.sizeForEvaluation(ctx); err != nil {
		return nil, err
	}
	// Training comes first: its program decides the homes of parameters, gradients and state. Those
	// of evaluation and prediction find what they read there.
	if err := p.compileAll(ctx, false, compile.Train, compile.Evaluate, compile.Predict); err != nil {
		return nil, err
	}
	if opt.Average.On() {
		if err := p.compileAverages(ctx); err != nil {
			return nil, err
		}
		if err := p.compileAll(ctx, true, compile.Evaluate, compile.Predict); err != nil {
			return nil, err
		}
	}
	// From here on a program may not have a home that none of these has: the layout is final.
	p.homes.Sealed = true
	for _, k := range p.order {
		if k.mode == compile.Average {
			continue
		}
		one, err := p.scratchForOneRow(ctx, k)
		if err != nil {
			return nil, err
		}
		p.scratch = max(p.scratch, one)
	}
	p.scratch = max(p.scratch, arena.Align) // MixParams needs a number there
	kept, err := p.keptNames()
	p.kept = kept
	return p, errors.Join(err, p.checkNames(), p.layOut())
}

// compileAll compiles the programs of modes for full batches of all datasets.
func (p *planned) compileAll(ctx context.Context, averaged bool, modes ...compile.Mode) error {
	for _, dataset := range p.datasets() {
		for _, mode := range modes {
			if err := p.compileMode(ctx, mode, dataset, averaged); err != nil {
				return err
			}
		}
	}
	return nil
}

// compileMode compiles the programs of a mode for full batches of a dataset: one for each stage,
// each objective and each window.
func (p *planned) compileMode(ctx context.Context, mode compile.Mode, dataset int, averaged bool) error {
	stages := 1
	if mode == compile.Train {
		stages += len(p.opt.Unfreeze)
	}
	for stage := range stages {
		for objective := 0; objective < p.objectives(mode); objective++ { // known after the first program
			for _, w := range p.opt.windows(mode) {
				k := programKey{mode, p.opt.rows(mode), dataset, w, objective, stage, averaged, false, false}
				prog, err := p.compile(ctx, k, nil)
				if errors.Is(err, frontend.ErrNoOutput) {
					continue
				}
				if err != nil {
					return err
				}
				p.add(k, prog)
				p.scratch = max(p.scratch, prog.Plan.Bytes)
				if mode == compile.Train && p.opt.ranks() > 1 && w.Updates() { // the last step of an epoch
					if err := p.compileIdle(ctx, k); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// bucketsOf returns the buckets of sums over the ranks, of the programs that train what program k
// trains; nil if there is none yet.
func (p *planned) bucketsOf(k programKey) [][]string {
	for _, o := range p.order {
		if prog := p.programs[o]; o.objective == k.objective && o.stage == k.stage && prog.Buckets != nil {
			return prog.Buckets
		}
	}
	return nil
}

// compileIdle compiles the program of a rank that has no samples in a step of program k.
func (p *planned) compileIdle(ctx context.Context, k programKey) error {
	k.idle = true
	prog, err := p.compile(ctx, k, nil)
	if err != nil {
		return err
	}
	p.add(k, prog)
	p.scratch = max(p.scratch, prog.Plan.Bytes)
	return nil
}

// datasets returns the dataset indices that batches can come from.
func (p *planned) datasets() []int {
	var all []int
	if p.opt.Fields != nil || len(p.opt.Resident) == 0 {
		all = append(all, streamed)
	}
	for i := range p.opt.Resident {
		all = append(all, i)
	}
	return all
}

// sizeForEvaluation makes the slots and results as large as evaluation and prediction need them if
// their batch is larger than that of training. Each program uses the first rows of a home.
func (p *planned) sizeForEvaluation(ctx context.Context) error {
	if p.opt.rows(compile.Evaluate) <= p.opt.Batch {
		return nil
	}
	// A trial plan compiles evaluation and prediction first, so that its homes have their sizes.
	// Only slots and results are taken over from it: other homes do not depend on the batch.
	trial := &planned{opt: p.opt, model: p.model, cache: p.cache, residents: p.residents}
	for _, dataset := range p.datasets() {
		for _, mode := range []compile.Mode{compile.Evaluate, compile.Predict} {
			_, err := trial.compile(ctx, programKey{mode: mode, rows: p.opt.rows(mode), dataset: dataset}, nil)
			if err != nil && !errors.Is(err, frontend.ErrNoOutput) {
				return err
			}
		}
	}
	p.homes.Adopt(&trial.homes, ir.Slot, ir.Results)
	return nil
}

// scratchForOneRow returns the scratch of program k at a batch of 1. Every other short batch reuses
// the places of the full one and needs no more, but a dimension of 1 can make other instructions of
// the same graph. It returns 0 if the model refuses a single row; then it refuses again when such a
// batch occurs. An error is about a value whose shape differs between batches, unless no short batch
// is trained, or gorgonia.BatchNorm made the value.
func (p *planned) scratchForOneRow(ctx context.Context, k programKey) (int64, error) {
	full, rows := p.programs[k], k.rows
	if rows == 1 || k.idle { // full is that program
		return full.Plan.Bytes, nil
	}
	refused := func(err error) bool {
		var made *normalizerError
		return errors.Is(err, ir.ErrHome) && !errors.As(err, &made) && p.opt.Tail != dataloader.DropTail
	}
	if rows > 2 && constantOfRows(full) { // of one row it may have one number, which needs no home
		k.rows = rows - 1
		if _, err := p.compile(ctx, k, full); refused(err) {
			return 0, err
		}
	}
	k.rows = 1
	one, err := p.compile(ctx, k, full)
	switch {
	case refused(err):
		return 0, err
	case err != nil:
		return 0, nil
	}
	return one.Plan.Bytes, nil
}

// constantOfRows reports whether a constant of p has a dimension of its batch.
func constantOfRows(p *ir.Program) bool {
	return slices.ContainsFunc(p.Constants, func(c ir.Constant) bool {
		return slices.Contains(p.Values[c.Value].Spec.Shape, p.Batch)
	})
}

// compile returns program k. like is the program of the full batch, or nil if k is that.
func (p *planned) compile(ctx context.Context, k programKey, like *ir.Program) (*ir.Program, error) {
	if p.cache != nil {
		return p.cache.compile(ctx, p, k, like)
	}
	return p.compileNow(ctx, k, like)
}

// compileNow compiles program k.
func (p *planned) compileNow(ctx context.Context, k programKey, like *ir.Program) (*ir.Program, error) {
	// Each program has a graph of its own, since the shapes in a Gorgonia graph are fixed.
	g := gorgonia.NewGraph()
	m, err := callModel(ctx, p.model, g, k.rows)
	if err == nil && !p.opt.AllowMerged {
		err = p.checkIdentity(ctx, g, k.rows)
	}
	if err != nil {
		return nil, err
	}
	if err := p.recordMetrics(ctx, m, k.rows); err != nil {
		return nil, err
	}
	if err := p.learn(describeModel(g, m)); err != nil {
		return nil, err
	}
	cfg, err := p.config(ctx, g, m, k)
	if err != nil {
		return nil, err
	}
	cfg.Like = like
	prog, err := compile.Compile(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%v, batch %d: %w", k.mode, k.rows, blameModel(explainShape(g, &p.homes, k.rows, err), k.rows))
	}
	if k.stage > 0 {
		prog.Name = fmt.Sprintf("%s, stage %d", prog.Name, k.stage)
	}
	if k.dataset != streamed {
		prog.Name = fmt.Sprintf("%s, resident %d", prog.Name, k.dataset)
	}
	if k.idle {
		prog.Name += ", no samples"
	}
	if k.averaged {
		prog.Name += ", averages"
	}
	if !p.homes.Sealed {
		first := p.isFirst(k)
		may := func(name string) bool { return first || !p.trained(name, len(p.opt.Unfreeze)) }
		if err := p.initial.record(m, prog, &p.homes, p.opt.Seed, may); err != nil {
			return nil, fmt.Errorf("%v, batch %d: %w", k.mode, k.rows, err)
		}
	}
	return prog, nil
}

// config returns the compiler's configuration for program k of model m.
func (p *planned) config(ctx context.Context, g *gorgonia.ExprGraph, m Model, k programKey) (cfg compile.Config, err error) {
	o := &p.opt
	cfg = compile.Config{
		Mode: k.mode, Averaged: k.averaged, Prepack: p.prepack,
		Offload: compile.Offload(o.Offload), Homes: &p.homes, Device: o.Device, Debug: o.Debug,
		Precision: compile.Precision{Type: o.Precision, Float32: o.KeepFloat32},
		Distinct:  k.distinct,
	}
	if k.mode == compile.Train {
		cfg.Objective = p.objectiveName(k.objective)
		if o.ranks() > 1 {
			cfg.Group, cfg.Idle, cfg.Buckets = o.Group, k.idle, p.bucketsOf(k)
		}
		cfg.Update = p.update(o, k, objectivesOf(m)[k.objective].Weight != nil)
		cfg.Recompute = compile.Recompute{Owners: o.Recompute.Layers, Budget: p.budget}
	}
	if cfg.Model, err = p.graphModel(g, m, k); err != nil {
		return cfg, err
	}
	// One program of several rows is enough to check the loss.
	first := k.mode == compile.Train && p.isFirst(k) || k.mode == compile.Evaluate && o.Batch == 1
	if first && !m.MeanLoss {
		cfg.Twice = func() (frontend.Model, error) {
			k, g := k, gorgonia.NewGraph()
			k.rows *= 2
			m, err := callModel(ctx, p.model, g, k.rows)
			if err != nil {
				return frontend.Model{}, err
			}
			return p.graphModel(g, m, k)
		}
	}
	return cfg, nil
}

// graphModel returns the roles of the nodes of g for program k of model m.
func (p *planned) graphModel(g *gorgonia.ExprGraph, m Model, k programKey) (fm frontend.Model, err error) {
	o := &p.opt
	objectives := objectivesOf(m)
	fm = frontend.Model{
		Graph: g, Batch: k.rows, Loss: objectives[k.objective].Loss, Weight: objectives[k.objective].Weight,
		Output: m.Output, Outputs: m.Outputs,
		Params: make(map[*gorgonia.Node]bool), Statistics: make(map[*gorgonia.Node]bool),
		Frozen: func(name string) bool { return p.frozen(name, k.stage) }, Seed: o.Seed,
	}
	if k.objective == 0 {
		fm.Correct = m.Correct
	}
	if k.mode == compile.Train {
		fm.Untrained = func(name string) bool { return !p.trains(k.objective, name, k.stage) }
		fm.KeepReached = len(objectives) > 1
	} else {
		for _, o := range objectives[1:] {
			fm.Others = append(fm.Others, frontend.Objective{Name: o.Name, Loss: o.Loss, Weight: o.Weight})
		}
	}
	for _, param := range m.Params {
		fm.Params[param.Node] = true
	}
	for _, stat := range m.Statistics {
		fm.Statistics[stat.Node] = true
	}
	if err := checkValues(g, m, k.rows, o); err != nil {
		return fm, err
	}
	if fm.Inputs, err = p.inputs(m, k); err != nil {
		return fm, err
	}
	if o.measures(k.mode) {
		fm.Metrics = sums(m)
	}
	if k.mode != compile.Predict {
		if fm.Keep, err = o.keepNodes(g); err != nil {
			return fm, err
		}
	}
	return fm, checkGradients(fm, k.rows)
}

// keepNodes finds the nodes of Options.Keep. Names of gradients are not those of nodes: see
// planned.keptNames.
func (o *Options) keepNodes(g *gorgonia.ExprGraph) (gorgonia.Nodes, error) {
	var nodes gorgonia.Nodes
	for _, name := range o.Keep {
		found := g.ByName(name)
		switch len(found) {
		case 0:
			if !compile.IsGradient(name) {
				return nil, fmt.Errorf("keep %q: the graph has no such node: %w", name, ErrOption)
			}
		case 1:
			nodes = append(nodes, found[0])
		default:
			return nil, fmt.Errorf("keep %q: the graph has %d nodes of that name, give yours another: %w",
				name, len(found), ErrOption)
		}
	}
	return nodes, nil
}

// add registers a compiled program.
func (p *planned) add(k programKey, prog *ir.Program) {
	p.programs[k] = prog
	p.order = append(p.order, k)
	p.staging = max(p.staging, layout.StagingBytes(p.opt.Device, prog))
}

// drop removes the program of a short batch. What the device has pinned for it stays.
func (p *planned) drop(k programKey) {
	delete(p.programs, k)
	p.order = slices.DeleteFunc(p.order, func(o programKey) bool { return o == k })
}

// layOut lays out the arena; docs/memory.md describes the layout.
func (p *planned) layOut() error {
	l := &p.layout
	p.regions = make([]layout.Regions, p.opt.slots())
	region := func(id arena.Region, name string) {
		r := layout.AddRegion(l, name, p.homes.Parts(id))
		for i := range p.regions {
			p.regions[i][id].Region = r
		}
	}
	region(ir.Parameters, "parameters")
	region(ir.Gradients, "gradients")
	region(ir.State, "optimizer state")
	region(ir.Statistics, "running statistics")
	if len(p.homes.Parts(ir.Averages)) > 0 {
		region(ir.Averages, "averages")
	}
	for i := range p.regions {
		p.regions[i][ir.Slot].Region = layout.AddRegion(l, fmt.Sprintf("slot %d", i), p.homes.Parts(ir.Slot))
	}
	r := l.Region("results")
	layout.AddParts(l, r, p.homes.Parts(ir.Results), ", slot 0") // in the order that outcome needs
	layout.AddParts(l, r, p.homes.Parts(ir.Guard), "")
	layout.AddParts(l, r, p.homes.Parts(ir.Results), ", slot 1")
	results, guard := p.homes.Bytes(ir.Results), p.homes.Bytes(ir.Guard)
	for i := range p.regions {
		p.regions[i][ir.Results] = layout.Place{Region: r, Offset: int64(i%inFlight) * (results + guard)}
		p.regions[i][ir.Guard] = layout.Place{Region: r, Offset: results}
	}
	region(ir.Resident, "resident data")
	region(ir.Scratch, "scratch")
	l.Reserve(p.regions[0][ir.Scratch].Region, p.scratch)
	p.layOutState(l)
	return l.Err()
}

// outcome returns what the host reads after a step on slot i, one run of bytes: the results of that
// slot and the status word. Slots 2, 4, … have the results of slot 0, and slots 3, 5, … those of slot 1:
// the two steps in flight are on slots that follow one another.
//
//	          | results, slot 0 | guard | results, slot 1 |
//	outcome 0 ├─────────────────────────┤
//	outcome 1                   ├─────────────────────────┤
func (p *planned) outcome(i int) arena.Ref {
	n := p.homes.Bytes(ir.Results)
	return arena.Ref{Region: p.regions[i][ir.Results].Region, Offset: int64(i%inFlight) * n, Size: n + p.homes.Bytes(ir.Guard)}
}

// slotsBytes returns the bytes of all slots.
func (p *planned) slotsBytes() int64 { return int64(p.opt.slots()) * p.homes.Bytes(ir.Slot) }

// extraPinnedBytes returns the pinned host memory that the trainer allocates in addition to the
// arena's own: host copies of the slots and outcomes, what is offloaded, the mirror of scratch that
// Options.Debug reads, and the copy of the state.
func (p *planned) extraPinnedBytes() int64 {
	return p.slotsBytes() + p.outcomesBytes() + p.offloadedBytes() + p.mirrorBytes() + p.captureBytes
}

// mirrorBytes returns the bytes of the copy of the scratch region that Options.Debug reads, 0 without it
// and on unified devices.
func (p *planned) mirrorBytes() int64 {
	if !p.opt.Debug || p.unified() {
		return 0
	}
	return p.scratch
}

// offloadedBytes returns the bytes that are kept in pinned host memory instead of the arena.
func (p *planned) offloadedBytes() (n int64) {
	for _, r := range ir.Offloaded {
		n += p.homes.Bytes(r)
	}
	return n
}

// parameters returns the homes of parameters and constants, on the device and offloaded, in the
// order in which programs asked for them.
func (p *planned) parameters() []ir.Part {
	all := slices.Concat(p.homes.Parts(ir.Parameters), p.homes.Parts(ir.HostParameters))
	slices.SortFunc(all, func(a, b ir.Part) int { return cmp.Compare(a.Nth, b.Nth) })
	return all
}

// parameter returns the home of a parameter.
func (p *planned) parameter(name string) ir.Part {
	home, ok := p.homes.Find(ir.Parameters, name)
	if !ok {
		home, _ = p.homes.Find(ir.HostParameters, name)
	}
	return home
}

// stored returns the home of a parameter, a constant or a running statistic.
func (p *planned) stored(name string) (ir.Part, bool) {
	if home, ok := p.homes.Find(ir.Statistics, name); ok {
		return home, true
	}
	home := p.parameter(name)
	return home, home.Name != ""
}

// constant reports whether no program of the present stage changes the value at a home.
func (p *planned) constant(home ir.Part) bool {
	return !slices.ContainsFunc(p.order, func(k programKey) bool {
		if k.mode == compile.Train && k.stage != p.stage {
			return false
		}
		prog := p.programs[k]
		return slices.ContainsFunc(prog.Instrs, func(in ir.Instr) bool {
			if len(in.Op.Updates) == 0 {
				return false
			}
			root, _ := prog.Root(in.Out[0]) // the output may be some of its rows
			return prog.Values[root].Ref == home.Ref
		})
	})
}
