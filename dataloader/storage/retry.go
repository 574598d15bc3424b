package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// RetryOptions bound how long a failing read is repeated. The zero value is a good default.
type RetryOptions struct {
	// Attempts is how often a read is tried; 0 means 5, 1 means once.
	Attempts int
	// Wait is the pause before the second attempt; 0 means 100 ms. Each further pause is twice as
	// long, at most 10 s. Up to half of each pause is cut off, by a hash of the offset, so that
	// workers do not come back at the same instant.
	Wait time.Duration
	// Total bounds attempts and pauses together; 0 means 2 minutes.
	Total time.Duration
	// ReadTimeout bounds one attempt, if the file has ReadAtContext; 0 means 30 s. A file without it
	// cannot be interrupted.
	ReadTimeout time.Duration
}

const maxWait = 10 * time.Second

// fill returns o with its defaults, or an error that wraps ErrOption.
func (o RetryOptions) fill() (RetryOptions, error) {
	if o.Attempts < 0 || o.Wait < 0 || o.Total < 0 || o.ReadTimeout < 0 {
		return o, fmt.Errorf("retry %+v: an option is negative: %w", o, dataloader.ErrOption)
	}
	if o.Attempts == 0 {
		o.Attempts = 5
	}
	for _, d := range []struct {
		p *time.Duration
		d time.Duration
	}{{&o.Wait, 100 * time.Millisecond}, {&o.Total, 2 * time.Minute}, {&o.ReadTimeout, 30 * time.Second}} {
		if *d.p == 0 {
			*d.p = d.d
		}
	}
	return o, nil
}

// RetryError reports a read that failed for good after several attempts. It unwraps to Err.
type RetryError struct {
	Attempts int
	Elapsed  time.Duration // from the first attempt on
	Err      error         // of the last attempt
}

// Error returns the number of attempts, their time and the last cause.
func (e *RetryError) Error() string {
	return fmt.Sprintf("%d attempts in %v: %v", e.Attempts, e.Elapsed.Round(time.Millisecond), e.Err)
}

// Unwrap returns the cause of the last attempt.
func (e *RetryError) Unwrap() error { return e.Err }

// Retry returns f with reads that are repeated after an error that [Retryable] says may pass. Bytes
// that an attempt has read are kept; the next one reads the rest. It takes over f. A read that fails
// for good returns an error that wraps that of its last attempt, in a *[RetryError] if there was
// more than one. A read that succeeds at once allocates only what a context with a time-out does. An
// option below 0 is an error that wraps dataloader.ErrOption.
func Retry(f File, opt RetryOptions) (File, error) {
	opt, err := opt.fill()
	if err != nil {
		return nil, err
	}
	remote, _ := f.(ContextReaderAt)
	return &retrier{File: f, remote: remote, opt: opt}, nil
}

// retrier is a file whose reads are repeated.
type retrier struct {
	File
	remote ContextReaderAt // nil if File has no ReadAtContext
	opt    RetryOptions
}

// Version implements Versioned.
func (r *retrier) Version() string { return Version(r.File) }

// ReadAt implements io.ReaderAt.
func (r *retrier) ReadAt(p []byte, off int64) (int, error) {
	return r.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext implements ContextReaderAt.
func (r *retrier) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	a, done := newAttempts(r.opt, uint64(off)), 0
	for {
		n, err := r.attempt(ctx, p[done:], off+int64(done))
		done += n
		if err == nil || err == io.EOF && off+int64(done) >= r.Size() {
			return done, err
		}
		if err := a.next(ctx, err); err != nil {
			return done, err
		}
	}
}

// attempt makes one read of p. An early end of the file is io.ErrUnexpectedEOF.
func (r *retrier) attempt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if r.remote == nil {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err = r.File.ReadAt(p, off)
	} else {
		limited, cancel := context.WithTimeout(ctx, min(r.opt.ReadTimeout, r.opt.Total))
		defer cancel()
		n, err = r.remote.ReadAtContext(limited, p, off)
	}
	switch {
	case n < 0 || n > len(p):
		return 0, fmt.Errorf("ReadAt returned %d bytes of %d: %w", n, len(p), io.ErrNoProgress)
	case n == len(p):
		return n, nil
	case err == io.EOF && off+int64(n) < r.Size():
		return n, io.ErrUnexpectedEOF
	case err == nil:
		return n, io.ErrUnexpectedEOF // a short read: continued
	}
	return n, err
}

// Do calls f until it returns nil, or an error for good: one that [Retryable] says is final, or the
// last that o allows, in a *[RetryError] if there were several. Each call gets a context with
// ReadTimeout. A wrong option is an error that wraps dataloader.ErrOption.
func (o RetryOptions) Do(ctx context.Context, f func(ctx context.Context) error) error {
	o, err := o.fill()
	if err != nil {
		return err
	}
	for a := newAttempts(o, 0); ; {
		limited, cancel := context.WithTimeout(ctx, min(o.ReadTimeout, o.Total))
		err := f(limited)
		cancel()
		if err == nil {
			return nil
		}
		if err := a.next(ctx, err); err != nil {
			return err
		}
	}
}

// attempts counts the attempts at one thing.
type attempts struct {
	opt   RetryOptions
	salt  uint64 // of the length of pauses
	start time.Time
	wait  time.Duration
	n     int
}

func newAttempts(opt RetryOptions, salt uint64) attempts {
	return attempts{opt: opt, salt: salt, start: time.Now(), wait: opt.Wait, n: 1}
}

// next waits before the attempt that follows one that failed with err, or returns the error that is
// final.
func (a *attempts) next(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	pause := a.wait - time.Duration(spread(a.salt, a.n)*float64(a.wait)/2)
	elapsed := time.Since(a.start)
	if a.n == a.opt.Attempts || elapsed+pause >= a.opt.Total || !Retryable(err) {
		if a.n > 1 {
			return &RetryError{Attempts: a.n, Elapsed: elapsed, Err: err}
		}
		return err
	}
	a.n++
	a.wait = min(2*a.wait, maxWait)
	return sleep(ctx, pause)
}

// spread returns a number in [0, 1) that depends on its arguments only.
func spread(salt uint64, attempt int) float64 {
	h := salt*0x9e3779b97f4a7c15 + uint64(attempt)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return float64(h>>11) / (1 << 53)
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passing are system errors that may pass: of connections, and of disks behind a network.
var passing = []error{syscall.EIO, syscall.EAGAIN, syscall.EINTR, syscall.EBUSY, syscall.ECONNRESET, syscall.ECONNREFUSED,
	syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	io.ErrUnexpectedEOF, context.DeadlineExceeded}

// Retryable reports whether a read that failed with err may succeed when it is repeated: a
// connection that broke, a body that was cut (io.ErrUnexpectedEOF), a time-out, a disk that answers
// EIO, EAGAIN, EINTR or EBUSY, and every error that says so itself by a method Temporary() bool.
// Every other error, such as a missing file, a refused access, a changed object or a cancelled
// context, is final.
func Retryable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, dataloader.ErrChanged) {
		return false
	}
	var temporary interface{ Temporary() bool }
	if errors.As(err, &temporary) && temporary.Temporary() {
		return true
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return true
	}
	for _, target := range passing {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
