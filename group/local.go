package group

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/arena"
)

// MaxLocal is the largest number of ranks of Local.
const MaxLocal = 1024

// Local returns the ranks of a new group of n goroutines of this process, such as one for each
// device. Their operations copy and add on up to n goroutines of the group. A number of ranks
// outside 1 to MaxLocal or a negative limit is an *OpError. Close every rank at the end.
func Local(n int, opt Options) ([]Group, error) {
	if n < 1 || n > MaxLocal {
		return nil, &OpError{Op: "Local", Reason: fmt.Sprintf("%d ranks: use 1 to %d", n, MaxLocal)}
	}
	opt, err := opt.Check()
	if err != nil {
		return nil, err
	}
	h := &hub{limit: opt.Limit, ranks: make([]*localRank, n), open: n, heads: make([]*localOp, n)}
	h.idle.L = &h.mu
	h.timer = time.AfterFunc(opt.Limit, h.expire)
	h.timer.Stop()
	groups := make([]Group, n)
	for i := range n {
		r := &localRank{h: h, rank: i, wake: make(chan struct{}, 1), scratch: alignedBlock()}
		h.ranks[i], groups[i] = r, r
		h.workers.Go(r.work)
	}
	return groups, nil
}

// hub is what the ranks of a local group share.
//
// Each rank has a queue of started operations. When no queue is empty, the heads of all queues
// belong together: they are compared, and workers and waiting ranks compute them. When all shares
// are computed, the heads leave the queues.
type hub struct {
	mu      sync.Mutex
	idle    sync.Cond // signalled when running becomes false
	workers sync.WaitGroup
	ranks   []*localRank
	limit   time.Duration
	open    int // ranks that have not closed

	entered int        // ranks whose queue is not empty
	running bool       // heads are computed
	heads   []*localOp // of all ranks, while running
	shares  int        // of the heads
	next    int        // the first share that nobody has taken
	left    int        // shares that are not done
	err     *RankError // why the group is broken

	// The clock of the limit runs while a rank waits for another and none is busy.
	busy  int // calls of Busy that are not done
	timer *time.Timer
	since time.Time     // the start of the clock, zero while it stands
	spent time.Duration // of the operation that waits, up to since
}

// localRank is a rank of a hub. The mutex of the hub guards its fields.
type localRank struct {
	h          *hub
	rank       int
	head, tail *localOp      // the queue
	wake       chan struct{} // shares of the heads are to be computed; closed when all ranks are
	scratch    []byte        // of Wait
	closed     bool
}

// localOp is an operation of a local rank. The mutex of the hub guards its fields below op.
type localOp struct {
	r    *localRank
	op   Op
	done chan error // one result for each start

	next    *localOp
	ended   time.Time // the last start
	flying  bool      // enqueued, and its result is not taken yet
	waiting bool      // a call of Wait takes the result
	closed  bool
}

func (r *localRank) Rank() int      { return r.rank }
func (r *localRank) Size() int      { return len(r.h.ranks) }
func (r *localRank) String() string { return "local" }

func (r *localRank) Prepare(op Op) (Operation, error) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("group: prepare %s: %w", op, arena.ErrClosed)
	}
	if err := op.Check(len(r.h.ranks)); err != nil {
		return nil, err
	}
	return &localOp{r: r, op: op, done: make(chan error, 1)}, nil
}

func (r *localRank) Busy(string) (done func()) {
	r.addBusy(1)
	return sync.OnceFunc(func() { r.addBusy(-1) })
}

func (r *localRank) addBusy(n int) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	r.h.busy += n
	r.h.setClock()
}

func (r *localRank) Abort(cause error) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if r.closed {
		return
	}
	r.h.fail(Aborted(r.rank, r.h.waiting(), cause))
}

func (r *localRank) Err() error {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return r.h.failure()
}

func (r *localRank) Close() error {
	h := r.h
	h.mu.Lock()
	if r.closed {
		h.mu.Unlock()
		return nil
	}
	r.closed = true
	for h.running { // others use this rank's memory
		h.idle.Wait()
	}
	if r.head != nil {
		h.fail(&RankError{Rank: r.rank, Ranks: []int{r.rank}, Op: r.head.op.String(), Err: ErrMismatch, Cause: "it closed its membership with this operation in flight"})
	}
	h.advance()
	h.open--
	last := h.open == 0
	h.mu.Unlock()
	if last {
		for _, r := range h.ranks {
			close(r.wake)
		}
		h.workers.Wait()
	}
	return nil
}

func (o *localOp) Start() error {
	r, h := o.r, o.r.h
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		return h.err
	case o.closed || r.closed:
		return arena.ErrClosed
	case o.flying:
		return arena.ErrBusy
	}
	o.flying = true
	o.next = nil
	if r.head == nil {
		r.head = o
		h.entered++
	} else {
		r.tail.next = o
	}
	r.tail = o
	h.advance()
	return nil
}

func (o *localOp) Wait() error {
	h := o.r.h
	h.mu.Lock()
	if !o.flying || o.waiting {
		defer h.mu.Unlock()
		if h.err != nil {
			return h.err
		}
		return ErrNotStarted
	}
	o.waiting = true
	h.compute(o.r.scratch)
	h.mu.Unlock()
	err := <-o.done
	h.mu.Lock()
	o.flying, o.waiting = false, false
	h.mu.Unlock()
	return err
}

// Completed implements Timed.
func (o *localOp) Completed() time.Time {
	o.r.h.mu.Lock()
	defer o.r.h.mu.Unlock()
	return o.ended
}

func (o *localOp) Close() error {
	o.r.h.mu.Lock()
	defer o.r.h.mu.Unlock()
	if o.flying && !o.closed {
		return arena.ErrBusy
	}
	o.closed = true
	return nil
}

// advance begins the operation that all ranks have started, if there is one. The mutex is held.
func (h *hub) advance() {
	for h.err == nil && !h.running && h.entered == len(h.ranks) {
		h.spent, h.since = 0, time.Time{} // the timer may still fire: expire looks at since
		for i, r := range h.ranks {
			h.heads[i] = r.head
		}
		if e := mismatch(h.heads); e != nil {
			h.fail(e)
			return
		}
		size := len(h.heads[0].op.Data)
		if size == 0 || len(h.ranks) == 1 {
			h.complete()
			continue
		}
		h.running = true
		h.shares = min(len(h.ranks), 1+size/shareBytes)
		h.next, h.left = 0, h.shares
		for _, r := range h.ranks[:h.shares] {
			select {
			case r.wake <- struct{}{}:
			default: // it has not seen the last one yet
			}
		}
	}
	if h.err == nil && !h.running && h.entered > 0 {
		for _, r := range h.ranks {
			if r.closed && r.head == nil {
				h.fail(&RankError{Rank: r.rank, Ranks: []int{r.rank}, Op: h.waiting(), Err: ErrMismatch, Cause: "it closed its membership before"})
				return
			}
		}
	}
	h.setClock()
}

// complete ends the heads of all queues. The mutex is held.
func (h *hub) complete() {
	now := time.Now()
	for _, r := range h.ranks {
		o := r.head
		o.ended = now
		r.head = o.next
		if r.head == nil {
			r.tail = nil
			h.entered--
		}
		o.done <- nil
	}
}

// work computes shares of operations until all ranks have closed.
func (r *localRank) work() {
	scratch := alignedBlock()
	for range r.wake {
		r.h.mu.Lock()
		r.h.compute(scratch)
		r.h.mu.Unlock()
	}
}

// compute takes shares of the heads, if there are any, and computes them without the mutex, which is
// held. Workers call it, so that operations progress while ranks do something else, and a rank that
// waits, which saves the switch to a worker.
func (h *hub) compute(scratch []byte) {
	for h.running && h.next < h.shares {
		s := h.next
		h.next++
		h.mu.Unlock()
		run(h.heads, s, h.shares, scratch)
		h.mu.Lock()
		if h.left--; h.left == 0 {
			h.running = false
			h.complete()
			h.advance()
			h.idle.Broadcast()
		}
	}
}

// fail breaks the group, unless it is broken. What is being computed is still completed. The mutex is
// held.
func (h *hub) fail(e *RankError) {
	if h.err != nil {
		return
	}
	h.err = e
	h.drop()
	h.setClock()
}

// drop ends all operations in queues, but not those that run, with the error of the group.
func (h *hub) drop() {
	for _, r := range h.ranks {
		o := r.head
		if h.running {
			o, r.head.next, r.tail = r.head.next, nil, r.head
		} else if o != nil {
			r.head, r.tail = nil, nil
			h.entered--
		}
		for o != nil {
			next := o.next
			o.done <- h.err
			o = next
		}
	}
}

// failure returns the error of the group, as an error that may be nil. The mutex is held.
func (h *hub) failure() error {
	if h.err == nil {
		return nil
	}
	return h.err
}

// waiting describes the operation that ranks wait for, "" if there is none. The mutex is held.
func (h *hub) waiting() string {
	for _, r := range h.ranks {
		if r.head != nil {
			return r.head.op.String()
		}
	}
	return ""
}

// setClock lets the clock of the limit run or stand. The mutex is held.
func (h *hub) setClock() {
	run := h.err == nil && !h.running && h.busy == 0 && h.entered > 0
	switch {
	case run && h.since.IsZero():
		h.since = time.Now()
		h.timer.Reset(h.limit - h.spent)
	case !run && !h.since.IsZero():
		h.spent += time.Since(h.since)
		h.since = time.Time{}
		h.timer.Stop()
	}
}

// expire breaks the group if the clock has reached the limit.
func (h *hub) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return
	}
	if rest := h.limit - h.spent - time.Since(h.since); rest > 0 {
		h.timer.Reset(rest)
		return
	}
	var late []int
	for _, r := range h.ranks {
		if r.head == nil {
			late = append(late, r.rank)
		}
	}
	h.fail(Stuck(late, h.waiting(), h.limit))
}

// mismatch returns an error if the operations of the ranks are not the same, or share memory.
func mismatch(heads []*localOp) *RankError {
	if slices.ContainsFunc(heads, func(o *localOp) bool { return !o.op.Same(heads[0].op) }) {
		started := make([]string, len(heads))
		for i, o := range heads {
			started[i] = o.op.String()
		}
		return Mismatch(started)
	}
	for i, o := range heads {
		for j, other := range heads[:i] {
			if overlap(o.op.Data, other.op.Data) {
				return &RankError{Rank: i, Ranks: []int{i}, Op: o.op.String(), Err: ErrMismatch, Cause: fmt.Sprintf("its data overlap those of rank %d", j)}
			}
		}
	}
	return nil
}
