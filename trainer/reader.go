package trainer

import (
	"errors"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
)

// reader is the run of a loader that fills the slots for a pass. The pass uses it in its goroutine.
// While the body of Steps runs, another goroutine may close it.
type reader struct {
	mu     sync.Mutex
	run    *dataloader.Run   // nil: not open
	before dataloader.Stalls // of the runs that are closed
	stuck  *dataloader.Run   // closed, but a worker has not returned and may still write to a slot
}

// isOpen reports whether the reader fills the slots.
func (r *reader) isOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run != nil
}

// open starts to fill the slots by run.
func (r *reader) open(run *dataloader.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run, r.stuck = run, nil
}

// stalls returns who waited for whom since the pass began, while a run was open.
func (r *reader) stalls() dataloader.Stalls {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return r.before
	}
	return r.before.Add(r.run.Stalls())
}

// close stops it. Without an error, nothing writes to the slots afterwards. before, if it is not
// nil, is called first if the reader is open.
func (r *reader) close(before func() error) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil && r.stuck == nil {
		return nil
	}
	if r.run != nil {
		if before != nil {
			err = before()
		}
		r.run, r.stuck = nil, r.run
		r.before = r.before.Add(r.stuck.Stalls())
	}
	closed := r.stuck.Close()
	if closed == nil {
		r.stuck = nil
	}
	return errors.Join(err, closed)
}
