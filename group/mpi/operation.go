//go:build mpi && unix && cgo

package mpi

import (
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"time"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// operation is an operation of a member.
type operation struct {
	m     *member
	op    group.Op
	name  string
	hash  uint64 // of what ranks compare
	part  int    // bytes of the part of each rank; all bytes without parts
	stage []byte // memory outside the Go heap, to send from and to receive to
	pin   runtime.Pinner
	done  chan error // one result for each start
	ended time.Time  // the last start; written before its result is sent

	// The mutex of the member guards what follows.
	next    *operation
	flying  bool // enqueued, and its result is not taken yet
	waiting bool // a call of Wait takes the result
	closed  bool
}

func (m *member) Prepare(op group.Op) (group.Operation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("mpi: prepare %s: %w", op, arena.ErrClosed)
	}
	if err := op.Check(m.size); err != nil {
		return nil, err
	}
	o := &operation{m: m, op: op, done: make(chan error, 1)}
	o.describe()
	if len(op.Data) == 0 {
		return o, nil
	}
	o.part = len(op.Data)
	if op.Kind == group.AllGather || op.Kind == group.ReduceScatter {
		o.part /= m.size
	}
	if op.Kind == group.AllGather && o.part > math.MaxInt32 {
		return nil, &group.OpError{Op: o.name, Reason: fmt.Sprintf("MPI gathers up to %d bytes of each rank: cut it into several operations", math.MaxInt32)}
	}
	o.pin.Pin(&op.Data[0])
	if op.Kind == group.ReduceScatter || o.strict() {
		o.stage = allocate(2 * m.size * o.chunk())
	}
	return o, nil
}

// describe sets the name and the hash.
func (o *operation) describe() {
	o.name = o.op.String()
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %d %d %s", o.op.Kind, o.op.Type, len(o.op.Data), o.op.Root, o.op.Label)
	o.hash = h.Sum64()
}

// strict reports whether Go adds the numbers of this operation in the order of ranks. The order does
// not matter for integers, or for up to two ranks.
func (o *operation) strict() bool {
	return o.m.opt.Strict && o.m.size > 2 && o.op.Type.Float() && (o.op.Kind == group.Sum || o.op.Kind == group.ReduceScatter)
}

// chunk returns the bytes of each rank that are in staging memory at a time.
func (o *operation) chunk() int { return min(o.part, max(4096, pieceBytes/o.m.size/8*8)) }

// at returns the address of the data from a byte on.
func (o *operation) at(i int) unsafe.Pointer { return unsafe.Pointer(&o.op.Data[i]) }

func (o *operation) Start() error {
	m := o.m
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e := m.failed.Load(); {
	case e != nil:
		return e
	case o.closed || m.closed:
		return arena.ErrClosed
	case o.flying:
		return arena.ErrBusy
	}
	o.flying, o.next = true, nil
	if m.head == nil {
		m.head = o
	} else {
		m.tail.next = o
	}
	m.tail = o
	select {
	case m.work <- struct{}{}:
	default: // comm has not looked since the last start
	}
	return nil
}

func (o *operation) Wait() error {
	m := o.m
	m.mu.Lock()
	if !o.flying || o.waiting {
		m.mu.Unlock()
		if err := m.Err(); err != nil {
			return err
		}
		return group.ErrNotStarted
	}
	o.waiting = true
	m.mu.Unlock()
	err := <-o.done
	m.mu.Lock()
	o.flying, o.waiting = false, false
	m.mu.Unlock()
	return err
}

// Completed implements group.Timed.
func (o *operation) Completed() time.Time { return o.ended }

func (o *operation) Close() error {
	m := o.m
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case o.closed:
		return nil
	case o.flying:
		return arena.ErrBusy
	}
	o.closed = true
	if m.failed.Load() != nil && m.comm.request.Load() {
		return nil // MPI may still know the memory: it stays pinned until the program ends
	}
	o.pin.Unpin()
	release(o.stage)
	o.stage = nil
	return nil
}

// take returns the next operation for comm, nil if there is none.
func (m *member) take() *operation {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.head
	if o == nil {
		return nil
	}
	m.head = o.next
	if m.head == nil {
		m.tail = nil
	}
	m.taken = o
	return o
}

// complete gives the taken operation its result.
func (m *member) complete(err error) {
	m.mu.Lock()
	o := m.taken
	m.taken = nil
	m.mu.Unlock()
	o.ended = time.Now()
	o.done <- err
}
