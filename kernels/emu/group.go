package emu

import (
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
)

// pendingSums are an AllReduce of a program between its two calls, like those of a device with an
// engine of its own for them: AllReduce copies the tensors to host memory and starts their sums, and
// Await copies the sums back. The program's other calls run meanwhile.
//
//	calls   │ all_reduce ─ b ─ c ─ await ─ …
//	group   │       └── sums ────────┘
type pendingSums struct {
	operations []group.Operation // by operand; nil: nothing to sum
	memory     [][]byte          // of the operands
	first      int               // the call of the AllReduce
	bytes      int64
	begin      time.Duration // of a timed launch
}

// bindSums prepares the sums of all calls of groups that have other ranks, and returns all errors.
func (p *program) bindSums() (errs []error) {
	for i := range p.calls {
		b := &p.calls[i]
		a, ok := b.Attrs.(kernels.AllReduceAttrs)
		if !ok || b.Op != kernels.AllReduce || a.Group == nil || a.Group.Size() == 1 {
			continue
		}
		s := &pendingSums{first: i}
		for _, out := range b.out {
			data := make([]byte, out.hi-out.lo)
			op, err := a.Prepare(data)
			if err != nil {
				errs = append(errs, err)
			}
			s.operations, s.memory, s.bytes = append(s.operations, op), append(s.memory, data), s.bytes+int64(len(data))
		}
		if p.sums == nil {
			p.sums = make(map[string]*pendingSums)
		}
		p.sums[a.Label] = s
	}
	return errs
}

// closeSums releases the sums.
func (p *program) closeSums() error {
	var errs []error
	for _, s := range p.sums {
		for _, op := range s.operations {
			if op != nil {
				errs = append(errs, op.Close())
			}
		}
	}
	p.sums = nil
	return errors.Join(errs...)
}

// runCall runs call i: by its reference, unless it begins or ends sums over the ranks of a group.
func (p *program) runCall(s *stream, i int, t timer) error {
	b := &p.calls[i]
	if a, ok := b.Attrs.(kernels.AllReduceAttrs); ok {
		if sums := p.sums[a.Label]; sums != nil && b.Op == kernels.AllReduce {
			return sums.start(p.d, b, t)
		} else if sums != nil {
			return sums.wait(p.d, b, t)
		}
	}
	return b.run(s)
}

// start copies the tensors of b and starts their sums.
func (s *pendingSums) start(d *Device, b *bound, t timer) (err error) {
	for k := range s.memory {
		d.transfer(s.memory[k], b.in[k].bytes())
	}
	s.begin = t.now()
	for _, op := range s.operations {
		if op != nil {
			err = errors.Join(err, op.Start())
		}
	}
	return err
}

// wait waits for the sums and copies them to the tensors of b.
func (s *pendingSums) wait(d *Device, b *bound, t timer) (err error) {
	end := s.begin
	for k, op := range s.operations {
		if op == nil {
			continue
		}
		if e := op.Wait(); e != nil {
			err = errors.Join(err, e)
			continue
		}
		if t.timeline != nil {
			end = max(end, t.timeline.Completed(op))
		}
		d.transfer(b.out[k].bytes(), s.memory[k])
	}
	if err == nil && t.timeline != nil {
		w := t.work
		w.Track, w.Call, w.Bytes, w.Begin, w.End = kernels.GroupTrack, s.first, s.bytes, s.begin, end
		t.timeline.Add(w)
	}
	return err
}
