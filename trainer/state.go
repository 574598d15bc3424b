package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// The state of a trainer is all that its next steps depend on: tensors on the device or offloaded,
// and the numbers of Info. A capture copies the tensors to a part of memory that is planned for it,
// between two steps, on the compute stream:
//
//	compute stream   step 5 │ copy state │ step 6 │ step 7 │ …
//	other goroutine                      │ reads the copy … Release │
//
// The copy is in pinned host memory, or in a region of the arena where the memory is unified.

// stateRegions are the regions of the state, in the order of its tensors. Gradients are part of it
// only within a window of Options.Accumulate, and come last.
var stateRegions = [...]arena.Region{ir.Parameters, ir.HostParameters, ir.Statistics, ir.State, ir.HostState,
	ir.Averages, ir.HostAverages, ir.Gradients}

// stateTensor is a tensor of the state.
type stateTensor struct {
	NamedSpec
	home     ir.Part
	offset   int64 // of its bytes in the copy
	constant bool  // it is a constant of the graph
	ranks    int   // that have a part of it, at home; 0: it is whole there. NamedSpec is of the whole
	adds     bool  // each rank has a summand of it: a gradient in a window
}

// bytes returns the size of the tensor in the copy: parts of all ranks, the last of which may end with
// padding.
func (x *stateTensor) bytes() int64 { return int64(max(1, x.ranks)) * x.home.Spec.Bytes() }

// stateTensors returns the tensors of the state in their order, the number of those without gradients,
// and the bytes of their copy. Names are unique: an average is called "hidden/w/average", the sum of gradients of a
// window "hidden/w/grad", and states of optimizers have their names in the plan, as "hidden/w/m".
func (p *planned) stateTensors() (all []stateTensor, withoutGradients int, bytes int64) {
	names := make(map[string]bool)
	for _, r := range stateRegions {
		if r == ir.Gradients {
			withoutGradients = len(all)
		}
		if r == ir.Gradients && p.opt.Accumulate <= 1 {
			continue
		}
		for i, home := range p.homes.Parts(r) {
			name := home.Name
			switch r {
			case ir.Averages, ir.HostAverages:
				name += averageSuffix
			case ir.Gradients:
				name += compile.GradSuffix
			}
			for base, n := name, 2; names[name]; n++ {
				name = fmt.Sprintf("%s#%d", base, n)
			}
			names[name] = true
			constant := (r == ir.Parameters || r == ir.HostParameters) && p.initial[r][i].constant != nil
			x := stateTensor{NamedSpec: NamedSpec{name, home.Spec}, home: home, offset: bytes, constant: constant}
			p.share(&x)
			all = append(all, x)
			bytes += arena.Round(x.bytes())
		}
	}
	return all, withoutGradients, bytes
}

// averageSuffix ends the name of an average in the state.
const averageSuffix = "/average"

// unified reports whether the memory of the device is known to be the host's.
func (p *planned) unified() bool { return p.opt.Device != nil && p.opt.Device.Unified() }

// layOutState computes the size of the copy of a capture, and adds its region where the memory is
// unified.
func (p *planned) layOutState(l *arena.Layout) {
	if p.opt.Checkpoint {
		_, _, p.captureBytes = p.stateTensors()
	}
	if n := p.captureBytes; n > 0 && p.unified() {
		p.captured = l.Region("captured state")
		layout.AddParts(l, p.captured, nil, "")
		l.Reserve(p.captured, n)
	}
}

// stateSpan returns the place of size bytes at an offset of the copy.
func (m *memory) stateSpan(offset, size int64) arena.Span {
	if m.unified {
		return m.span(arena.Ref{Region: m.plan.captured, Offset: offset, Size: size})
	}
	return arena.Span{Memory: m.pinned, Offset: m.plan.extraPinnedBytes() - m.plan.captureBytes + offset, Size: size}
}

// captures is what a trainer has for captures of its state.
type captures struct {
	tensors          []stateTensor // of the state
	withoutGradients int           // number of these without gradients
	copied           arena.Event   // after the last copy; nil unless Options.Checkpoint is set
	fingerprint      string        // of the plan
	settings         []Setting
}

// open prepares captures if they are planned.
func (c *captures) open(m *memory) (err error) {
	c.tensors, c.withoutGradients, _ = m.plan.stateTensors()
	c.fingerprint, c.settings = m.plan.fingerprint(), m.plan.settings()
	if m.plan.opt.Checkpoint {
		c.copied, err = m.device.NewEvent()
	}
	return err
}

// close releases the event.
func (c *captures) close() error {
	if c.copied == nil {
		return nil
	}
	return c.copied.Close()
}

// State is the complete state of a trainer after one of its steps. It is a copy: training goes on
// while it is read. A trainer has memory for one State, until Release. Its methods may be called
// from any goroutine.
type State struct {
	trainer  *Trainer
	info     Info
	tensors  []stateTensor
	released atomic.Bool
}

// Capture copies the complete state as of one finished step: parameters, constants, running
// statistics, optimizer state, averages, the gradients of an unfinished window of
// Options.Accumulate, and the numbers of Info. Restore goes on from it, bit for bit. It needs
// Options.Checkpoint, which plans memory for the copy; nothing is allocated on the device.
//
// Capture may be called between passes, in the body of Steps, and from another goroutine at any
// time. While Fit, Steps or Evaluate runs, it waits for the end of the step that runs, and the next
// step waits for the copy. In a callback of a pass, such as Options.Progress, it returns ErrBusy:
// another step may have begun there. It also returns ErrBusy until the State before is released. A
// capture in the body of Steps goes on with the next step of the epoch; one after a loop that was
// left, with the next epoch. Cancelling ctx ends the wait.
//
// With Options.Shard, or with Options.Accumulate above 1, each rank of a group has its part of the state:
// all ranks call Capture after the same step, in the body of Steps or between passes, and each gets the
// state of all. Elsewhere it returns ErrBusy.
func (t *Trainer) Capture(ctx context.Context) (*State, error) {
	s, err := t.captureState(ctx)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	return s, nil
}

// captureState is Capture, with errors that do not say so.
func (t *Trainer) captureState(ctx context.Context) (*State, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if t.use().isClosed() {
		return nil, errClosed
	}
	if !t.plan.opt.Checkpoint {
		return nil, fmt.Errorf("no memory is planned for a copy of the state: set Options.Checkpoint: %w", ErrOption)
	}
	if err := t.checkGather(); err != nil {
		return nil, err
	}
	s := &State{trainer: t}
	held := t.usage.hold(s)
	if err := t.agreeToGather(ctx, held); err != nil {
		if held == nil {
			s.Release()
		}
		return nil, err
	}
	err := t.snapshot(ctx, true, func(running *epochPass) error { return t.enqueueCapture(s, running) })
	if err == nil {
		// The pass goes on with its next step, which is after the copy.
		err = t.captures.copied.Sync()
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// enqueueCapture records the numbers of the state in s, and enqueues the copies of its tensors.
// running is the pass that runs, or nil. No step is in flight.
func (t *Trainer) enqueueCapture(s *State, running *epochPass) error {
	if running == nil || running.mode != compile.Train {
		running = t.usage.pausedPass()
	}
	info, err := t.stateInfo(running)
	if err != nil {
		return err
	}
	s.info, s.tensors = info, t.captures.tensors
	windowOpen := info.withinWindow(max(1, t.plan.opt.Accumulate))
	if !windowOpen {
		s.tensors = s.tensors[:t.captures.withoutGradients]
	}
	if err := t.enqueueCopies(s.tensors); err != nil {
		return err
	}
	if t.plan.opt.gathers() {
		return t.gatherState(s.tensors)
	}
	return nil
}

// enqueueCopies copies tensors, and their homes' regions where those are whole.
func (t *Trainer) enqueueCopies(tensors []stateTensor) error {
	m, compute := t.memory, t.streams.compute
	for len(tensors) > 0 {
		// Homes of a region, each from a multiple of arena.Align on, lie in the copy as they lie there.
		x, n := &tensors[0], 1
		at, size := x.offset+int64(x.rank(&t.plan.opt))*x.home.Spec.Bytes(), x.home.Ref.Size
		for x.ranks == 0 && n < len(tensors) && tensors[n].ranks == 0 && tensors[n].home.Ref.Region == x.home.Ref.Region {
			size = tensors[n].home.Ref.Offset + tensors[n].home.Ref.Size - x.home.Ref.Offset
			n++
		}
		if err := compute.Copy(m.stateSpan(at, size), m.place(arena.Ref{Region: x.home.Ref.Region, Offset: x.home.Ref.Offset, Size: size})); err != nil {
			return err
		}
		tensors = tensors[n:]
	}
	return compute.Record(t.captures.copied)
}

// Info returns the numbers of the state. The caller must not change what it refers to.
func (s *State) Info() Info { return s.info }

// Tensors returns the names, types and shapes of the tensors, in their order. Parameters, running
// statistics and states of optimizers have their names in the plan. The average of "hidden/w" is
// called "hidden/w/average", and its sum of gradients in an unfinished window "hidden/w/grad".
func (s *State) Tensors() []NamedSpec {
	all := make([]NamedSpec, len(s.tensors))
	for i, t := range s.tensors {
		all[i] = t.NamedSpec
	}
	return all
}

// Bytes returns the bytes of tensor i, row-major, in the byte order of this machine. It is a view
// of the trainer's memory: the caller must not write to it, and must not use it after Release.
// After Release it returns nil.
func (s *State) Bytes(i int) []byte {
	if s.released.Load() {
		return nil
	}
	x := &s.tensors[i]
	span := s.trainer.memory.stateSpan(x.offset, x.Spec.Bytes())
	s.trainer.memory.willRead(span)
	return bytesOf(span)
}

// Source returns the state as a source of Restore, of this trainer or another one, until Release.
func (s *State) Source() StateSource { return stateSource{s} }

// Release gives the memory of the state back to the trainer. A second call does nothing.
func (s *State) Release() {
	if s != nil && !s.released.Swap(true) {
		s.trainer.usage.drop(s)
	}
}

// stateSource is a State as a StateSource.
type stateSource struct{ *State }

// Info implements StateSource.
func (s stateSource) Info() (Info, error) {
	if s.released.Load() {
		return Info{}, errReleased
	}
	return s.info, nil
}

// errReleased is the error of a State after Release.
var errReleased = fmt.Errorf("the state was released: %w", ErrClosed)

// Read implements StateSource.
func (s stateSource) Read(name string, dst []byte) error {
	i := slices.IndexFunc(s.tensors, func(t stateTensor) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("the state has no tensor %q: %w", name, ErrOption)
	}
	b := s.Bytes(i)
	switch {
	case b == nil:
		return errReleased
	case len(b) != len(dst):
		return fmt.Errorf("tensor %q has %d bytes, dst %d: %w", name, len(b), len(dst), ErrOption)
	}
	copy(dst, b)
	return nil
}

// hold reserves the memory for the copy of the state.
func (u *usage) hold(s *State) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !u.made || u.closed:
		return errClosed
	case u.state != nil:
		return fmt.Errorf("the trainer is %w: it has memory for one copy of its state: call State.Release first", ErrBusy)
	}
	u.state = s
	return nil
}

// drop ends what hold has reserved.
func (u *usage) drop(s *State) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state == s {
		u.state = nil
	}
}

// holds reports whether s is the state that has the memory.
func (u *usage) holds(s *State) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state == s
}

// errInCallback is the error of a capture in a callback of a pass.
var errInCallback = errors.New("called in a callback of the pass, where the next step may have begun: call it in the body of Steps")
