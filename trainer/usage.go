package trainer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/dataloader"
)

// usage decides who uses the device. A pass of Fit, Steps or Evaluate excludes everything else:
// other calls return ErrBusy. Brief uses, which are a batch of a prediction, a Step and an access
// to a parameter, exclude each other: they wait, and so does a pass that begins.
//
//	in use by       Fit, Steps begin   Evaluate begins   a brief use   Close
//	nothing         runs               runs              runs          closes
//	a pass          ErrBusy            ErrBusy           ErrBusy       ErrBusy
//	a paused pass   ErrBusy            runs              runs          ErrBusy
//	a brief use     waits              waits             waits         ErrBusy
//
// A pass of Steps is paused while its body runs. To resume, it waits for what uses the device then.
// A paused pass keeps the slots until another use needs them: see Trainer.takeSlots.
//
// Plan, Stats, LossScale, Params and Kept do not use the device.
type usage struct {
	filling atomic.Bool   // a Batch.Fill runs
	device  chan struct{} // holds one element during a brief use, and while a pass begins or Close runs

	mu     sync.Mutex
	made   bool // by New
	closed bool
	pass   string          // name of the pass that runs, or ""
	paused *epochPass      // the pass of Steps whose body runs, or nil
	ended  chan struct{}   // holds one element after the end of a pass that ran while another was paused
	state  *State          // that has the memory for a copy of the state, until its Release
	stuck  *dataloader.Run // of a pass that ended although a reader had not returned and may still write to a slot

	snapshots snapshots // calls that wait for the end of a step
}

// open permits use.
func (u *usage) open() {
	u.device, u.ended = make(chan struct{}, 1), make(chan struct{}, 1)
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
// device may wait for, it returns errInsideModel; inside Batch.Fill, which has the device, it
// returns errInsideFill. The caller calls release.
func (u *usage) acquire(ctx context.Context) error {
	if err := u.check(); err != nil {
		return err
	}
	if insideModel() {
		return errInsideModel
	}
	if u.filling.Load() && calledFrom(runFillName) {
		return errInsideFill
	}
	if err := u.take(ctx); err != nil {
		return err
	}
	// A pass may have begun during the wait, or Close.
	if err := u.check(); err != nil {
		u.release()
		return err
	}
	return nil
}

// take waits for the end of a brief use.
func (u *usage) take(ctx context.Context) error {
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
	return nil
}

// release ends a brief use.
func (u *usage) release() { <-u.device }

// beginPass waits for brief uses and reserves the device for a pass; trains is set unless it is one
// of Evaluate. Errors are those of acquire. The caller calls endPass.
func (u *usage) beginPass(ctx context.Context, name string, trains bool) error {
	if err := u.acquire(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer u.release()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.paused != nil && trains {
		return fmt.Errorf("%s: the trainer is %w: the body of Steps is running", name, ErrBusy)
	}
	u.pass = name
	return nil
}

// endPass ends a pass. stuck is its run if a reader has not returned, else nil.
func (u *usage) endPass(stuck *dataloader.Run) {
	defer u.snapshots.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pass = ""
	u.keepStuck(stuck)
	if u.paused != nil {
		select {
		case u.ended <- struct{}{}:
		default:
		}
	}
}

// keepStuck remembers a run whose reader has not returned, if it is not nil. u.mu is held.
func (u *usage) keepStuck(run *dataloader.Run) {
	if run != nil {
		u.stuck = run
	}
}

// pause admits other uses while the body of p, the pass that runs, is called.
func (u *usage) pause(p *epochPass) {
	defer u.snapshots.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pass, u.paused = "", p
}

// resume waits for what uses the device, and reserves it for the paused pass again. After an error
// the pass is still paused.
func (u *usage) resume(ctx context.Context) error {
	if err := u.take(ctx); err != nil {
		return err
	}
	defer u.release()
	for {
		done, err := u.tryResume()
		if done || err != nil {
			return err
		}
		select {
		case <-u.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryResume is resume without a wait; it returns false while another pass runs.
func (u *usage) tryResume() (bool, error) {
	u.mu.Lock()
	busy := u.pass != ""
	u.mu.Unlock()
	if busy {
		return false, nil
	}
	if err := u.check(); err != nil {
		return false, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pass, u.paused = stepsName, nil
	return true, nil
}

// leave ends p, a paused pass that does not resume. It waits for the end of a brief use, but not
// for that of a pass, which has the slots or takes them from p.
func (u *usage) leave(p *epochPass) {
	u.device <- struct{}{}
	defer u.release()
	_ = p.giveSlots() // an error of an upload that no step will read
	u.mu.Lock()
	defer u.mu.Unlock()
	u.paused = nil
	u.keepStuck(p.reader.stuck)
}

// pausedPass returns the pass of Steps whose body runs, or nil.
func (u *usage) pausedPass() *epochPass {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.paused
}

// beginClose reserves the device for Close, without waiting, and reports whether this is the first
// time. It returns ErrBusy if anything uses the device. The caller calls release.
func (u *usage) beginClose() (first bool, err error) {
	select {
	case u.device <- struct{}{}:
	default:
		return false, fmt.Errorf("the trainer is %w: a prediction, a Step or an access to a parameter is running", ErrBusy)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pass != "" || u.paused != nil {
		u.release()
		return false, fmt.Errorf("the trainer is %w: %s is running", ErrBusy, cmp.Or(u.pass, "the body of Steps"))
	}
	if u.state != nil {
		u.release()
		return false, fmt.Errorf("the trainer is %w: a State is held: call State.Release", ErrBusy)
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
