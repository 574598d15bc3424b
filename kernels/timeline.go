package kernels

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// WorkTimer is the capability of a device that measures when its streams do their work. A profile of
// a trainer needs it. kernels/cpu, kernels/emu and kernels/cuda have the capability.
type WorkTimer interface {
	// TimeWork lets stream s report its work to tl from now on: launches, copies and fills. With nil
	// it ends that, and tl has all of it. No work of s is in flight meanwhile. A stream that nobody
	// times is as fast as if there was no such method. It returns an error for a stream that is not
	// the device's, or is closed.
	TimeWork(s arena.Stream, tl *Timeline) error
}

// Track is which unit of a device did a piece of work. Work of one track of one stream, and of one
// worker, does not overlap in time.
type Track uint8

// The tracks.
const (
	StreamTrack   Track = iota // the stream itself: calls, copies, fills
	TransferTrack              // transfers of a program, which overlap its other calls
	GroupTrack                 // sums over the ranks of a group, from their start until they are complete
	WorkerTrack                // the part of one worker in a call, on a device that computes on several
)

// Timing is when a device did a piece of work.
type Timing struct {
	Stream  string // the name of the stream that it was enqueued in
	Track   Track
	Worker  int     // of WorkerTrack, from 0: the goroutine that launches
	Program Program // of which it is a call; nil: a copy or fill of the stream itself
	Call    int     // index in the list given to Bind; its length: the copies after the calls
	Bytes   int64   // of a copy or fill, 0 for calls
	Mark    int     // Timeline.Mark when it was enqueued
	// Since Timeline.Start.
	Begin, End time.Duration
}

// Timeline collects timings. All methods may be called from several goroutines at once.
type Timeline struct {
	start time.Time
	mark  atomic.Int64

	mu     sync.Mutex
	chunks [][]Timing // all full but the last one
}

// chunk is the number of timings that are allocated at once: they are never moved.
const chunk = 1024

// NewTimeline returns an empty timeline that starts now.
func NewTimeline() *Timeline { return &Timeline{start: time.Now()} }

// Start is the time that timings count from.
func (t *Timeline) Start() time.Time { return t.start }

// Now is the time since Start.
func (t *Timeline) Now() time.Duration { return time.Since(t.start) }

// Completed is the time from Start until an operation of a group completed: by its own clock if it is
// a [group.Timed], else now. Its Wait has returned without an error.
func (t *Timeline) Completed(op group.Operation) time.Duration {
	if timed, ok := op.(group.Timed); ok {
		return timed.Completed().Sub(t.start)
	}
	return t.Now()
}

// SetMark sets the number of work that is enqueued from now on, such as that of its step.
func (t *Timeline) SetMark(n int) { t.mark.Store(int64(n)) }

// Mark is the last number that SetMark was given.
func (t *Timeline) Mark() int { return int(t.mark.Load()) }

// Add adds a timing.
func (t *Timeline) Add(w Timing) {
	t.mu.Lock()
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last]) == chunk {
		t.chunks = append(t.chunks, make([]Timing, 0, chunk))
		last++
	}
	t.chunks[last] = append(t.chunks[last], w)
	t.mu.Unlock()
}

// Take returns all timings so far, in the order of Add, and forgets them.
func (t *Timeline) Take() []Timing {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Concat(t.chunks...)
	t.chunks = nil
	return all
}
