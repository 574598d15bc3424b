package vm

import (
	"errors"
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// input is a node without an op.
type input struct {
	link
	shared bool // the node's value may lie in the arena: it has a gradient, or gorgonia.Set assigns it
	moved  bool // the node's value lay in the arena when the machine saw it last
}

// openInputs links the inputs of a graph to the arena. Where move is set, it moves the values of
// those that have a gradient or are assigned there.
func openInputs(links *frontend.Links, mem *memory, unified, move bool) ([]input, error) {
	assigned := make(map[*gorgonia.Node]bool)
	for _, s := range links.Sets {
		assigned[s.To] = true
	}
	inputs := make([]input, len(links.Inputs))
	for i, c := range links.Inputs {
		l, err := openLink(c, mem, unified)
		if err != nil {
			return inputs[:i], err
		}
		inputs[i] = input{link: l, shared: move && (c.Node.Deriv() != nil || assigned[c.Node])}
		if v := c.Node.Value(); inputs[i].shared && !layout.IsEmpty(v) && l.addr != 0 {
			if err := inputs[i].move(v); err != nil {
				return inputs[:i+1], fmt.Errorf("%q: %w", c.Node.Name(), err)
			}
		}
	}
	return inputs, nil
}

// move copies v to the arena and binds the copy to the node.
func (in *input) move(v gorgonia.Value) error {
	if err := layout.Load(in.bytes, v, in.spec); err != nil {
		return err
	}
	if err := gorgonia.UnsafeLet(in.node, in.value); err != nil {
		return err
	}
	in.moved = true
	return nil
}

// loadInputs copies the values of all inputs to the arena. It returns a *ValueError that names
// those without one.
func loadInputs(inputs []input) error {
	var missing []string
	for i := range inputs {
		in := &inputs[i]
		if err := in.rebind(); err != nil {
			return err
		}
		if layout.IsEmpty(in.node.Value()) {
			missing = append(missing, in.node.Name())
		}
	}
	if missing != nil {
		return &ValueError{Nodes: missing}
	}
	for i := range inputs {
		if err := inputs[i].load(); err != nil {
			return fmt.Errorf("input %q: %w", inputs[i].node.Name(), err)
		}
	}
	return nil
}

// rebind gives the node its value in the arena back, if UnbindAll has taken it away.
func (in *input) rebind() error {
	if !in.moved || !layout.IsEmpty(in.node.Value()) {
		return nil
	}
	return gorgonia.UnsafeLet(in.node, in.current())
}

// load copies the node's value to the arena.
func (in *input) load() error {
	v := in.node.Value()
	in.moved = in.addr != 0 && in.owns(v)
	return in.link.load(v)
}

// set makes the bytes, which the caller has changed, the node's value: a tensor in the arena, or a
// scalar.
func (in *input) set() error {
	in.refresh()
	in.shared, in.moved = true, in.addr != 0
	if in.owns(in.node.Value()) {
		return nil
	}
	return gorgonia.UnsafeLet(in.node, in.current())
}

// close moves the node's value to Go memory.
func (in *input) close() error {
	if !in.shared {
		return nil
	}
	return errors.Join(in.detach(in.value), in.detach(in.node.Value()))
}
