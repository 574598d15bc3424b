package vm

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// assignment is a gorgonia.Set: after each run, a node gets the value of an output.
type assignment struct {
	to     *gorgonia.Node
	output int // index in Machine.outputs
	input  int // index of to in Machine.inputs; -1: the program does not read to
}

// assignmentsOf returns the assignments of a graph.
func assignmentsOf(sets []frontend.Set, inputs []input) []assignment {
	as := make([]assignment, len(sets))
	for i, s := range sets {
		as[i] = assignment{to: s.To, output: s.Output,
			input: slices.IndexFunc(inputs, func(in input) bool { return in.node == s.To })}
	}
	return as
}

// assign executes the assignments, in the order of the graph. All of them read results of the run,
// so that two nodes can be exchanged.
func (m *Machine) assign() error {
	for _, a := range m.assignments {
		out := &m.outputs[a.output]
		var err error
		if a.input < 0 {
			err = bindCopy(a.to, out.current())
		} else {
			in := &m.inputs[a.input]
			copy(in.bytes, out.bytes)
			err = in.set()
		}
		if err != nil {
			return fmt.Errorf("gorgonia.Set of %q: %w", a.to.Name(), err)
		}
	}
	return nil
}

// bindCopy gives n a copy of v as its value.
func bindCopy(n *gorgonia.Node, v gorgonia.Value) error {
	c, err := gorgonia.CloneValue(v)
	if err != nil {
		return err
	}
	return gorgonia.UnsafeLet(n, frontend.Unpooled(c))
}

// Let binds a value to an input of the graph, as gorgonia.Let does. It returns an error that wraps
// ErrData if the node is computed or belongs to another graph, or if the value does not fit.
func (m *Machine) Let(n *gorgonia.Node, value any) (err error) {
	defer recoverError("let", &err)
	if m == nil {
		return fmt.Errorf("let: %w", errNotMade)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(n); err != nil {
		return fmt.Errorf("let: %w", err)
	}
	if err := gorgonia.Let(n, value); err != nil {
		return fmt.Errorf("let %q: %w: %w", n.Name(), err, ErrData)
	}
	return nil
}

// Set copies the value of node b to input a, now. The value is that of [Machine.ValueOf]: after a
// run, set a weight to a node that computes its update. gorgonia.Set, a statement of the graph, does
// so after every run.
func (m *Machine) Set(a, b *gorgonia.Node) (err error) {
	defer recoverError("set", &err)
	if m == nil {
		return fmt.Errorf("set: %w", errNotMade)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(a, b); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	if err := m.set(a, b); err != nil {
		return fmt.Errorf("set %q to %q: %w", a.Name(), b.Name(), err)
	}
	return nil
}

// set copies the value of b to a.
func (m *Machine) set(a, b *gorgonia.Node) error {
	if a.Op() != nil {
		return fmt.Errorf("%q is computed, and only inputs can be set: %w", a.Name(), ErrData)
	}
	v, err := m.valueOf(b)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.inputs, func(in input) bool { return in.node == a })
	if i < 0 {
		return bindCopy(a, v)
	}
	in := &m.inputs[i]
	if !slices.Equal(a.Shape(), b.Shape()) {
		return fmt.Errorf("shapes %v and %v differ: %w", a.Shape(), b.Shape(), ErrData)
	}
	if err := in.link.load(v); err != nil {
		return err
	}
	return in.set()
}

// ValueOf returns the value of a node of the graph, in a tensor of its own that no run changes. For
// an input, for the nodes that have a value after each run (see [Machine]), and for nodes of
// Options.Keep it is that value. Any other node is computed now, from the present values of the
// inputs and with the dropout masks of the last run; nothing else happens: no gradient is added, no
// input is assigned, no running statistic is moved. Call it before a solver changes the weights.
//
// To compute a node, ValueOf compiles a program and allocates its memory on the device until it
// returns: list a node that every run needs in Options.Keep. Options.Memory limits the bytes of both
// together.
func (m *Machine) ValueOf(n *gorgonia.Node) (v gorgonia.Value, err error) {
	defer recoverError("value", &err)
	if m == nil {
		return nil, fmt.Errorf("value: %w", errNotMade)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(n); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	if v, err = m.valueOf(n); err == nil {
		v, err = gorgonia.CloneValue(v)
	}
	if err != nil {
		return nil, fmt.Errorf("value of %q: %w", n.Name(), err)
	}
	return frontend.Unpooled(v), nil
}

// check returns an error unless the machine is open and the nodes are nodes of its graph.
func (m *Machine) check(nodes ...*gorgonia.Node) error {
	switch {
	case m.closed:
		return fmt.Errorf("the machine is %w", arena.ErrClosed)
	case m.program == nil:
		return errNotMade
	}
	for _, n := range nodes {
		if n == nil || !m.nodes[n] {
			return fmt.Errorf("%v is not a node of the machine's graph, as it was when the machine was made: %w", n, ErrData)
		}
	}
	return nil
}

// valueOf returns the value of n: one that exists, or a computed one.
func (m *Machine) valueOf(n *gorgonia.Node) (gorgonia.Value, error) {
	for i := range m.outputs {
		if out := &m.outputs[i]; out.node == n && frontend.Computed(n) && m.controls.runs > 0 {
			return out.current(), nil
		}
	}
	if !frontend.Computed(n) {
		if v := n.Value(); !layout.IsEmpty(v) {
			return v, nil
		}
		return nil, &ValueError{Nodes: []string{n.Name()}}
	}
	if n.Type() == nil {
		return nil, fmt.Errorf("a statement has no value: %w", ErrData)
	}
	return m.compute(n)
}

// compute returns the value of a computed node. It runs a program of that node alone.
func (m *Machine) compute(n *gorgonia.Node) (v gorgonia.Value, err error) {
	one := &Machine{graph: m.graph, opt: m.opt}
	if one.opt.Memory > 0 {
		if one.opt.Memory -= m.plan.Total; one.opt.Memory <= 0 {
			one.opt.Memory = 1
		}
	}
	defer func() {
		if e := one.Close(); err == nil {
			err = e
		}
	}()
	if err := one.open(frontend.Model{Graph: m.graph, Only: gorgonia.Nodes{n}, Seed: m.opt.Seed}); err != nil {
		return nil, err
	}
	one.controls.runs = max(m.controls.runs-1, 0) // the masks of the last run
	if err := one.run(); err != nil {
		return nil, err
	}
	out := &one.outputs[0]
	if err := out.download(); err != nil {
		return nil, err
	}
	return gorgonia.CloneValue(out.value)
}
