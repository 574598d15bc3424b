package dataloader_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// plain hides from a loader that a dataset is instant: its workers read it.
type plain struct{ dataloader.Dataset }

// TestIndicesComeTheSameFromTheCallerAndFromWorkers releases slots at once, while they are copied to the device, and when they were.
func TestIndicesComeTheSameFromTheCallerAndFromWorkers(t *testing.T) {
	each(t, func(t *testing.T, dev arena.Device) {
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
				l, g := open(t, ds, opt), newStage(t, dev, ds, places, batch)
				g.slots[0].Ready = waiter(func() error { return nil })
				var got []int32
				g.took = func(b dataloader.Batch, back dataloader.Slot) {
					x := dataloader.View[int32](back.Fields[0])
					if !slices.Equal(wide(x), b.Indices) {
						t.Fatalf("step %d: the device got %v, the batch is %v", b.Step, x, b.Indices)
					}
					got = append(got, x...)
				}
				err := consume(t, l, round, g.slots, func(r *dataloader.Run, b dataloader.Batch) error {
					if waits[b.Step] {
						return g.take(r, b)
					}
					return errors.Join(g.send(b), g.finish(), r.Release(b.Slot, nil))
				})
				if err := errors.Join(err, g.finish()); err != nil {
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
	})
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
