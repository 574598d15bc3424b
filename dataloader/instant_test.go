package dataloader_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// plain hides from a loader that a dataset is instant: its workers read it.
type plain struct{ dataloader.Dataset }

// TestIndicesComeTheSameFromTheCallerAndFromWorkers releases slots at once, and with a Waiter, in any order.
func TestIndicesComeTheSameFromTheCallerAndFromWorkers(t *testing.T) {
	rng := random(t)
	for round := range 40 {
		n, batch, places := 1+rng.IntN(60), 1+rng.IntN(9), 1+rng.IntN(3)
		opt := dataloader.Options{Batch: batch, Shuffle: true, Seed: rng.Uint64(), Workers: 1 + rng.IntN(3)}
		waits := make([]bool, n)
		for i := range waits {
			waits[i] = rng.IntN(3) == 0
		}
		var want []int32
		for _, ds := range []dataloader.Dataset{plain{dataloader.Indices(n)}, dataloader.Indices(n)} {
			l := open(t, ds, opt)
			s := slots(ds, places, batch)
			s[0].Ready = waiter(func() error { return nil })
			var got []int32
			r := start(t, l, round, s)
			for {
				b, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				x := dataloader.View[int32](s[b.Slot].Fields[0])[:b.Rows]
				if !slices.Equal(x, b.Indices) {
					t.Fatalf("step %d: slot holds %v, the batch is %v", b.Step, x, b.Indices)
				}
				got = append(got, x...)
				var ready dataloader.Waiter
				if waits[b.Step] {
					ready = waiter(func() error { return nil })
				}
				if err := r.Release(b.Slot, ready); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d samples, %+v, %d slots: got %v, want %v", n, opt, places, got, want)
			}
		}
	}
}

func TestAnInstantDatasetKeepsTheRulesOfARun(t *testing.T) {
	ds := dataloader.Indices(9)
	l := open(t, ds, dataloader.Options{Batch: 2})
	s := slots(ds, 2, 2)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := l.Epoch(ctx, 0, s)
	if err != nil {
		t.Fatal(err)
	}
	var last dataloader.Batch
	for range 2 {
		if last, err = r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, dataloader.ErrHeld) {
		t.Errorf("all slots held: got %v, want %v", err, dataloader.ErrHeld)
	}
	boom := errors.New("copy failed")
	if err := r.Release(last.Slot, waiter(func() error { return boom })); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(t.Context()); !errors.Is(err, boom) {
			t.Errorf("got %v, want %v", err, boom)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = l.Epoch(ctx, 1, s); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.Next(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the epoch's context: got %v, want %v", err, context.Canceled)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, dataloader.ErrClosed) {
		t.Errorf("after Close: got %v, want %v", err, dataloader.ErrClosed)
	}
}
