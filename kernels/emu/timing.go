package emu

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// TimeWork implements [kernels.WorkTimer]. The time of a piece of work includes its delay
// (Options.Delay), as if the device was that slow.
func (d *Device) TimeWork(s arena.Stream, tl *kernels.Timeline) error {
	st, ok := s.(*stream)
	if !ok || st.d != d {
		return fmt.Errorf("emu: time work: stream of type %T: %w", s, ErrForeign)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if st.closed {
		return fmt.Errorf("emu: time work: stream %q: %w", st.name, arena.ErrClosed)
	}
	st.tl = tl
	return nil
}

// timer measures one piece of queued work. The zero value measures nothing.
type timer struct {
	timeline *kernels.Timeline
	work     kernels.Timing // without its time; Call: that of the copies of a program
}

// newTimer returns the timer of work that is enqueued in s, of a program or nil.
func newTimer(s *stream, p *program, track kernels.Track) timer {
	t := timer{timeline: s.tl, work: kernels.Timing{Stream: s.name, Track: track, Mark: s.tl.Mark()}}
	if p != nil {
		t.work.Program = p
		t.work.Call = len(p.calls)
	}
	return t
}

// now returns the time, 0 for the zero timer.
func (t timer) now() time.Duration {
	if t.timeline == nil {
		return 0
	}
	return t.timeline.Now()
}

// add adds a call, or a copy of some bytes, that began at begin and ends now. It does nothing for the
// zero timer.
func (t timer) add(call int, begin time.Duration, bytes int64) {
	if t.timeline == nil {
		return
	}
	w := t.work
	w.Call, w.Begin, w.End, w.Bytes = call, begin, t.timeline.Now(), bytes
	t.timeline.Add(w)
}
