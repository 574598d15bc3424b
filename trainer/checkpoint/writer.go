package checkpoint

import (
	"sync"

	"github.com/evenkeel/evenkeel/trainer"
)

// job is a captured state that is to be written.
type job struct {
	state   *trainer.State
	metrics map[string]float64
}

// writer is the goroutine that writes checkpoints, one at a time. There is room for one captured
// state only, so that it never has a second job to keep.
type writer struct {
	jobs chan job
	done sync.WaitGroup // the goroutine

	mu     sync.Mutex
	idle   *sync.Cond
	busy   bool
	closed bool
}

// open starts the goroutine, which calls write for each job.
func (w *writer) open(write func(job)) {
	w.jobs = make(chan job, 1)
	w.idle = sync.NewCond(&w.mu)
	w.done.Go(func() {
		for j := range w.jobs {
			write(j)
			w.mu.Lock()
			w.busy = false
			w.mu.Unlock()
			w.idle.Broadcast()
		}
	})
}

// free reports whether no job is being written.
func (w *writer) free() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.busy
}

// wait waits until no job is being written.
func (w *writer) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy {
		w.idle.Wait()
	}
}

// start gives a job to the goroutine, unless that has ended. The caller has seen that it is free.
func (w *writer) start(j job) (started bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.busy = true
	w.jobs <- j // there is room, as the goroutine is free
	return true
}

// close waits for the job and ends the goroutine.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	close(w.jobs)
	w.mu.Unlock()
	w.done.Wait()
}
