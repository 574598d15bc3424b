package storage

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// AheadOptions bound the memory of [ReadAhead]. The zero value is a good default: 8 MiB.
type AheadOptions struct {
	// BlockBytes is the size of one read of the file; 0 means 1 MiB.
	BlockBytes int
	// Blocks is how many blocks are held at once, those on their way included; 0 means 8. The memory
	// is BlockBytes*Blocks, whatever the size of the file and the number of readers.
	Blocks int
	// Ahead is how many blocks are read before they are asked for, while reads go forward; 0 means 2,
	// below 0 none. Blocks must be at least Ahead+2.
	Ahead int
	// Retry is how failed reads are repeated.
	Retry RetryOptions
}

// closeWait is how long Close waits for a read that ignores its context.
const closeWait = 5 * time.Second

// ReadAhead returns f with reads that go through a cache of blocks: small reads of one block cost one
// read of f, and while reads go forward the next blocks are on their way. Each block is read once
// while it is held, whoever waits for it; the block that was not used for the longest time makes
// room. Failed reads are repeated as by [Retry], and a block that could not be read is tried again
// by the next read of it. It takes over f.
//
// A read returns when its context is done, even if f ignores it. Close stops reads that are on their
// way; if one does not return within 5 s, Close returns an error that wraps dataloader.ErrStuck, and
// is to be called again. A read of held blocks allocates nothing. A wrong option is an error that
// wraps dataloader.ErrOption.
func ReadAhead(f File, opt AheadOptions) (File, error) {
	if opt.BlockBytes == 0 {
		opt.BlockBytes = 1 << 20
	}
	if opt.Blocks == 0 {
		opt.Blocks = 8
	}
	if opt.Ahead == 0 {
		opt.Ahead = 2
	}
	opt.Ahead = max(opt.Ahead, 0)
	if opt.BlockBytes < 0 || opt.Blocks < opt.Ahead+2 {
		return nil, fmt.Errorf("read ahead: %d blocks of %d bytes with %d ahead: want blocks of 1 byte or more, and at least %d: %w",
			opt.Blocks, opt.BlockBytes, opt.Ahead, opt.Ahead+2, dataloader.ErrOption)
	}
	retried, err := Retry(f, opt.Retry)
	if err != nil {
		return nil, err
	}
	a := &ahead{File: retried, opt: opt, held: map[int64]*block{}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.freed = make(chan struct{})
	return a, nil
}

// ahead is a file that is read in blocks.
type ahead struct {
	File   // with retry
	opt    AheadOptions
	ctx    context.Context // done at Close
	cancel context.CancelFunc
	loads  sync.WaitGroup

	mu sync.Mutex
	// Invariant: len(held)+len(spare) <= opt.Blocks, and each has at most opt.BlockBytes bytes.
	held   map[int64]*block
	spare  [][]byte
	uses   int64         // counts uses of blocks
	freed  chan struct{} // closed, and replaced, when a block becomes free and a reader waits
	waits  bool          // a reader waits for freed
	closed bool
	shut   bool // File is closed
}

// block is one block of the file.
type block struct {
	buf     []byte
	err     error         // set before ready is closed
	ready   chan struct{} // closed when buf or err is set
	loaded  bool          // ready is closed; under ahead.mu
	readers int           // under ahead.mu
	used    int64         // ahead.uses at its last use; under ahead.mu
}

// Version implements Versioned.
func (a *ahead) Version() string { return Version(a.File) }

// ReadAt implements io.ReaderAt.
func (a *ahead) ReadAt(p []byte, off int64) (int, error) {
	return a.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext implements ContextReaderAt.
func (a *ahead) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("negative offset %d: %w", off, dataloader.ErrOption)
	}
	size, done := int64(a.opt.BlockBytes), 0
	for done < len(p) {
		at := off + int64(done)
		if at >= a.Size() {
			return done, io.EOF
		}
		b, err := a.acquire(ctx, at/size)
		if err != nil {
			return done, err
		}
		if b.err == nil {
			done += copy(p[done:], b.buf[at%size:])
		}
		err = b.err
		a.release(b)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// acquire returns block i after it is loaded. The caller releases it.
func (a *ahead) acquire(ctx context.Context, i int64) (*block, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, freed, err := a.find(i)
		if err != nil {
			return nil, err
		}
		if b == nil {
			select {
			case <-freed:
			case <-ctx.Done():
			case <-a.ctx.Done():
			}
			continue
		}
		select {
		case <-b.ready:
			return b, nil
		case <-ctx.Done():
			a.release(b)
			return nil, ctx.Err()
		}
	}
}

// find returns block i with one more reader, held or on its way, and starts the blocks after it. If
// every block has readers or is on its way it returns a channel that is closed when that changes.
func (a *ahead) find(i int64) (*block, <-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, nil, fs.ErrClosed
	}
	b := a.held[i]
	if b == nil {
		b = a.start(i)
	}
	if b == nil {
		a.waits = true
		return nil, a.freed, nil
	}
	b.readers++
	a.uses++
	b.used = a.uses
	if a.held[i-1] == nil {
		return b, nil, nil // reads do not go forward
	}
	for k := i + 1; k <= i+int64(a.opt.Ahead) && k*int64(a.opt.BlockBytes) < a.Size(); k++ {
		if a.held[k] == nil && a.start(k) == nil {
			break
		}
	}
	return b, nil, nil
}

// release ends a reader's use of b.
func (a *ahead) release(b *block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.readers--
	a.notify()
}

// notify wakes the readers that wait for a block. The caller holds a.mu.
func (a *ahead) notify() {
	if a.waits {
		close(a.freed)
		a.freed, a.waits = make(chan struct{}), false
	}
}

// start begins to load block i, or returns nil if no memory is free. The caller holds a.mu.
func (a *ahead) start(i int64) *block {
	buf := a.memory()
	if buf == nil {
		return nil
	}
	off := i * int64(a.opt.BlockBytes)
	b := &block{buf: buf[:min(int64(a.opt.BlockBytes), a.Size()-off)], ready: make(chan struct{}), used: a.uses}
	a.held[i] = b
	a.loads.Go(func() {
		err := ReadAt(a.ctx, a.File, b.buf, off)
		if err != nil && a.ctx.Err() != nil {
			err = fs.ErrClosed
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		b.err, b.loaded = err, true
		if err != nil { // its readers see the error, later ones try again
			delete(a.held, i)
			a.spare = append(a.spare, b.buf)
		}
		close(b.ready)
		a.notify()
	})
	return b
}

// memory returns memory for a block: of a failed one, new, or of the one that was not used for the
// longest time; nil if each is in use. The caller holds a.mu.
func (a *ahead) memory() []byte {
	if n := len(a.spare); n > 0 {
		buf := a.spare[n-1]
		a.spare = a.spare[:n-1]
		return buf[:cap(buf)]
	}
	if len(a.held) < a.opt.Blocks {
		return make([]byte, min(int64(a.opt.BlockBytes), a.Size()))
	}
	oldest, found := int64(0), (*block)(nil)
	for i, b := range a.held {
		if b.loaded && b.readers == 0 && (found == nil || b.used < found.used) {
			oldest, found = i, b
		}
	}
	if found == nil {
		return nil
	}
	delete(a.held, oldest)
	return found.buf[:cap(found.buf)]
}

// Close stops reads that are on their way and closes the file.
func (a *ahead) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	done := make(chan struct{})
	go func() {
		a.loads.Wait()
		close(done)
	}()
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		return fmt.Errorf("%s: close: a read has not returned after %v: it ignores its context: close again: %w",
			a.Name(), closeWait, dataloader.ErrStuck)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut {
		return nil
	}
	a.shut = true
	clear(a.held)
	a.spare = nil
	return a.File.Close()
}
