package dataloader

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// PassOptions of functions that read a whole dataset once.
type PassOptions struct {
	// Workers is the number of goroutines that fetch. 0: GOMAXPROCS, at most 16. Results do not depend
	// on it.
	Workers int
	// Progress is called from time to time with the number of samples that have been read, which
	// increases, and that of all. Calls do not overlap. nil: none.
	Progress func(done, total int)
}

// passChunk is the number of samples that a worker reads at a time.
const passChunk = 64

// passGrace is how long a pass waits for a Fetch that ignores its context.
const passGrace = 500 * time.Millisecond

// pass reads all samples of a dataset once, with epoch 0 and seed 0.
type pass struct {
	ds      Dataset
	options PassOptions
	n       int
	// worker returns the functions of one worker. read gets the samples of a chunk in order, with the
	// error of Fetch; an error of read ends the pass. merge is called after the last sample of each
	// chunk, in the order of chunks, one call at a time.
	worker func() (read func(index int, sample [][]byte, err error) error, merge func() error)

	mu   sync.Mutex
	turn sync.Cond // signals that chunk merged is done, or err
	// Chunks before next are claimed, those before merged are merged.
	next, merged int
	err          error
}

// run reads the dataset. It returns soon after ctx is done, even if a Fetch does not. The first error
// in the order of samples is returned.
func (p *pass) run(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	if err := Check(p.ds); err != nil {
		return err
	}
	o := &p.options
	if o.Workers < 0 || o.Workers > MaxWorkers {
		return fmt.Errorf("workers %d: must be 0 (default) to %d: %w", o.Workers, MaxWorkers, ErrOption)
	}
	if o.Workers == 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), 16)
	}
	p.n, p.turn.L = p.ds.Len(), &p.mu
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for range min(o.Workers, p.chunks()) {
		all.Add(1)
		go func() {
			defer all.Done()
			p.serve(ctx)
		}()
	}
	gone := make(chan struct{})
	go func() {
		all.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		select {
		case <-gone:
		case <-time.After(passGrace):
		}
		p.fail(ended(ctx)) // nothing is merged any more
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// chunks returns the number of chunks.
func (p *pass) chunks() int { return (p.n-1)/passChunk + 1 }

// fail keeps the first error.
func (p *pass) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.merged < p.chunks() {
		p.err = err
	}
	p.turn.Broadcast()
}

// serve is a worker.
func (p *pass) serve(ctx context.Context) {
	var dst [][]byte
	for _, f := range p.ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	read, merge := p.worker()
	for {
		p.mu.Lock()
		c := p.next
		if c >= p.chunks() || p.err != nil {
			p.mu.Unlock()
			return
		}
		p.next++
		p.mu.Unlock()
		err := p.readChunk(ctx, c, dst, read)
		if !p.mergeChunk(c, err, merge) {
			return
		}
	}
}

// readChunk reads the samples of a chunk.
func (p *pass) readChunk(ctx context.Context, c int, dst [][]byte, read func(int, [][]byte, error) error) (err error) {
	returned := false
	i := c * passChunk
	defer func() {
		if !returned {
			if err = caught(recover()); errors.Is(err, errExit) {
				p.fail(err)
			}
			err = fmt.Errorf("sample %d: %w", i, err)
		}
	}()
	for end := min(i+passChunk, p.n); i < end && err == nil; i++ {
		if ctx.Err() != nil {
			err = ended(ctx)
			break
		}
		err = p.ds.Fetch(ctx, At{Index: i}, dst)
		if err = read(i, dst, err); err != nil {
			err = fmt.Errorf("sample %d: %w", i, notEOF(err))
		}
	}
	returned = true
	return err
}

// mergeChunk waits until all chunks before c are merged, and merges it. It returns false at the end of
// the pass.
func (p *pass) mergeChunk(c int, err error, merge func() error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.turn.Broadcast()
	for p.merged != c && p.err == nil {
		p.turn.Wait()
	}
	if p.err != nil {
		return false
	}
	if err == nil {
		err = merge()
	}
	if p.err = err; err != nil {
		return false
	}
	p.merged++
	if f := p.options.Progress; f != nil {
		defer func() {
			if v := recover(); v != nil {
				p.err = fmt.Errorf("progress: %w", caught(v))
			}
		}()
		f(min(p.n, p.merged*passChunk), p.n)
	}
	return true
}
