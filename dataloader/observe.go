package dataloader

import "time"

// Filling is a piece of work of a loader: rows of a slot that were filled.
type Filling struct {
	Worker   int // that fetched them, from 0; -1: the goroutine of Next, if the dataset needs no workers
	Slot     int // index into the slots of the run
	Step     int // number of the batch in the epoch, from 0
	From, To int // rows; equal: the worker waited until the slot could be overwritten
	Begin    time.Time
	End      time.Time
}

// Observe lets epochs that begin from now on call f after each piece of work, in the goroutine that
// did it: f must be fast, and is called from several goroutines at once. Nil ends that. Without an
// observer nothing is measured.
func (l *Loader) Observe(f func(Filling)) {
	if l == nil || l.gone == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observe = f
}

// observed reports a job that began at begin to the observer of its run.
func (w *worker) observed(j job, begin time.Time) {
	j.r.observe(Filling{Worker: w.id, Slot: j.r.slotOf(j.f), Step: j.f.step, From: j.from, To: j.to, Begin: begin, End: time.Now()})
}

// fillInstant fills the slot of f from an instant dataset. l.mu is held.
func (r *Run) fillInstant(f *fill) {
	begin := time.Time{}
	if r.observe != nil {
		begin = time.Now()
	}
	r.l.instant.fill(f.slot.Fields, f.indices[:f.rows])
	if r.observe != nil {
		r.observe(Filling{Worker: -1, Slot: r.slotOf(f), Step: f.step, To: f.rows, Begin: begin, End: time.Now()})
	}
}
