package trainer

import (
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// modelCalls is held while a model function runs: Gorgonia counts groups of nodes in a package
// variable, without a lock.
var modelCalls sync.Mutex

// callModel runs a model function and checks its result. A panic in the function becomes an error.
func callModel(model ModelFunc, g *gorgonia.ExprGraph, rows int) (m Model, err error) {
	modelCalls.Lock()
	defer modelCalls.Unlock()
	// Gorgonia's Must and many of its functions panic.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("model function, batch %d: panic: %v: %w", rows, r, ErrModel)
			// A layer with an error returns a nil node, on which Gorgonia's functions panic.
			if cause := layers.Failed(g); cause != nil {
				err = fmt.Errorf("model function, batch %d: %w: %w", rows, ErrModel, cause)
			}
		}
	}()
	m, err = model(g, rows)
	if cause := layers.Failed(g); cause != nil && (err != nil && !errors.Is(err, cause) || err == nil && m.Loss == nil) {
		err = cause
	}
	if err != nil {
		return m, fmt.Errorf("model function, batch %d: %w", rows, err)
	}
	if err := checkModel(m, g, rows); err != nil {
		return m, fmt.Errorf("model function, batch %d: %w", rows, err)
	}
	return m, nil
}

// blameModel adds ErrModel to a compiler's error that the model causes.
func blameModel(err error) error {
	classes := []error{frontend.ErrNoLoss, frontend.ErrUnreached, frontend.ErrInput, frontend.ErrNoOutput, ir.ErrHome}
	for _, class := range classes {
		if errors.Is(err, class) {
			return fmt.Errorf("%w: %w", ErrModel, err)
		}
	}
	return err
}

// modelCheck collects the mistakes in what a model function returned.
type modelCheck struct {
	mistakes
	graph *gorgonia.ExprGraph
	// list and named hold the nodes that were checked: the list of the model that each is in, and
	// the node of each name. Names must differ, since homes and fields are found by them.
	list  map[*gorgonia.Node]string
	named map[string]*gorgonia.Node
}

// checkModel returns every mistake in what a model function returned for a batch of rows.
func checkModel(m Model, g *gorgonia.ExprGraph, rows int) error {
	c := &modelCheck{mistakes: mistakes{class: ErrModel}, graph: g}
	c.list, c.named = make(map[*gorgonia.Node]string), make(map[string]*gorgonia.Node)
	c.inGraph("Loss", m.Loss)
	c.inGraph("Output", m.Output)
	c.inGraph("Correct", m.Correct)
	for _, p := range m.Params {
		c.leaf("Params", p.Node)
		c.float("parameter", p.Node)
	}
	for _, p := range m.Statistics {
		c.leaf("Statistics", p.Node)
		c.float("statistic", p.Node)
	}
	for _, n := range m.Inputs {
		c.leaf("Inputs", n)
		if n != nil && (n.Name() == ir.ControlsName || n.Name() == ir.IndexField) {
			c.addf("an input may not be called %q: the trainer has a field of that name", n.Name())
		}
	}
	// Rows of the output are yielded one by one, and elements of Correct are averaged.
	if n := m.Output; n != nil && n.Shape().TotalSize()%rows != 0 {
		c.addf("output %q is %v: it must have one row a sample", n.Name(), n.Shape())
	}
	if n := m.Correct; n != nil && n.Shape().TotalSize() != rows {
		c.addf("correct %q is %v: it must have one element a sample", n.Name(), n.Shape())
	}
	return errors.Join(c.errs...)
}

// inGraph checks that n is nil or belongs to the graph. role is its field of Model.
func (c *modelCheck) inGraph(role string, n *gorgonia.Node) {
	if n != nil && n.Graph() != c.graph {
		c.addf("model's %s %q is not in the graph that was passed to the model function", role, n.Name())
	}
}

// leaf checks a node of one of the model's lists: it has no operation, and no other node is it or
// has its name.
func (c *modelCheck) leaf(list string, n *gorgonia.Node) {
	if n == nil {
		c.addf("model has a nil node among its %s", list)
		return
	}
	c.inGraph(list, n)
	if before := c.list[n]; before != "" {
		c.addf("%q is listed in %s and again in %s", n.Name(), before, list)
	} else if c.named[n.Name()] != nil {
		c.addf("two nodes are called %q: nodes are identified by their names", n.Name())
	}
	c.list[n], c.named[n.Name()] = list, n
	if n.Op() != nil {
		c.addf("%q in %s is computed by %v: only a node without an operation can be one", n.Name(), list, n.Op())
	}
}

// float checks that n holds floating-point numbers.
func (c *modelCheck) float(kind string, n *gorgonia.Node) {
	if n != nil && n.Dtype() != tensor.Float32 && n.Dtype() != tensor.Float64 {
		c.addf("%s %q is of type %v: only floating-point numbers can be learned", kind, n.Name(), n.Dtype())
	}
}
