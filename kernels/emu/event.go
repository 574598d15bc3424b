package emu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// token is one record of an event, at a position in the queue of a stream.
type token struct {
	s     *stream
	upto  int64 // pieces of work of s that are done when it is reached
	clock clock // what is ordered before it
	done  bool
	err   error // the first error of the work before it
}

// demand lets a lazy stream run up to the token.
func (t *token) demand() {
	if !t.done {
		t.s.demand(t.upto)
	}
}

// event points at the token of its last record.
type event struct {
	d      *Device
	last   *token
	closed bool
}

// Sync waits for the last record.
func (e *event) Sync() error {
	d := e.d
	if err := d.enter("event sync"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if e.closed {
		return fmt.Errorf("emu: event: %w", arena.ErrClosed)
	}
	t := e.last
	if t == nil {
		return nil
	}
	t.demand()
	for !t.done {
		d.cond.Wait()
	}
	d.check.host.clock.join(t.clock)
	return t.err
}

// Done reports whether the last record is done.
func (e *event) Done() bool {
	d := e.d
	d.mu.Lock()
	defer d.mu.Unlock()
	t := e.last
	if t == nil {
		return true
	}
	if t.done {
		d.check.host.clock.join(t.clock)
		return true
	}
	t.demand()
	return false
}

// Close releases the event. Streams that already wait for it still wait for its last record.
func (e *event) Close() error {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	e.release()
	return nil
}

func (e *event) release() {
	if !e.closed {
		e.closed = true
		delete(e.d.live.events, e)
		e.d.ledger.Events.Live--
	}
}

// event checks that e is a live event of this device.
func (d *Device) event(e arena.Event) (*event, error) {
	v, ok := e.(*event)
	switch {
	case !ok || v.d != d:
		return nil, fmt.Errorf("event of type %T: %w", e, ErrForeign)
	case v.closed:
		return nil, fmt.Errorf("event: %w", arena.ErrClosed)
	}
	return v, nil
}
