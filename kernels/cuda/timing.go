//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"gorgonia.org/cu"
)

// timing measures the work of a stream by events of the driver, before and after each call. A program
// that is a graph is launched step by step meanwhile, since a graph has no events within it.
type timing struct {
	timeline *kernels.Timeline
	base     cu.Event      // recorded when the timing began, on an idle stream
	at       time.Duration // when it had passed
	work     []timedWork   // enqueued since then
}

// timedWork is enqueued work between two events.
type timedWork struct {
	kernels.Timing
	begin, end cu.Event
}

// TimeWork implements [kernels.WorkTimer].
func (d *Device) TimeWork(s arena.Stream, tl *kernels.Timeline) error {
	st, ok := s.(*stream)
	if !ok || st.dev != d {
		return fmt.Errorf("cuda: time work: the stream is not of this device: %w", arena.ErrInvalid)
	}
	ok, err := st.begin("time work")
	if !ok && err == nil {
		err = fmt.Errorf("cuda: time work on stream %q: it has failed: call Sync first: %w", st.name, arena.ErrInvalid)
	}
	if err != nil {
		return err
	}
	defer st.end()
	err = st.timing.finish(st.handle)
	st.timing = nil
	if err == nil && tl != nil {
		st.timing, err = newTiming(st.handle, tl)
	}
	if err != nil {
		return d.note(fmt.Errorf("cuda: time work on stream %q: %w", st.name, err))
	}
	return nil
}

// newTiming begins a timing on a stream.
func newTiming(on cu.Stream, tl *kernels.Timeline) (*timing, error) {
	t := &timing{timeline: tl}
	if err := fromCu("cuStreamSynchronize", on.Synchronize()); err != nil {
		return nil, err
	}
	var err error
	if t.base, err = cu.MakeEvent(cu.DefaultEvent); err != nil {
		return nil, fromCu("cuEventCreate", err)
	}
	// The event passes between the two looks at the clock: the shorter that is, the better the clocks of
	// host and device agree.
	for try, took := 0, time.Duration(math.MaxInt64); try < 8 && took > 50*time.Microsecond; try++ {
		begin := tl.Now()
		err = errors.Join(fromCu("cuEventRecord", t.base.Record(on)), fromCu("cuStreamSynchronize", on.Synchronize()))
		if err != nil {
			return nil, errors.Join(err, t.drop())
		}
		took = tl.Now() - begin
		t.at = begin + took/2
	}
	return t, nil
}

// record enqueues run between two events on a stream.
func (t *timing) record(on cu.Stream, w kernels.Timing, run func() error) error {
	begin, err := cu.MakeEvent(cu.DefaultEvent)
	if err != nil {
		return fromCu("cuEventCreate", err)
	}
	end, err := cu.MakeEvent(cu.DefaultEvent)
	if err != nil {
		return errors.Join(fromCu("cuEventCreate", err), fromCu("cuEventDestroy", cu.DestroyEvent(&begin)))
	}
	t.work = append(t.work, timedWork{w, begin, end})
	if err := fromCu("cuEventRecord", begin.Record(on)); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	return fromCu("cuEventRecord", end.Record(on))
}

// finish waits for the work, adds it to the timeline, and releases the events. It does nothing for
// nil.
func (t *timing) finish(on cu.Stream) error {
	if t == nil {
		return nil
	}
	err := fromCu("cuStreamSynchronize", on.Synchronize())
	for _, w := range t.work {
		if err != nil {
			break
		}
		var after, took float64 // ms
		if after, err = t.base.Elapsed(w.begin); err == nil {
			took, err = w.begin.Elapsed(w.end)
		}
		if err = fromCu("cuEventElapsedTime", err); err == nil {
			w.Begin = t.at + time.Duration(after*float64(time.Millisecond))
			w.End = w.Begin + time.Duration(took*float64(time.Millisecond))
			t.timeline.Add(w.Timing)
		}
	}
	return errors.Join(err, t.drop())
}

// drop releases the events. It does nothing for nil.
func (t *timing) drop() error {
	if t == nil {
		return nil
	}
	errs := []error{fromCu("cuEventDestroy", cu.DestroyEvent(&t.base))}
	for i := range t.work {
		errs = append(errs, fromCu("cuEventDestroy", cu.DestroyEvent(&t.work[i].begin)), fromCu("cuEventDestroy", cu.DestroyEvent(&t.work[i].end)))
	}
	t.work = nil
	return errors.Join(errs...)
}

// timed enqueues a copy or fill of some bytes, between events if the stream is timed. The stream is
// locked.
func (s *stream) timed(bytes int64, run func() error) error {
	if s.timing == nil {
		return run()
	}
	return s.timing.record(s.handle, kernels.Timing{Stream: s.name, Bytes: bytes, Mark: s.timing.timeline.Mark()}, run)
}

// timedParts are the parts of a program as batches that are not graphs.
type timedParts struct {
	batches []*batch // by part; nil: no steps
	side    sideStream
}

// timedParts returns the batches of p to launch step by step: those that it has, or others if they are
// graphs.
func (p *program) timedParts() (*timedParts, error) {
	if p.timed != nil {
		return p.timed, nil
	}
	t := &timedParts{side: p.side}
	if !p.dev.graphs {
		for i := range p.parts {
			t.batches = append(t.batches, p.parts[i].batch)
		}
		p.timed = t
		return t, nil
	}
	p.dev.loads.Lock()
	defer p.dev.loads.Unlock()
	t.side = sideStream{}
	err := t.side.open(p.events, p.transfers)
	for i := 0; i < len(p.parts) && err == nil; i++ {
		var b *batch
		if steps := p.parts[i].steps; len(steps) > 0 {
			var functions []cu.Function
			if functions, err = p.functions(steps); err == nil {
				b = newBatch(steps, functions, p.dev.blas, &t.side)
			}
		}
		t.batches = append(t.batches, b)
	}
	if err != nil {
		return nil, errors.Join(err, t.release())
	}
	p.timed = t
	return t, nil
}

// release frees what was made.
func (t *timedParts) release() error {
	var errs []error
	for _, b := range t.batches {
		if b != nil {
			errs = append(errs, b.release())
		}
	}
	return errors.Join(append(errs, t.side.close())...)
}

// runTimed enqueues the steps of a part, with events around those of each call.
func (p *program) runTimed(made *part, b *batch, side *sideStream, st *stream) error {
	for from := 0; from < len(made.steps); {
		first, to := &made.steps[from], from+1
		marks := first.kind == stepRecord || first.kind == stepWait
		for !marks && to < len(made.steps) && made.steps[to].call == first.call && made.steps[to].stream == first.stream &&
			made.steps[to].kind != stepRecord && made.steps[to].kind != stepWait {
			to++
		}
		run := func() error {
			if at, err := b.runSteps(from, to, st.handle, p.dev.sync); err != nil {
				return p.blame(made, at, err)
			}
			return nil
		}
		on, w := st.handle, p.work(st, first.call)
		switch first.stream {
		case onTransfers:
			on, w.Track = side.stream, kernels.TransferTrack
		case onSums:
			on, w.Track, w.Bytes = b.comm.stream, kernels.GroupTrack, sentBytes(made.steps[from:to])
		}
		var err error
		if marks {
			err = run()
		} else {
			err = st.timing.record(on, w, run)
		}
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// sentBytes returns the bytes of the operands of collectives.
func sentBytes(steps []step) (bytes int64) {
	for _, s := range steps {
		if c := s.collective; c != nil {
			bytes += c.count * c.elem.Size()
		}
	}
	return bytes
}

// work returns the timing of a call without its times.
func (p *program) work(st *stream, call int) kernels.Timing {
	return kernels.Timing{Stream: st.name, Program: p, Call: call, Mark: st.timing.timeline.Mark()}
}

// runHost runs a function of the host. On a stream that is timed it does so when the work before is
// done, and measures it by the clock of the host.
func (p *program) runHost(h *hostCall, st *stream) error {
	if st.timing == nil {
		h.run(&st.err, p.names[h.step.call], st)
		return nil
	}
	if err := st.failed("launch", "cuStreamSynchronize", st.handle.Synchronize()); err != nil {
		return err
	}
	tl, w := st.timing.timeline, p.work(st, h.step.call)
	w.Begin = tl.Now()
	h.run(&st.err, p.names[h.step.call], st)
	w.End = tl.Now()
	tl.Add(w)
	if _, ok := h.step.host.(kernels.AllReduceAttrs); ok {
		w.Track, w.Bytes = kernels.GroupTrack, h.step.bytes
		tl.Add(w)
	}
	return nil
}
