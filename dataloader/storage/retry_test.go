package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// far is a remote file whose reads a test decides on.
type far struct {
	storage.File
	read func(ctx context.Context, call int, p []byte, off int64) (int, error)
	n    int
}

func (f *far) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadAtContext(context.Background(), p, off)
}

func (f *far) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	f.n++
	return f.read(ctx, f.n, p, off)
}

func retried(t *testing.T, opt storage.RetryOptions, read func(ctx context.Context, call int, p []byte, off int64) (int, error)) (storage.File, *far) {
	t.Helper()
	f := &far{File: storage.Bytes("far", numbers(1000)), read: read}
	r, err := storage.Retry(f, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r, f
}

func TestReadsAreRepeatedUntilTheyWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data := storage.Bytes("", numbers(1000))
		var at []time.Duration
		start := time.Now()
		r, f := retried(t, storage.RetryOptions{}, func(_ context.Context, call int, p []byte, off int64) (int, error) {
			at = append(at, time.Since(start))
			if call < 5 { // each attempt brings 10 bytes before the connection breaks
				n, _ := data.ReadAt(p[:10], off)
				return n, syscall.ECONNRESET
			}
			if len(p) != 60 {
				t.Errorf("the last attempt is for %d bytes, want the 60 that are left", len(p))
			}
			return data.ReadAt(p, off)
		})
		buf := make([]byte, 100)
		if err := storage.ReadAt(t.Context(), r, buf, 200); err != nil || !bytes.Equal(buf, numbers(1000)[200:300]) {
			t.Errorf("got %v", err)
		}
		if f.n != 5 {
			t.Fatalf("%d attempts, want 5", f.n)
		}
		wait := 100 * time.Millisecond
		for i := 1; i < 5; i++ {
			if d := at[i] - at[i-1]; d > wait || d < wait/2 {
				t.Errorf("pause %d is %v, want between %v and %v", i, d, wait/2, wait)
			}
			wait *= 2
		}
	})
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		opt      storage.RetryOptions
		fail     error
		attempts int
		longest  time.Duration
	}{
		{"attempts", storage.RetryOptions{}, syscall.EIO, 5, 1600 * time.Millisecond},
		{"two attempts", storage.RetryOptions{Attempts: 2}, syscall.EIO, 2, 100 * time.Millisecond},
		{"one attempt", storage.RetryOptions{Attempts: 1}, syscall.EIO, 1, 0},
		{"total", storage.RetryOptions{Attempts: 1000, Total: time.Second}, syscall.EIO, 0, time.Second},
		{"pauses", storage.RetryOptions{Attempts: 20, Total: time.Hour}, syscall.EIO, 20, 13*10*time.Second + 13*time.Second},
		{"final", storage.RetryOptions{}, fs.ErrPermission, 1, 0},
		{"changed", storage.RetryOptions{}, fmt.Errorf("%w: %w", dataloader.ErrChanged, io.ErrUnexpectedEOF), 1, 0},
		{"the end", storage.RetryOptions{}, io.EOF, 5, 1600 * time.Millisecond}, // within the size: a cut body
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r, f := retried(t, c.opt, func(context.Context, int, []byte, int64) (int, error) { return 0, c.fail })
				err := storage.ReadAt(t.Context(), r, make([]byte, 10), 0)
				want := c.fail
				if want == io.EOF {
					want = io.ErrUnexpectedEOF
				}
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, c.fail)
				}
				if c.attempts > 0 && f.n != c.attempts || c.attempts == 0 && f.n < 3 {
					t.Errorf("%d attempts, want %d", f.n, c.attempts)
				}
				if d := time.Since(start); d > c.longest || d < c.longest/4 {
					t.Errorf("it took %v, want at most %v", d, c.longest)
				}
				var e *storage.RetryError
				if errors.As(err, &e) != (f.n > 1) || e != nil && e.Attempts != f.n {
					t.Errorf("%d attempts: got %v", f.n, err)
				}
			})
		})
	}
	for _, opt := range []storage.RetryOptions{{Attempts: -1}, {Wait: -1}, {Total: -1}, {ReadTimeout: -1}} {
		if _, err := storage.Retry(storage.Bytes("", nil), opt); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}

func TestAStalledReadEnds(t *testing.T) {
	t.Parallel()
	stall := func(ctx context.Context, call int, p []byte, off int64) (int, error) {
		if call == 3 {
			return len(p), nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, f := retried(t, storage.RetryOptions{}, stall)
		if err := storage.ReadAt(t.Context(), r, make([]byte, 10), 0); err != nil || f.n != 3 {
			t.Errorf("%v after %d attempts, want success at the third", err, f.n)
		}
		if d := time.Since(start); d < time.Minute || d > 61*time.Second {
			t.Errorf("two stalls of 30 s took %v", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, f := retried(t, storage.RetryOptions{}, stall)
		if err := storage.ReadAt(ctx, r, make([]byte, 10), 0); !errors.Is(err, context.DeadlineExceeded) || f.n != 1 {
			t.Errorf("the caller's context: %v after %d attempts", err, f.n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		r, f := retried(t, storage.RetryOptions{Wait: time.Minute}, func(context.Context, int, []byte, int64) (int, error) { return 0, syscall.EIO })
		err := storage.ReadAt(ctx, r, make([]byte, 10), 0)
		if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || f.n != 1 || d != 50*time.Millisecond {
			t.Errorf("during a pause: %v after %v and %d attempts", err, d, f.n)
		}
	})
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		syscall.ECONNRESET: true, syscall.EIO: true, io.ErrUnexpectedEOF: true, context.DeadlineExceeded: true,
		&fs.PathError{Err: syscall.EINTR}: true, temporary(true): true, temporary(false): false,
		context.Canceled: false, fs.ErrNotExist: false, syscall.ENOENT: false, syscall.EACCES: false, fs.ErrClosed: false,
		dataloader.ErrChanged: false, errors.New("something"): false,
	} {
		if storage.Retryable(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

type temporary bool

func (temporary) Error() string     { return "busy" }
func (t temporary) Temporary() bool { return bool(t) }
