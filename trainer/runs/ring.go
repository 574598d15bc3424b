package runs

import (
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
)

// ring passes records of fixed size from the goroutine that trains to the one that writes. Neither
// waits for the other: a record that finds the ring full is dropped and counted.
type ring[T any] struct {
	records []T
	head    atomic.Uint64 // records that were put, ever
	tail    atomic.Uint64 // records that were taken, ever; at most head
	dropped atomic.Int64
}

// newRing returns a ring for n records.
func newRing[T any](n int) *ring[T] { return &ring[T]{records: make([]T, n)} }

// next returns the record to fill before put, nil if the ring is full: the record is dropped.
func (r *ring[T]) next() *T {
	head := r.head.Load()
	if head-r.tail.Load() == uint64(len(r.records)) {
		r.dropped.Add(1)
		return nil
	}
	return &r.records[head%uint64(len(r.records))]
}

// put passes on the record that next has returned.
func (r *ring[T]) put() { r.head.Add(1) }

// first returns the oldest record, nil if there is none. It may be read until take.
func (r *ring[T]) first() *T {
	tail := r.tail.Load()
	if tail == r.head.Load() {
		return nil
	}
	return &r.records[tail%uint64(len(r.records))]
}

// take frees the record that first has returned.
func (r *ring[T]) take() { r.tail.Add(1) }

// step is the record of a training step.
type step struct {
	trainer.Progress
	at time.Duration // since the run was opened
	// norms has a norm of gradients for each layer, if layers is set.
	layers bool
	norms  []float32
}
