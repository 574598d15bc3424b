package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// logged is a file that keeps the offsets of its reads, and may stall or fail.
type logged struct {
	storage.File
	mu      sync.Mutex
	offsets []int64
	buffers map[*byte]bool
	now     int // reads on their way
	most    int
	fail    error
	stall   chan struct{} // reads wait until it is closed, whatever their context
	delay   time.Duration
	closed  bool
}

func (l *logged) ReadAt(p []byte, off int64) (int, error) {
	l.mu.Lock()
	l.offsets = append(l.offsets, off)
	if len(p) > 0 {
		l.buffers[&p[0]] = true
	}
	l.now++
	l.most = max(l.most, l.now)
	fail, stall := l.fail, l.stall
	l.mu.Unlock()
	if stall != nil {
		<-stall
	}
	if l.delay > 0 {
		time.Sleep(l.delay)
	}
	l.mu.Lock()
	l.now--
	l.mu.Unlock()
	if fail != nil {
		return 0, fail
	}
	return l.File.ReadAt(p, off)
}

func (l *logged) Close() error {
	l.closed = true
	return l.File.Close()
}

func (l *logged) reads() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.offsets)
}

func readAhead(t testing.TB, n int, opt storage.AheadOptions) (storage.File, *logged) {
	t.Helper()
	l := &logged{File: storage.Bytes("l", numbers(n)), buffers: map[*byte]bool{}}
	f, err := storage.ReadAhead(l, opt)
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

func TestSmallReadsCostOneReadABlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, l := readAhead(t, 1050, storage.AheadOptions{BlockBytes: 100, Blocks: 4, Ahead: -1})
		defer f.Close()
		var got []byte
		buf := make([]byte, 7)
		for off := int64(0); off < 1050; off += 7 {
			if err := storage.ReadAt(t.Context(), f, buf, off); err != nil {
				t.Fatal(err)
			}
			got = append(got, buf...)
		}
		if !bytes.Equal(got, numbers(1050)) {
			t.Error("wrong bytes")
		}
		if got := l.reads(); !slices.Equal(got, []int64{0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}) {
			t.Errorf("reads at %v", got)
		}
		if n, err := f.ReadAt(buf, 1047); n != 3 || err != io.EOF {
			t.Errorf("at the end: %d, %v", n, err)
		}
		if _, err := f.ReadAt(buf, -1); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("before the start: %v", err)
		}
	})
}

func TestBlocksAreReadAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, l := readAhead(t, 1000, storage.AheadOptions{BlockBytes: 100, Blocks: 6, Ahead: 3})
		defer f.Close()
		read := func(off int64, want ...int64) {
			t.Helper()
			if err := storage.ReadAt(t.Context(), f, make([]byte, 10), off); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := l.reads()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("after a read at %d: reads at %v, want %v", off, got, want)
			}
		}
		read(0, 0)
		read(50, 0)
		read(100, 0, 100, 200, 300, 400)
		read(250, 0, 100, 200, 300, 400, 500)
		read(710, 0, 100, 200, 300, 400, 500, 700) // elsewhere: nothing is read ahead
	})
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := readAtOnce(t, time.Millisecond)
		if l.most != 5 {
			t.Errorf("%d blocks were on their way at once, want 5", l.most)
		}
	})
}

func TestManyGoroutinesShareFewBlocks(t *testing.T) {
	t.Parallel()
	readAtOnce(t, 0)
}

// readAtOnce reads from 8 goroutines through 5 blocks, each of which takes some time.
func readAtOnce(t *testing.T, delay time.Duration) *logged {
	f, l := readAhead(t, 20_000, storage.AheadOptions{BlockBytes: 100, Blocks: 5, Ahead: 3})
	l.delay = delay
	data := numbers(20_000)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for range 100 {
				off := rng.Int64N(19_000)
				buf := make([]byte, rng.IntN(1000))
				for n := rng.IntN(3) + 1; n > 0 && off+int64(len(buf)) <= 20_000; n-- {
					if err := storage.ReadAt(context.Background(), f, buf, off); err != nil {
						t.Error(err)
						return
					}
					if !bytes.Equal(buf, data[off:off+int64(len(buf))]) {
						t.Errorf("wrong bytes at %d", off)
						return
					}
					off += int64(len(buf))
				}
			}
		})
	}
	wg.Wait()
	if err := f.Close(); err != nil || !l.closed {
		t.Errorf("Close: %v", err)
	}
	if len(l.buffers) != 5 {
		t.Errorf("%d buffers of blocks, want 5", len(l.buffers))
	}
	return l
}

func TestTheBlockThatWasNotUsedForTheLongestTimeMakesRoom(t *testing.T) {
	t.Parallel()
	f, l := readAhead(t, 1000, storage.AheadOptions{BlockBytes: 100, Blocks: 3, Ahead: -1})
	defer f.Close()
	for _, off := range []int64{0, 200, 400, 0, 600, 0, 400, 200} { // 600 replaces 200, 200 replaces 600
		if err := storage.ReadAt(t.Context(), f, make([]byte, 10), off); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.reads(); !slices.Equal(got, []int64{0, 200, 400, 600, 200}) {
		t.Errorf("reads at %v", got)
	}
}

func TestHeldBlocksAllocateNothing(t *testing.T) {
	f, _ := readAhead(t, 1000, storage.AheadOptions{BlockBytes: 100})
	defer f.Close()
	var err error
	buf := make([]byte, 150)
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, storage.ReadAt(context.Background(), f, buf, 120)) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

func TestABlockThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, l := readAhead(t, 1000, storage.AheadOptions{BlockBytes: 100, Retry: storage.RetryOptions{Attempts: 2}})
		defer f.Close()
		l.fail = syscall.EIO
		for range 20 { // more than there are blocks
			if err := storage.ReadAt(t.Context(), f, make([]byte, 10), 500); !errors.Is(err, syscall.EIO) {
				t.Fatalf("got %v", err)
			}
		}
		if n := len(l.reads()); n != 40 {
			t.Errorf("%d reads, want 2 for each", n)
		}
		l.fail = nil
		if err := storage.ReadAt(t.Context(), f, make([]byte, 10), 500); err != nil {
			t.Errorf("after the fault: %v", err)
		}
	})
}

func TestAStalledFileHoldsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, l := readAhead(t, 10_000, storage.AheadOptions{BlockBytes: 100, Blocks: 3, Ahead: 1})
		l.stall = make(chan struct{})
		var wg sync.WaitGroup
		for g := range 6 { // three wait for their block, three for memory
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := storage.ReadAt(ctx, f, make([]byte, 10), int64(g)*1000); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if n := len(l.reads()); n != 3 {
			t.Errorf("%d reads are on their way, want 3", n)
		}
		start := time.Now()
		if err := f.Close(); !errors.Is(err, dataloader.ErrStuck) || time.Since(start) != 5*time.Second || l.closed {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		if err := storage.ReadAt(t.Context(), f, make([]byte, 10), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		close(l.stall)
		if err := errors.Join(f.Close(), f.Close()); err != nil || !l.closed {
			t.Errorf("Close again: %v", err)
		}
	})
}

func TestCloseStopsReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		far := &far{File: storage.Bytes("far", numbers(1000)), read: func(ctx context.Context, _ int, _ []byte, _ int64) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		f, err := storage.ReadAhead(far, storage.AheadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() { got <- storage.ReadAt(t.Context(), f, make([]byte, 10), 0) }()
		synctest.Wait()
		start := time.Now()
		if err := f.Close(); err != nil || time.Since(start) > 0 {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		if err := <-got; !errors.Is(err, fs.ErrClosed) {
			t.Errorf("the read: %v", err)
		}
	})
}

func TestOptionsOfReadAheadAreChecked(t *testing.T) {
	t.Parallel()
	for _, opt := range []storage.AheadOptions{{BlockBytes: -1}, {Blocks: -1}, {Blocks: 3}, {Ahead: 7}, {Retry: storage.RetryOptions{Attempts: -1}}} {
		if _, err := storage.ReadAhead(storage.Bytes("", nil), opt); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	f, err := storage.ReadAhead(versioned{storage.Bytes("v", nil)}, storage.AheadOptions{Blocks: 2, Ahead: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if storage.Version(f) != "7" || f.Name() != "v" || f.Size() != 0 {
		t.Error("name, size or version is lost")
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); err != io.EOF {
		t.Errorf("an empty file: %v", err)
	}
}
