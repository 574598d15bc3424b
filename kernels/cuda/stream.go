//go:build gpu && cgo

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"gorgonia.org/cu"
)

// stream is a stream of the driver. After a function of the host that failed it enqueues nothing
// until Sync has returned the error: later work would read values that were never computed.
type stream struct {
	dev    *Device
	name   string
	handle cu.Stream

	mu     sync.Mutex // held while work is enqueued
	closed bool
	err    error
	last   *program // launched last: a later error is probably about it
	timing *timing  // nil: nobody times the stream

	comms atomic.Pointer[[]*Comm] // whose collectives were enqueued; nil: none
}

// NewStream makes a stream, which does not wait for the driver's default stream.
func (d *Device) NewStream(name string) (arena.Stream, error) {
	if err := d.enter("stream"); err != nil {
		return nil, err
	}
	defer d.leave()
	h, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		return nil, fmt.Errorf("cuda: stream %q: %w", name, d.note(fromCu("cuStreamCreate", err)))
	}
	s := &stream{dev: d, name: name, handle: h}
	d.keep(s)
	return s, nil
}

// begin locks the stream and sets the context, unless there is nothing to do: the stream is closed
// (err), or has failed.
func (s *stream) begin(what string) (ok bool, err error) {
	if err := s.dev.enter(what); err != nil {
		return false, err
	}
	s.mu.Lock()
	switch {
	case s.closed:
		err = fmt.Errorf("cuda: %s on stream %q: %w", what, s.name, arena.ErrClosed)
	case s.err == nil:
		return true, nil
	}
	s.end()
	return false, err
}

func (s *stream) end() {
	s.mu.Unlock()
	s.dev.leave()
}

// failed is the error of a call of the driver on the stream.
func (s *stream) failed(what, call string, err error) error {
	if err == nil {
		return nil
	}
	err = fromCu(call, err)
	if s.last != nil {
		err = fmt.Errorf("%w (after %s)", err, s.last)
	}
	return s.dev.note(fmt.Errorf("cuda: %s on stream %q: %w", what, s.name, err))
}

// Copy enqueues a copy of equally long spans.
func (s *stream) Copy(dst, src arena.Span) error {
	to, err := s.dev.span(dst)
	if err != nil {
		return fmt.Errorf("cuda: copy to: %w", err)
	}
	from, err := s.dev.span(src)
	if err != nil {
		return fmt.Errorf("cuda: copy from: %w", err)
	}
	if dst.Size != src.Size {
		return fmt.Errorf("cuda: copy of %d bytes to %d", src.Size, dst.Size)
	}
	ok, err := s.begin("copy")
	if !ok {
		return err
	}
	defer s.end()
	if dst.Size == 0 {
		return nil
	}
	return s.timed(dst.Size, func() error { return s.copy(to, from, dst, src) })
}

// copy enqueues a copy between spans of memory, which lie inside it. The stream is locked.
func (s *stream) copy(to, from *memory, dst, src arena.Span) error {
	switch {
	case to.host == nil && from.host != nil:
		return s.failed("copy", "cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(to.at)+cu.DevicePtr(dst.Offset), from.place(src.Offset), dst.Size, s.handle))
	case to.host != nil && from.host == nil:
		return s.failed("copy", "cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(to.place(dst.Offset), cu.DevicePtr(from.at)+cu.DevicePtr(src.Offset), dst.Size, s.handle))
	case to.host == nil:
		return s.failed("copy", "cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(to.at)+cu.DevicePtr(dst.Offset), cu.DevicePtr(from.at)+cu.DevicePtr(src.Offset), dst.Size, s.handle))
	}
	return s.failed("copy", "cuMemcpyAsync", cu.MemcpyAsync(cu.DevicePtr(to.at)+cu.DevicePtr(dst.Offset), cu.DevicePtr(from.at)+cu.DevicePtr(src.Offset), dst.Size, s.handle))
}

// Fill enqueues setting every byte of dst.
func (s *stream) Fill(dst arena.Span, b byte) error {
	to, err := s.dev.span(dst)
	if err != nil {
		return fmt.Errorf("cuda: fill: %w", err)
	}
	ok, err := s.begin("fill")
	if !ok {
		return err
	}
	defer s.end()
	if dst.Size == 0 {
		return nil
	}
	return s.timed(dst.Size, func() error {
		return s.failed("fill", "cuMemsetD8Async",
			cu.MemsetD8Async(cu.DevicePtr(to.at)+cu.DevicePtr(dst.Offset), b, dst.Size, s.handle))
	})
}

// span returns the memory of a span, after it has checked that the span lies inside it.
func (d *Device) span(p arena.Span) (*memory, error) {
	m, ok := p.Memory.(*memory)
	if !ok || m.dev != d {
		return nil, fmt.Errorf("memory of another device")
	}
	if m.closed.Load() && !m.freed.Load() {
		return nil, fmt.Errorf("the device was %w", arena.ErrClosed)
	}
	if m.gone() {
		return nil, arena.ErrFreed
	}
	if p.Offset < 0 || p.Size < 0 || p.Offset > m.size || p.Size > m.size-p.Offset {
		return nil, fmt.Errorf("span of %d bytes at %d outside a block of %d", p.Size, p.Offset, m.size)
	}
	return m, nil
}

// Record records e after the work so far.
func (s *stream) Record(e arena.Event) error {
	ev, err := s.event(e, "record")
	if err != nil {
		return err
	}
	if err := s.dev.enter("record"); err != nil {
		return err
	}
	defer s.dev.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("cuda: record on stream %q: %w", s.name, arena.ErrClosed)
	}
	ev.record(s.err)
	ev.comms.Store(s.comms.Load())
	return s.failed("record", "cuEventRecord", ev.handle.Record(s.handle))
}

// Wait holds back further work until e is done.
func (s *stream) Wait(e arena.Event) error {
	ev, err := s.event(e, "wait")
	if err != nil {
		return err
	}
	if err := s.dev.enter("wait"); err != nil {
		return err
	}
	defer s.dev.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("cuda: wait on stream %q: %w", s.name, arena.ErrClosed)
	}
	if s.err == nil {
		s.err = ev.failed()
	}
	return s.failed("wait", "cuStreamWaitEvent", s.handle.Wait(ev.handle, 0))
}

func (s *stream) event(e arena.Event, what string) (*event, error) {
	ev, ok := e.(*event)
	if !ok || ev.dev != s.dev {
		return nil, fmt.Errorf("cuda: %s: event of another device", what)
	}
	if ev.closed.Load() {
		return nil, fmt.Errorf("cuda: %s: event: %w", what, arena.ErrClosed)
	}
	return ev, nil
}

// Sync waits for the work, and returns the first error since the last Sync. It does not hold the
// stream meanwhile.
func (s *stream) Sync() error {
	if err := s.dev.enter("sync"); err != nil {
		return err
	}
	defer s.dev.leave()
	s.mu.Lock()
	closed, err := s.closed, s.err
	s.err = nil
	s.mu.Unlock()
	if closed {
		return fmt.Errorf("cuda: sync on stream %q: %w", s.name, arena.ErrClosed)
	}
	if e := s.failed("sync", "cuStreamSynchronize", s.handle.Synchronize()); err == nil {
		err = e
	}
	if e := brokenOf(s.comms.Load()); err == nil && e != nil {
		err = fmt.Errorf("cuda: sync on stream %q: %w", s.name, e)
	}
	return err
}

// Close waits for the work, releases the stream, and returns the error that no Sync has. Safe to
// call twice.
func (s *stream) Close() error {
	s.mu.Lock()
	was, err := s.closed, s.err
	s.closed, s.err = true, nil
	s.mu.Unlock()
	if was {
		return err
	}
	if e := s.dev.discard("close of a stream", s); err == nil {
		err = e
	}
	return err
}

func (s *stream) release() error {
	wait := errors.Join(fromCu("cuStreamSynchronize", s.handle.Synchronize()), s.timing.drop())
	if err := fromCu("cuStreamDestroy", s.handle.Destroy()); wait == nil {
		return err
	}
	return wait
}

// event is a marker of the driver, with the software error of the work before it.
type event struct {
	dev    *Device
	handle cu.Event
	closed atomic.Bool
	err    atomic.Pointer[error]   // of the work before the last record; nil: none
	comms  atomic.Pointer[[]*Comm] // of the stream of the last record
}

// NewEvent makes a marker, which keeps no time.
func (d *Device) NewEvent() (arena.Event, error) {
	if err := d.enter("event"); err != nil {
		return nil, err
	}
	defer d.leave()
	h, err := cu.MakeEvent(cu.DisableTiming)
	if err != nil {
		return nil, fmt.Errorf("cuda: event: %w", d.note(fromCu("cuEventCreate", err)))
	}
	e := &event{dev: d, handle: h}
	d.keep(e)
	return e, nil
}

func (e *event) record(err error) {
	if err != nil {
		failed := err // only what failed is moved to the heap
		e.err.Store(&failed)
	} else if e.err.Load() != nil {
		e.err.Store(nil)
	}
}

func (e *event) failed() error {
	if p := e.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Sync waits for the last record, and returns the first error of the work before it.
func (e *event) Sync() error {
	if err := e.dev.enter("event sync"); err != nil {
		return err
	}
	defer e.dev.leave()
	if e.closed.Load() {
		return fmt.Errorf("cuda: event sync: %w", arena.ErrClosed)
	}
	if err := e.handle.Synchronize(); err != nil {
		return fmt.Errorf("cuda: event sync: %w", e.dev.note(fromCu("cuEventSynchronize", err)))
	}
	return cmp.Or(e.failed(), brokenOf(e.comms.Load()))
}

// Done reports whether Sync would return at once. It is true, and Sync returns the error, if the
// driver fails.
func (e *event) Done() bool {
	if e.closed.Load() {
		return true
	}
	if err := e.dev.enter("event"); err != nil {
		e.record(err)
		return true
	}
	defer e.dev.leave()
	done, err := query(e.handle)
	if err != nil {
		e.record(e.dev.note(fmt.Errorf("cuda: event: %w", err)))
	}
	return done
}

// Close releases the event. Safe to call twice.
func (e *event) Close() error {
	if !e.closed.CompareAndSwap(false, true) {
		return nil
	}
	return e.dev.discard("close of an event", e)
}

func (e *event) release() error {
	e.closed.Store(true)
	return fromCu("cuEventDestroy", cu.DestroyEvent(&e.handle))
}
