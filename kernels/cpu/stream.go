package cpu

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// stream runs work at once, in the goroutine that enqueues it. After work that fails it runs
// nothing until Sync has returned the error: later work would read values that were never computed.
type stream struct {
	dev  *Device
	name string

	mu     sync.Mutex // held while work runs, so that work of several goroutines does not mix
	closed bool
	err    error
	tl     *kernels.Timeline // nil: nobody times the stream
}

// errExit is the error of a call whose function called runtime.Goexit, as testing's FailNow does.
var errExit = errors.New("ended its goroutine: return an error instead")

// enter locks the stream, unless it or the device is closed.
func (s *stream) enter(what string) error {
	if err := s.dev.usable(what); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("cpu: %s on stream %q: %w", what, s.name, arena.ErrClosed)
	}
	return nil
}

// begin locks the stream for work. ok is false if there is nothing to do: the stream is closed
// (err), or has failed.
func (s *stream) begin(what string) (ok bool, err error) {
	if err := s.enter(what); err != nil {
		return false, err
	}
	if s.err != nil {
		s.mu.Unlock()
		return false, nil
	}
	return true, nil
}

// launch runs the calls of p.
func (s *stream) launch(p *program) error {
	if ok, err := s.begin("launch"); !ok {
		return err
	}
	defer s.mu.Unlock()
	if !retainAll(p.memories) {
		return fmt.Errorf("cpu: launch: the program's memory: %w", arena.ErrFreed)
	}
	defer doneAll(p.memories)
	if s.tl != nil {
		defer p.time(s)()
	}
	p.run(&s.err)
	return nil
}

// Copy copies equally long spans.
func (s *stream) Copy(dst, src arena.Span) error {
	if err := s.dev.usable("copy"); err != nil {
		return err
	}
	to, from, err := s.dev.copyBytes(dst, src)
	if err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	used := memoriesOf(dst, src)
	if !retainAll(used[:]) {
		return fmt.Errorf("cpu: copy: %w", arena.ErrFreed)
	}
	defer doneAll(used[:])
	if ok, err := s.begin("copy"); !ok {
		return err
	}
	begin := s.begun()
	copy(to, from)
	s.add(begin, len(to))
	s.mu.Unlock()
	return nil
}

// memoriesOf returns the blocks of the spans of a copy, which copyBytes has accepted.
func memoriesOf(dst, src arena.Span) [2]*memory {
	return [2]*memory{dst.Memory.(*memory), src.Memory.(*memory)}
}

// copyBytes returns the bytes of a copy between spans.
func (d *Device) copyBytes(dst, src arena.Span) (to, from []byte, err error) {
	if to, err = d.span(dst); err != nil {
		return nil, nil, fmt.Errorf("copy to: %w", err)
	}
	if from, err = d.span(src); err != nil {
		return nil, nil, fmt.Errorf("copy from: %w", err)
	}
	if len(to) != len(from) {
		return nil, nil, fmt.Errorf("copy of %d bytes to %d", len(from), len(to))
	}
	return to, from, nil
}

// Fill sets every byte of dst.
func (s *stream) Fill(dst arena.Span, b byte) error {
	if err := s.dev.usable("fill"); err != nil {
		return err
	}
	to, err := s.dev.span(dst)
	if err != nil {
		return fmt.Errorf("cpu: fill: %w", err)
	}
	used := dst.Memory.(*memory)
	if !used.retain() {
		return fmt.Errorf("cpu: fill: %w", arena.ErrFreed)
	}
	defer used.done()
	if ok, err := s.begin("fill"); !ok {
		return err
	}
	begin := s.begun()
	for i := range to {
		to[i] = b
	}
	s.add(begin, len(to))
	s.mu.Unlock()
	return nil
}

// span returns the bytes of a span of this device's memory.
func (d *Device) span(p arena.Span) ([]byte, error) {
	m, ok := p.Memory.(*memory)
	if !ok || m.dev != d {
		return nil, fmt.Errorf("memory of another device")
	}
	b := m.Bytes()
	if b == nil && m.size > 0 {
		return nil, arena.ErrFreed
	}
	if p.Offset < 0 || p.Size < 0 || p.Offset > m.size || p.Size > m.size-p.Offset {
		return nil, fmt.Errorf("span of %d bytes at %d outside a block of %d", p.Size, p.Offset, m.size)
	}
	if b == nil {
		return nil, nil
	}
	return b[p.Offset : p.Offset+p.Size], nil
}

// Record records e after the work so far, with the error of that work, if there is one.
func (s *stream) Record(e arena.Event) error {
	ev, err := s.event(e)
	if err != nil {
		return fmt.Errorf("cpu: record: %w", err)
	}
	if err := s.enter("record"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	return ev.record(s.err)
}

// Wait returns at once: the work before the record of e is done. If that work failed, so has this
// stream.
func (s *stream) Wait(e arena.Event) error {
	ev, err := s.event(e)
	if err != nil {
		return fmt.Errorf("cpu: wait: %w", err)
	}
	if err := s.enter("wait"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	failed, err := ev.last()
	if s.err == nil {
		s.err = failed
	}
	return err
}

func (s *stream) event(e arena.Event) (*event, error) {
	ev, ok := e.(*event)
	if !ok || ev.dev != s.dev {
		return nil, fmt.Errorf("event of another device")
	}
	return ev, nil
}

// Sync returns the first error since the last Sync, and clears it.
func (s *stream) Sync() error {
	if err := s.enter("sync"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	err := s.err
	s.err = nil
	return err
}

// Close releases the stream, and returns the error that no Sync has returned. Safe to call twice.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.err
	s.err = nil
	return err
}

// event is a marker of a stream. It takes no lock: every step records one and checks one.
type event struct {
	dev    *Device
	closed atomic.Bool
	err    atomic.Pointer[error] // of the work before the last record; nil: none
}

func (e *event) record(err error) error {
	if e.closed.Load() {
		return fmt.Errorf("cpu: event: %w", arena.ErrClosed)
	}
	if err != nil {
		failed := err // only what failed is moved to the heap
		e.err.Store(&failed)
	} else if e.err.Load() != nil {
		e.err.Store(nil)
	}
	return nil
}

// last returns the first error of the work before the last record, as failed. err is that of a
// closed event.
func (e *event) last() (failed, err error) {
	if e.closed.Load() {
		return nil, fmt.Errorf("cpu: event: %w", arena.ErrClosed)
	}
	if p := e.err.Load(); p != nil {
		failed = *p
	}
	return failed, nil
}

// Sync returns the first error of the work before the last record.
func (e *event) Sync() error {
	if err := e.dev.usable("event sync"); err != nil {
		return err
	}
	failed, err := e.last()
	if err != nil {
		return err
	}
	return failed
}

// Done returns true: all work before a record is done when Record returns.
func (e *event) Done() bool { return true }

// Close releases the event. Safe to call twice.
func (e *event) Close() error {
	e.closed.Store(true)
	return nil
}
