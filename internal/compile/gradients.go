package compile

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// gradients appends the backward pass of loss and returns, indexed by value, the gradient of each
// one that depends on a wanted value; None elsewhere. It is reverse-mode differentiation over the
// instructions: each operation's own file has its rule, a fallback has Gorgonia's. A value with
// several readers gets the sum of their gradients. It goes from the last reader to the first:
//
//	y = f x │ z = g x │ loss = y + z  ──►  dy = dloss │ dz = dloss │ dx1 = g'(x)·dz │ dx = dx1 + f'(x)·dy
//
// It skips instructions that the loss does not depend on, and those that depend on no wanted value.
func (c *compiler) gradients(loss kernels.Value, wanted []kernels.Value) (grads []kernels.Value, err error) {
	needs := c.dependents(wanted)
	grads = make([]kernels.Value, len(c.Values))
	for i := range grads {
		grads[i] = kernels.None
	}
	forward := len(c.Instrs)
	c.Backward = true
	c.Label, c.Owner, c.Mark = "dloss", c.Values[loss].Owner, ""
	if grads[loss], err = c.lossSeed(loss); err != nil {
		return nil, err
	}
	for i := forward - 1; i >= 0; i-- {
		in := c.Instrs[i]
		dy, reached := outputGrads(in, grads)
		if n := c.normOf(in); n != nil {
			i = n.begin
			if reached {
				c.Label, c.Owner, c.Mark = "d"+n.label, in.Owner, ""
				c.addGrads(grads, needs, []kernels.Value{n.x, n.gamma, n.beta}, c.normGrad(n, dy[0], needs[n.x]))
			}
			continue
		}
		if !reached || !reads(in, needs) {
			continue
		}
		c.Label, c.Owner, c.Mark = "d"+in.Label, in.Owner, ""
		dx, err := c.inputGrads(in, dy)
		if err != nil {
			return nil, err
		}
		c.addGrads(grads, needs, in.In, dx)
	}
	return grads, nil
}

// addGrads adds gradients dx of operands to those of their other readers, where they are needed.
func (c *compiler) addGrads(grads []kernels.Value, needs []bool, operands, dx []kernels.Value) {
	for k, v := range operands {
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

// lossSeed appends the gradient of the loss with respect to itself: 1. Where steps share an update,
// or the loss is scaled, it is the step's share of the window's samples times the loss scale: one
// number in the controls vector. With weights, weightSeed takes its place.
func (c *compiler) lossSeed(v kernels.Value) (kernels.Value, error) {
	if c.weight != kernels.None {
		return c.weightSeed(v)
	}
	loss := c.Spec(v)
	if !c.cfg.Update.Sums() && !c.cfg.Update.Scaled {
		return c.Apply(kernels.Fill, kernels.FillAttrs{Type: loss.Type, Shape: loss.Shape, Value: 1}), nil
	}
	return c.share(loss)
}

// share appends the number kernels.ControlShare in the type and shape of the loss.
func (c *compiler) share(loss kernels.Spec) (kernels.Value, error) {
	share, err := c.ControlAt(kernels.ControlShare)
	if err != nil {
		return kernels.None, err
	}
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: loss.Shape}, c.decode(loss.Type, share)), nil
}

// inputGrads appends the gradients of an instruction's operands, given those of its results.
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

// dependents reports for each value, by its index, whether it depends on one of wanted.
func (c *compiler) dependents(wanted []kernels.Value) []bool {
	needs := make([]bool, len(c.Values))
	for _, v := range wanted {
		needs[v] = true
	}
	for _, in := range c.Instrs {
		if reads(in, needs) {
			for _, o := range in.Out {
				needs[o] = true
			}
		}
	}
	return needs
}

// reads reports whether in has an operand in set.
func reads(in ir.Instr, set []bool) bool {
	for _, v := range in.In {
		if set[v] {
			return true
		}
	}
	return false
}

// outputGrads returns the gradients of the results of in, None where a result has none, and whether
// at least one has.
func outputGrads(in ir.Instr, grads []kernels.Value) (dy []kernels.Value, reached bool) {
	dy = make([]kernels.Value, len(in.Out))
	for k, o := range in.Out {
		dy[k] = grads[o]
		reached = reached || dy[k] != kernels.None
	}
	return dy, reached
}
