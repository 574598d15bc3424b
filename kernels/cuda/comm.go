//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"gorgonia.org/cu"
)

// Comm is a group whose devices are joined by NCCL. It is a group.Group: operations on host memory,
// errors and liveness are those of the group that carries it. Sums of programs that are bound on its
// device, and Enqueue, are collectives between the GPUs. Device.Join makes one.
//
// If the carrying group breaks, or NCCL fails, a goroutine of the Comm aborts NCCL, so that nothing
// on the device waits for ever: Sync of the streams and events concerned returns the
// *group.RankError, and what collectives were to write is undefined.
type Comm struct {
	group.Group
	dev     *Device
	limit   time.Duration
	code    int       // the version of NCCL
	stream  cu.Stream // of the collectives of programs
	tail    cu.Event  // after the last collectives that were enqueued
	bytes   int64     // of device memory that NCCL takes
	bound   atomic.Int32
	failure atomic.Pointer[error] // why the communicator was aborted
	quit    chan struct{}         // closed by leave: ends watch, which frees nccl
	leave   func()
	aborted chan struct{} // closed when an abort has ended

	mu    sync.Mutex // held while NCCL is called, and while a program is captured; not during an abort
	nccl  communicator
	ended bool // nccl is being aborted, or has ended
	// The clock of the limit: what tail comes after was launched by all ranks at since.
	since time.Time // zero: tail is done
	what  string
}

// watchInterval is the time between two looks at the group, the communicator and the device.
const watchInterval = 5 * time.Millisecond

// String returns the library and its version, and the group that carries it.
func (c *Comm) String() string { return "NCCL " + c.Version() + " over " + c.Group.String() }

// Version returns the version of NCCL, such as "2.27.3".
func (c *Comm) Version() string { return ncclVersion(c.code) }

func (c *Comm) owns(p *properties) bool { return &c.dev.props == p }

// broken returns why the communicator does not work any more, nil while it does.
func (c *Comm) broken() error {
	if p := c.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// lock keeps others from NCCL, unless the communicator has ended.
func (c *Comm) lock() error {
	c.mu.Lock()
	if !c.ended {
		return nil
	}
	c.mu.Unlock()
	if err := c.broken(); err != nil {
		return err
	}
	return fmt.Errorf("the communicator was %w", arena.ErrClosed)
}

// failed is the error of a collective that could not be enqueued. The other ranks wait for it, so
// this one gives up. The mutex is held.
func (c *Comm) failed(call string, code int) error {
	if code == ncclInProgress { // the wait for its end was stopped
		return c.broken()
	}
	err := c.nccl.error(call, code)
	c.Group.Abort(err)
	return err
}

// issue enqueues a collective on s, and starts the clock of the limit for it. The mutex is held.
func (c *Comm) issue(x *collective, s cu.Stream, what string) error {
	if call, code := x.enqueue(s); code != 0 {
		return c.failed(call, code)
	}
	return c.mark(s, what)
}

// mark starts the clock of the limit for what was enqueued on s. The mutex is held.
func (c *Comm) mark(s cu.Stream, what string) error {
	c.since, c.what = time.Now(), what
	return fromCu("cuEventRecord", c.tail.Record(s))
}

// watch aborts the communicator when it, the group or the device fails.
func (c *Comm) watch() {
	look := time.NewTicker(watchInterval)
	defer look.Stop()
	defer c.nccl.free()
	for {
		select {
		case <-c.quit:
			return
		case <-look.C:
		}
		c.check()
		if err := c.Group.Err(); err != nil {
			c.abort(err)
			<-c.quit
			return
		}
	}
}

// check breaks the group if the device or NCCL has failed, or the device does not end collectives.
func (c *Comm) check() {
	if err := c.dev.Err(); err != nil {
		c.Group.Abort(err)
		return
	}
	if c.dev.enter("watch") != nil {
		return // closed meanwhile
	}
	defer c.dev.leave()
	if !c.mu.TryLock() {
		return // NCCL is being called
	}
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if code := c.nccl.state(); code != 0 && code != ncclInProgress {
		c.Group.Abort(c.nccl.error("ncclCommGetAsyncError", code))
		return
	}
	if c.since.IsZero() {
		return
	}
	switch done, err := query(c.tail); {
	case err != nil:
		c.Group.Abort(c.dev.note(err))
	case done:
		c.since = time.Time{}
	case time.Since(c.since) > c.limit:
		c.Group.Abort(&HangError{Op: c.what, Limit: c.limit})
	}
}

// abort ends the communicator because of err. What runs on the device ends soon; NCCL returns when
// programs are closed, which another goroutine waits for. On a device with a fatal error nothing runs.
func (c *Comm) abort(err error) {
	c.failure.Store(&err)
	c.nccl.stop()
	c.mu.Lock()
	was := c.ended
	c.ended = true
	c.mu.Unlock()
	if was || c.dev.Err() != nil {
		close(c.aborted)
		return
	}
	go func() {
		c.nccl.abort()
		close(c.aborted)
	}()
}

// Close ends the communicator after the collectives in flight, on all ranks. The carrying group stays
// open. While programs use the communicator it returns arena.ErrBusy: close their trainers first.
// Safe to call twice.
func (c *Comm) Close() error {
	if n := c.bound.Load(); n > 0 {
		return fmt.Errorf("cuda: close of a communicator: %d programs use it: close their trainer first: %w", n, arena.ErrBusy)
	}
	err := c.dev.discard("close of a communicator", c)
	if c.dev.Err() != nil {
		c.leave() // there was nothing to release
	}
	return err
}

// release is called with the context set, when no program uses the communicator.
func (c *Comm) release() error {
	err := c.end()
	c.dev.before.Add(-c.bytes)
	c.leave()
	return errors.Join(err, fromCu("cuEventDestroy", cu.DestroyEvent(&c.tail)), fromCu("cuStreamDestroy", c.stream.Destroy()))
}

// end ends NCCL's part.
func (c *Comm) end() error {
	c.mu.Lock()
	was := c.ended
	c.ended = true
	c.mu.Unlock()
	if was {
		select {
		case <-c.aborted:
			return nil
		case <-time.After(c.limit):
			return &HangError{Op: "ncclCommAbort", Limit: c.limit}
		}
	}
	err := c.nccl.finalize()
	if err == nil {
		err = c.settle("ncclCommFinalize", nil)
	}
	if err == nil {
		err = c.nccl.destroy()
	}
	if err != nil {
		c.nccl.abort()
	}
	return err
}

// settle waits until a call of NCCL has ended. It gives up when give returns an error, or at the
// limit.
func (c *Comm) settle(call string, give func() error) error {
	begin := time.Now()
	for {
		code := c.nccl.state()
		if code != ncclInProgress {
			return c.nccl.error(call, code)
		}
		if give != nil {
			if err := give(); err != nil {
				return err
			}
		}
		if time.Since(begin) > c.limit {
			return &HangError{Op: call, Limit: c.limit}
		}
		time.Sleep(50 * time.Microsecond)
	}
}
