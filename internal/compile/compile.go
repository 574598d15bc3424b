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
	"fmt"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
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
	frontend.Model
	Mode Mode
	Eval bool // of a machine: dropout and batch normalization work as outside training

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
	graph   *frontend.Graph
	forward *frontend.Forward
	named   map[string]kernels.Value        // results
	follows map[kernels.Value]kernels.Value // slices of gradients, and what must be made before each
	alike   bool                            // the instructions are those of Like
}

// Compile compiles the model of cfg.
func Compile(ctx context.Context, cfg Config) (*ir.Program, error) {
	c := newCompiler(cfg)
	if err := c.compile(ctx, c.build); err != nil {
		return nil, err
	}
	return c.Program, nil
}

func newCompiler(cfg Config) *compiler {
	if cfg.Homes == nil {
		cfg.Homes = &ir.Homes{}
	}
	b := ir.NewBuilder(&ir.Program{Name: fmt.Sprintf("%v %d%v", cfg.Mode, cfg.Batch, cfg.Update.Window), Batch: cfg.Batch}, cfg.Homes)
	return &compiler{
		Config:  cfg,
		Builder: b,
		graph: frontend.New(b, cfg.Model, frontend.Options{
			Training:  cfg.Mode == Train || cfg.Mode == Machine && !cfg.Eval,
			Predict:   cfg.Mode == Predict,
			Machine:   cfg.Mode == Machine,
			Offloaded: cfg.Offload.keeps,
		}),
		forward: &frontend.Forward{},
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

// build lowers the graph and appends what the mode needs: results, gradients, update.
func (c *compiler) build() (err error) {
	if c.forward, err = c.graph.Forward(); err != nil {
		return err
	}
	c.round()
	f := c.forward
	for _, r := range []ir.Result{{Name: LossName, Value: f.Loss}, {Name: CorrectName, Value: f.Correct}, {Name: OutputName, Value: f.Output}} {
		if r.Value == kernels.None {
			continue
		}
		c.Label, c.Owner, c.Mark = r.Name, "results", ""
		if r.Name == CorrectName {
			r.Value = c.Apply(kernels.Sum, kernels.ReduceAttrs{}, r.Value)
		}
		if err := c.result(r.Name, r.Value); err != nil {
			return err
		}
	}
	for _, r := range f.Kept {
		c.Label, c.Owner, c.Mark = r.Name, "results", ""
		if err := c.result(r.Name, r.Value); err != nil {
			return err
		}
	}
	if c.Mode != Train {
		return nil
	}
	grads, err := c.gradients(f.Loss, c.wanted())
	if err != nil {
		return err
	}
	if err := c.graph.CheckReached(grads); err != nil {
		return err
	}
	return c.update(f.Loss, grads)
}

// wanted returns the parameters to differentiate for.
func (c *compiler) wanted() []kernels.Value {
	var vs []kernels.Value
	for _, p := range c.forward.Params {
		if !p.Frozen {
			vs = append(vs, p.Value)
		}
	}
	return vs
}

// result gives v a place that the host reads after a step. The same value may be asked for twice.
func (c *compiler) result(name string, v kernels.Value) error {
	if was, ok := c.named[name]; ok && was != v {
		return fmt.Errorf("two results are called %q: name one of the nodes otherwise: %w", name, frontend.ErrName)
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
