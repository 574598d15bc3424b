//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
	"gorgonia.org/cu"
)

// program is a list of prepared calls: parts of steps, with functions of the host between them.
type program struct {
	dev       *Device
	parts     []part
	names     []string // of calls, for errors
	used      []*loaded
	side      sideStream
	events    int         // of side
	transfers bool        // there are
	meeting   *meeting    // of the ranks that take part in its collectives, nil: there are none
	timed     *timedParts // nil: no launch was timed
	closed    atomic.Bool
}

// part is steps that are launched together, optionally followed by a function of the host.
type part struct {
	batch *batch
	steps []step // of the batch
	host  *hostCall
}

// String names the calls of the program, for errors about work that was enqueued before.
func (p *program) String() string {
	switch len(p.names) {
	case 0:
		return "a program without calls"
	case 1:
		return p.names[0]
	}
	return fmt.Sprintf("%s to %s: set Options.Sync to find out which", p.names[0], p.names[len(p.names)-1])
}

// Bind prepares calls. It reports all mistakes at once.
func (d *Device) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	if err := d.enter("bind"); err != nil {
		return nil, err
	}
	defer d.leave()
	m, ok := at.Memory.(*memory)
	if !ok || m.dev != d {
		return nil, fmt.Errorf("cuda: bind: memory of another device")
	}
	if m.gone() {
		return nil, fmt.Errorf("cuda: bind: memory of %d bytes: %w", m.size, arena.ErrFreed)
	}
	where := places{mem: m.at, check: devcheck.Of(at)}
	for r, s := range at.Pinned {
		in, err := d.span(s)
		if err == nil && in.host == nil {
			err = fmt.Errorf("memory of the device: %w", arena.ErrInvalid)
		}
		if err != nil {
			return nil, fmt.Errorf("cuda: bind: pinned region %d: %w", r, err)
		}
		if where.pinned == nil {
			where.pinned = make(map[arena.Region]address)
		}
		where.pinned[r] = in.at + address(s.Offset)
	}
	schedule, events := at.StreamSchedule(calls)
	where.sums = &sums{events: events}
	steps, err := bindAll(&d.props, calls, where, schedule)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = fmt.Sprintf("call %d %s %q", i, c.Op.Name, c.Label)
	}
	after, err := d.copies(at.After, len(names))
	if err != nil {
		return nil, fmt.Errorf("cuda: bind: %w", err)
	}
	p, err := d.bind(append(steps, after...), append(names, "the copies at the end"), where.sums)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// copies returns the steps of copies, as call number call. Pinned memory has the same addresses on
// the device.
func (d *Device) copies(list []kernels.Copy, call int) (steps []step, err error) {
	for _, c := range list {
		to, e1 := d.span(c.Dst)
		from, e2 := d.span(c.Src)
		switch {
		case e1 != nil || e2 != nil:
			return nil, fmt.Errorf("copy: %w", errors.Join(e1, e2))
		case c.Dst.Size != c.Src.Size:
			return nil, fmt.Errorf("copy of %d bytes to %d", c.Src.Size, c.Dst.Size)
		case c.Dst.Size > 0:
			steps = append(steps, step{kind: stepCopy, call: call, dst: to.at + address(c.Dst.Offset), src: from.at + address(c.Src.Offset), bytes: c.Dst.Size})
		}
	}
	return steps, nil
}

// bind makes a program of steps. names are those of their calls, s is its collectives and the number
// of events between its streams. The context is set.
func (d *Device) bind(steps []step, names []string, s *sums) (*program, error) {
	p := &program{dev: d, names: names, events: s.events}
	d.loads.Lock()
	defer d.loads.Unlock()
	if err := p.build(steps, s); err != nil {
		err, freed := d.note(fmt.Errorf("cuda: bind: %w", err)), p.free()
		if d.first.Load() != nil {
			return nil, err // what was made goes with the context
		}
		return nil, errors.Join(err, freed)
	}
	d.keep(p)
	return p, nil
}

// build cuts steps into parts.
func (p *program) build(steps []step, s *sums) (err error) {
	if p.meeting, err = s.meeting(); err != nil {
		return err
	}
	p.transfers = slices.ContainsFunc(steps, func(s step) bool { return s.stream == onTransfers })
	if err := p.side.open(p.events, p.transfers); err != nil {
		return err
	}
	for len(steps) > 0 {
		n := 0
		for n < len(steps) && steps[n].kind != stepHost {
			n++
		}
		p.parts = append(p.parts, part{steps: steps[:n]})
		made := &p.parts[len(p.parts)-1]
		if err := p.prepare(made); err != nil {
			return err
		}
		if n < len(steps) {
			var err error
			if made.host, err = newHostCall(&steps[n], &p.dev.staging); err != nil {
				return fmt.Errorf("%s: %w", p.names[steps[n].call], err)
			}
			n++
		}
		steps = steps[n:]
	}
	if p.dev.graphs { // they hold all that is needed
		return p.side.close()
	}
	return nil
}

// prepare finds the functions of a part, lays out its arguments, and captures it.
func (p *program) prepare(made *part) error {
	if len(made.steps) == 0 {
		return nil
	}
	functions, err := p.functions(made.steps)
	if err != nil {
		return err
	}
	made.batch = newBatch(made.steps, functions, p.dev.blas, &p.side)
	if !p.dev.graphs {
		return nil
	}
	if at, err := p.dev.captured(made.batch); err != nil {
		return p.blame(made, at, err)
	}
	return nil
}

// functions returns the function of each step that is a kernel. Close unloads their modules.
func (p *program) functions(steps []step) ([]cu.Function, error) {
	functions := make([]cu.Function, len(steps))
	for i, s := range steps {
		if s.kind != stepKernel {
			continue
		}
		f, m, err := p.dev.function(s)
		if m != nil {
			p.used = append(p.used, m)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.names[s.call], err)
		}
		functions[i] = f
	}
	return functions, nil
}

// blame adds the name of a step's call to an error.
func (p *program) blame(made *part, at int, err error) error {
	if at < 0 {
		return fmt.Errorf("%s: %w", p, err)
	}
	s := &made.steps[at]
	if s.kind == stepKernel {
		return fmt.Errorf("%s: kernel %s: %w", p.names[s.call], s.function, err)
	}
	return fmt.Errorf("%s: %w", p.names[s.call], err)
}

// Launch enqueues all calls. If there are collectives by NCCL, it first waits until all ranks are
// about to do so, or the group is broken.
func (p *program) Launch(s arena.Stream) error {
	st, ok := s.(*stream)
	if !ok || st.dev != p.dev {
		return fmt.Errorf("cuda: launch: the stream is not of this device")
	}
	ok, err := st.begin("launch")
	if !ok {
		return err
	}
	defer st.end()
	if p.closed.Load() {
		return fmt.Errorf("cuda: launch of a program: %w", arena.ErrClosed)
	}
	st.last = p
	if st.err = p.meeting.begin(st); st.err != nil {
		return nil
	}
	return p.meeting.end(st, p.enqueueAll(st))
}

// enqueueAll enqueues the parts, up to a function of the host that fails.
func (p *program) enqueueAll(st *stream) (err error) {
	var timed *timedParts // of a stream that is timed
	side := &p.side
	if st.timing != nil {
		if timed, err = p.timedParts(); err != nil {
			return p.dev.note(fmt.Errorf("cuda: launch on stream %q: %w", st.name, err))
		}
		side = &timed.side
	}
	for i := range p.parts {
		made := &p.parts[i]
		if timed == nil {
			err = p.enqueue(made, st)
		} else {
			err = p.runTimed(made, timed.batches[i], side, st)
		}
		if err != nil {
			side.wait()
			return p.dev.note(fmt.Errorf("cuda: launch on stream %q: %w", st.name, err))
		}
		if made.host == nil {
			continue
		}
		if err := p.runHost(made.host, st); err != nil || st.err != nil {
			return err
		}
	}
	return nil
}

func (p *program) enqueue(made *part, st *stream) error {
	switch {
	case made.batch == nil:
		return nil
	case made.batch.exec != nil:
		if err := made.batch.replay(st.handle); err != nil {
			return p.blame(made, -1, err)
		}
		return nil
	}
	if at, err := made.batch.run(st.handle, p.dev.sync); err != nil {
		return p.blame(made, at, err)
	}
	return nil
}

// Close releases what Bind made, after the device has finished with it. Safe to call twice.
func (p *program) Close() error {
	if !p.closed.CompareAndSwap(false, true) {
		return nil
	}
	return errors.Join(p.dev.discard("close of a program", p), p.meeting.close())
}

// release frees a program of a live device, or of one that is being closed. A graph in flight may
// be destroyed: the driver keeps it until it is done. Pinned memory of host functions is in use
// only while Launch runs.
func (p *program) release() error {
	p.closed.Store(true)
	p.dev.loads.Lock()
	defer p.dev.loads.Unlock()
	return p.free()
}

// free is release with loads held.
func (p *program) free() error {
	var errs []error
	for i := range p.parts {
		if b := p.parts[i].batch; b != nil {
			errs = append(errs, b.release())
		}
		if h := p.parts[i].host; h != nil {
			errs = append(errs, h.free())
		}
	}
	errs = append(errs, p.meeting.close())
	for _, m := range p.used {
		errs = append(errs, p.dev.unload(m))
	}
	if p.timed != nil && p.dev.graphs { // else they are those of the parts
		errs = append(errs, p.timed.release())
	}
	p.parts, p.used, p.timed = nil, nil, nil
	return errors.Join(append(errs, p.side.close())...)
}
