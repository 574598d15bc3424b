package trainer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// streamed is the source of programs whose batches come through the slots; others are indices of resident datasets.
const streamed = -1

// key names a program.
type key struct {
	mode   compile.Mode
	rows   int
	source int
	window compile.Window // of training
}

// build is everything that is decided before memory exists: programs, homes and the layout of the arena.
type build struct {
	opt      Options
	model    ModelFunc
	cache    *cache // nil: all programs are compiled for this build alone
	homes    ir.Homes
	programs map[key]*ir.Program
	order    []key                // of programs, as they were compiled
	starts   [ir.Regions][]source // what parameters and running statistics start with
	scratch  int64                // bytes: the most that a program needs
	budget   int64                // bytes of scratch that training programs aim at by recomputation; 0: no aim
	staged   int64                // bytes: the most that the device pins for itself to run one

	layout  arena.Layout
	regions [2]layout.Regions // by slot: where the regions of programs lie in the layout
}

// source is what a parameter, or a running statistic, starts with.
type source struct {
	name  string
	node  *gorgonia.Node
	init  func(dst []byte, spec kernels.Spec) error // nil: the node's value
	fixed []byte                                    // a constant of the graph
}

// newBuild compiles all programs for the full batches and lays the arena out. Where recomputation is to make it fit, it does so anew for what scratch
// may have.
func newBuild(ctx context.Context, model ModelFunc, opt Options, needDevice bool) (*build, error) {
	return newBuildWith(ctx, model, opt, needDevice, nil)
}

// newBuildWith is newBuild with programs from a cache.
func newBuildWith(ctx context.Context, model ModelFunc, opt Options, needDevice bool, known *cache) (*build, error) {
	if err := opt.check(needDevice); err != nil {
		return nil, err
	}
	if model == nil {
		return nil, fmt.Errorf("no model function: %w", ErrModel)
	}
	b, err := buildWithin(ctx, model, opt, 0, known)
	if err != nil || !opt.Recompute.Auto || opt.Memory == 0 && opt.Device == nil {
		return b, err
	}
	limit, _, err := opt.limit()
	if err != nil {
		return nil, err
	}
	// The search knows the most bytes that are live, not yet their places: what those take more is taken off.
	plain := b
	for budget, try := limit-b.layout.Total()+b.scratch, 0; b.layout.Total() > limit && budget > 0 && try < budgetTries; try++ {
		if b, err = buildWithin(ctx, model, opt, budget, known); err != nil {
			return nil, err
		}
		if b.programs[b.order[0]].Plan.Live > budget { // no choice that is known is within it
			break
		}
		budget -= b.layout.Total() - limit
	}
	if b.layout.Total() <= limit {
		return b, nil
	}
	// As far as it goes. An aim that is missed does not end here, but at what is best for it in another order: all limits from here on must fit.
	if b, err = buildWithin(ctx, model, opt, 1, known); err != nil || b.layout.Total() < plain.layout.Total() {
		return b, err
	}
	return plain, nil
}

// budgetTries is how often recomputation is planned anew, where places took more than what lives.
const budgetTries = 3

// buildWithin is newBuild with so many bytes of scratch to aim at by recomputation, 0 for no aim.
func buildWithin(ctx context.Context, model ModelFunc, opt Options, budget int64, known *cache) (*build, error) {
	b := &build{opt: opt, model: model, cache: known, budget: budget, programs: make(map[key]*ir.Program)}
	if err := b.widen(ctx); err != nil {
		return nil, err
	}
	for _, s := range b.sources() {
		for _, mode := range []compile.Mode{compile.Train, compile.Evaluate, compile.Predict} {
			for _, w := range opt.windows(mode) {
				k := key{mode, opt.rows(mode), s, w}
				p, err := b.compile(ctx, k, nil)
				if errors.Is(err, frontend.ErrNoOutput) {
					continue
				}
				if err != nil {
					return nil, err
				}
				b.add(k, p)
				b.scratch = max(b.scratch, p.Plan.Bytes)
			}
		}
	}
	b.homes.Sealed = true
	for _, k := range b.order {
		b.scratch = max(b.scratch, b.single(ctx, k))
	}
	return b, errors.Join(b.checkFrozen(), b.checkLayers(), b.lay())
}

// widen makes the slots and the results as large as evaluation and prediction want them, where their batch is the larger one: each
// program takes the first rows of a place.
func (b *build) widen(ctx context.Context) error {
	if b.opt.rows(compile.Evaluate) <= b.opt.Batch {
		return nil
	}
	trial := &build{opt: b.opt, model: b.model, cache: b.cache}
	for _, s := range b.sources() {
		for _, mode := range []compile.Mode{compile.Evaluate, compile.Predict} {
			_, err := trial.compile(ctx, key{mode: mode, rows: b.opt.rows(mode), source: s}, nil)
			if err != nil && !errors.Is(err, frontend.ErrNoOutput) {
				return err
			}
		}
	}
	b.homes.Adopt(&trial.homes, ir.Slot, ir.Results)
	return nil
}

// single returns the scratch of program k for a batch of one row. Another batch below the full one takes over the full one's places, and
// needs no more; but a dimension of 1 can make other instructions of the same graph. A model that refuses a single row may do so
// when one comes.
func (b *build) single(ctx context.Context, k key) int64 {
	full := b.programs[k]
	k.rows = 1
	p, err := b.compile(ctx, k, full)
	if err != nil {
		return 0
	}
	return p.Plan.Bytes
}

// sources returns where batches can come from.
func (b *build) sources() []int {
	var s []int
	if b.opt.Fields != nil || len(b.opt.Resident) == 0 {
		s = append(s, streamed)
	}
	for i := range b.opt.Resident {
		s = append(s, i)
	}
	return s
}

// compile returns the program that k names. like is the same program for the full batch.
func (b *build) compile(ctx context.Context, k key, like *ir.Program) (*ir.Program, error) {
	if b.cache != nil {
		return b.cache.compile(ctx, b, k, like)
	}
	return b.fresh(ctx, k, like)
}

// fresh compiles the program that k names.
func (b *build) fresh(ctx context.Context, k key, like *ir.Program) (*ir.Program, error) {
	g := gorgonia.NewGraph()
	m, err := b.call(g, k.rows)
	if err != nil {
		return nil, err
	}
	cfg := compile.Config{
		Model: frontend.Model{
			Graph: g, Batch: k.rows, Loss: m.Loss, Output: m.Output, Correct: m.Correct,
			Params: make(map[*gorgonia.Node]bool), Statistics: make(map[*gorgonia.Node]bool), Frozen: b.opt.frozen, Seed: b.opt.Seed,
		},
		Mode:    k.mode,
		Offload: compile.Offload(b.opt.Offload), Homes: &b.homes, Device: b.opt.Device, Like: like, Debug: b.opt.Debug,
		Precision: compile.Precision{Type: b.opt.Precision, Float32: b.opt.KeepFloat32},
	}
	if k.mode == compile.Train {
		cfg.Update, cfg.Recompute = b.update(k.window), compile.Recompute{Owners: b.opt.Recompute.Layers, Budget: b.budget}
	}
	for _, p := range m.Params {
		cfg.Params[p.Node] = true
	}
	for _, p := range m.Statistics {
		cfg.Statistics[p.Node] = true
	}
	if cfg.Inputs, err = b.inputs(m, k); err != nil {
		return nil, err
	}
	if k.mode != compile.Predict {
		if cfg.Keep, err = b.kept(g); err != nil {
			return nil, err
		}
	}
	p, err := compile.Compile(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%v, batch %d: %w", k.mode, k.rows, blameModel(blameNormalizer(g, k.rows, err)))
	}
	if k.source != streamed {
		p.Name = fmt.Sprintf("%s, resident %d", p.Name, k.source)
	}
	if !b.homes.Sealed {
		if err := b.start(m, p, len(b.order) == 0); err != nil {
			return nil, fmt.Errorf("%v, batch %d: %w", k.mode, k.rows, err)
		}
	}
	return p, nil
}

// add notes a program that is whole.
func (b *build) add(k key, p *ir.Program) {
	b.programs[k] = p
	b.order = append(b.order, k)
	b.staged = max(b.staged, layout.StagingBytes(b.opt.Device, p))
}

// blameModel marks an error of the compiler for which the model is to blame.
func blameModel(err error) error {
	for _, class := range []error{frontend.ErrNoLoss, frontend.ErrUnreached, frontend.ErrInput, frontend.ErrNoOutput, ir.ErrHome} {
		if errors.Is(err, class) {
			return fmt.Errorf("%w: %w", ErrModel, err)
		}
	}
	return err
}

// building is held while a model function runs: Gorgonia counts groups of nodes in a variable of its package, without a lock.
var building sync.Mutex

// call runs the user's function; a panic in it is an error.
func (b *build) call(g *gorgonia.ExprGraph, rows int) (m Model, err error) {
	building.Lock()
	defer building.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("model function, batch %d: panic: %v: %w", rows, r, ErrModel)
		}
	}()
	if m, err = b.model(g, rows); err != nil {
		return m, fmt.Errorf("model function, batch %d: %w", rows, err)
	}
	if err := checkModel(m, g, rows); err != nil {
		return m, fmt.Errorf("model function, batch %d: %w", rows, err)
	}
	return m, nil
}

// checkModel returns every mistake in what a model function returned.
func checkModel(m Model, g *gorgonia.ExprGraph, rows int) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, ErrModel)...))
	}
	check := func(what string, n *gorgonia.Node, needed bool) {
		switch {
		case n == nil && needed:
			bad("model has a nil node among its %s", what)
		case n != nil && n.Graph() != g:
			bad("model's %s %q is not in the graph that was passed to the model function", what, n.Name())
		}
	}
	check("Loss", m.Loss, false)
	check("Output", m.Output, false)
	check("Correct", m.Correct, false)
	seen := make(map[*gorgonia.Node]string)
	named := make(map[string]*gorgonia.Node)
	once := func(what string, n *gorgonia.Node) {
		check(what, n, true)
		if n == nil {
			return
		}
		if before := seen[n]; before != "" {
			bad("%q is listed in %s and again in %s", n.Name(), before, what)
		} else if other := named[n.Name()]; other != nil {
			bad("two nodes are called %q: nodes are told apart by their names", n.Name())
		}
		seen[n], named[n.Name()] = what, n
		if n.Op() != nil {
			bad("%q in %s is computed by %v: only a node without an operation can be one", n.Name(), what, n.Op())
		}
	}
	float := func(what string, n *gorgonia.Node) {
		if n != nil && n.Dtype() != tensor.Float32 && n.Dtype() != tensor.Float64 {
			bad("%s %q is of type %v: only floating-point numbers can be learned", what, n.Name(), n.Dtype())
		}
	}
	for _, p := range m.Params {
		once("Params", p.Node)
		float("parameter", p.Node)
	}
	for _, p := range m.Statistics {
		once("Statistics", p.Node)
		float("statistic", p.Node)
	}
	for _, n := range m.Inputs {
		once("Inputs", n)
		if n != nil && (n.Name() == ir.ControlsName || n.Name() == ir.IndexField) {
			bad("an input may not be called %q: the trainer has a field of that name", n.Name())
		}
	}
	if n := m.Output; n != nil && n.Shape().TotalSize()%rows != 0 {
		bad("output %q is %v: it must have one row a sample", n.Name(), n.Shape())
	}
	if n := m.Correct; n != nil && n.Shape().TotalSize() != rows {
		bad("correct %q is %v: it must have one element a sample", n.Name(), n.Shape())
	}
	return errors.Join(errs...)
}

// update returns the optimizer's part of a training step.
func (b *build) update(w compile.Window) compile.Update {
	o := b.opt.optimizer()
	return compile.Update{Op: o.Op(), Attrs: o.Attrs(b.opt.Clip, b.opt.scaled() || b.opt.Clip.Norm > 0), States: o.States,
		ClipNorm: b.opt.Clip.Norm, Scaled: b.opt.scaled(), Lean: b.opt.Guard == GuardEach, Window: w}
}

// inputs maps the model's inputs to fields of the batch.
func (b *build) inputs(m Model, k key) (map[*gorgonia.Node]frontend.Input, error) {
	fields := b.opt.Fields
	if k.source != streamed {
		fields = b.opt.Resident[k.source].Fields()
	}
	for _, f := range fields {
		if !slices.ContainsFunc(m.Inputs, func(n *gorgonia.Node) bool { return n.Name() == f.Name }) {
			return nil, fmt.Errorf("field %q is not an input of the model: leave it out with dataloader.Select: %w", f.Name, ErrData)
		}
	}
	in := make(map[*gorgonia.Node]frontend.Input)
	for _, n := range m.Inputs {
		i := slices.IndexFunc(fields, func(f dataloader.Field) bool { return f.Name == n.Name() })
		switch {
		case i >= 0:
			f := fields[i]
			if shape := n.Shape(); len(shape) > 0 && shape[0] == k.rows && scrambles(f.Shape, shape[1:]) {
				return nil, fmt.Errorf("field %q has samples of %v, the input takes %v: the same number of elements in another order; store them as the input is, or give the field a flat shape: %w",
					f.Name, f.Shape, shape[1:], ErrData)
			}
			in[n] = frontend.Input{Field: f.Name, Scale: f.Scale, Shift: f.Shift,
				Spec: kernels.Spec{Type: f.Type, Shape: append(kernels.Shape{k.rows}, f.Shape...)}}
		case fields == nil:
			s, err := frontend.SpecOf(n)
			if err != nil {
				return nil, fmt.Errorf("input %w", err)
			}
			in[n] = frontend.Input{Field: n.Name(), Spec: s}
		default:
			return nil, fmt.Errorf("model input %q has no field in the data, which have %q: %w", n.Name(), names(fields), ErrData)
		}
		if k.source != streamed {
			f := in[n]
			f.Resident, f.Samples = residentName(k.source), b.opt.Resident[k.source].Len()
			in[n] = f
		}
	}
	return in, nil
}

// scrambles reports whether samples of one shape, read as if they were of another, are other samples: both have the same number of elements and several
// dimensions, and these differ. Dimensions of 1 count for nothing.
func scrambles(stored, read []int) bool {
	without := func(shape []int) []int {
		return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
	}
	a, b := without(stored), without(read)
	return len(a) > 1 && len(b) > 1 && kernels.Shape(a).Elems() == kernels.Shape(b).Elems() && !slices.Equal(a, b)
}

func residentName(i int) string { return fmt.Sprintf("dataset %d", i) }

func names(fields []dataloader.Field) []string {
	var s []string
	for _, f := range fields {
		s = append(s, f.Name)
	}
	return s
}

// kept finds the nodes of Options.Keep.
func (b *build) kept(g *gorgonia.ExprGraph) (gorgonia.Nodes, error) {
	var nodes gorgonia.Nodes
	for _, name := range b.opt.Keep {
		found := g.ByName(name)
		switch len(found) {
		case 0:
			return nil, fmt.Errorf("keep %q: the graph has no such node: %w", name, ErrOption)
		case 1:
			nodes = append(nodes, found[0])
		default:
			return nil, fmt.Errorf("keep %q: the graph has %d nodes of that name, give the one that you want its own: %w", name, len(found), ErrOption)
		}
	}
	return nodes, nil
}

// lay lays the arena out. See the design of the arena in docs/memory.md.
func (b *build) lay() error {
	l := &b.layout
	region := func(id arena.Region, name string) {
		r := layout.AddRegion(l, name, b.homes.Parts(id))
		for i := range b.regions {
			b.regions[i][id].Region = r
		}
	}
	region(ir.Parameters, "parameters")
	region(ir.Gradients, "gradients")
	region(ir.State, "optimizer state")
	region(ir.Statistics, "running statistics")
	for i := range b.regions {
		b.regions[i][ir.Slot].Region = layout.AddRegion(l, fmt.Sprintf("slot %d", i), b.homes.Parts(ir.Slot))
	}
	r := l.Region("results")
	layout.AddParts(l, r, b.homes.Parts(ir.Results), ", slot 0") // as in outcome
	layout.AddParts(l, r, b.homes.Parts(ir.Guard), "")
	layout.AddParts(l, r, b.homes.Parts(ir.Results), ", slot 1")
	results, guard := b.homes.Bytes(ir.Results), b.homes.Bytes(ir.Guard)
	for i := range b.regions {
		b.regions[i][ir.Results] = layout.Place{Region: r, Offset: int64(i) * (results + guard)}
		b.regions[i][ir.Guard] = layout.Place{Region: r, Offset: results}
	}
	region(ir.Resident, "resident data")
	region(ir.Scratch, "scratch")
	l.Reserve(b.regions[0][ir.Scratch].Region, b.scratch)
	return l.Err()
}

// at turns a program's reference into one of the layout, for slot i.
func (b *build) at(ref arena.Ref, i int) arena.Ref { return b.regions[i].Ref(ref) }

// outcome returns what the host reads after a step on slot i, one run of bytes: the results of that slot and the status word.
//
//	          | results, slot 0 | guard | results, slot 1 |
//	outcome 0 ├─────────────────────────┤
//	outcome 1                   ├─────────────────────────┤
func (b *build) outcome(i int) arena.Ref {
	n := b.homes.Bytes(ir.Results)
	return arena.Ref{Region: b.regions[i][ir.Results].Region, Offset: int64(i) * n, Size: n + b.homes.Bytes(ir.Guard)}
}

func owner(name string) string { return ir.OwnerOf(name) }

// comparable reports whether a dataset can be told from another.
func comparable(ds dataloader.Dataset) bool { return reflect.ValueOf(ds).Comparable() }
