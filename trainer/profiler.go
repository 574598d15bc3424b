package trainer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/profile"
)

// profiler measures a pass. The methods that passes call do nothing on a nil one.
type profiler struct {
	pass     *epochPass
	batches  int // to train
	timeline *kernels.Timeline

	taken int // batches
	last  int // batch that was taken last
	hosts []hostTimes

	mu    sync.Mutex // workers of the loader add to it
	fills []dataloader.Filling
}

// hostTimes are when the host did something about a step. Times count from the start of the timeline.
type hostTimes struct {
	batch, slot, objective     int
	taken, submitted, finished time.Duration
}

// begin starts to measure. Nothing is in flight.
func (r *profiler) begin() error {
	if r == nil {
		return nil
	}
	r.timeline = kernels.NewTimeline()
	r.pass.loader.Observe(func(f dataloader.Filling) {
		r.mu.Lock()
		r.fills = append(r.fills, f)
		r.mu.Unlock()
	})
	return r.time(r.timeline)
}

// end ends measuring. Nothing is in flight.
func (r *profiler) end() error {
	if r == nil {
		return nil
	}
	r.pass.loader.Observe(nil)
	return r.time(nil)
}

// time lets the streams report their work to tl.
func (r *profiler) time(tl *kernels.Timeline) error {
	t := r.pass.t
	timer := t.memory.device.(kernels.WorkTimer) // preparePeak has checked it
	return errors.Join(timer.TimeWork(t.streams.upload, tl), timer.TimeWork(t.streams.compute, tl))
}

// enough reports whether all batches were taken.
func (r *profiler) enough() bool {
	if r == nil || r.taken < r.batches {
		return false
	}
	_, _, end := r.pass.t.plan.opt.window(r.pass.mode, r.last, r.pass.total)
	return r.last+1 == end
}

// took notes that the pass has batch b.
func (r *profiler) took(b dataloader.Batch) {
	if r != nil {
		r.taken++
		r.last = b.Step
		r.hosts = append(r.hosts, hostTimes{batch: b.Step, slot: b.Slot, objective: -1, taken: r.timeline.Now()})
	}
}

// enqueues notes that what is enqueued from now on belongs to a batch.
func (r *profiler) enqueues(batch int) {
	if r != nil {
		r.timeline.SetMark(batch)
	}
}

// submitted notes that the step in s is enqueued.
func (r *profiler) submitted(s *slot) {
	if r != nil {
		r.hosts = append(r.hosts, hostTimes{batch: s.batch.Step, slot: s.index, objective: s.objective, submitted: r.timeline.Now()})
	}
}

// finished notes that the step in s is done.
func (r *profiler) finished(s *slot) {
	if r == nil {
		return
	}
	for i := len(r.hosts) - 1; i >= 0; i-- {
		if h := &r.hosts[i]; h.batch == s.batch.Step && h.objective == s.objective && h.finished == 0 {
			h.finished = r.timeline.Now()
			return
		}
	}
}

// profile returns what was measured in a pass with result res.
func (r *profiler) profile(res Result) *profile.Profile {
	t := r.pass.t
	events := append(r.deviceEvents(), r.slotEvents()...)
	for _, f := range r.fills {
		events = append(events, r.fetch(f))
	}
	first := time.Duration(1<<63 - 1) // of all events: the profile begins with it
	for i := range events {
		first = min(first, events[i].Begin)
	}
	for i := range events {
		events[i].Begin -= first
		events[i].End -= first
	}
	p := profile.New(t.memory.device.Name(), r.taken, *t.peak, events)
	p.Input = res.Input
	return p
}

// boundCalls is what a program that is bound runs.
type boundCalls struct {
	ir     *ir.Program
	instrs []int // by call: the index of its instruction
}

// boundCalls returns what each bound program of the trainer runs.
func (t *Trainer) boundCalls() map[kernels.Program]boundCalls {
	all := make(map[kernels.Program]boundCalls)
	for _, p := range t.programs {
		var instrs []int
		for i := range p.ir.Instrs {
			if !p.ir.IsView(&p.ir.Instrs[i]) {
				instrs = append(instrs, i)
			}
		}
		for i := range p.exec {
			if p.exec[i] != nil {
				all[p.exec[i]] = boundCalls{p.ir, instrs}
			}
			if p.debug[i] == nil {
				continue
			}
			for k, c := range p.debug[i].calls {
				if c != nil {
					all[c] = boundCalls{p.ir, []int{k}}
				}
			}
		}
	}
	return all
}

// Names of tracks and rows in profiles.
const (
	onDevice, onHost = "device", "host"
	batchLayer       = "batch" // of copies of samples
)

// deviceEvents returns what the device did.
func (r *profiler) deviceEvents() []profile.Event {
	programs := r.pass.t.boundCalls()
	timings := r.timeline.Take()
	events := make([]profile.Event, 0, len(timings))
	for _, w := range timings {
		e := profile.Event{Kind: profile.Copy, Process: onDevice, Track: w.Stream, Step: w.Mark + 1, Bytes: w.Bytes,
			Begin: w.Begin, End: w.End}
		if p, ok := programs[w.Program]; ok {
			p.describe(&e, w.Call)
		} else if w.Stream == uploadStream {
			e.Name, e.Op, e.Layer = "upload", "upload", batchLayer
		} else {
			e.Name, e.Op, e.Layer = "fill", "fill", otherLayers
		}
		switch w.Track {
		case kernels.TransferTrack:
			e.Track = "transfers"
		case kernels.GroupTrack:
			e.Track, e.Kind, e.Bytes = "sums over ranks", profile.Sum, w.Bytes
		case kernels.WorkerTrack:
			e.Track, e.Kind = fmt.Sprintf("worker %d", w.Worker), profile.Worker
			e.Flops, e.Bytes = 0, 0 // of the whole call
		}
		events = append(events, e)
	}
	return events
}

// describe sets what e, which is a call, is about.
func (p boundCalls) describe(e *profile.Event, call int) {
	if call >= len(p.instrs) {
		e.Name, e.Op, e.Layer = "download", "download", otherLayers
		return
	}
	in := &p.ir.Instrs[p.instrs[call]]
	work := p.ir.WorkOf(in)
	e.Name, e.Op, e.Layer, e.Flops, e.Bytes = in.Label, in.Op.Name, layerOf(in.Owner), work.Flops, work.Bytes
	if e.Name == "" {
		e.Name = e.Op
	}
	switch {
	case in.Op.IsTransfer():
		e.Bytes = p.ir.Specs(in.Out)[0].Bytes()
	case in.Op == kernels.AllReduce || in.Op == kernels.Await || in.Op == kernels.Agree:
		e.Kind, e.Bytes = profile.Wait, 0
	default:
		e.Kind = profile.Compute
	}
}

// fetch returns the event of a filling.
func (r *profiler) fetch(f dataloader.Filling) profile.Event {
	start := r.timeline.Start()
	e := profile.Event{Kind: profile.Fetch, Process: onHost, Track: "loader in the trainer", Step: f.Step + 1,
		Name: fmt.Sprintf("batch %d, rows %d to %d", f.Step+1, f.From, f.To-1), Begin: f.Begin.Sub(start), End: f.End.Sub(start)}
	if f.Worker >= 0 {
		e.Track = fmt.Sprintf("loader %d", f.Worker)
	}
	if f.From == f.To {
		e.Name = fmt.Sprintf("waits for the upload from slot %d", f.Slot)
	}
	return e
}

// slotEvents returns the states of the slots: on the host a batch is filled, and then full until the
// pass takes it; on the device it is in a step.
func (r *profiler) slotEvents() []profile.Event {
	var events []profile.Event
	add := func(slot int, where, what string, batch int, begin, end time.Duration) {
		if end > begin {
			events = append(events, profile.Event{Kind: profile.Slot, Process: onHost, Track: fmt.Sprintf("slot %d, %s", slot, where),
				Name: fmt.Sprintf("%s %d", what, batch+1), Step: batch + 1, Begin: begin, End: end})
		}
	}
	start := r.timeline.Start()
	for i, h := range r.hosts {
		if h.objective >= 0 {
			if before := lastIn(r.hosts[:i], h.slot); before > 0 { // a step waits for the one before it
				h.submitted = max(h.submitted, before)
			}
			add(h.slot, "device", "step", h.batch, h.submitted, h.finished)
			continue
		}
		begin, end := time.Duration(0), time.Duration(0)
		for _, f := range r.fills {
			if f.Step == h.batch && f.To > f.From {
				if b := f.Begin.Sub(start); end == 0 || b < begin {
					begin = b
				}
				end = max(end, f.End.Sub(start))
			}
		}
		end = min(end, h.taken) // the worker notes the end after it hands the batch over
		add(h.slot, "host", "fill", h.batch, begin, end)
		add(h.slot, "host", "full", h.batch, end, h.taken)
	}
	return events
}

// lastIn returns when the last step in a slot was finished, 0 if there was none.
func lastIn(hosts []hostTimes, slot int) time.Duration {
	for _, h := range slices.Backward(hosts) {
		if h.slot == slot && h.objective >= 0 {
			return h.finished
		}
	}
	return 0
}
