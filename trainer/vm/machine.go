package vm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Machine runs a Gorgonia graph inside one block of device memory. It is a gorgonia.VM and replaces
// a tape machine:
//
//	tape machine                              | Machine
//	m := gorgonia.NewTapeMachine(g,           | m, err := vm.New(g, vm.Options{
//		gorgonia.BindDualValues(weights...))  |     Device: device, Bind: weights})
//
// Let, Set, Read, Value, Grad, NodesToValueGrads, Gorgonia's solvers and gob of values work as with a
// tape machine. The graph may be a subgraph, as SubgraphRoots and ExactSubgraphRoots make it.
//
// Inputs, that is nodes without an op:
//
//   - Each run reads the value of an input anew: a tensor can be bound once and rewritten between
//     runs. It may be a view of any strides.
//   - New moves the value of an input that has a gradient, or that gorgonia.Set assigns, into the
//     arena, where solvers change it and kernels read it. Use the node's Value from then on, not the
//     tensor that you bound before.
//   - Any other value that is bound to an input is copied by each run.
//   - gorgonia.UnbindAll removes the values of nodes. The next run binds those in the arena again.
//     Bind new tensors to the other inputs: Gorgonia has emptied the old ones.
//
// Outputs:
//
//   - A run leaves values at the roots of the graph, at what gorgonia.Read reads, at Options.Keep,
//     and at the gradients of inputs. The value of any other node is computed on demand, by ValueOf.
//   - A value is the same tensor in every run, and the next run overwrites it. Clone what you need
//     for longer.
//   - A value that is not finite is no error, as with a tape machine.
//   - At its end a run executes each gorgonia.Set of the graph: the input gets the value that the
//     other node had in this run. A tape machine ignores them.
//
// Gradients:
//
//   - The gradient rules of package kernels compute them. Of the nodes that gorgonia.Grad adds, the
//     machine only reads which gradients are wanted; it does not execute them.
//   - With Options.Bind they add up over runs until a solver, or the program, sets them to zero.
//     Node.Grad and the value of Node.Deriv are both that sum.
//   - If the graph computes with a gradient node, or gorgonia.Read reads one, its value is the
//     gradient of this run alone.
//   - Several losses may be differentiated in one graph. An input has the gradient of the first of
//     them, as with a tape machine: gorgonia.Grad differentiates a node once. [Grad] returns nodes
//     with the gradients of every loss, and the machine of a loss's SubgraphRoots has the gradients
//     of that loss. Such a machine also gives inputs that belong to other losses a gradient, unless
//     Options.Bind lists others.
//
// Each run is a step of its own:
//
//   - A dropout mask is a function of Options.Seed, the number of the run, the node's name and the
//     element.
//   - Each run moves the running statistics of batch normalization by its own batch, whether
//     gradients add up or not. The statistics are in Gorgonia's batch normalization op, or, if
//     package layers made the layer, in the values of its nodes.
//   - With Options.Eval nothing is dropped or moved.
//
// Methods may be called from any goroutine; RunAll and Close wait for each other. Several machines
// of one graph, say for training and inference, share the values of its nodes, so do not run them
// at the same time.
type Machine struct {
	mu     sync.Mutex
	closed bool

	plan     *report.Plan
	memory   memory
	stream   arena.Stream
	program  kernels.Program
	controls controls
	status   status

	inputs      []input
	outputs     []output
	gradients   []gradient
	reads       []frontend.Read
	assignments []assignment
	ranges      []frontend.Range

	graph *gorgonia.ExprGraph
	nodes map[*gorgonia.Node]bool // of the graph, when the machine was made
	opt   Options
}

var _ gorgonia.VM = (*Machine)(nil)

// New compiles g, plans its memory, and allocates that on the device as one block. Call it after
// gorgonia.Grad, if g is to have gradients, and close the machine after use.
//
// If the plan needs more than Options.Memory, or more than the device has free, New allocates
// nothing and returns a *CapacityError.
func New(g *gorgonia.ExprGraph, opt Options) (m *Machine, err error) {
	defer recoverError("new machine", &err)
	if err := opt.check(g); err != nil {
		return nil, fmt.Errorf("new machine: %w", err)
	}
	frontend.CloneShapes(g)
	m = &Machine{graph: g, opt: opt, nodes: make(map[*gorgonia.Node]bool)}
	for _, n := range g.AllNodes() {
		m.nodes[n] = true
	}
	if err := m.open(frontend.Model{Graph: g, Keep: opt.Keep, Seed: opt.Seed, Accumulate: opt.sums(g)}); err != nil {
		return nil, errors.Join(fmt.Errorf("new machine: %w", err), m.Close())
	}
	m.warn(g, opt.Logger)
	return m, nil
}

// open compiles a model of the machine's graph, and allocates and binds everything on the device.
// After an error, Close releases what it has made so far.
func (m *Machine) open(model frontend.Model) error {
	opt, dev := &m.opt, m.opt.Device
	homes := new(ir.Homes)
	p, links, err := compile.CompileMachine(context.Background(), compile.Config{Model: model, Homes: homes, Device: dev, Eval: opt.Eval})
	if err != nil {
		return blameGradient(err)
	}
	if err := m.memory.place(p, homes); err != nil {
		return err
	}
	m.plan = m.memory.plan(p, homes, dev)
	if err := checkCapacity(m.plan, dev, opt.Memory); err != nil {
		return err
	}
	if err := m.memory.allocate(dev, opt.Memory); err != nil {
		return err
	}
	if m.stream, err = dev.NewStream("compute"); err != nil {
		return fmt.Errorf("compute stream: %w", err)
	}
	if m.program, err = dev.Bind(p.Calls(), m.memory.binding()); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if m.controls, err = openControls(homes, &m.memory); err != nil {
		return err
	}
	if m.status, err = openStatus(homes, &m.memory, p.Indices); err != nil {
		return err
	}
	if err := m.memory.writeConstants(p); err != nil {
		return err
	}
	return m.share(links, dev.Unified(), len(model.Only) == 0)
}

// share makes the values that the graph and the arena share. Where move is set, they include the
// values of inputs that have a gradient, or are assigned.
func (m *Machine) share(links *frontend.Links, unified, move bool) (err error) {
	m.reads, m.ranges = links.Reads, links.Ranges
	if m.gradients, err = openGradients(links.Grads, &m.memory, unified); err != nil {
		return err
	}
	if m.outputs, err = openOutputs(links, &m.memory, unified); err != nil {
		return err
	}
	if m.inputs, err = openInputs(links, &m.memory, unified, move); err != nil {
		return err
	}
	m.assignments = assignmentsOf(links.Sets, m.inputs)
	return nil
}

// RunAll runs the whole graph once and waits for the end of the run. It needs no Reset before the
// next run. It allocates no memory, except in nodes that the plan marks: fallbacks, and operations
// without a kernel on the device.
//
// If an input has no value, RunAll returns a *ValueError and runs nothing. If an index is outside
// its table, it returns an *IndexError, if an integer is divided by 0 a *DivisionError, and the results
// of this run are not valid. After Close the error wraps arena.ErrClosed.
func (m *Machine) RunAll() (err error) {
	defer recoverError("run", &err)
	if m == nil {
		return fmt.Errorf("run: %w", errNotMade)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("run: the machine is %w", arena.ErrClosed)
	case m.program == nil:
		return fmt.Errorf("run: %w", errNotMade)
	}
	if err := m.run(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := m.publish(); err != nil {
		return fmt.Errorf("after the run: %w", err)
	}
	return nil
}

// run copies the graph's values to the arena and runs the program on them.
func (m *Machine) run() error {
	for _, r := range m.ranges {
		if r.Changed() {
			return fmt.Errorf("node %q: gorgonia.UnsafeLet has changed its range, which is compiled into the program: "+
				"make a new machine, or select rows with gorgonia.ByIndices: %w", r.Node.Name(), ErrModel)
		}
	}
	if err := loadInputs(m.inputs); err != nil {
		return err
	}
	for i := range m.gradients {
		if err := m.gradients[i].loadSum(); err != nil {
			return err
		}
	}
	if err := m.controls.writeNext(); err != nil {
		return err
	}
	if err := m.program.Launch(m.stream); err != nil {
		return err
	}
	if err := m.stream.Sync(); err != nil {
		return err
	}
	return m.status.check()
}

// publish gives the graph the results of a run.
func (m *Machine) publish() error {
	for i := range m.outputs {
		if err := m.outputs[i].publish(); err != nil {
			return err
		}
	}
	for i := range m.gradients {
		if err := m.gradients[i].publish(); err != nil {
			return err
		}
	}
	if err := copyReads(m.reads, m.outputs); err != nil {
		return err
	}
	return m.assign()
}

// Reset does nothing, since each RunAll starts anew. It is a method of gorgonia.VM.
func (m *Machine) Reset() {}

// Plan returns the memory plan of the arena. It returns nil for a machine that New did not make.
func (m *Machine) Plan() *report.Plan {
	if m == nil {
		return nil
	}
	return m.plan
}

// Stats returns the bytes of the arena, all zero after Close.
func (m *Machine) Stats() arena.Stats {
	if m == nil || m.memory.arena == nil {
		return arena.Stats{}
	}
	return m.memory.arena.Stats()
}

// Close releases what New made, but not the device. Nodes keep their values and gradients: the same
// tensors, with their elements in Go memory. It is safe to call twice.
func (m *Machine) Close() (err error) {
	defer recoverError("close", &err)
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	var errs []error
	for i := range m.inputs {
		errs = append(errs, m.inputs[i].close())
		m.inputs[i].drop()
	}
	for i := range m.outputs {
		errs = append(errs, m.outputs[i].close())
		m.outputs[i].drop()
	}
	for i := range m.gradients {
		errs = append(errs, m.gradients[i].close())
		m.gradients[i].drop()
	}
	if m.program != nil {
		errs = append(errs, m.program.Close())
	}
	if m.stream != nil {
		errs = append(errs, m.stream.Close())
	}
	if m.memory.arena != nil {
		errs = append(errs, m.memory.arena.Close())
	}
	return errors.Join(errs...)
}
