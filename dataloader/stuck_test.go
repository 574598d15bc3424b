package dataloader_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// blocking is a dataset whose sample 5 ignores its context until gate is closed.
func blocking(gate chan struct{}) *fake {
	return &fake{n: 20, fetch: func(_ context.Context, at dataloader.At, _ [][]byte) error {
		if at.Index == 5 {
			<-gate
		}
		return nil
	}}
}

func TestABlockedFetchHangsNobody(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		gate := make(chan struct{})
		ds := blocking(gate)
		opt := dataloader.Options{Batch: 3, Workers: workers, Grace: 50 * time.Millisecond}
		if workers == 8 {
			opt.Grace = 0 // the default
		}
		l, err := dataloader.New(ds, opt)
		if err != nil {
			t.Fatal(err)
		}
		s := slots(ds, 2, 3)
		r := start(t, l, 0, s)
		if b, err := r.Next(t.Context()); err != nil || b.Step != 0 {
			t.Fatalf("got %+v, %v", b, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		within(t, "Next", time.Second, func() {
			if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
		})
		cancel()
		if err := r.Stuck(); err != nil {
			t.Errorf("before Close: got %v", err)
		}
		within(t, "Close", time.Second, func() { wantStuck(t, r.Close(), 5) })
		wantStuck(t, r.Stuck(), 5)
		_, err = l.Epoch(t.Context(), 1, s)
		wantStuck(t, err, 5)
		within(t, "Loader.Close", time.Second, func() {
			if workers == 8 { // the other ways of closing, while still blocked
				wantStuck(t, l.Close(), 5)
			}
		})
		close(gate)
		for range 100 {
			if r.Close() == nil { // waits for the worker, up to the grace
				break
			}
		}
		if err := errors.Join(r.Stuck(), r.Close()); err != nil {
			t.Errorf("after the fetch returned: got %v", err)
		}
		if workers != 8 {
			if got, err := drain(t, l, 1, s); err != nil || len(got.IDs) != 20 {
				t.Errorf("the loader does not live on: %v", err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func wantStuck(t *testing.T, err error, sample int) {
	t.Helper()
	var e *dataloader.StuckError
	if !errors.Is(err, dataloader.ErrStuck) || !errors.As(err, &e) || len(e.Blocked) != 1 || e.Blocked[0].Index != sample {
		t.Errorf("got %v, want a stuck error that names sample %d", err, sample)
	}
}

func TestABlockedReaderOfASlotHangsNobody(t *testing.T) {
	gate := make(chan struct{})
	ds := &fake{n: 20}
	l := open(t, ds, dataloader.Options{Batch: 2, Workers: 1, Grace: 20 * time.Millisecond})
	s := slots(ds, 1, 2)
	s[0].Ready = waiter(func() error { <-gate; return nil })
	r := start(t, l, 0, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	err := r.Close()
	wantStuck(t, err, -1)
	if !strings.Contains(err.Error(), "worker 0 is in Sync of a slot's Waiter") {
		t.Errorf("got %q", err)
	}
	close(gate)
	if err := r.Close(); err != nil {
		t.Errorf("second close: got %v", err)
	}
	if ds.reads.Load() != 0 {
		t.Errorf("got %d reads into a slot that was not free", ds.reads.Load())
	}
}

func TestNextMayBeCalledAgainAfterItsOwnContextEnded(t *testing.T) {
	gate := make(chan struct{})
	ds := blocking(gate)
	l := open(t, ds, dataloader.Options{Batch: 20, Workers: 2})
	r := start(t, l, 0, slots(ds, 1, 20))
	defer r.Close()
	why := errors.New("user pressed stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("got %v, want %v and its cause", err, context.Canceled)
	}
	ctx, cancel2 := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel2()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	close(gate)
	if b, err := r.Next(t.Context()); err != nil || b.Rows != 20 {
		t.Errorf("got %+v, %v; want the batch", b, err)
	}
	if _, err := r.Next(t.Context()); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
}

func TestTheEpochsContextEndsTheRunAndReachesFetch(t *testing.T) {
	for _, timeout := range []bool{false, true} {
		ds := &fake{n: 20, fetch: func(ctx context.Context, at dataloader.At, _ [][]byte) error {
			if at.Index < 4 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		l := open(t, ds, dataloader.Options{Batch: 4, Workers: 2})
		ctx, cancel := context.WithCancel(t.Context())
		want := context.Canceled
		if timeout {
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
			want = context.DeadlineExceeded
		}
		defer cancel()
		r, err := l.Epoch(ctx, 0, slots(ds, 2, 4))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !timeout {
			time.AfterFunc(5*time.Millisecond, cancel)
		}
		for range 2 {
			within(t, "Next", time.Second, func() {
				var s *dataloader.SampleError
				if _, err := r.Next(t.Context()); !errors.Is(err, want) || errors.As(err, &s) {
					t.Errorf("got %v, want %v, not a sample's failure", err, want)
				}
			})
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Epoch(ctx, 1, slots(ds, 2, 4)); !errors.Is(err, want) {
			t.Errorf("epoch with an ended context: got %v, want %v", err, want)
		}
	}
}

func TestTwoCallsOfNextAtOnceAreToldApart(t *testing.T) {
	gate := make(chan struct{})
	ds := blocking(gate)
	l := open(t, ds, dataloader.Options{Batch: 20, Workers: 1})
	r := start(t, l, 0, slots(ds, 1, 20))
	defer r.Close()
	first := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := r.Next(context.Background())
			first <- err
		}()
	}
	if err := <-first; !errors.Is(err, dataloader.ErrBusy) {
		t.Errorf("got %v, want %v", err, dataloader.ErrBusy)
	}
	close(gate)
	if err := <-first; err != nil {
		t.Errorf("the other call: got %v", err)
	}
}
