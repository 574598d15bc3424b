package dataloader

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Values of worker.sample that are not the index of a sample.
const (
	idle     = math.MinInt64 // the worker is not in foreign code
	syncRow  = -1            // the worker is in a Waiter's Sync
	blockRow = -2            // minus i: the worker is in Load or Done of block i
)

// worker is one goroutine that fetches.
type worker struct {
	id     int
	dst    [][]byte     // [fields] passed to Fetch
	sample atomic.Int64 // index of the sample that is being fetched
	since  time.Time    // when it began to wait for a slot; zero: it does not. The loader's mu guards it
}

// job is the rows [from, to) of a slot, its Waiter if from = to, or a block if f is nil.
type job struct {
	r        *Run
	f        *fill
	from, to int
	group    int // of blocks
	block    int // to decode
}

// serve is the goroutine of a worker. If a dataset ends it with runtime.Goexit, serve starts a new
// one.
func (l *Loader) serve(w *worker) {
	done := false
	defer func() {
		if !done {
			go l.serve(w)
			return
		}
		l.mu.Lock()
		l.live--
		if l.live == 0 {
			close(l.gone)
		}
		l.mu.Unlock()
	}()
	for {
		j, ok := l.claim(w)
		if !ok {
			break
		}
		w.do(j)
	}
	done = true
}

// claim waits for work and returns it. ok is false when the loader is closed.
func (l *Loader) claim(w *worker) (j job, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		if l.run != nil {
			if j, ok := l.run.find(); ok {
				l.run.busy++
				return j, true
			}
		}
		l.wait(w)
	}
	return job{}, false
}

// find returns the earliest piece of work: the Waiter of a slot, or some rows. A job has a quarter
// of a worker's share of the rows, so that one slow sample does not delay the whole batch. l.mu is
// held.
func (r *Run) find() (job, bool) {
	if r.closed || r.ctx.Err() != nil {
		return job{}, false
	}
	// Decode ahead with half of the workers at most, as long as there are rows to fetch.
	if j, ok := r.findBlock(r.gate != nil && 2*(r.gate.loading+1) > len(r.l.workers)); ok {
		return j, true
	}
	for step := r.given; step < r.issued; step++ {
		f := &r.fills[r.ring[step%len(r.ring)]]
		if r.failed.Load() < r.position(step, -1) {
			break
		}
		switch {
		case f.state == waiting:
			f.state = syncing
			return job{r: r, f: f}, true
		case f.state == filling && f.next < f.rows:
			some := 1 + (f.rows-1)/(4*len(r.l.workers))
			from, group := f.next, 0
			some = min(some, f.rows-from)
			if r.gate != nil {
				if some, group = r.gate.ready(f.first+from, some); some == 0 {
					continue
				}
			}
			f.next = from + some
			return job{r: r, f: f, from: from, to: f.next, group: group}, true
		}
	}
	return r.findBlock(false)
}

// findBlock returns a block to decode; with urgent only one that the next rows need. l.mu is held.
func (r *Run) findBlock(urgent bool) (job, bool) {
	if r.gate == nil {
		return job{}, false
	}
	group, block, ok := r.gate.load(urgent)
	return job{r: r, group: group, block: block}, ok
}

// do runs a job. finish runs also after a panic.
func (w *worker) do(j job) {
	defer w.finish(j)
	if j.f == nil {
		w.load(j)
		return
	}
	if j.r.observe != nil {
		defer w.observed(j, time.Now())
	}
	if j.from == j.to {
		if err := w.sync(j); err != nil {
			j.r.fail(j.r.position(j.f.step, -1), err)
		}
		return
	}
	r := j.r
	for row := j.from; row < j.to; row++ {
		if r.ctx.Err() != nil || r.failed.Load() < r.position(j.f.step, row) {
			return
		}
		if err := fillIndices(j.f.indices[row:row+1], r.seq, j.f.first+row, r.l.samples); err != nil {
			r.fail(r.position(j.f.step, row), fmt.Errorf("step %d: %w", j.f.step, err))
			return
		}
		index := j.f.indices[row]
		if err := notEOF(w.fetch(j, row, index)); err != nil {
			r.fail(r.position(j.f.step, row), &SampleError{Worker: w.id, Index: index, Step: j.f.step, Err: err})
			return
		}
	}
}

// load decodes a block ahead. Its errors are left to Fetch, which returns them for the right sample.
func (w *worker) load(j job) {
	w.sample.Store(int64(blockRow - j.block))
	defer func() { _ = recover() }()
	if load := j.r.gate.order.plan.Load; load != nil {
		_ = load(j.r.ctx, j.block)
	}
}

// finish counts the job as done.
func (w *worker) finish(j job) {
	r, f, l := j.r, j.f, j.r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	w.sample.Store(idle)
	clear(w.dst) // a waiting worker must not keep the caller's memory alive
	switch {
	case f == nil:
		r.gate.loading--
		r.gate.at(j.group).unloaded--
		l.wake.Broadcast()
	case f.state == syncing && j.from == j.to:
		f.state, f.ready = filling, nil
		l.wake.Broadcast()
	}
	if f != nil {
		f.left -= j.to - j.from
		if f.state == filling && f.left == 0 {
			f.state = filled
			f.done <- struct{}{}
		}
	}
	if r.gate != nil && f != nil && j.to > j.from {
		r.gate.at(j.group).left -= j.to - j.from
		w.pass(r)
	}
	r.busy--
	r.settle()
}

// pass closes the groups whose rows are all finished, reports their blocks as done, and opens as many
// others. l.mu is held, but not while foreign code runs.
func (w *worker) pass(r *Run) {
	g, l := r.gate, r.l
	for !g.closing && g.low < g.order.groups() && g.at(g.low).left == 0 {
		if done := g.order.plan.Done; done != nil {
			g.closing = true
			blocks := g.at(g.low).blocks
			l.mu.Unlock()
			for _, b := range blocks {
				w.report(done, g.order.block(b))
			}
			l.mu.Lock()
			g.closing = false
		}
		g.low++
		g.enter(g.low + g.window - 1)
		l.wake.Broadcast()
	}
}

// report calls done for a block. A panic in it changes no sample.
func (w *worker) report(done func(int), block int) {
	w.sample.Store(int64(blockRow - block))
	defer func() {
		_ = recover()
		w.sample.Store(idle)
	}()
	done(block)
}

// fail records err for a position, unless an earlier position failed.
func (r *Run) fail(position int64, err error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if position < r.failed.Load() {
		r.failed.Store(position)
		r.err = err
	}
}

var (
	errExit    = errors.New("runtime.Goexit was called")
	errReplace = errors.New("Fetch replaced a slice of dst: it must write into it")
)

// fetch calls the dataset's Fetch for one row.
func (w *worker) fetch(j job, row, index int) (err error) {
	l := j.r.l
	for k, size := range l.bytes {
		w.dst[k] = j.f.slot.Fields[k][row*size : (row+1)*size : (row+1)*size]
	}
	w.sample.Store(int64(index))
	returned := false
	defer func() {
		if !returned {
			err = caught(recover())
		}
		w.sample.Store(idle)
		if err != nil && errors.Is(err, errExit) {
			j.r.fail(j.r.position(j.f.step, row), &SampleError{Worker: w.id, Index: index, Step: j.f.step, Err: err})
		}
	}()
	err = l.ds.Fetch(j.r.ctx, At{Index: index, Epoch: j.r.epoch, Seed: l.opt.Seed}, w.dst)
	returned = true
	for k, size := range l.bytes {
		if d := w.dst[k]; err == nil && (len(d) != size || &d[0] != &j.f.slot.Fields[k][row*size]) {
			err = &FieldError{Index: k, Name: l.fields[k].Name, Problem: errReplace.Error()}
		}
	}
	return err
}

// sync calls the Sync of the slot's Waiter.
func (w *worker) sync(j job) (err error) {
	slot := j.r.slotOf(j.f)
	w.sample.Store(syncRow)
	returned := false
	defer func() {
		if !returned {
			err = caught(recover())
		}
		if err != nil {
			err = &SlotError{Slot: slot, Step: j.f.step, Err: notEOF(err)}
		}
		if errors.Is(err, errExit) {
			j.r.fail(j.r.position(j.f.step, -1), err)
		}
	}()
	err = j.f.ready.Sync()
	returned = true
	return err
}

// slotOf returns the index of f.
func (r *Run) slotOf(f *fill) int {
	for i := range r.fills {
		if &r.fills[i] == f {
			return i
		}
	}
	return -1
}

// notEOF turns io.EOF into io.ErrUnexpectedEOF: io.EOF of Next means the end of the epoch.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%v)", io.ErrUnexpectedEOF, err)
	}
	return err
}

// caught returns the error for the value of recover. Without a panic, runtime.Goexit ended the
// goroutine.
func caught(value any) error {
	if value == nil {
		return errExit
	}
	return &PanicError{Value: value, Stack: debug.Stack()}
}
