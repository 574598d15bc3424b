package compile

import (
	"context"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// CompileMachine compiles the graph of cfg as it is: the values of three kinds of nodes (those that
// no node reads, those that gorgonia.Read reads, those in cfg.Keep), and the gradients of the
// inputs that gorgonia.Grad was called for. Every node without an op gets a home.
//
//	forward ─► gradients of each loss ─► values that the graph computes from gradients
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
	for _, loss := range machineGraph.Losses {
		if err := c.machineGradients(machineGraph, loss); err != nil {
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

// machineGradients appends the gradients of one loss by its wanted inputs, most of them at homes.
func (c *compiler) machineGradients(machineGraph *frontend.MachineGraph, loss frontend.Loss) error {
	var wanted []kernels.Value
	for _, w := range loss.Wanted {
		if w.Value != kernels.None {
			wanted = append(wanted, w.Value)
		}
	}
	grads, err := c.gradients(loss.Value, wanted)
	if err != nil {
		return err
	}
	missing := &frontend.UnreachedError{Loss: loss.Name}
	// Each gradient gets a home, or is added to the contents of its home. All parameters without a
	// gradient are reported together.
	for _, w := range loss.Wanted {
		switch {
		case w.Value != kernels.None && grads[w.Value] != kernels.None:
		case w.Optional:
			continue
		default:
			missing.Params = append(missing.Params, w.Name)
			continue
		}
		grad, home := grads[w.Value], kernels.None
		if w.Home {
			if grad, home, err = c.homeOfGrad(w, grad); err != nil {
				return err
			}
		}
		machineGraph.SetGrad(w, grad, home)
	}
	if missing.Params != nil {
		return missing
	}
	return nil
}

// homeOfGrad writes a gradient to its home, or adds it to the contents of the home. It returns the
// gradient alone, and the home.
func (c *compiler) homeOfGrad(w frontend.Wanted, grad kernels.Value) (alone, home kernels.Value, err error) {
	name := c.Values[w.Value].Name
	c.Label, c.Owner, c.Mark = "d"+name, ir.OwnerOf(name), ""
	if home, err = c.keepGradient(name, grad, w.Accumulate); err != nil {
		return grad, home, err
	}
	c.Needed = append(c.Needed, home)
	if !w.Accumulate {
		grad = home
	}
	return grad, home, nil
}
