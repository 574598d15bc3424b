// Package compile turns a Gorgonia graph into the program of a step over one arena. Its stages, in
// order:
//
//	frontend   lower the graph to a program (ir.Program)
//	compile    append results, gradients and the update
//	passes     rewrite the program
//	remat      choose activations to compute again
//	schedule   alias, order and place
//
// [Compile] compiles a model for one mode and batch size, [CompileMachine] a graph for a machine. A
// machine runs a user's own graph, in which gorgonia.Grad and gorgonia.Read were called, as
// Gorgonia's VMs do; it has no trainer and no update. [Config] is the input of both. Each optional
// pass can be switched off alone (Config.Off); this changes no bit of the results, except for Sums.
package compile

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/compile/passes"
	"github.com/evenkeel/evenkeel/internal/compile/remat"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Compile compiles the model of cfg.
func Compile(ctx context.Context, cfg Config) (*ir.Program, error) {
	c := newCompiler(cfg)
	if err := c.compile(ctx, c.step); err != nil {
		return nil, err
	}
	return c.Program, nil
}

// compile builds the program, runs the passes on it, and orders and places it.
func (c *compiler) compile(ctx context.Context, build func() error) error {
	return recovered(func() error {
		if err := build(); err != nil {
			return err
		}
		// The status word after the last check: the host reads it, and no check may be pruned.
		if c.Guard != kernels.None {
			c.Needed = append(c.Needed, c.Guard)
		}
		if err := c.rewrite(); err != nil {
			return err
		}
		return schedule.Run(ctx, c.Program, c.cfg.schedule())
	})
}

// recovered calls build and returns its error, or its panic as one: see ir.Recovered.
func recovered(build func() error) (err error) {
	defer func() {
		if e := ir.Recovered(recover()); e != nil {
			err = e
		}
	}()
	return build()
}

// rewrite runs the passes, in this order. A pass with a switch can be turned off in Config.Off.
// Reasons for the order:
//
//   - Fold makes constants that Identity recognises; both make instructions equal for Merge, and
//     leave unused ones for Prune.
//   - Redecode to Sums match single operations, so they run before Fuse makes chains of these.
//   - Reduce takes chains as its prologues.
//   - Prepack splits products as Fuse has left them.
//   - Narrow to Offload find instructions as fusion has left them, and add encodings, slices and
//     transfers: no pass after them looks for patterns.
//   - remat.Run measures the peak of the program as it will be scheduled: it comes last.
func (c *compiler) rewrite() error {
	p, cfg := c.Program, &c.cfg
	train := cfg.Mode == Train
	run := func(on bool, pass func(p *ir.Program)) {
		if on {
			pass(p)
		}
	}
	run(cfg.on(Fold), passes.Fold)
	run(cfg.on(Identity), passes.Identity)
	run(cfg.on(Merge) && !cfg.Distinct, passes.Merge)
	run(true, passes.Prune)
	run(cfg.Distinct, passes.Repeat)
	run(cfg.on(Redecode), passes.Redecode)
	run(cfg.on(PoolReLUGrad), passes.PoolReLUGrad)
	run(cfg.on(FuseBatchNormReLU), passes.FuseBatchNormReLU)
	run(cfg.on(Sums), passes.Sums)
	run(cfg.on(Fuse), passes.Fuse)
	run(cfg.on(Reduce), passes.Reduce)
	if d, ok := cfg.Device.(kernels.WeightPrepacker); ok && cfg.Prepack {
		if err := passes.Prepack(p, cfg.Homes, d); err != nil {
			return err
		}
	}
	run(train, func(p *ir.Program) { passes.Narrow(p, cfg.Precision) })
	run(cfg.Update.GuardEach && cfg.on(Slices|Views), func(p *ir.Program) { passes.Slices(p, c.rules, cfg.schedule()) })
	run(true, func(p *ir.Program) { passes.Offload(p, c.rules, cfg.on(Views)) })
	run(train, func(p *ir.Program) { remat.Run(p, cfg.Recompute, cfg.schedule()) })
	// remat can leave unread instructions: a recomputation whose result a later round computes once
	// more.
	run(true, passes.Prune)
	return nil
}

// compiler is the state of one compilation.
type compiler struct {
	*ir.Builder
	cfg     Config
	graph   *frontend.Graph
	forward *frontend.Forward    // the lowered graph
	loss    kernels.Value        // the scalar that is a result, and that the guard checks
	weight  kernels.Value        // the sum of the weights; None: there are none
	others  []frontend.LossValue // the same of other objectives

	norms     []*syncNorm              // normalizations over the samples of all ranks, in order
	ready     map[string]int           // by parameter: see recordReady
	buckets   []placedBucket           // in order
	rules     []*kernels.Op            // operations of updates, each once
	perWeight kernels.Value            // share / unit, the factor of w in the gradient of a loss; unset where that factor is 1 / weight
	named     map[string]kernels.Value // results by name, before they are moved to homes
}

func newCompiler(cfg Config) *compiler {
	if cfg.Homes == nil {
		cfg.Homes = &ir.Homes{}
	}
	p := &ir.Program{Name: fmt.Sprintf("%v %d%v", cfg.Mode, cfg.Batch, cfg.Update.Window), Batch: cfg.Batch}
	b := ir.NewBuilder(p, cfg.Homes)
	b.ControlsHome = cfg.controls()
	if cfg.Objective != "" {
		p.Name += ", " + cfg.Objective
	}
	c := &compiler{
		Builder: b,
		cfg:     cfg,
		graph: frontend.New(b, cfg.Model, frontend.Options{
			Training:  cfg.Mode == Train || cfg.Mode == Machine && !cfg.Eval,
			Predict:   cfg.Mode == Predict,
			Machine:   cfg.Mode == Machine,
			Offloaded: cfg.Offload.Offloads,
			Averaged:  cfg.Averaged,
		}),
		forward: &frontend.Forward{},
		weight:  kernels.None,
		named:   make(map[string]kernels.Value),
	}
	if c.syncsNorms() {
		c.graph.Normalize = c.normalize
	}
	return c
}

// step lowers the graph and appends the results, gradients and update that the mode needs.
func (c *compiler) step() (err error) {
	if c.forward, err = c.graph.Forward(); err != nil {
		return err
	}
	if err := c.checkLoss(); err != nil {
		return err
	}
	c.loss = c.forward.Loss
	if c.forward.Weight != kernels.None {
		c.loss, c.weight = c.weigh(c.cfg.Weight.Name(), c.forward.Loss, c.forward.Weight)
	}
	for i, o := range c.forward.Others {
		if o.Weight != kernels.None {
			o.Loss, o.Weight = c.weigh(c.cfg.Others[i].Weight.Name(), o.Loss, o.Weight)
		}
		c.others = append(c.others, o)
	}
	if c.cfg.Idle && c.weight != kernels.None {
		c.weight = c.zero(c.Spec(c.weight))
	}
	// Before gradients: their rules copy the compute type of a product to the products of the
	// backward pass.
	passes.Round(c.Program, c.cfg.Precision)
	if err := c.results(); err != nil || c.cfg.Mode != Train {
		return err
	}
	var wanted []kernels.Value
	for _, p := range c.forward.Params {
		if !p.Frozen {
			wanted = append(wanted, p.Value)
		}
	}
	grads, err := c.gradients(c.forward.Loss, wanted)
	if err != nil {
		return err
	}
	if err := c.graph.CheckReached(grads); err != nil {
		return err
	}
	if err := c.update(grads); err != nil {
		return err
	}
	c.placeBuckets()
	c.orderSums()
	return nil
}

// results gives homes in region Results to the loss, the sum of weights, the number of correct
// rows, the outputs, the sums of metrics and the values of Keep.
func (c *compiler) results() error {
	f := c.forward
	named := []ir.Result{
		{Name: LossOf(c.cfg.Objective), Value: c.loss}, {Name: WeightOf(c.cfg.Objective), Value: c.weight},
		{Name: CorrectName, Value: f.Correct}, {Name: OutputName, Value: f.Output},
	}
	for _, o := range c.others {
		named = append(named, ir.Result{Name: LossOf(o.Name), Value: o.Loss}, ir.Result{Name: WeightOf(o.Name), Value: o.Weight})
	}
	for i := range named {
		if r := &named[i]; r.Name == CorrectName && r.Value != kernels.None {
			c.Label, c.Owner, c.Mark = r.Name, "results", ""
			r.Value = c.Apply(kernels.Sum, kernels.ReduceAttrs{}, c.weighted(r.Value))
		}
	}
	for _, r := range f.Metrics {
		named = append(named, ir.Result{Name: MetricName(r.Name), Value: r.Value})
	}
	if c.sharesStep() {
		if err := c.sumResults(named); err != nil {
			return err
		}
	}
	for _, r := range named {
		if r.Value == kernels.None {
			continue
		}
		c.Label, c.Owner, c.Mark = r.Name, "results", ""
		if err := c.result(r.Name, r.Value); err != nil {
			return err
		}
	}
	if c.cfg.Idle { // no samples, no values of them
		return nil
	}
	for _, r := range slices.Concat(f.Outputs, f.Kept) {
		c.Label, c.Owner, c.Mark = r.Name, "results", ""
		if err := c.result(r.Name, r.Value); err != nil {
			return err
		}
	}
	return nil
}

// result gives v a home that the host reads after a step. The same value may be a result twice,
// under one name.
func (c *compiler) result(name string, v kernels.Value) error {
	if was, ok := c.named[name]; ok && was != v {
		return fmt.Errorf("two results are called %q: name one of the nodes otherwise: %w", name, frontend.ErrName)
	} else if ok {
		return nil
	}
	c.named[name] = v
	v, err := c.assignHome(ir.Results, "results", name, v)
	if err != nil {
		return err
	}
	c.Results = append(c.Results, ir.Result{Name: name, Value: v})
	c.Needed = append(c.Needed, v)
	return nil
}
