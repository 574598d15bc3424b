package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// The worker pool: every kernel splits its work into parts by the shapes of its operands, and the
// pool computes the parts on all threads.

// A task is work that splits into independent parts.
type task interface {
	// do computes part i. Parts that run at the same time have different values of worker, from 0
	// up to the pool's threads and below the number of parts; it selects a private piece of the
	// call's workspace.
	do(i, worker int)
}

// Times that a worker without work, or a caller at the end of a run, spins before it sleeps. Waking
// a goroutine takes 10 to 100 µs; the gap between two kernels of a step is below 1 µs. A caller
// waits for parts that already run, so it spins longer than a worker that may not be needed.
const (
	spinIdle = 200 * time.Microsecond // default of a worker
	spinJoin = time.Millisecond
	// After this time, a spinning goroutine yields the processor to others.
	spinAlone = 20 * time.Microsecond
	spinBatch = 64 // polls of the state for each poll of the clock
)

// The state of a pool, in one word: the number of the run (32 bits), openBit while workers may
// join, waitBit while the caller sleeps until the last worker leaves, and the number of workers
// inside (30 bits).
const (
	openBit    = uint64(1) << 31
	waitBit    = uint64(1) << 30
	activeMask = waitBit - 1
	runShift   = 32
)

// A pool runs tasks on its caller and on workers that live until close.
//
//	caller  open ──────── claims parts ──────── close gate ── waits for those inside ── return
//	worker       └ joins ─ claims parts ─ leaves ┘
//	late                                             └ finds the gate closed, goes back to sleep
//
// Invariant: job and n change only while no worker is inside a run.
type pool struct {
	mu      sync.Mutex // held by the run in progress, and by close
	_       [56]byte
	state   atomic.Uint64
	_       [56]byte
	next    atomic.Int64 // first part that is not claimed
	_       [56]byte
	n       int64
	job     task
	runs    uint64
	workers []*worker
	allLeft chan struct{} // wakes a caller that sleeps
	stop    atomic.Bool
	exits   sync.WaitGroup
	failure atomic.Pointer[failure]
	idle    time.Duration             // a worker's spin
	timed   atomic.Pointer[timedCall] // the call whose parts are timed; nil: none
}

// A worker is one goroutine of a pool.
type worker struct {
	// 1 while asleep or about to be: who sets it back to 0 decides how it wakes.
	parked atomic.Uint32
	wake   chan struct{}
	_      [48]byte
}

// A failure holds the value that a part panicked with.
type failure struct{ value any }

// newPool starts a pool of that many threads, the caller's own among them. Below 2 it has no
// workers. A worker without work spins for idle, or for a default where that is 0, and then sleeps.
func newPool(threads int, idle time.Duration) *pool {
	if idle == 0 {
		idle = spinIdle
	}
	p := &pool{allLeft: make(chan struct{}, 1), idle: idle}
	for i := 1; i < threads; i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		p.exits.Add(1)
		go p.loop(w, i)
	}
	return p
}

// threads returns how many parts can run at once.
func (p *pool) threads() int { return len(p.workers) + 1 }

// run calls t.do for 0..n-1, in any order and several at a time, and returns when all have. It
// allocates nothing. A run inside a run, during another run or after close computes its parts one
// by one in the caller, as worker 0. A panic of a part becomes a panic of run.
func (p *pool) run(t task, n int) {
	if n <= 1 || len(p.workers) == 0 || !p.mu.TryLock() {
		serial(t, n)
		return
	}
	if p.stop.Load() {
		p.mu.Unlock()
		serial(t, n)
		return
	}
	p.job, p.n = t, int64(n)
	p.next.Store(0)
	p.runs++
	p.state.Store(p.runs<<runShift | openBit)
	for _, w := range p.workers[:min(len(p.workers), n-1)] {
		if w.parked.Load() == 1 && w.parked.CompareAndSwap(1, 0) {
			w.wake <- struct{}{}
		}
	}
	p.claimParts(0)
	p.waitForWorkers()
	p.job = nil
	f := p.failure.Swap(nil)
	p.mu.Unlock()
	if f != nil {
		panic(f.value)
	}
}

// serial runs n parts in the caller.
func serial(t task, n int) {
	for i := range n {
		t.do(i, 0)
	}
}

// claimParts claims parts until none is left.
func (p *pool) claimParts(worker int) {
	defer p.recoverPanic()
	if c := p.timed.Load(); c != nil {
		defer c.addWorker(worker, c.timeline.Now())
	}
	for job, n := p.job, p.n; ; {
		i := p.next.Add(1) - 1
		if i >= n {
			return
		}
		job.do(int(i), worker)
	}
}

// recoverPanic stores a panic, which run raises in its caller, and claims all remaining parts.
func (p *pool) recoverPanic() {
	if v := recover(); v != nil {
		p.failure.CompareAndSwap(nil, &failure{v})
		p.next.Store(p.n)
	}
}

// waitForWorkers closes the gate, so that no late worker joins, and waits for the workers inside.
// It spins, then sleeps, because one of them may need this processor.
func (p *pool) waitForWorkers() {
	p.state.And(^openBit)
	if spin(spinJoin, func() bool { return p.state.Load()&activeMask == 0 }) {
		return
	}
	if p.state.Or(waitBit)&activeMask != 0 {
		<-p.allLeft
	}
}

// leaveRun ends a worker's part in a run.
func (p *pool) leaveRun() {
	if s := p.state.Add(^uint64(0)); s&activeMask == 0 && s&waitBit != 0 {
		p.allLeft <- struct{}{}
	}
}

// loop joins runs until the pool closes. It is the goroutine of worker id.
func (p *pool) loop(w *worker, id int) {
	defer p.exits.Done()
	var last uint64
	for !p.stop.Load() {
		if !spin(p.idle, func() bool { return p.hasNewRun(last) }) {
			p.park(w, last)
		}
		last = p.joinRun(id, last)
	}
}

// hasNewRun reports whether a run other than the last one is open to workers.
func (p *pool) hasNewRun(last uint64) bool {
	s := p.state.Load()
	return s&openBit != 0 && s>>runShift != last
}

// spin polls done for at most most and reports whether it returned true.
func spin(most time.Duration, done func() bool) bool {
	for start := time.Now(); ; {
		for range spinBatch {
			if done() {
				return true
			}
			asm.Pause()
		}
		switch d := time.Since(start); {
		case d >= most:
			return false
		case d >= spinAlone:
			runtime.Gosched()
		}
	}
}

// park sleeps until a run opens or the pool closes.
func (p *pool) park(w *worker, last uint64) {
	w.parked.Store(1)
	if (p.hasNewRun(last) || p.stop.Load()) && w.parked.CompareAndSwap(1, 0) {
		return
	}
	<-w.wake
}

// joinRun claims parts of the open run if it is not the last one. It returns the number of the run
// that it saw.
func (p *pool) joinRun(id int, last uint64) uint64 {
	for {
		s := p.state.Load()
		if s&openBit == 0 || s>>runShift == last {
			return s >> runShift
		}
		if p.state.CompareAndSwap(s, s+1) {
			if int64(id) < p.n {
				p.claimParts(id)
			}
			p.leaveRun()
			return s >> runShift
		}
	}
}

// close waits for the run in progress and ends the workers. No goroutine of the pool is left when
// it returns. Safe to call twice.
func (p *pool) close() {
	p.mu.Lock()
	p.stop.Store(true)
	for _, w := range p.workers {
		if w.parked.CompareAndSwap(1, 0) {
			w.wake <- struct{}{}
		}
	}
	p.mu.Unlock()
	p.exits.Wait()
}
