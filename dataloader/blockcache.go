package dataloader

import (
	"context"
	"errors"
	"sync"
)

// blockCache holds the decoded blocks of a source. A block that is being decoded or read is not
// replaced; among the others one that a pass is done with, else the one that was read longest ago.
type blockCache struct {
	src BlockSource

	mu      sync.Mutex
	entries []*heldBlock
	where   map[int]*heldBlock // by block
	clock   int64              // counts reads
	freed   chan struct{}      // closed when an entry may be replaced; nil: nothing waits for it
}

// heldBlock is a place for a decoded block. The cache's mu guards all but block, which readers with a
// pin may use.
type heldBlock struct {
	index  int // of the block, -1 for none
	block  Block
	err    error         // of Load
	epoch  int           // in which err came
	ready  chan struct{} // closed when Load has returned
	loaded bool          // block or err is set
	pins   int           // readers, and the one that decodes
	done   bool          // the pass needs it no more
	read   int64         // time of the last read
}

func (c *blockCache) init(src BlockSource, held int) {
	c.src, c.where = src, make(map[int]*heldBlock, held)
	for range held {
		c.entries = append(c.entries, &heldBlock{index: -1})
	}
}

// acquire returns a block with a pin, and decodes it if it is not there. The caller unpins it. A block
// that has failed is tried again in another epoch, or always if again is set.
func (c *blockCache) acquire(ctx context.Context, i, epoch int, again bool) (*heldBlock, error) {
	for {
		e, wait, decode := c.find(i, epoch, again)
		if decode {
			c.decode(ctx, e, epoch)
		}
		switch {
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, ended(ctx)
			}
		case e.err == nil:
			return e, nil
		default:
			err := e.err
			c.unpin(e)
			return nil, err
		}
	}
}

// load is acquire for a block that is read later. It tries a block again that has failed.
func (c *blockCache) load(ctx context.Context, i int) error {
	e, err := c.acquire(ctx, i, -1, true)
	if err == nil {
		c.unpin(e)
	}
	return err
}

// find returns the entry of a block with a pin. If decode is set, the caller decodes it. If wait is
// not nil, there is no entry, and the caller tries again when wait is closed.
func (c *blockCache) find(i, epoch int, again bool) (e *heldBlock, wait chan struct{}, decode bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.where[i]
	if e != nil && !e.loaded {
		return nil, e.ready, false
	}
	if e != nil && e.err != nil && e.pins == 0 && (again || e.epoch != epoch) {
		e.begin(i)
		return e, nil, true
	}
	if e != nil {
		c.clock++
		e.read, e.done = c.clock, false
		e.pins++
		return e, nil, false
	}
	for _, x := range c.entries {
		if x.pins == 0 && (e == nil || x.before(e)) {
			e = x
		}
	}
	if e == nil {
		if c.freed == nil {
			c.freed = make(chan struct{})
		}
		return nil, c.freed, false
	}
	if e.index >= 0 {
		delete(c.where, e.index)
	}
	c.where[i] = e
	c.clock++
	e.read = c.clock
	e.begin(i)
	return e, nil, true
}

// before reports whether e is replaced before f.
func (e *heldBlock) before(f *heldBlock) bool {
	if (e.index < 0) != (f.index < 0) {
		return e.index < 0
	}
	if e.done != f.done {
		return e.done
	}
	return e.read < f.read
}

// begin makes e the place of block i, which its caller decodes.
func (e *heldBlock) begin(i int) {
	e.index, e.err, e.loaded, e.done, e.pins = i, nil, false, false, 1
	e.ready = make(chan struct{})
}

// decode decodes the block of e. If Load panics, the error is a *PanicError.
func (c *blockCache) decode(ctx context.Context, e *heldBlock, epoch int) {
	old := e.block
	e.block = nil // of a Load that failed nothing is used
	var b Block
	err := errExit
	returned := false
	defer func() {
		if !returned {
			err = caught(recover())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		e.loaded, e.block = true, b
		if err != nil {
			e.err, e.epoch, e.block = &BlockError{Block: e.index, Err: err}, epoch, nil
		}
		close(e.ready)
		if err == errExit || ctx.Err() != nil && err != nil { // the block may be good
			delete(c.where, e.index)
			e.index = -1
		}
		if err == errExit { // the caller does not return
			c.drop(e)
		}
	}()
	b, err = c.src.Load(ctx, e.index, old)
	if err == nil && b == nil {
		err = errNoBlock
	}
	returned = true
}

var errNoBlock = errors.New("neither a block nor an error")

// unpin ends the use of e by one reader.
func (c *blockCache) unpin(e *heldBlock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(e)
}

// drop is unpin; c.mu is held.
func (c *blockCache) drop(e *heldBlock) {
	if e.pins--; e.pins == 0 && c.freed != nil {
		close(c.freed)
		c.freed = nil
	}
}

// release marks a block as done: it is replaced before others.
func (c *blockCache) release(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.where[i]; e != nil {
		e.done = true
	}
}
