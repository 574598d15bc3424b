package trainer

import (
	"context"
	"fmt"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
)

// usage decides who uses the device. A pass of Fit or Evaluate excludes everything else: other
// calls return ErrBusy. Brief uses, which are a batch of a prediction and an access to a parameter,
// exclude each other: they wait, and so does a pass that begins.
//
//	in use by     a pass begins   a brief use   Close
//	nothing       runs            runs          closes
//	a pass        ErrBusy         ErrBusy       ErrBusy
//	a brief use   waits           waits         ErrBusy
//
// Plan, Stats, LossScale, Params and Kept do not use the device.
type usage struct {
	device chan struct{} // holds one element during a brief use, and while a pass begins or Close runs

	mu     sync.Mutex
	made   bool // by New
	closed bool
	pass   string          // name of the pass that runs, or ""
	stuck  *dataloader.Run // of a pass that ended although a reader had not returned and may still write to a slot

	snapshots snapshots // calls that wait for the end of a step
}

// open permits use.
func (u *usage) open() {
	u.device = make(chan struct{}, 1)
	u.made = true
}

// unmade is the usage of a nil Trainer: like that of a zero one, it refuses everything.
var unmade usage

// use returns who has the device of t, which may be nil.
func (t *Trainer) use() *usage {
	if t == nil {
		return &unmade
	}
	return &t.usage
}

// acquire waits for the device, for a brief use. It returns ErrBusy if a pass runs, ErrClosed after
// Close, and ctx's error if ctx ends the wait. Inside a model function, which the holder of the
// device may wait for, it returns errInsideModel. The caller calls release.
func (u *usage) acquire(ctx context.Context) error {
	if err := u.check(); err != nil {
		return err
	}
	if insideModel() {
		return errInsideModel
	}
	// A free device is taken even if ctx is done: the caller then finds that out by itself, as it
	// does without a wait.
	select {
	case u.device <- struct{}{}:
	default:
		select {
		case u.device <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// A pass may have begun during the wait, or Close.
	if err := u.check(); err != nil {
		u.release()
		return err
	}
	return nil
}

// release ends a brief use.
func (u *usage) release() { <-u.device }

// beginPass waits for brief uses and reserves the device for a pass. Errors are those of acquire.
// The caller calls endPass.
func (u *usage) beginPass(ctx context.Context, name string) error {
	if err := u.acquire(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer u.release()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pass = name
	return nil
}

// endPass ends a pass. stuck is its run if a reader has not returned, else nil.
func (u *usage) endPass(stuck *dataloader.Run) {
	defer u.snapshots.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pass = ""
	if stuck != nil {
		u.stuck = stuck
	}
}

// beginClose reserves the device for Close, without waiting, and reports whether this is the first
// time. It returns ErrBusy if anything uses the device. The caller calls release.
func (u *usage) beginClose() (first bool, err error) {
	select {
	case u.device <- struct{}{}:
	default:
		return false, fmt.Errorf("the trainer is %w: a prediction or an access to a parameter is running", ErrBusy)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pass != "" {
		u.release()
		return false, fmt.Errorf("the trainer is %w: %s is running", ErrBusy, u.pass)
	}
	first, u.closed = !u.closed, true
	return first, nil
}

// check returns an error if the trainer is closed, a pass runs, or a reader of an earlier pass has
// not returned.
func (u *usage) check() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !u.made || u.closed:
		return errClosed
	case u.pass != "":
		return fmt.Errorf("the trainer is %w: %s is running", ErrBusy, u.pass)
	case u.stuck != nil:
		if err := u.stuck.Stuck(); err != nil {
			return fmt.Errorf("the trainer is %w: a slot is still being written to: %w", ErrBusy, err)
		}
		u.stuck = nil
	}
	return nil
}

// isClosed reports whether the trainer is closed, or was not made by New.
func (u *usage) isClosed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.made || u.closed
}
