package cpu

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// TimeWork implements [kernels.WorkTimer]. Calls are measured by the clock around each, and the parts
// of a call by each worker. While several streams launch at once, one of them has the workers, and
// their parts may be counted for a call of another that is timed.
func (d *Device) TimeWork(s arena.Stream, tl *kernels.Timeline) error {
	st, ok := s.(*stream)
	if !ok || st.dev != d {
		return fmt.Errorf("cpu: time work: the stream is not of this device: %w", arena.ErrInvalid)
	}
	if err := st.enter("time work"); err != nil {
		return err
	}
	st.tl = tl
	st.mu.Unlock()
	return nil
}

// begun returns the time before a copy or fill, 0 if nobody times the stream. s.mu is held.
func (s *stream) begun() time.Duration {
	if s.tl == nil {
		return 0
	}
	return s.tl.Now()
}

// add adds a copy or fill that began at begin to the timeline, if there is one. s.mu is held.
func (s *stream) add(begin time.Duration, bytes int) {
	if s.tl != nil {
		s.tl.Add(kernels.Timing{Stream: s.name, Bytes: int64(bytes), Mark: s.tl.Mark(), Begin: begin, End: s.tl.Now()})
	}
}

// timing is a launch that is timed.
type timing struct {
	timeline *kernels.Timeline
	stream   string
	program  *program
	mark     int
}

// time makes the launch that follows on s a timed one. The caller calls done after it.
func (p *program) time(s *stream) (done func()) {
	p.timing = &timing{timeline: s.tl, stream: s.name, program: p, mark: s.tl.Mark()}
	return func() { p.timing = nil }
}

// of returns the timing of a call from begin to end.
func (t *timing) of(call int, track kernels.Track, begin, end time.Duration) kernels.Timing {
	return kernels.Timing{Stream: t.stream, Track: track, Program: t.program, Call: call, Mark: t.mark, Begin: begin, End: end}
}

// run runs and times a call.
func (t *timing) run(c *bound) {
	pool := t.program.dev.pool
	pool.timed.Store(&timedCall{t, c.index})
	defer pool.timed.Store(nil)
	begin := t.timeline.Now()
	c.run()
	end := t.timeline.Now()
	t.timeline.Add(t.of(c.index, kernels.StreamTrack, begin, end))
}

// addSum adds a sum over the ranks of a group that is complete.
func (t *timing) addSum(s *pendingSums) {
	end := s.begin
	for _, op := range s.operations {
		end = max(end, t.timeline.Completed(op))
	}
	w := t.of(s.nth, kernels.GroupTrack, s.begin, end)
	w.Bytes = s.bytes
	t.timeline.Add(w)
}

// timedCall is a call whose parts are timed.
type timedCall struct {
	*timing
	call int
}

// addWorker adds the part of a worker that began at begin and ends now.
func (c *timedCall) addWorker(worker int, begin time.Duration) {
	w := c.of(c.call, kernels.WorkerTrack, begin, c.timeline.Now())
	w.Worker = worker
	c.timeline.Add(w)
}
