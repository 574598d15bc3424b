package compile

import (
	"context"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// CompileMachine compiles the graph of cfg as it is: the values of the nodes that no node reads,
// that gorgonia.Read reads and of cfg.Keep, and the gradients of the inputs that gorgonia.Grad was
// called for. Every node without an op gets a home.
//
//	forward ─► gradients of the loss ─► values that the graph computes from gradients
//
// Gorgonia's own gradient nodes are not executed: the node of an input's gradient gets the gradient
// that this package computes.
func CompileMachine(ctx context.Context, cfg Config) (*ir.Program, *frontend.Links, error) {
	cfg.Mode = Machine
	c := newCompiler(cfg)
	c.Name = "machine"
	var links *frontend.Links
	err := c.compile(ctx, func() (err error) {
		links, err = c.machine()
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return c.Program, links, nil
}

// machine lowers the graph and appends gradients and results.
func (c *compiler) machine() (*frontend.Links, error) {
	machineGraph, err := c.graph.LowerMachine()
	if err != nil {
		return nil, err
	}
	if len(machineGraph.Wanted) > 0 {
		if err := c.machineGradients(machineGraph); err != nil {
			return nil, err
		}
	}
	outputs, err := machineGraph.LowerOutputs()
	if err != nil {
		return nil, err
	}
	for _, o := range outputs {
		c.Label, c.Owner, c.Mark = o.Name, "results", ""
		if err := c.result(c.Homes.FreshName(ir.Results, o.Name), o.Value); err != nil {
			return nil, err
		}
	}
	return machineGraph.Links(), nil
}

// machineGradients appends the gradients of the wanted inputs, each at its home.
func (c *compiler) machineGradients(machineGraph *frontend.MachineGraph) error {
	var wanted []kernels.Value
	for _, w := range machineGraph.Wanted {
		if w.Value != kernels.None {
			wanted = append(wanted, w.Value)
		}
	}
	grads, err := c.gradients(machineGraph.Loss, wanted)
	if err != nil {
		return err
	}
	missing := &frontend.UnreachedError{Loss: c.graph.Loss.Name()}
	// Each gradient gets a home, or is added to the contents of its home. All parameters without a
	// gradient are reported together.
	for _, w := range machineGraph.Wanted {
		if w.Value == kernels.None || grads[w.Value] == kernels.None {
			missing.Params = append(missing.Params, w.Name)
			continue
		}
		name, grad := c.Values[w.Value].Name, grads[w.Value]
		c.Label, c.Owner, c.Mark = "d"+name, ir.OwnerOf(name), ""
		home, err := c.keepGradient(name, grad, w.Accumulate)
		if err != nil {
			return err
		}
		if !w.Accumulate {
			grad = home
		}
		c.Needed = append(c.Needed, home)
		machineGraph.SetGrad(w, grad, home)
	}
	if missing.Params != nil {
		return missing
	}
	return nil
}
