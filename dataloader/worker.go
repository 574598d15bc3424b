package dataloader

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"sync/atomic"
)

// What worker.sample holds when no sample is being fetched.
const (
	idle    = math.MinInt64 // outside other people's code
	syncRow = -1            // in a Waiter's Sync
)

// worker is one goroutine that fetches.
type worker struct {
	id     int
	dst    [][]byte     // [fields] passed to Fetch
	sample atomic.Int64 // the index being fetched
}

// job is rows [from, to) of a slot, or its Waiter where from = to.
type job struct {
	r        *Run
	f        *fill
	from, to int
}

// serve is a worker's life. If a dataset ends the goroutine (runtime.Goexit), another takes its place.
func (l *Loader) serve(w *worker) {
	whole := false
	defer func() {
		if !whole {
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
		j, ok := l.claim()
		if !ok {
			break
		}
		w.do(j)
	}
	whole = true
}

// claim waits for work. It is false when the loader is closed.
func (l *Loader) claim() (job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		if l.run != nil {
			if j, ok := l.run.find(); ok {
				l.run.busy++
				return j, true
			}
		}
		l.wake.Wait()
	}
	return job{}, false
}

// find takes the earliest piece of work: a slot to be awaited, or some rows. Rows are taken a quarter of a worker's
// share at a time, so that one slow sample does not hold up a batch. l.mu is held.
func (r *Run) find() (job, bool) {
	if r.closed || r.ctx.Err() != nil {
		return job{}, false
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
			from := f.next
			f.next = min(from+some, f.rows)
			return job{r: r, f: f, from: from, to: f.next}, true
		}
	}
	return job{}, false
}

// do carries out a job, and accounts for it whatever happens inside.
func (w *worker) do(j job) {
	defer w.finish(j)
	if j.from == j.to {
		if err := w.sync(j); err != nil {
			j.r.fail(j.r.position(j.f.step, -1), err)
		}
		return
	}
	r := j.r
	first := j.f.step * r.l.opt.Batch
	for row := j.from; row < j.to; row++ {
		if r.ctx.Err() != nil || r.failed.Load() < r.position(j.f.step, row) {
			return
		}
		index := int(r.l.order[first+row])
		if err := notEOF(w.fetch(j, row, index)); err != nil {
			r.fail(r.position(j.f.step, row), &SampleError{Worker: w.id, Index: index, Step: j.f.step, Err: err})
			return
		}
	}
}

// finish takes the job off the books.
func (w *worker) finish(j job) {
	r, f, l := j.r, j.f, j.r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	w.sample.Store(idle)
	clear(w.dst) // a waiting worker keeps nobody's memory alive
	if f.state == syncing && j.from == j.to {
		f.state, f.ready = filling, nil
		l.wake.Broadcast()
	}
	f.left -= j.to - j.from
	if f.state == filling && f.left == 0 {
		f.state = filled
		f.done <- struct{}{}
	}
	r.busy--
	r.settle()
}

// fail records err for a position unless an earlier one failed.
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
	errReplace = errors.New("fetch replaced a slice of dst: it must write into it")
)

// fetch has the dataset write one row.
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

// sync waits until the slot may be overwritten.
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

// notEOF makes sure that nobody takes a reader's end of file for the end of the epoch.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%v)", io.ErrUnexpectedEOF, err)
	}
	return err
}

// caught turns what recover returned into an error; nil means that the goroutine is being ended.
func caught(value any) error {
	if value == nil {
		return errExit
	}
	return &PanicError{Value: value, Stack: debug.Stack()}
}
