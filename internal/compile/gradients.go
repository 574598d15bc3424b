package compile

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// gradients appends the reverse pass of loss to the program and returns the gradient of each value that depends on a wanted
// one, None elsewhere. Every rule is the one in the operation's own file; a fallback has Gorgonia's.
func (c *compiler) gradients(loss kernels.Value, wanted []kernels.Value) (grads []kernels.Value, err error) {
	needs := c.dependents(wanted)
	grads = make([]kernels.Value, len(c.Values))
	for i := range grads {
		grads[i] = kernels.None
	}
	forward := len(c.Instrs)
	c.Backward = true
	spec := c.Spec(loss)
	c.Label, c.Owner, c.Mark = "dloss", c.Values[loss].Owner, ""
	if c.Update.Window == Alone && !c.Update.Scaled {
		grads[loss] = c.Apply(kernels.Fill, kernels.FillAttrs{Type: spec.Type, Shape: spec.Shape, Value: 1})
	} else if grads[loss], err = c.portion(spec); err != nil {
		return nil, err
	}
	for i := forward - 1; i >= 0; i-- {
		in := c.Instrs[i]
		dy, reached := outputGrads(in, grads)
		if !reached || !needed(in, needs) {
			continue
		}
		c.Label, c.Owner, c.Mark = "d"+in.Label, in.Owner, ""
		dx, err := c.inputGrads(in, dy)
		if err != nil {
			return nil, err
		}
		for k, v := range in.In {
			if k >= len(dx) || dx[k] == kernels.None || !needs[v] {
				continue
			}
			if grads[v] == kernels.None {
				grads[v] = dx[k]
			} else {
				grads[v] = c.Apply(kernels.Add, nil, grads[v], dx[k])
			}
		}
	}
	return grads, nil
}

func (c *compiler) inputGrads(in ir.Instr, dy []kernels.Value) ([]kernels.Value, error) {
	n := kernels.Node{Op: in.Op, Attrs: in.Attrs, In: in.In, Out: in.Out}
	switch {
	case in.Op == kernels.Host:
		return c.graph.HostGrad(n, dy)
	case in.Op.Grad == nil:
		return nil, fmt.Errorf("%s %q has no gradient: %w", in.Op.Name, in.Label, kernels.ErrUnsupported)
	}
	return in.Op.Grad(c.Builder, n, dy), nil
}

// dependents marks the values that depend on one of wanted.
func (c *compiler) dependents(wanted []kernels.Value) []bool {
	needs := make([]bool, len(c.Values))
	for _, v := range wanted {
		needs[v] = true
	}
	for _, in := range c.Instrs {
		if needed(in, needs) {
			for _, o := range in.Out {
				needs[o] = true
			}
		}
	}
	return needs
}

func needed(in ir.Instr, needs []bool) bool {
	for _, v := range in.In {
		if needs[v] {
			return true
		}
	}
	return false
}

func outputGrads(in ir.Instr, grads []kernels.Value) (dy []kernels.Value, reached bool) {
	dy = make([]kernels.Value, len(in.Out))
	for k, o := range in.Out {
		dy[k] = grads[o]
		reached = reached || dy[k] != kernels.None
	}
	return dy, reached
}
