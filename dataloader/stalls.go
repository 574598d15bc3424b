package dataloader

import (
	"fmt"
	"runtime"
	"time"
)

// Stalls says who waited for whom in a run. If Waited is a large part of Elapsed, the data come too
// slowly; if Idle is a large part of Elapsed times Workers, the caller is what takes the time.
type Stalls struct {
	Elapsed time.Duration // since Epoch, until Close
	Waited  time.Duration // of it, for batches, in Next
	Idle    time.Duration // that workers waited for a slot to be released, the sum over them
	Workers int           // as many as there are now
}

// bottleneck is the share of waiting from which on the input is called the bottleneck.
const bottleneck = 0.05

// Share returns the part of the time that Next waited, 0 to 1.
func (s Stalls) Share() float64 { return share(s.Waited, s.Elapsed) }

// share returns part/all, or 0 if all is 0.
func share(part, all time.Duration) float64 {
	if all <= 0 {
		return 0
	}
	return min(1, max(0, part.Seconds()/all.Seconds()))
}

// String returns one line, such as "the input is the bottleneck: 37 % of 12.4s waited for data, 8
// workers" or "the input keeps up: 0 % of 12.4s waited for data, 8 workers idle for 61 %".
func (s Stalls) String() string {
	waited := fmt.Sprintf("%.0f %% of %v waited for data, %d worker", 100*s.Share(), rounded(s.Elapsed), s.Workers)
	if s.Workers != 1 {
		waited += "s"
	}
	if s.Share() >= bottleneck {
		return "the input is the bottleneck: " + waited
	}
	return fmt.Sprintf("the input keeps up: %s idle for %.0f %%", waited, 100*share(s.Idle, s.Elapsed*time.Duration(s.Workers)))
}

// rounded returns a duration to the millisecond, or with three digits below 100 ms.
func rounded(d time.Duration) time.Duration {
	unit := time.Millisecond
	for unit > 1 && d < 100*unit {
		unit /= 10
	}
	return d.Round(unit)
}

// Add returns the sum of the times of two runs, with the workers of t.
func (s Stalls) Add(t Stalls) Stalls {
	return Stalls{s.Elapsed + t.Elapsed, s.Waited + t.Waited, s.Idle + t.Idle, t.Workers}
}

// Stalls returns what was measured so far. It may be called at any time and allocates nothing.
func (r *Run) Stalls() Stalls {
	if r == nil || r.l == nil {
		return Stalls{}
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	now := r.ended
	if now.IsZero() {
		now = time.Now()
	}
	s := Stalls{Elapsed: now.Sub(r.begun), Waited: r.waited, Idle: r.idle, Workers: len(r.l.workers)}
	if r.ended.IsZero() {
		for _, w := range r.l.workers {
			if !w.since.IsZero() {
				s.Idle += now.Sub(w.since)
			}
		}
	}
	return s
}

// wait waits for a signal, and counts the time as idle if the worker waits for a slot. l.mu is held.
func (l *Loader) wait(w *worker) {
	r := l.run
	if r == nil || r.closed || r.issued == l.steps || r.gate != nil && r.gate.loading > 0 {
		l.wake.Wait()
		return
	}
	w.since = time.Now()
	l.wake.Wait()
	if !w.since.IsZero() { // else Close has counted it
		r.idle += time.Since(w.since)
		w.since = time.Time{}
	}
}

// stopClock ends the measurements of a run that is being closed. l.mu is held.
func (r *Run) stopClock() {
	r.ended = time.Now()
	for _, w := range r.l.workers {
		if !w.since.IsZero() {
			r.idle += r.ended.Sub(w.since)
			w.since = time.Time{}
		}
	}
}

// Await waits for up to d until Next would return at once, with a batch or an error, and reports
// whether it would. The time does not count as waited. It may be called where Next may.
func (r *Run) Await(d time.Duration) bool {
	if r == nil || r.l == nil {
		return true
	}
	f := r.pending()
	if f == nil || d <= 0 {
		return f == nil
	}
	r.l.timer.Reset(d)
	defer r.l.timer.Stop()
	select {
	case <-f.done:
		f.done <- struct{}{} // for Next
	case <-r.ctx.Done():
	case <-r.l.timer.C:
		return false
	}
	return true
}

// pending returns the slot of the next batch if Next would wait for it, else nil.
func (r *Run) pending() *fill {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.given == r.issued || r.over(r.ctx) != nil || r.asked { // io.EOF, or an error
		return nil
	}
	if f := &r.fills[r.ring[r.given%len(r.ring)]]; f.state != filled && f.state != due {
		return f
	}
	return nil
}

// growth decides how many workers a loader has whose Options.Workers is 0. At the end of each window
// in which Next has waited and all workers were busy, one more is started, up to one for each CPU.
type growth struct {
	limit int // 0: the number is fixed
	run   *Run
	since time.Time
	// Of the run when the window began.
	waited, idle time.Duration
}

const (
	growthWindow = 50 * time.Millisecond
	growthWaited = 0.05 // of the window, that Next has waited at least
	growthIdle   = 0.10 // of the workers' time, that they were idle at most
)

// adapt starts a worker if one is missing. l.mu is held; Next has just waited in run r.
func (l *Loader) adapt(r *Run) {
	g := &l.growth
	if g.limit <= len(l.workers) || l.closed || r.closed {
		return
	}
	now := time.Now()
	if g.run == r {
		window := now.Sub(g.since)
		if window < growthWindow {
			return
		}
		idle := r.idle - g.idle
		for _, w := range l.workers {
			if !w.since.IsZero() {
				idle += now.Sub(w.since)
			}
		}
		if (r.waited-g.waited).Seconds() > growthWaited*window.Seconds() &&
			idle.Seconds() < growthIdle*window.Seconds()*float64(len(l.workers)) {
			l.startWorker()
		}
	}
	*g = growth{limit: g.limit, run: r, since: now, waited: r.waited, idle: r.idle}
}

// startWorker starts one more worker. l.mu is held, or nothing uses the loader yet.
func (l *Loader) startWorker() {
	w := &worker{id: len(l.workers), dst: make([][]byte, len(l.fields))}
	w.sample.Store(idle)
	l.workers = append(l.workers, w)
	l.live++
	go l.serve(w)
}

// defaultWorkers returns with how many workers a loader starts whose Options.Workers is 0, and how
// many it has at most.
func defaultWorkers() (first, most int) {
	n := runtime.GOMAXPROCS(0)
	return min((n+1)/2, 8), min(n, MaxWorkers)
}
