package emu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// CallError is an error of queued work. Sync returns the first one of its stream.
type CallError struct {
	Stream string
	Index  int64  // of the work in its stream, from 1
	Call   string // "copy", "fill", or the label of a program's call
	Err    error
}

func (e *CallError) Error() string {
	return fmt.Sprintf("emu: stream %q, work %d, %s: %v", e.Stream, e.Index, e.Call, e.Err)
}

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

type kind uint8

const (
	doCopy kind = iota
	doFill
	doRecord
	doWait
	doLaunch
)

// work is one piece in the queue of a stream.
type work struct {
	kind     kind
	index    int64 // in its stream, from 1
	value    byte  // doFill
	dst, src span  // doCopy, doFill
	token    *token
	last     bool // doRecord: the launch enqueues nothing more on the program's stream for transfers
	program  *program
	from, to int // doLaunch: the calls
	timer    timer
}

// stream runs its queue in a goroutine. After an error it drops its work until Sync has returned
// that error.
type stream struct {
	d      *Device
	id     int32 // from 1; the host is 0
	name   string
	rand   *rand.Rand // of the goroutine
	copies [][]byte   // of the goroutine: private copies of operands

	queue    []work
	pushed   int64 // pieces enqueued ever
	done     int64 // pieces finished ever
	demanded int64 // where lazy: pieces that may run
	err      error // the first that no Sync has returned
	clock    clock // what is ordered before the next piece
	closed   bool
	exited   bool
	tl       *kernels.Timeline // nil: nobody times the stream
}

// Copy enqueues a copy.
func (s *stream) Copy(dst, src arena.Span) error {
	if err := s.enter("copy"); err != nil {
		return err
	}
	w, err := s.d.copying(dst, src)
	if err != nil {
		s.d.mu.Unlock()
		return fmt.Errorf("emu: stream %q: copy: %w", s.name, err)
	}
	return s.leave(s.pushCopy(w))
}

// copying is the work of a copy, checked.
func (d *Device) copying(dst, src arena.Span) (work, error) {
	to, err := d.span(dst)
	if err != nil {
		return work{}, err
	}
	from, err := d.span(src)
	switch {
	case err != nil:
		return work{}, err
	case dst.Size != src.Size:
		return work{}, fmt.Errorf("%d bytes to a place for %d: %w", src.Size, dst.Size, arena.ErrInvalid)
	case to.m == from.m && to.lo < from.hi && from.lo < to.hi:
		return work{}, fmt.Errorf("%v to %v, which overlaps it: %w", from, to, arena.ErrInvalid)
	}
	return work{kind: doCopy, dst: to, src: from}, nil
}

func (s *stream) pushCopy(w work) access {
	a := s.push(w)
	a.read(w.src, "copy")
	a.write(w.dst, "copy")
	return a
}

// Fill enqueues setting all bytes of dst to b.
func (s *stream) Fill(dst arena.Span, b byte) error {
	if err := s.enter("fill"); err != nil {
		return err
	}
	to, err := s.d.span(dst)
	if err != nil {
		s.d.mu.Unlock()
		return fmt.Errorf("emu: stream %q: fill: %w", s.name, err)
	}
	a := s.push(work{kind: doFill, dst: to, value: b})
	a.write(to, "fill")
	return s.leave(a)
}

// Record marks the work so far.
func (s *stream) Record(e arena.Event) error {
	if err := s.enter("record"); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	v, err := s.d.event(e)
	if err != nil {
		return fmt.Errorf("emu: stream %q: record: %w", s.name, err)
	}
	v.last = s.record(false)
	return nil
}

// record enqueues a token. last: it is the one after a program's last transfer.
func (s *stream) record(last bool) *token {
	t := &token{s: s}
	s.push(work{kind: doRecord, token: t, last: last})
	t.upto, t.clock = s.pushed, s.clock.copy()
	return t
}

// waitFor enqueues a wait for a token.
func (s *stream) waitFor(t *token) {
	s.push(work{kind: doWait, token: t})
	s.clock.join(t.clock)
}

// Wait holds back later work until the record of e that is the last one now is done.
func (s *stream) Wait(e arena.Event) error {
	if err := s.enter("wait"); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	v, err := s.d.event(e)
	if err != nil {
		return fmt.Errorf("emu: stream %q: wait: %w", s.name, err)
	}
	if v.last != nil {
		s.waitFor(v.last)
	}
	return nil
}

// Sync waits for the work so far and returns its first error.
func (s *stream) Sync() error {
	if err := s.enter("sync"); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	return s.drain()
}

func (s *stream) drain() error {
	upto, known := s.pushed, s.clock.copy()
	s.demand(upto)
	for s.done < upto {
		s.d.cond.Wait()
	}
	s.d.check.host.clock.join(known)
	err := s.err
	s.err = nil
	return err
}

// Close runs the work to its end and stops the goroutine. It returns an error that no Sync has
// returned.
func (s *stream) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.close()
}

// close is Close with the lock held.
func (s *stream) close() error {
	d := s.d
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.drain()
	d.cond.Broadcast()
	for !s.exited {
		d.cond.Wait()
	}
	delete(d.live.streams, s)
	d.ledger.Streams.Live--
	return err
}

// enter begins a call on the stream; it holds the device's lock only when it returns nil.
func (s *stream) enter(call string) error {
	if err := s.d.enter(call); err != nil {
		return err
	}
	if s.closed {
		s.d.mu.Unlock()
		return fmt.Errorf("emu: %s: stream %q: %w", call, s.name, arena.ErrClosed)
	}
	return nil
}

// push enqueues w, ordered after all work that the host has waited for, and returns the collector
// of its accesses.
func (s *stream) push(w work) access {
	s.pushed++
	w.index = s.pushed
	if s.tl != nil && w.timer.timeline == nil {
		w.timer = newTimer(s, w.program, kernels.StreamTrack)
	}
	s.queue = append(s.queue, w)
	w.hold(1)
	s.d.traffic.Deepest = max(s.d.traffic.Deepest, len(s.queue))
	s.clock.join(s.d.check.host.clock)
	s.clock = s.clock.tick(s.id)
	s.d.cond.Broadcast()
	return access{d: s.d, clock: s.clock, at: at{who: s.id, stream: s.name, index: w.index, time: s.clock[s.id]}}
}

// leave ends a call that pushed: it unlocks the device, then reports the races found.
func (s *stream) leave(a access) error {
	s.d.mu.Unlock()
	a.reportRaces()
	return nil
}

// hold counts w among the users of its memories and program.
func (w *work) hold(n int) {
	if w.dst.m != nil {
		w.dst.m.queued += n
	}
	if w.src.m != nil {
		w.src.m.queued += n
	}
	if w.program != nil {
		w.program.queued += n
		w.program.memory.queued += n
		if w.program.pinned != nil {
			w.program.pinned.queued += n
		}
	}
}

func (s *stream) demand(upto int64) {
	if s.demanded < upto {
		s.demanded = upto
		s.d.cond.Broadcast()
	}
}

// errExit is the error of work whose fallback called runtime.Goexit, as testing's FailNow does.
var errExit = errors.New("ended its goroutine: return an error instead")

// run serves the queue until the stream is closed and empty. If a fallback ends the goroutine, a
// new one continues.
func (s *stream) run() {
	d := s.d
	d.mu.Lock()
	defer func() {
		if !s.exited {
			go s.run()
		}
		d.mu.Unlock()
	}()
	for {
		for len(s.queue) == 0 || d.opts.Lazy && s.done >= s.demanded && d.fatal == nil {
			if s.closed && len(s.queue) == 0 {
				s.exited = true
				d.cond.Broadcast()
				return
			}
			d.cond.Wait()
		}
		s.next()
	}
}

// next runs the first piece of work, and removes it from the queue even if it panics or ends the
// goroutine.
func (s *stream) next() {
	w := s.queue[0]
	defer func() {
		s.queue = append(s.queue[:0], s.queue[1:]...)
		w.hold(-1)
		s.done++
		s.d.cond.Broadcast()
	}()
	s.step(&w)
}

// step runs one piece of work. It is called with the lock held, and releases it while the work
// itself runs.
func (s *stream) step(w *work) {
	d := s.d
	if w.kind == doWait {
		w.token.demand()
		for !w.token.done {
			d.cond.Wait()
		}
		s.keep(w.token.err)
		return
	}
	if d.fatal != nil {
		s.keep(d.fatal)
	}
	if w.kind == doRecord {
		if s.err == nil {
			s.unlocked(s.pause)
		}
		w.token.err, w.token.done = s.err, true
		if w.last { // the stream that waits for it keeps the error
			s.err = nil
		}
		return
	}
	if s.err != nil {
		return
	}
	var err error = &CallError{Stream: s.name, Index: w.index, Call: "launch", Err: errExit} // unless perform returns
	defer func() {
		s.keep(err)
		d.keepFatal(err)
	}()
	s.unlocked(func() { err = s.perform(w) })
}

// keep remembers the first error.
func (s *stream) keep(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *stream) unlocked(f func()) {
	s.d.mu.Unlock()
	defer s.d.mu.Lock()
	f()
}

// pause is the random delay: none for every other piece, else evenly up to Options.Delay.
func (s *stream) pause() {
	if most := int64(s.d.opts.Delay); most > 0 && s.rand.Uint64()&1 == 0 {
		time.Sleep(time.Duration(s.rand.Int64N(most)))
	}
}

// perform does the work of a copy, fill or launch. No lock is held.
func (s *stream) perform(w *work) error {
	if w.kind == doLaunch {
		return w.program.execute(s, w)
	}
	begin := w.timer.now()
	s.pause()
	name := "copy"
	if w.kind == doFill {
		name = "fill"
	}
	if err := s.d.fault("run " + name); err != nil {
		return &CallError{Stream: s.name, Index: w.index, Call: name, Err: err}
	}
	if w.kind == doFill {
		s.d.data.Lock()
		set(w.dst.bytes(), w.value)
		s.d.data.Unlock()
	} else {
		s.d.transfer(w.dst.bytes(), w.src.bytes())
	}
	w.timer.add(w.timer.work.Call, begin, w.dst.hi-w.dst.lo)
	s.d.mu.Lock()
	s.d.traffic.add(w)
	s.d.mu.Unlock()
	return nil
}

// transfer copies piece by piece, so that accesses of other streams interleave with it.
func (d *Device) transfer(dst, src []byte) {
	const piece = 64 << 10
	for len(src) > 0 {
		n := min(piece, len(src))
		d.data.Lock()
		copy(dst[:n], src[:n])
		d.data.Unlock()
		dst, src = dst[n:], src[n:]
	}
}

func (t *Traffic) add(w *work) {
	n := w.dst.hi - w.dst.lo
	switch {
	case w.kind == doFill:
		t.Fills++
		t.Filled += n
		return
	case w.src.m.pinned == w.dst.m.pinned:
		t.Moved += n
	case w.src.m.pinned:
		t.Uploaded += n
	default:
		t.Downloaded += n
	}
	t.Copies++
}
