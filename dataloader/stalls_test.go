package dataloader_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// paced reads an epoch of samples that take some time each, and takes some time for each batch.
func paced(t *testing.T, opt dataloader.Options, n int, sample, batch time.Duration) (dataloader.Stalls, int) {
	t.Helper()
	ds := &fake{n: n, fetch: func(context.Context, dataloader.At, [][]byte) error { time.Sleep(sample); return nil }}
	l := open(t, ds, opt)
	var run *dataloader.Run
	err := consume(t, l, 0, slots(ds, 2, opt.Batch), func(r *dataloader.Run, b dataloader.Batch) error {
		run = r
		time.Sleep(batch)
		return r.Release(b.Slot, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	return run.Stalls(), l.Workers()
}

func TestStallsSayWhoWaits(t *testing.T) {
	opt := dataloader.Options{Batch: 4, Workers: 2}
	slow, _ := paced(t, opt, 80, 2*time.Millisecond, 0)
	if slow.Waited < slow.Elapsed/2 || slow.Waited > slow.Elapsed || slow.Idle > slow.Elapsed || slow.Workers != 2 {
		t.Errorf("slow samples: %+v: Next should have waited most of the time", slow)
	}
	fast, _ := paced(t, opt, 80, 0, 4*time.Millisecond)
	if fast.Waited > fast.Elapsed/2 || fast.Idle < fast.Elapsed || fast.Idle > 2*fast.Elapsed {
		t.Errorf("a slow caller: %+v: the workers should have waited most of the time", fast)
	}
	if s := (*dataloader.Run)(nil).Stalls(); s != (dataloader.Stalls{}) {
		t.Errorf("no run: %+v", s)
	}
}

// While Next waits and all workers are busy, workers are added up to GOMAXPROCS, unless their number is given.
func TestWorkersAreAddedWhileNextWaits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, c := range []struct {
		name          string
		workers, n    int
		sample, batch time.Duration
		want          int
	}{
		{"slow samples", 0, 600, 2 * time.Millisecond, 0, 4},
		{"a slow caller", 0, 80, 0, 5 * time.Millisecond, 2},
		{"a given number", 1, 100, time.Millisecond, 0, 1},
	} {
		if s, got := paced(t, dataloader.Options{Batch: 4, Workers: c.workers}, c.n, c.sample, c.batch); got != c.want {
			t.Errorf("%s: %d workers, want %d: %+v", c.name, got, c.want, s)
		}
	}
}

// Await says when Next returns at once: with a batch, an error, or the end.
func TestAwaitSaysWhetherNextWaits(t *testing.T) {
	gate := make(chan struct{})
	ds := &fake{n: 4, fetch: func(ctx context.Context, at dataloader.At, _ [][]byte) error {
		if at.Index == 2 {
			<-gate
		}
		return nil
	}}
	r := start(t, open(t, ds, dataloader.Options{Batch: 2, Workers: 2}), 0, slots(ds, 2, 2))
	take := func() {
		t.Helper()
		b, err := r.Next(t.Context())
		if err != nil || r.Release(b.Slot, nil) != nil {
			t.Fatal(b, err)
		}
	}
	if !r.Await(10*time.Second) || !r.Await(0) {
		t.Error("batch 0 does not come")
	}
	take()
	if r.Await(0) || r.Await(time.Millisecond) || r.Await(time.Millisecond) {
		t.Error("batch 1 came before its samples")
	}
	close(gate)
	if !r.Await(10 * time.Second) {
		t.Error("batch 1 does not come")
	}
	take()
	if !r.Await(0) {
		t.Error("the end does not come")
	}
	if err := r.Close(); err != nil || !r.Await(time.Hour) {
		t.Errorf("a closed run: %v", err)
	}
}
