package trainer

import (
	"context"
	"sync"
	"time"
)

// predictorQueue gathers calls into batches. The first caller that finds the lane without a leader
// is the leader: it computes, in its own goroutine, the batch of all calls that wait, and then makes
// the next caller the leader. No other goroutine is needed.
//
//	caller 1  leads: computes 1 ───────── done
//	caller 2         waits ───────────────  leads: computes 2, 3 ── done
//	caller 3            waits ──────────────────────────────────── done
//
// A caller whose context ends while it waits leaves the queue. One whose rows are in the batch that
// is being computed waits for its end, since the leader uses its memory.
type predictorQueue struct {
	mu         sync.Mutex
	closed     bool
	led        bool            // there is a leader
	head, tail *predictRequest // that wait, oldest first; the leader is the oldest
	rows       int             // of these
	free       []*predictRequest
	made       int // requests that exist

	// Only the leader uses these.
	batch   []*predictRequest
	crowded bool // the last batch was of several calls

	most  int           // rows of a full batch
	delay bool          // batches wait for further rows
	full  chan struct{} // holds one element when rows are enough for a full batch, or at Close
	timer *time.Timer   // of the leader's wait for further rows
}

// predictRequest is one call of Predict.
type predictRequest struct {
	in   [][]byte    // by input, memory of the caller
	dst  [][]float32 // by output, the same; nil: not wanted
	rows int
	err  error

	state   requestState // predictorQueue.mu guards it
	wake    chan struct{}
	arrived time.Time // set if batches wait for further rows
	next    *predictRequest
}

// requestState is what a call waits for.
type requestState uint8

const (
	waiting requestState = iota // for its turn
	taken                       // into the batch that is being computed
	leading                     // the caller is the leader
	done                        // err is the result
)

// init prepares the queue for batches of most rows.
func (q *predictorQueue) init(most int, delay bool) {
	q.most, q.delay = most, delay
	q.full = make(chan struct{}, 1)
	q.timer = time.NewTimer(time.Hour)
	q.timer.Stop()
	q.batch = make([]*predictRequest, 0, most)
}

// take returns a request without contents. The caller holds mu.
func (q *predictorQueue) take(inputs, outputs int) *predictRequest {
	if n := len(q.free); n > 0 {
		r := q.free[n-1]
		q.free = q.free[:n-1]
		return r
	}
	q.made++
	return &predictRequest{in: make([][]byte, inputs), dst: make([][]float32, outputs), wake: make(chan struct{}, 1)}
}

// give takes a request back and forgets the caller's memory. The caller holds mu.
func (q *predictorQueue) give(r *predictRequest) {
	clear(r.in)
	clear(r.dst)
	r.err, r.state, r.next = nil, waiting, nil
	q.free = append(q.free, r)
}

// enqueue appends a request and makes its caller the leader if there is none. The caller holds mu.
func (q *predictorQueue) enqueue(r *predictRequest) {
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
	q.rows += r.rows
	if !q.led {
		q.led, r.state = true, leading
	}
	if q.delay {
		r.arrived = time.Now()
		if q.rows >= q.most {
			q.signal()
		}
	}
}

// signal ends the leader's wait for further rows.
func (q *predictorQueue) signal() {
	select {
	case q.full <- struct{}{}:
	default:
	}
}

// takeBatch moves the oldest requests that fit into one batch from the queue to batch. The caller
// holds mu.
func (q *predictorQueue) takeBatch() {
	q.batch = q.batch[:0]
	for rows := 0; q.head != nil && rows+q.head.rows <= q.most; {
		r := q.head
		rows += r.rows
		q.head, r.next = r.next, nil
		q.rows -= r.rows
		if r.state == waiting {
			r.state = taken
		}
		q.batch = append(q.batch, r)
	}
	if q.head == nil {
		q.tail = nil
	}
}

// passOn makes the oldest waiting caller the leader and returns its request, nil if none waits. The
// caller holds mu, and is the leader until then.
func (q *predictorQueue) passOn() *predictRequest {
	if q.head == nil {
		q.led = false
		return nil
	}
	q.head.state = leading
	return q.head
}

// remove takes r out of the queue. The caller holds mu.
func (q *predictorQueue) remove(r *predictRequest) {
	var before *predictRequest
	for o := q.head; o != nil; before, o = o, o.next {
		if o != r {
			continue
		}
		if before == nil {
			q.head = r.next
		} else {
			before.next = r.next
		}
		if q.tail == r {
			q.tail = before
		}
		q.rows -= r.rows
		return
	}
}

// gather waits, as the leader r, until a full batch waits or r has waited for delay. It returns
// ctx's error if ctx ends before; then r has left the queue and another caller is the leader.
func (q *predictorQueue) gather(ctx context.Context, r *predictRequest, delay time.Duration) error {
	left := delay - time.Since(r.arrived)
	if left <= 0 {
		return nil
	}
	q.timer.Reset(left)
	defer q.timer.Stop()
	for {
		q.mu.Lock()
		enough := q.rows >= q.most || q.closed
		q.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-q.timer.C:
			return nil
		case <-q.full: // perhaps of an earlier batch
		case <-ctx.Done():
			q.mu.Lock()
			if q.closed { // r is not in the queue any more
				q.mu.Unlock()
				return nil
			}
			q.remove(r)
			next := q.passOn()
			q.give(r)
			q.mu.Unlock()
			if next != nil {
				next.wake <- struct{}{}
			}
			return ctx.Err()
		}
	}
}

// close ends all calls that wait, and refuses new ones. It returns false if it was called before.
func (q *predictorQueue) close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.closed = true
	for r := q.head; r != nil; {
		next := r.next
		r.next, r.err = nil, errPredictorClosed
		if r.state == waiting { // the leader finds out by itself
			r.state = done
			r.wake <- struct{}{}
		}
		r = next
	}
	q.head, q.tail, q.rows = nil, nil, 0
	q.signal()
	return true
}

// isClosed reports whether close was called.
func (q *predictorQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// bytes returns the bytes of all requests, roughly.
func (q *predictorQueue) bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(q.made)*256 + int64(cap(q.batch)+cap(q.free))*8
}
