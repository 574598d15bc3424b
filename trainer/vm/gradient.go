package vm

import (
	"errors"
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// gradient is the gradient of an input. A graph sees it in two places:
//
//	input.Grad()           solvers read it, and set it to zero
//	input.Deriv().Value()  the value of the gradient node
type gradient struct {
	link
	sum bool // it adds up over runs
	own bool // the gradient node stands for this gradient alone, so that its value can be bound

	// deriv is the value of the gradient node if sum is set: another tensor over the same bytes.
	// The input's Grad returns that one as long as the input has no gradient of its own, that is
	// before the first run.
	deriv gorgonia.Value
}

// openGradients links the gradients of inputs to the arena.
func openGradients(links []frontend.Link, mem *memory, unified bool) ([]gradient, error) {
	gradients := make([]gradient, len(links))
	for i, c := range links {
		l, err := openLink(c, mem, unified)
		if err != nil {
			return gradients[:i], err
		}
		gradients[i] = gradient{link: l, sum: c.Accumulate, own: c.Own}
	}
	return gradients, nil
}

// loadSum copies the sum of the runs so far to the arena, for the program to add to.
func (g *gradient) loadSum() (err error) {
	if !g.sum {
		return nil
	}
	if v, _ := g.node.Grad(); layout.IsEmpty(v) || v == g.node.Deriv().Value() {
		clear(g.bytes) // no run so far
		err = g.upload()
	} else {
		err = g.load(v)
	}
	if err != nil {
		return fmt.Errorf("gradient of %q: %w", g.node.Name(), err)
	}
	return nil
}

// publish binds the gradient to the gradient node. It also sets the input's own gradient if the
// gradient node cannot hold it, or if sums are wanted.
func (g *gradient) publish() error {
	if err := g.download(); err != nil {
		return err
	}
	if g.own {
		if err := g.publishDeriv(); err != nil {
			return err
		}
	}
	if v, err := g.node.Grad(); err != nil || !g.owns(v) || g.sum && v == g.deriv {
		gorgonia.WithGrad(g.current())(g.node)
	}
	return nil
}

// publishDeriv binds the gradient to the gradient node.
func (g *gradient) publishDeriv() error {
	node := g.node.Deriv()
	if !g.sum {
		if g.owns(node.Value()) {
			return nil
		}
		return gorgonia.UnsafeLet(node, g.current())
	}
	if g.deriv == nil || g.addr != 0 && !g.owns(g.deriv) {
		g.deriv = frontend.ValueOver(g.node, g.bytes)
	}
	if g.addr == 0 { // a scalar, which does not share the bytes
		if _, err := gorgonia.Copy(g.deriv, g.value); err != nil {
			return err
		}
	}
	if node.Value() == g.deriv {
		return nil
	}
	return gorgonia.UnsafeLet(node, g.deriv)
}

// close moves all tensors of the gradient to Go memory.
func (g *gradient) close() error {
	v, _ := g.node.Grad()
	return errors.Join(g.detach(g.value), g.detach(g.deriv), g.detach(v), g.detach(g.node.Value()))
}
