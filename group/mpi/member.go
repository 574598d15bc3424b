//go:build mpi && unix && cgo

package mpi

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// member is this process's membership. Its goroutine comm makes every call of MPI.
type member struct {
	opt        Options
	rank, size int
	library    string
	own        *note
	comm       *comm
	ended      chan struct{} // closed when the goroutine of comm has ended
	signals    chan os.Signal

	failed atomic.Pointer[group.RankError] // why the group is broken
	mu     sync.Mutex                      // guards what follows, and the state of operations
	head   *operation                      // the queue: operations that are started and not taken by comm
	tail   *operation
	taken  *operation // that comm computes
	work   chan struct{}
	closed bool
}

// farewell is the longest time that Close of a broken group waits for the other ranks.
const farewell = 200 * time.Millisecond

// opened is set by the first Open: MPI starts once in a process.
var opened atomic.Bool

// Open joins the group of all processes of the launcher's job; a process that no launcher started is
// rank 0 of 1. All of them call it, once: MPI cannot start a second time, which returns
// arena.ErrBusy. It waits for all of them without a limit, and what ends meanwhile is the launcher's
// to notice. A launcher of another MPI library is a *LauncherError.
func Open(opt Options) (group.Group, error) {
	opt, err := opt.check()
	if err != nil {
		return nil, err
	}
	if !opened.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("mpi: open a second group in one process: %w", arena.ErrBusy)
	}
	m := &member{opt: opt, ended: make(chan struct{}), signals: make(chan os.Signal, 1), work: make(chan struct{}, 1)}
	m.comm = &comm{m: m}
	ready := make(chan error)
	go m.comm.run(ready)
	if err := <-ready; err != nil {
		<-m.ended
		return nil, err
	}
	signal.Notify(m.signals, syscall.SIGTERM)
	go m.terminate()
	return m, nil
}

// check returns the options with defaults filled in, or an error for one that is not valid.
func (o Options) check() (_ Options, err error) {
	if o.Options, err = o.Options.Check(); err != nil {
		return o, err
	}
	if o.Grace < 0 {
		return o, &group.OpError{Op: "open", Reason: fmt.Sprintf("Grace is %v: it must not be negative", o.Grace)}
	}
	if o.Notes == "" {
		o.Notes = os.TempDir()
	}
	return o, nil
}

// terminate breaks the group when the launcher ends this process: unless a rank that ended is why, after
// Options.Grace.
func (m *member) terminate() {
	if _, ok := <-m.signals; !ok {
		return
	}
	over := time.After(m.opt.Grace)
	e := m.comm.look(false)
	for grace := m.opt.Grace > 0; e == nil && grace; e = m.comm.look(false) {
		select {
		case _, again := <-m.signals: // a launcher may repeat it
			if !again { // Close
				return
			}
		case <-over:
			grace = false
		}
	}
	if e == nil {
		e = &group.RankError{Rank: -1, Op: m.waiting(), Err: group.ErrSignalled, Cause: "the launcher ends the job, or a user did"}
	}
	m.fail(e)
}

func (m *member) Rank() int      { return m.rank }
func (m *member) Size() int      { return m.size }
func (m *member) String() string { return m.library }

func (m *member) Busy(what string) (done func()) {
	setText(m.own.page.doing[:], what)
	m.own.page.busy.Add(1)
	return sync.OnceFunc(func() { m.own.page.busy.Add(-1) })
}

func (m *member) Abort(cause error) {
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if !closed {
		m.fail(group.Aborted(m.rank, m.waiting(), cause))
	}
}

func (m *member) Err() error {
	if e := m.failed.Load(); e != nil {
		return e
	}
	return nil
}

// Close ends the membership: it waits for the other ranks to close, up to the limit, and finalizes
// MPI. If they do not, or the group is broken, MPI is left as it is. The launcher ends all ranks when
// one ends with an error; so that each can report its own before, Close of a broken group waits up
// to 200 ms for the other ranks of this host to close.
func (m *member) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	pending := m.taken
	if m.head != nil {
		pending = m.head
	}
	m.mu.Unlock()
	if pending != nil {
		m.fail(&group.RankError{Rank: m.rank, Ranks: []int{m.rank}, Op: pending.name, Err: group.ErrMismatch,
			Cause: "it closed its membership with this operation in flight"})
	}
	var err error
	if m.failed.Load() == nil {
		end := &operation{m: m, op: group.Op{Kind: group.Barrier, Label: "close"}, done: make(chan error, 1)}
		end.describe()
		err = group.Run(end)
	} else {
		m.own.page.closing.Store(1)
		for until := time.Now().Add(farewell); !m.comm.allClose() && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
	}
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	close(m.work)
	<-m.ended
	signal.Stop(m.signals)
	close(m.signals)
	return errors.Join(err, m.comm.end)
}

// fail breaks the group, unless it is broken: it leaves the last word to the other ranks and ends
// all operations but the one that comm computes, which comm ends.
func (m *member) fail(e *group.RankError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.failed.CompareAndSwap(nil, e) {
		return
	}
	m.own.page.say(e)
	for o := m.head; o != nil; {
		next := o.next
		o.done <- e
		o = next
	}
	m.head, m.tail = nil, nil
}

// waiting describes the oldest operation in flight, "" if there is none.
func (m *member) waiting() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken != nil {
		return m.taken.name
	}
	if m.head != nil {
		return m.head.name
	}
	return ""
}
