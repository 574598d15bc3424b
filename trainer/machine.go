package trainer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Machine runs a Gorgonia graph inside one block of device memory. It is a gorgonia.VM, for graphs that already exist:
//
//	tape machine                                        | Machine
//	vm := gorgonia.NewTapeMachine(g,                    | vm, err := trainer.NewMachine(g, trainer.MachineOptions{
//		gorgonia.BindDualValues(weights...))            |     Device: device, Bind: weights})
//
// Let, Read, Value, Grad, NodesToValueGrads, Gorgonia's solvers and gob of values work as with a tape machine:
//
//   - The value of an input, a node without an op, is read anew by each run, so that a tensor can be given once and rewritten
//     between runs. It may be a view of any strides.
//   - An input that has a gradient when the machine is made, and a value, gets a tensor in the arena with that value: solvers change it
//     where the kernels read it. Use the node's Value from then on, not the tensor that was given. Any other value that is
//     bound to it later is copied by each run.
//   - After a run there are values for the roots of the graph, what gorgonia.Read reads, and MachineOptions.Keep, and the gradients of
//     inputs. Each is the same tensor in every run, overwritten by the next: clone what is to last. Other nodes get no value.
//   - Gradients are those of our operations; Gorgonia's own gradient nodes are not executed. With Bind they add up over runs until a
//     solver, or the program, sets them to zero, and Deriv's value is that sum too. A gradient node that the program computes with, or reads, stands for this run's gradient.
//   - Each run is a step of its own for dropout, whose masks are a function of MachineOptions.Seed, the number of the run, the node's name
//     and the element. Batch normalization moves its running statistics by each run's own batch, also where gradients add up over
//     several, and does so where the program sees them: in Gorgonia's op, or in the values of the nodes that package layers made. With
//     Eval nothing is dropped or moved.
//   - Values that are not finite are not errors. What Gorgonia panics with is one.
//   - UnbindAll takes values of inputs away, as it does from a tape machine; those that lie in the arena come back with the next run.
//     Gorgonia empties the tensors that were bound: give an input a new one, not the one that it had.
//
// Several machines may be made of one graph, for training and inference say; they find each other's values. Those of one graph must not
// run at the same time, since the values of its nodes are common to them.
type Machine struct {
	opt     MachineOptions
	plan    *report.Plan
	arena   *arena.Arena
	stream  arena.Stream
	program kernels.Program
	inputs  []input
	outputs []link
	bound   []bool // by output: the node shows it
	grads   []gradient
	reads   []compile.Read

	mu       sync.Mutex
	closed   bool
	runs     int64        // begun
	controls arena.Handle // of the vector that says which run it is, where the program reads it
	guard    arena.Handle // of the status word, where the program has one
	status   []byte       // what it says; nil: there is none
	indices  []ir.Indices // what it is about
	said     []byte       // the vector; nil: nobody reads it
}

var _ gorgonia.VM = (*Machine)(nil)

// MachineOptions of a Machine. Device is required.
type MachineOptions struct {
	Device kernels.Device // where to run; the machine does not close it
	Memory int64          // bytes of device memory that may be used; 0: what the plan needs
	Bind   gorgonia.Nodes // inputs whose gradients add up over runs until they are set to zero, as with gorgonia.BindDualValues
	Keep   gorgonia.Nodes // nodes other than roots whose values exist after a run
	Eval   bool           // run as gorgonia.EvalMode does: dropout drops nothing, batch normalization uses its running statistics
	Seed   uint64         // of dropout
}

// errNotMade is what a nil Machine and the zero Machine answer.
var errNotMade = fmt.Errorf("the machine was not made: use NewMachine: %w", ErrOption)

// ValueError names the inputs of a graph that had no value when it was to run. It wraps ErrData.
type ValueError struct{ Nodes []string }

func (e *ValueError) Error() string {
	return fmt.Sprintf("inputs %q have no value: gorgonia.Let them have one before the run", e.Nodes)
}

// Unwrap returns ErrData.
func (e *ValueError) Unwrap() error { return ErrData }

// input is an input of the graph.
type input struct {
	link
	moved bool // when last looked at, the node's value lay in the arena
}

// NewMachine compiles g once, plans its memory, and allocates it on the device in one piece. Where the plan needs more than opt.Memory or
// the device has, it returns a *CapacityError, before anything is allocated.
func NewMachine(g *gorgonia.ExprGraph, opt MachineOptions) (m *Machine, err error) {
	defer caught("new machine", &err)
	if err := opt.check(g); err != nil {
		return nil, fmt.Errorf("new machine: %w", err)
	}
	cfg := compile.Config{Homes: new(ir.Homes), Device: opt.Device, Keep: opt.Keep, Eval: opt.Eval, Seed: opt.Seed, Sum: make(map[*gorgonia.Node]bool)}
	for _, n := range opt.Bind {
		cfg.Sum[n] = true
	}
	compile.Settle(g)
	p, links, err := compile.CompileMachine(context.Background(), g, cfg)
	if err != nil {
		return nil, fmt.Errorf("new machine: %w", err)
	}
	m = &Machine{opt: opt, reads: links.Reads}
	if err := m.open(p, links, cfg.Homes); err != nil {
		return nil, errors.Join(fmt.Errorf("new machine: %w", err), m.Close())
	}
	return m, nil
}

// check returns every mistake in the options.
func (o *MachineOptions) check(g *gorgonia.ExprGraph) error {
	if g == nil {
		return fmt.Errorf("no graph: %w", ErrOption)
	}
	var errs []error
	if o.Device == nil {
		errs = append(errs, fmt.Errorf("no device: set MachineOptions.Device, for example to cpu.Open(): %w", ErrOption))
	}
	if o.Memory < 0 {
		errs = append(errs, fmt.Errorf("memory %d bytes: must be positive, or 0 for what the plan needs: %w", o.Memory, ErrOption))
	}
	if len(g.AllNodes()) == 0 {
		return errors.Join(append(errs, fmt.Errorf("the graph is empty: build the model before the machine: %w", ErrModel))...)
	}
	for _, n := range o.Bind {
		if n == nil || n.Graph() != g || n.Op() != nil || n.Deriv() == nil {
			errs = append(errs, fmt.Errorf("bind %v: not an input of the graph that gorgonia.Grad was called for: %w", n, ErrOption))
		}
	}
	for _, n := range o.Keep {
		if n == nil || n.Graph() != g {
			errs = append(errs, fmt.Errorf("keep %v: not a node of the graph: %w", n, ErrOption))
		}
	}
	return errors.Join(errs...)
}

// open makes everything on the device. What it made before an error, Close releases.
func (m *Machine) open(p *ir.Program, links *compile.Links, homes *ir.Homes) (err error) {
	var l arena.Layout
	var regions layout.Regions
	for _, r := range []struct {
		id   arena.Region
		name string
	}{{ir.Parameters, "parameters"}, {ir.Gradients, "gradients"}, {ir.Slot, "controls"}, {ir.Guard, "guard"}, {ir.Results, "results"}, {ir.Scratch, "scratch"}} {
		if (r.id == ir.Slot || r.id == ir.Guard) && homes.Bytes(r.id) == 0 {
			continue
		}
		regions[r.id].Region = layout.AddRegion(&l, r.name, homes.Parts(r.id))
	}
	l.Reserve(regions[ir.Scratch].Region, p.Plan.Bytes)
	if err := l.Err(); err != nil {
		return err
	}
	m.plan = &report.Plan{Mode: "machine", Regions: l.Regions(), Total: l.Total(), Programs: []report.Program{layout.Describe(p, m.opt.Device)}}
	layout.AddDeviceMemory(m.plan, m.opt.Device, layout.StagingBytes(m.opt.Device, p))
	if err := m.fits(); err != nil {
		return err
	}
	if m.arena, err = arena.New(m.opt.Device, &l, m.opt.Memory); err != nil {
		return err
	}
	if m.stream, err = m.opt.Device.NewStream("compute"); err != nil {
		return fmt.Errorf("compute stream: %w", err)
	}
	if m.program, err = m.opt.Device.Bind(p.Calls(), kernels.Binding{Memory: m.arena.Memory(), Base: regions.Bases(&l)}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	at := func(ref arena.Ref, name string) (arena.Handle, error) {
		return m.arena.Handle(regions.Ref(ref), name)
	}
	if err := m.talk(p, homes, at); err != nil {
		return err
	}
	for _, c := range p.Constants {
		h, err := at(p.Values[c.Value].Ref, p.Values[c.Value].Name)
		if err == nil {
			err = h.Write(c.Data)
		}
		if err != nil {
			return err
		}
	}
	return m.link(links, at)
}

// talk opens what host and program tell each other: which run it is, and which index was not of a row.
func (m *Machine) talk(p *ir.Program, homes *ir.Homes, at func(arena.Ref, string) (arena.Handle, error)) (err error) {
	if part, ok := homes.Find(ir.Slot, compile.ControlsName); ok {
		m.said = make([]byte, part.Spec.Bytes())
		if m.controls, err = at(part.Ref, part.Name); err != nil {
			return err
		}
	}
	if part, ok := homes.Find(ir.Guard, compile.GuardName); ok {
		m.status, m.indices = make([]byte, part.Spec.Bytes()), p.Indices
		if m.guard, err = at(part.Ref, part.Name); err != nil {
			return err
		}
		if err := m.guard.Write(m.status); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error where the plan is above the limit or what the device has.
func (m *Machine) fits() error {
	have, total, err := layout.Available(m.opt.Device, m.opt.Memory)
	if err != nil || m.plan.Total <= have {
		return err
	}
	return &CapacityError{Need: m.plan.Total, Have: have, Total: total, Plan: m.plan}
}

// RunAll runs the whole graph once and waits for it. Reset is not needed before the next run. It returns a *ValueError, and
// runs nothing, where an input has no value; after Close an error that wraps arena.ErrClosed. It allocates no memory, but for
// nodes that the plan marks as fallbacks.
func (m *Machine) RunAll() (err error) {
	defer caught("run", &err)
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
	if err := m.fetch(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := m.say(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := m.program.Launch(m.stream); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := m.stream.Sync(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := m.look(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := m.show(); err != nil {
		return fmt.Errorf("after the run: %w", err)
	}
	return nil
}

// look returns an error where the status word says that an index was not of a row, and clears it for the next run.
func (m *Machine) look() error {
	if m.status == nil {
		return nil
	}
	if err := m.guard.Read(m.status); err != nil {
		return err
	}
	err := badIndex(m.indices, dataloader.View[int32](m.status), nil)
	if err == nil {
		return nil
	}
	clear(m.status)
	return errors.Join(err, m.guard.Write(m.status))
}

// say tells the program which run it is, where it wants to know.
func (m *Machine) say() error {
	m.runs++
	if m.said == nil {
		return nil
	}
	dataloader.View[float64](m.said)[kernels.ControlStep] = float64(m.runs)
	return m.controls.Write(m.said)
}

// fetch brings what the graph holds to the arena.
func (m *Machine) fetch() error {
	var missing []string
	for i := range m.inputs {
		in := &m.inputs[i]
		v := in.node.Value()
		if layout.IsEmpty(v) && in.moved { // UnbindAll
			if err := gorgonia.UnsafeLet(in.node, in.current()); err != nil {
				return err
			}
			v = in.value
		}
		if layout.IsEmpty(v) {
			missing = append(missing, in.node.Name())
		}
	}
	if missing != nil {
		return &ValueError{Nodes: missing}
	}
	for i := range m.inputs {
		in := &m.inputs[i]
		v := in.node.Value()
		in.moved = in.addr != 0 && in.mine(v)
		if err := in.fetch(v); err != nil {
			return fmt.Errorf("input %q: %w", in.node.Name(), err)
		}
	}
	for i := range m.grads {
		if err := m.grads[i].begin(); err != nil {
			return fmt.Errorf("gradient of %q: %w", m.grads[i].node.Name(), err)
		}
	}
	return nil
}

// show brings results to the graph.
func (m *Machine) show() error {
	for i := range m.outputs {
		o := &m.outputs[i]
		if err := o.refresh(); err != nil {
			return err
		}
		if !m.bound[i] || o.mine(o.node.Value()) {
			continue
		}
		if err := gorgonia.UnsafeLet(o.node, o.current()); err != nil {
			return err
		}
	}
	for i := range m.grads {
		if err := m.grads[i].end(); err != nil {
			return err
		}
	}
	for _, r := range m.reads {
		v := m.outputs[r.Output].current()
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
		*r.Into = compile.Unpooled(c)
	}
	return nil
}

// Reset does nothing: each RunAll begins anew.
func (m *Machine) Reset() {}

// Plan returns what every byte of the arena is for. It is nil for a machine that NewMachine did not make.
func (m *Machine) Plan() *report.Plan {
	if m == nil {
		return nil
	}
	return m.plan
}

// Stats returns the bytes of the arena in use now.
func (m *Machine) Stats() arena.Stats {
	if m == nil || m.arena == nil {
		return arena.Stats{}
	}
	return m.arena.Stats()
}

// Close releases what NewMachine made, but not the device. Values and gradients of nodes keep what they held last: their tensors
// move to Go memory. It is safe to call twice.
func (m *Machine) Close() (err error) {
	defer caught("close", &err)
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
	leave := func(l *link, err error) {
		errs = append(errs, err, l.leave(l.value))
		if v := l.node.Value(); !layout.IsEmpty(v) {
			errs = append(errs, l.leave(v))
		}
	}
	for i := range m.inputs {
		if in := &m.inputs[i]; in.node.Deriv() != nil {
			leave(&in.link, nil)
		}
	}
	for i := range m.outputs {
		leave(&m.outputs[i], nil)
	}
	for i := range m.grads {
		leave(&m.grads[i].link, m.grads[i].leave())
	}
	if m.program != nil {
		errs = append(errs, m.program.Close())
	}
	if m.stream != nil {
		errs = append(errs, m.stream.Close())
	}
	if m.arena != nil {
		errs = append(errs, m.arena.Close())
	}
	return errors.Join(errs...)
}

// caught turns a panic, of Gorgonia's code mostly, into an error.
func caught(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: panic: %v: %w", what, p, ErrModel)
	}
}
