package vm

import (
	"errors"
	"fmt"
	"log/slog"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/kernels"
)

// Options of a Machine. Only Device is required.
type Options struct {
	// Device runs the graph. The machine does not close it.
	Device kernels.Device
	// Memory limits the device memory of the machine, in bytes. Default 0: the free memory of the
	// device is the limit. New allocates only what the plan needs; if that is more than the limit,
	// it returns a *CapacityError.
	Memory int64
	// Bind lists inputs whose gradients add up over runs until they are set to zero, as with
	// gorgonia.BindDualValues. Nodes without a gradient are ignored. An empty list that is not nil,
	// gorgonia.Nodes{}, means all inputs that have one. Default nil: none; a gradient is that of the
	// last run alone. On a device with memory of its own, each run copies the sums to the device and
	// back.
	Bind gorgonia.Nodes
	// Keep lists nodes, in addition to the roots of the graph, that have a value after a run.
	// Default: none. Each costs its size in device memory.
	Keep gorgonia.Nodes
	// Eval runs the graph as gorgonia.EvalMode does: dropout drops nothing, and batch normalization
	// uses its running statistics. Default: both as in training.
	Eval bool
	// Seed selects the dropout masks. Machines of one graph with the same seed drop the same
	// elements in run 1, in run 2 and so on. Default 0, a seed like any other.
	Seed uint64
	// Logger gets a warning about each kind of node that may stand for several that differ: Gorgonia
	// merges nodes of equal hashes, and its hashes ignore parts of operations. The plan marks them,
	// too. Default: slog.Default(). See docs/from-gorgonia.md#limits.
	Logger *slog.Logger
}

// check returns all mistakes in the options.
func (o *Options) check(g *gorgonia.ExprGraph) error {
	if g == nil {
		return fmt.Errorf("no graph: %w", ErrOption)
	}
	var errs []error
	if o.Device == nil {
		errs = append(errs, fmt.Errorf("no device: set Options.Device, for example to the device of cpu.Open: %w", ErrOption))
	}
	if o.Memory < 0 {
		errs = append(errs, fmt.Errorf("memory %d bytes: must be positive, or 0 for what the plan needs: %w", o.Memory, ErrOption))
	}
	if len(g.AllNodes()) == 0 {
		return errors.Join(append(errs, fmt.Errorf("the graph is empty: build the model before the machine: %w", ErrModel))...)
	}
	base := frontend.BaseGraph(g)
	for _, n := range o.Bind {
		if n != nil && n.Graph() == base && n.Op() != nil && n.Deriv() != nil {
			errs = append(errs, fmt.Errorf("bind %v: it is computed, and only gradients of inputs add up: "+
				"list its gradient node, node.Deriv(), in Keep: %w", n, ErrOption))
		}
	}
	for _, n := range o.Keep {
		if n == nil || n.Graph() != base {
			errs = append(errs, fmt.Errorf("keep %v: not a node of the graph: %w", n, ErrOption))
		}
	}
	return errors.Join(errs...)
}

// sums returns the inputs of g whose gradients add up.
func (o *Options) sums(g *gorgonia.ExprGraph) map[*gorgonia.Node]bool {
	nodes := o.Bind
	if nodes != nil && len(nodes) == 0 {
		nodes = g.AllNodes()
	}
	sums := make(map[*gorgonia.Node]bool)
	for _, n := range nodes {
		if n != nil && n.Op() == nil && n.Deriv() != nil {
			sums[n] = true
		}
	}
	return sums
}
