package storagetest

import (
	"context"
	"errors"
	"io/fs"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// stallTime is how long a stalled call lasts before its context is cancelled, and patience how long
// a function may go on after that.
const (
	stallTime = 5 * time.Millisecond
	patience  = 10 * time.Second
)

// Every calls use with fsys, which must work, and then with a fault of each kind at each call that
// use made. use opens files of its argument, reads them, compares what it has read with what it
// expects (with t.Error of a test that it closes over), closes them and returns the first error of
// reading. It is called from one goroutine after another. Every reports as failures of t:
//
//   - EIO: use returns no error, or one that does not wrap syscall.EIO
//   - Short: use returns an error, although nothing is missing
//   - Shrink: nothing; use itself compares its data
//   - Stall: use does not return within 10 s after its context is cancelled, or returns no error
//   - any: use panics
//
// A fault that use does not reach, because it made its calls in another order, counts for nothing.
// Files have ReadAtContext in one round of calls, and lack it in another.
func Every(t testing.TB, fsys fs.FS, use func(ctx context.Context, fsys fs.FS) error) {
	t.Helper()
	for _, plain := range []bool{false, true} {
		every(t, fsys, plain, use)
	}
}

// every is Every for files with ReadAtContext, or without it.
func every(t testing.TB, fsys fs.FS, plain bool, use func(context.Context, fs.FS) error) {
	t.Helper()
	clean := New(t.Context(), fsys, EIO, 0)
	clean.plain = plain
	if err := use(t.Context(), clean); err != nil {
		t.Errorf("without faults: %v", err)
		return
	}
	for call := 1; call <= clean.Calls(); call++ {
		for kind := EIO; kind <= Stall; kind++ {
			f, err := once(t, fsys, kind, call, plain, use)
			if problem := judge(kind, err, f.Calls() >= call); problem != "" {
				t.Errorf("%v at call %d, %s: %s: %v", kind, call, f.Call(call), problem, err)
			}
		}
	}
}

// judge returns what is wrong with err after a fault, or "". reached is false if use ended before
// the call.
func judge(kind Kind, err error, reached bool) string {
	switch {
	case errors.Is(err, errPanic):
		return "use panicked"
	case errors.Is(err, errStuck):
		return "use did not return"
	case !reached:
		return ""
	case kind == EIO && !errors.Is(err, syscall.EIO):
		return "want an error that wraps EIO"
	case kind == Short && err != nil:
		return "want no error"
	case kind == Stall && !errors.Is(err, context.Canceled):
		return "want an error that wraps context.Canceled"
	}
	return ""
}

var (
	errPanic = errors.New("panic")
	errStuck = errors.New("stuck")
)

// once calls use with one fault.
func once(t testing.TB, fsys fs.FS, kind Kind, call int, plain bool, use func(context.Context, fs.FS) error) (*FS, error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := New(ctx, fsys, kind, call)
	f.plain = plain
	f.cancel = cancel
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				t.Logf("panic: %v\n%s", r, debug.Stack())
				done <- errPanic
			}
		}()
		done <- use(ctx, f)
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-done:
		return f, err
	case <-late.C:
		return f, errStuck
	}
}
