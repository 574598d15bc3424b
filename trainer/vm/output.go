package vm

import (
	"errors"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// output is a node whose value exists after a run.
type output struct {
	link
	bound bool // the value is bound to the node; else only gorgonia.Read reads it
}

// openOutputs links the outputs of a graph to the arena. The value of a gradient node is bound by
// its gradient, not here.
func openOutputs(links *frontend.Links, mem *memory, unified bool) ([]output, error) {
	derivs := make(map[*gorgonia.Node]bool)
	for _, c := range links.Grads {
		if c.Own {
			derivs[c.Node.Deriv()] = true
		}
	}
	outputs := make([]output, len(links.Outputs))
	for i, c := range links.Outputs {
		l, err := openLink(c, mem, unified)
		if err != nil {
			return outputs[:i], err
		}
		outputs[i] = output{link: l, bound: frontend.Computed(c.Node) && !derivs[c.Node]}
	}
	return outputs, nil
}

// publish brings the value up to date, and binds it to the node unless it is bound already.
func (o *output) publish() error {
	if err := o.download(); err != nil {
		return err
	}
	if !o.bound || o.owns(o.node.Value()) {
		return nil
	}
	return gorgonia.UnsafeLet(o.node, o.current())
}

// copyReads copies outputs to the variables that gorgonia.Read was given. A variable keeps its
// tensor over runs.
func copyReads(reads []frontend.Read, outputs []output) error {
	for _, r := range reads {
		v := outputs[r.Output].current()
		if !layout.IsEmpty(*r.Into) {
			if _, err := gorgonia.Copy(*r.Into, v); err != nil {
				return err
			}
			continue
		}
		c, err := gorgonia.CloneValue(v)
		if err != nil {
			return err
		}
		*r.Into = frontend.Unpooled(c)
	}
	return nil
}

// close moves the node's value to Go memory.
func (o *output) close() error {
	return errors.Join(o.detach(o.value), o.detach(o.node.Value()))
}
