package trainer

import (
	"errors"
	"time"
)

// Pauses between two looks at the step in flight, while the next batch is not read yet. A part of
// the time since the first look makes the error of the measurement small and the looks few.
const (
	firstPause = 50 * time.Microsecond
	pausePart  = 16
)

// awaitIdle waits until the next batch is there, or until the device has nothing to do: before is the
// slot of the step in flight, or nil. So the time that the reader's Next waits afterwards is time that
// the device waits for data.
func (p *epochPass) awaitIdle(before *slot) {
	run := p.reader.run
	if before == nil || run.Await(0) {
		return
	}
	begin := time.Now()
	for {
		p.t.looks++
		if before.ready.Done() || run.Await(max(firstPause, time.Since(begin)/pausePart)) {
			p.waits.Compute += time.Since(begin)
			return
		}
	}
}

// Waits are times that a pass waited for its device, since it began. The rest of Progress.Input's
// Elapsed is its wait for data, Input.Waited, and the work of its goroutine: enqueueing steps,
// Options.Progress, and the body of Steps.
type Waits struct {
	// Copy is the time that it waited for copies of a batch to the device, after the step before
	// was done. Unified memory has no copies.
	Copy time.Duration
	// Compute is the time that it waited for steps, or that these ran in its own goroutine.
	Compute time.Duration
}

// measures reports whether the pass measures its waits: someone reads them.
func (p *epochPass) measures() bool { return p.t.plan.opt.Progress != nil }

// awaitStep waits for the step in slot s. The step before it is done.
func (p *epochPass) awaitStep(s *slot) error {
	if !p.measures() {
		return s.ready.Sync()
	}
	begin := time.Now()
	if !p.t.memory.unified {
		_ = s.copied.Sync() // ready has the error, too
		copied := time.Now()
		p.waits.Copy += copied.Sub(begin)
		begin = copied
	}
	err := s.ready.Sync()
	p.waits.Compute += time.Since(begin)
	return err
}

// enqueueStep enqueues the program of the step in slot s, and records that it is ready.
func (p *epochPass) enqueueStep(s *slot) error {
	var begin time.Time
	if p.measures() {
		begin = time.Now()
	}
	st := &p.t.streams
	if err := errors.Join(s.program.enqueue(st, s), p.t.enqueueAverages(s)); err != nil {
		return err
	}
	if err := st.compute.Record(s.ready); err != nil {
		return err
	}
	if p.measures() && s.ready.Done() { // it ran here
		p.waits.Compute += time.Since(begin)
	}
	return nil
}
