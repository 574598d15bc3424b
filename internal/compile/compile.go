// Package compile turns a forward Gorgonia graph into a training step over one arena.
//
// [Compile] runs the passes, one a file, in this order:
//
//	read, lower → gradients → update → fold → merge → redecode → swap → rectify → sums → fuse → reduce → narrow → slices → offload → recompute → alias → order → in place → place
//
// Each rewrites an [ir.Program]. The optional ones can be switched off one by one ([Config.Off]), and the results keep their bits, but for Sums.
package compile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Errors that callers tell apart.
var (
	ErrNoLoss      = errors.New("the model has no loss")
	ErrUnreached   = errors.New("the loss does not reach a parameter")
	ErrUnsupported = kernels.ErrUnsupported
	ErrInput       = errors.New("a graph input has no source")
	ErrNoOutput    = errors.New("the model has no output to predict")
	ErrName        = errors.New("a name is taken")
)

// Names of a program's results.
const (
	LossName    = "loss"
	CorrectName = "correct"
	OutputName  = "output"
)

// Mode is what a program is for.
type Mode uint8

// The modes.
const (
	Train    Mode = iota // loss, gradients and update
	Evaluate             // loss and correct answers
	Predict              // output
	Machine              // a graph as it is, for CompileMachine
)

// String returns the mode's name in plans.
func (m Mode) String() string { return [...]string{"train", "evaluate", "predict", "machine"}[m] }

// Pass is a set of optional passes.
type Pass uint32

// The optional passes.
const (
	Fuse      Pass = 1 << iota // chains of elementwise operations and epilogues become one instruction
	Order                      // instructions run in the order that keeps the peak low
	InPlace                    // results take over the bytes of operands that die
	Views                      // reshape and slice name bytes that exist
	Merge                      // equal instructions are computed once
	Fold                       // constants are computed at compile time
	Redecode                   // a batch's fields are decoded anew for each reader
	Reduce                     // a reduction takes in the elementwise operations that only it reads
	Swap                       // gradients of rectifiers are taken of pooled results
	Rectify                    // batch normalization ends with a rectifier
	Slices                     // large gradients of the lean way are made, checked and applied in slices; it needs Views
	Sums                       // a product that is only added to a gradient is made there; this one changes bits
	AllPasses = Fuse | Order | InPlace | Views | Merge | Fold | Redecode | Reduce | Swap | Rectify | Slices | Sums
)

// Input says where the value of a graph input comes from: a field of the batch.
type Input struct {
	Field        string       // name in the slot
	Spec         kernels.Spec // as stored, rows first; without rows where Rows is set
	Scale, Shift float64      // decoded = Scale*stored + Shift; a Scale of 0 means 1
	Resident     string       // name of the resident dataset, empty when streamed
	Samples      int          // rows of the resident dataset
}

// Update is the optimizer's part of a step.
type Update struct {
	Op       *kernels.Op
	Attrs    any
	States   func(param kernels.Spec) []kernels.State // what is kept for a parameter; nil: nothing
	ClipNorm float64                                  // largest global norm of the gradients, 0 for no limit
	Scaled   bool                                     // the loss is scaled (kernels.ControlShare, ControlUnscale): every gradient is kept, and Attrs say that it is scaled
	Lean     bool                                     // check the loss first and each gradient before its own update, and keep no gradient
	Window   Window                                   // what the step is to the others whose gradients are added to its own
}

// Window is the place of a step among those that share an update. Their gradients, each times the step's share of the window's samples
// (kernels.ControlShare), add up in the gradients' region.
type Window uint8

// The places.
const (
	Alone Window = iota // the step has an update of its own
	First               // writes the gradients
	Inner               // adds to them
	Last                // adds to them, and updates
)

// String says so in plans.
func (w Window) String() string {
	return [...]string{"", ", first of a window", ", within a window", ", last of a window"}[w]
}

// adds reports whether gradients are added to those of earlier steps.
func (w Window) adds() bool { return w == Inner || w == Last }

// Updates reports whether parameters change in the step.
func (w Window) Updates() bool { return w == Alone || w == Last }

// Config says what to compile a graph for.
type Config struct {
	Mode   Mode
	Batch  int
	Inputs map[*gorgonia.Node]Input
	// Params are nodes that are parameters though they hold no value yet.
	Params map[*gorgonia.Node]bool
	// Statistics are nodes that hold running statistics. They have homes beside the parameters, and training moves them.
	Statistics map[*gorgonia.Node]bool
	Frozen     func(name string) bool // parameters that are not trained, and statistics that are not moved; nil: none
	Seed       uint64                 // of what is drawn at random in training

	Loss, Output, Correct *gorgonia.Node
	Keep                  gorgonia.Nodes // read by the host after a step, under their names

	Sum  map[*gorgonia.Node]bool // of a machine: inputs whose gradients are added to what is there
	Eval bool                    // of a machine: dropout and the like do what they do after training

	Update    Update
	Recompute Recompute
	Precision Precision
	Offload   Offload
	Homes     *ir.Homes
	Device    kernels.Device // nil: planned for a device without workspaces
	Like      *ir.Program    // the same model and mode at a larger batch: its order and places are taken over
	Off       Pass           // passes that are switched off
	Debug     bool           // leave guard bytes behind each scratch buffer, for arena.Sentry

	scheduler *scheduler // the only one, of tests; nil: all compete
}

// compiler carries one compilation through its passes.
type compiler struct {
	Config
	*ir.Builder
	values  map[*gorgonia.Node]kernels.Value // what each node of the forward graph became
	params  []param                          // in the order in which the graph was read
	byName  map[string]kernels.Value         // parameters
	named   map[string]kernels.Value         // results
	moving  []moved                          // running statistics
	follows map[kernels.Value]kernels.Value  // slices of gradients, and what must be made before each
	alike   bool                             // the instructions are those of Like
}

// Compile compiles the graph that the nodes of cfg belong to.
func Compile(ctx context.Context, g *gorgonia.ExprGraph, cfg Config) (*ir.Program, error) {
	c := newCompiler(cfg)
	if err := c.compile(ctx, func() error { return c.build(g) }); err != nil {
		return nil, err
	}
	return c.Program, nil
}

func newCompiler(cfg Config) *compiler {
	if cfg.Homes == nil {
		cfg.Homes = &ir.Homes{}
	}
	return &compiler{
		Config:  cfg,
		Builder: ir.NewBuilder(&ir.Program{Name: fmt.Sprintf("%v %d%v", cfg.Mode, cfg.Batch, cfg.Update.Window), Batch: cfg.Batch}, cfg.Homes),
		values:  make(map[*gorgonia.Node]kernels.Value),
		byName:  make(map[string]kernels.Value),
		named:   make(map[string]kernels.Value),
		follows: make(map[kernels.Value]kernels.Value),
	}
}

// compile runs the passes on what build makes of the graph.
func (c *compiler) compile(ctx context.Context, build func() error) (err error) {
	defer func() {
		if e := ir.Recovered(recover()); e != nil {
			err = e
		}
	}()
	if err := build(); err != nil {
		return err
	}
	if c.Guard != kernels.None {
		c.Roots = append(c.Roots, c.Guard)
	}
	if c.Off&Fold == 0 {
		c.fold()
	}
	if c.Off&Merge == 0 {
		c.merge()
	}
	c.prune()
	if c.Off&Redecode == 0 {
		c.redecode()
	}
	if c.Off&Swap == 0 {
		c.swap()
	}
	if c.Off&Rectify == 0 {
		c.rectify()
	}
	if c.Off&Sums == 0 {
		c.sums()
	}
	if c.Off&Fuse == 0 {
		c.epilogues()
		c.chains()
		c.prune()
	}
	if c.Off&Reduce == 0 {
		c.reductions()
	}
	c.narrow()
	c.slices()
	c.offload()
	c.recompute()
	c.prune() // what a round fetches or computes again, and a later one does not read
	c.alias()
	return c.finish(ctx)
}

// build reads the graph and appends what the mode asks for: results, gradients, update.
func (c *compiler) build(g *gorgonia.ExprGraph) error {
	roots, err := c.roots()
	if err != nil {
		return err
	}
	if err := c.read(g, roots); err != nil {
		return err
	}
	c.round()
	loss := kernels.None
	if c.Mode != Predict {
		if loss, err = c.scalarLoss(); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		name string
		node *gorgonia.Node
		sum  bool
	}{{LossName, c.Loss, false}, {CorrectName, c.Correct, true}, {OutputName, c.Output, false}} {
		if r.node == nil || !slices.Contains(roots, r.node) {
			continue
		}
		v := c.values[r.node]
		c.Label, c.Owner, c.Mark = r.name, "results", ""
		if r.sum {
			v = c.Apply(kernels.Sum, kernels.ReduceAttrs{}, v)
		}
		if err := c.result(r.name, v); err != nil {
			return err
		}
	}
	for _, n := range c.Keep {
		if n == nil {
			continue
		}
		c.Label, c.Owner, c.Mark = n.Name(), "results", ""
		if err := c.result(n.Name(), c.values[n]); err != nil {
			return err
		}
	}
	if c.Mode != Train {
		return nil
	}
	grads, err := c.gradients(loss, c.wanted())
	if err != nil {
		return err
	}
	if err := c.reach(g, grads); err != nil {
		return err
	}
	return c.update(loss, grads)
}

// roots returns the nodes that the mode needs.
func (c *compiler) roots() (gorgonia.Nodes, error) {
	var roots gorgonia.Nodes
	add := func(n *gorgonia.Node) {
		if n != nil && !slices.Contains(roots, n) {
			roots = append(roots, n)
		}
	}
	switch c.Mode {
	case Predict:
		if c.Output == nil {
			return nil, ErrNoOutput
		}
		add(c.Output)
	default:
		if c.Loss == nil {
			return nil, ErrNoLoss
		}
		add(c.Loss)
		add(c.Correct)
	}
	for _, n := range c.Keep {
		add(n)
	}
	return roots, nil
}

// wanted returns the parameters to differentiate for.
func (c *compiler) wanted() []kernels.Value {
	var vs []kernels.Value
	for _, p := range c.params {
		if !p.frozen {
			vs = append(vs, p.value)
		}
	}
	return vs
}

// result gives v a place that the host reads after a step. The same value may be asked for twice.
func (c *compiler) result(name string, v kernels.Value) error {
	if was, ok := c.named[name]; ok && was != v {
		return fmt.Errorf("two results are called %q: name one of the nodes otherwise: %w", name, ErrName)
	} else if ok {
		return nil
	}
	c.named[name] = v
	v, err := c.settle(ir.Results, "results", name, v)
	if err != nil {
		return err
	}
	c.Results = append(c.Results, ir.Result{Name: name, Value: v})
	c.Roots = append(c.Roots, v)
	return nil
}
