package dataloader_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// stopped is a way of ending a run early. It gets the loader, its run and the cancel function of the run's context.
var stops = []struct {
	name string
	stop func(l *dataloader.Loader, r *dataloader.Run, cancel func()) error
}{
	{"close the run", func(_ *dataloader.Loader, r *dataloader.Run, _ func()) error { return r.Close() }},
	{"close the loader", func(l *dataloader.Loader, _ *dataloader.Run, _ func()) error { return l.Close() }},
	{"cancel", func(_ *dataloader.Loader, r *dataloader.Run, cancel func()) error {
		cancel()
		if _, err := r.Next(context.Background()); err == nil {
			return fmt.Errorf("Next after its run was cancelled returned a batch")
		}
		return r.Close()
	}},
	{"close while Next waits", func(_ *dataloader.Loader, r *dataloader.Run, _ func()) error {
		done := make(chan error)
		go func() { done <- r.Close() }()
		for range 100 {
			if _, err := r.Next(context.Background()); err != nil && err != io.EOF {
				break
			}
		}
		return <-done
	}},
	{"cancel Next", func(_ *dataloader.Loader, r *dataloader.Run, _ func()) error {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		for {
			if _, err := r.Next(ctx); err != nil {
				break // maybe after some more batches, which are not counted
			}
		}
		return r.Close()
	}},
}

// anyDataset returns a dataset of one kind, in which each read may let others go first.
func anyDataset(t testing.TB, rng *rand.Rand, opt *dataloader.Options) dataloader.Dataset {
	yields := rng.IntN(3)
	wait := func(i int) {
		if yields > 0 && i%(yields+1) == 0 {
			runtime.Gosched()
		}
	}
	slow := func(_ context.Context, at dataloader.At, _ [][]byte) error { wait(at.Index); return nil }
	var ds dataloader.Dataset = &fake{n: 1 + rng.IntN(60), fetch: slow}
	if rng.IntN(2) == 0 {
		d := newDecoded(randomSizes(rng, 12, 12)...)
		d.fetch = slow
		d.load = func(ctx context.Context, i int) error { wait(i); return ctx.Err() }
		ds = fromBlocks(t, d, 1+rng.IntN(6))
	}
	if n := ds.Len(); rng.IntN(3) == 0 && n > 2 {
		part, err := dataloader.Subset(ds, 1, n-1)
		if err != nil {
			t.Fatal(err)
		}
		ds = dataloader.Map(part, func(dataloader.At, [][]byte) error { return nil })
	}
	if rng.IntN(4) == 0 {
		opt.Sampler = drawn(1 + rng.IntN(60))
	}
	return ds
}

// A run that is stopped anywhere, in any way, goes on in another loader with other workers and slots: all samples
// together are those of a run that was not stopped, with the same draws.
func TestARunGoesOnFromAThousandStops(t *testing.T) {
	rng := random(t)
	begin := time.Now()
	for round := range 1000 {
		opt := dataloader.Options{Batch: 1 + rng.IntN(9), Seed: rng.Uint64(), Shuffle: rng.IntN(3) > 0}
		ds := anyDataset(t, rng, &opt)
		if rng.IntN(4) == 0 {
			opt.Ranks = 1 + rng.IntN(3)
			opt.Rank = rng.IntN(opt.Ranks)
		}
		epoch, s := rng.IntN(3), stops[rng.IntN(len(stops))]
		loader := func() *dataloader.Loader {
			opt.Workers = 1 + rng.IntN(4)
			l, err := dataloader.New(ds, opt)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		straight := loader()
		want := rest(t, straight, ds, epoch, 0, 2, opt.Batch)
		stop := rng.IntN(straight.Steps() + 1)
		l, got := loader(), new(seen)
		ctx, cancel := context.WithCancel(context.Background())
		places := slots(ds, 1+rng.IntN(3), opt.Batch)
		r, err := l.Epoch(ctx, epoch, places)
		if err != nil {
			t.Fatal(err)
		}
		for range stop {
			b, err := r.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got.add(b, places[b.Slot])
			if err := r.Release(b.Slot, nil); err != nil {
				t.Fatal(err)
			}
		}
		if stop < straight.Steps() {
			if err := s.stop(l, r, cancel); err != nil {
				t.Fatalf("round %d: %s: %v", round, s.name, err)
			}
		}
		cancel()
		other := loader()
		after := rest(t, other, ds, epoch, stop, 1+rng.IntN(3), opt.Batch)
		got.Rows, got.Indices = append(got.Rows, after.Rows...), append(got.Indices, after.Indices...)
		got.IDs, got.Draws = append(got.IDs, after.IDs...), append(got.Draws, after.Draws...)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: %T, %+v: %s after step %d of %d: got\n%v, want\n%v", round, ds, opt, s.name, stop, straight.Steps(), got, want)
		}
		for _, l := range []*dataloader.Loader{l, other, straight} {
			if err := l.Close(); err != nil {
				t.Fatalf("round %d: %s: %v", round, s.name, err)
			}
		}
	}
	t.Logf("1000 stops took %v", time.Since(begin).Round(time.Millisecond))
}
