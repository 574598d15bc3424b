package trainer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// modelCalls holds one element while a model function runs: Gorgonia counts groups of nodes in a
// package variable, without a lock.
var modelCalls = make(chan struct{}, 1)

// errInsideModel is the error of a call that would wait for the model function that makes it.
var errInsideModel = fmt.Errorf("called inside a model function: it must only add nodes to its graph and return: %w", ErrModel)

// callModel runs a model function and checks its result. A panic in the function becomes an error.
// It waits for other model functions until ctx ends.
func callModel(ctx context.Context, model ModelFunc, g *gorgonia.ExprGraph, rows int) (Model, error) {
	if insideModel() {
		return Model{}, errInsideModel
	}
	select {
	case modelCalls <- struct{}{}:
	case <-ctx.Done():
		return Model{}, ctx.Err()
	}
	defer func() { <-modelCalls }()
	m, err := runModel(model, g, rows)
	if err != nil {
		return m, fmt.Errorf("model function, batch %d: %w", rows, err)
	}
	return m, nil
}

// runModel runs a model function and checks its result. Of several errors it returns the cause: the
// first one of a layer, whose nil result the function may have passed on to code that panics.
func runModel(model ModelFunc, g *gorgonia.ExprGraph, rows int) (m Model, err error) {
	// Gorgonia's Must and many of its functions panic.
	defer func() {
		r, layer := recover(), layers.Failed(g)
		switch {
		case layer != nil && !errors.Is(err, layer):
			err = layer
		case r != nil:
			err = fmt.Errorf("panic: %v: %w", r, ErrModel)
		}
	}()
	if m, err = model(g, rows); err != nil {
		return m, err
	}
	return m, checkModel(m, g, rows)
}

// runModelName is the name of runModel in call stacks.
var runModelName = runtime.FuncForPC(reflect.ValueOf(runModel).Pointer()).Name()

// insideModel reports whether a model function of this goroutine has called, at any depth.
func insideModel() bool {
	return len(modelCalls) > 0 && calledFrom(runModelName) // else no model function runs
}

// calledFrom reports whether a function, given by its name in call stacks, has called in this
// goroutine, at any depth.
func calledFrom(name string) bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(1, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(1, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if f.Function == name {
			return true
		}
		if !more {
			return false
		}
	}
}

// blameModel adds ErrModel to a compiler's error that the model causes. rows is the batch.
func blameModel(err error, rows int) error {
	var sum *compile.SumLossError
	if errors.As(err, &sum) {
		return &SumLossError{Loss: sum.Loss, Sum: sum.Sum, Batch: rows}
	}
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
	c.checkModelObjectives(m, rows)
	c.inGraph("Output", m.Output)
	c.inGraph("Correct", m.Correct)
	c.outputs(m, rows)
	c.metrics(m.Metrics)
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
		if n != nil && (ir.IsControls(n.Name()) || n.Name() == ir.IndexField) {
			c.addf("an input may not be called %q: the trainer has a field of that name", n.Name())
		}
	}
	// Rows of the output are yielded one by one, and elements of Correct are averaged.
	if n := m.Output; n != nil && n.Shape().TotalSize()%rows != 0 {
		c.addf("output %q is %v: it must have one row a sample", n.Name(), n.Shape())
	}
	var weight *gorgonia.Node
	if objectives := objectivesOf(m); len(objectives) > 0 {
		weight = objectives[0].Weight
	}
	switch n := m.Correct; {
	case n == nil:
	case weight != nil && n.Shape().TotalSize() != weight.Shape().TotalSize():
		c.addf("correct %q is %v: it must have one element for each weight, %v", n.Name(), n.Shape(), weight.Shape())
	case weight == nil && n.Shape().TotalSize() != rows:
		c.addf("correct %q is %v: it must have one element a sample", n.Name(), n.Shape())
	}
	return errors.Join(c.errs...)
}

// UnlistedError lists nodes of a model's graph that have a value but no role. Whether they are to be
// learned is not known. It wraps ErrModel.
type UnlistedError struct {
	Batch int      // rows that the graph was built for
	Nodes []string // names, sorted by the order in the graph
}

func (e *UnlistedError) Error() string {
	return fmt.Sprintf("model function, batch %d: %q have values and are in none of the model's lists: if they are learned, list them in "+
		"Model.Params; if not, make them with net.Constant of trainer/layers, make them inputs, or name them in Options.Frozen: %v",
		e.Batch, e.Nodes, ErrModel)
}

// Unwrap returns ErrModel.
func (e *UnlistedError) Unwrap() error { return ErrModel }

// checkValues returns an *UnlistedError if nodes of g that could be learned are in none of m's lists.
// Frozen ones need not be listed, nor those that gorgonia.BatchNorm makes: these are learned.
func checkValues(g *gorgonia.ExprGraph, m Model, rows int, opt *Options) error {
	listed := make(map[*gorgonia.Node]bool)
	for _, p := range slices.Concat(m.Params, m.Statistics) {
		listed[p.Node] = true
	}
	e := &UnlistedError{Batch: rows}
	for _, n := range g.AllNodes() {
		float := n.IsVar() && n.Value() != nil && (n.Dtype() == tensor.Float32 || n.Dtype() == tensor.Float64)
		if float && !listed[n] && !slices.Contains(m.Inputs, n) && !opt.frozen(n.Name()) && batchNormInit(g, n) == nil {
			e.Nodes = append(e.Nodes, n.Name())
		}
	}
	if e.Nodes == nil {
		return nil
	}
	return e
}

// outputs checks the nodes of Outputs: they are found by their names.
func (c *modelCheck) outputs(m Model, rows int) {
	if len(m.Outputs) > 0 && m.Output == nil {
		c.addf("model has %d Outputs and no Output: make one of them the Output", len(m.Outputs))
	}
	seen := make(map[string]bool)
	for i, n := range m.Outputs {
		if n == nil {
			c.addf("model has a nil node among its Outputs")
			continue
		}
		c.inGraph("Outputs", n)
		name := n.Name()
		switch {
		case name == "":
			c.addf("node %d of Outputs has no name: name it by gorgonia.WithName", i)
		case n == m.Output:
			c.addf("%q is the Output and listed again in Outputs", name)
		case seen[name]:
			c.addf("two nodes in Outputs are called %q: outputs are identified by their names", name)
		case compile.IsResult(name):
			c.addf("a node in Outputs may not be called %q: the trainer has a result of that name", name)
		}
		seen[name] = true
		if n.Shape().TotalSize() == 0 || n.Shape().TotalSize()%rows != 0 {
			c.addf("output %q is %v: it must have one row a sample", name, n.Shape())
		}
	}
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
