package dataloader_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

func TestEpochIsTheSameForAnyWorkersSlotsAndDelays(t *testing.T) {
	each(t, func(t *testing.T, dev arena.Device) {
		rng := random(t)
		for range 6 {
			n, batch := 1+rng.IntN(90), 1+rng.IntN(20)
			opt := dataloader.Options{Batch: batch, Shuffle: rng.IntN(2) == 0, Seed: rng.Uint64(), Tail: dataloader.Tail(rng.IntN(2))}
			if opt.Tail == dataloader.DropTail && n < batch {
				continue
			}
			sameEpochs(t, dev, n, opt, func() time.Duration { return time.Duration(max(0, rng.IntN(12)-9)) * 50 * time.Microsecond })
		}
	})
}

// sameEpochs reads n samples, each delayed, with few and many workers and slots, and compares the epochs.
func sameEpochs(t *testing.T, dev arena.Device, n int, opt dataloader.Options, delay func() time.Duration) {
	t.Helper()
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = delay()
	}
	var first [2]*seen
	for _, workers := range []int{1, 2, 8} {
		for _, places := range []int{1, 2, 5} {
			ds := &fake{n: n, fetch: func(_ context.Context, at dataloader.At, _ [][]byte) error {
				if d := delays[(at.Index*7+workers)%n]; d > 0 {
					time.Sleep(d)
				}
				return nil
			}}
			opt.Workers = workers
			g := newStage(t, dev, ds, places, opt.Batch)
			l, err := dataloader.New(g.watch(ds), opt)
			if err != nil {
				t.Fatal(err)
			}
			for epoch := range first {
				got, err := g.drain(l, epoch)
				if err != nil {
					t.Fatal(err)
				}
				if first[epoch] == nil {
					first[epoch] = got
					checkEpoch(t, got, n, opt, l, epoch)
				}
				if !reflect.DeepEqual(got, first[epoch]) {
					t.Fatalf("n %d, %+v, %d slots, epoch %d: got\n%v, want\n%v", n, opt, places, epoch, got, first[epoch])
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			g.close()
		}
	}
}

// checkEpoch compares an epoch with what its samples must be, one by one.
func checkEpoch(t *testing.T, got *seen, n int, opt dataloader.Options, l *dataloader.Loader, epoch int) {
	t.Helper()
	want := n
	if opt.Tail == dataloader.DropTail {
		want = n - n%opt.Batch
	}
	if len(got.Indices) != want || l.Dropped() != n-want || l.Steps() != len(got.Rows) || l.Steps() != (want+opt.Batch-1)/opt.Batch {
		t.Fatalf("n %d, %+v: got %d samples in %d steps; Steps %d, Dropped %d", n, opt, len(got.Indices), len(got.Rows), l.Steps(), l.Dropped())
	}
	once := make([]bool, n)
	for i, index := range got.Indices {
		if once[index] {
			t.Fatalf("index %d came twice", index)
		}
		once[index] = true
		r := dataloader.At{Index: int(index), Epoch: epoch, Seed: opt.Seed}.Rand()
		if draw := r.Uint64(); got.IDs[i] != index || got.Draws[i] != draw {
			t.Fatalf("row %d: got id %d draw %x, want %d %x", i, got.IDs[i], got.Draws[i], index, draw)
		}
		if !opt.Shuffle && int(index) != i {
			t.Fatalf("row %d: got index %d in a fixed order", i, index)
		}
	}
	for step, rows := range got.Rows {
		if rows != min(opt.Batch, want-step*opt.Batch) {
			t.Fatalf("step %d: got %d rows", step, rows)
		}
	}
}

func TestTailIsKeptOrDroppedAsAsked(t *testing.T) {
	each(t, func(t *testing.T, dev arena.Device) {
		for _, c := range []struct {
			n, batch             int
			tail                 dataloader.Tail
			steps, last, dropped int
		}{
			{8551, 8, dataloader.KeepTail, 1069, 7, 0},
			{8551, 8, dataloader.DropTail, 1068, 8, 7},
			{215, 8, dataloader.KeepTail, 27, 7, 0},
			{215, 8, dataloader.DropTail, 26, 8, 7},
			{10, 4, dataloader.KeepTail, 3, 2, 0},
			{10, 4, dataloader.DropTail, 2, 4, 2},
			{3, 4, dataloader.KeepTail, 1, 3, 0},
			{4, 4, dataloader.DropTail, 1, 4, 0},
		} {
			if c.steps > 1000 && !dev.Unified() {
				continue // each step takes a device of tests a while
			}
			ds := &fake{n: c.n}
			g := newStage(t, dev, ds, 2, c.batch)
			l := open(t, g.watch(ds), dataloader.Options{Batch: c.batch, Tail: c.tail, Shuffle: true})
			got, err := g.drain(l, 0)
			if err != nil {
				t.Fatal(err)
			}
			if l.Steps() != c.steps || len(got.Rows) != c.steps || got.Rows[c.steps-1] != c.last || l.Dropped() != c.dropped {
				t.Errorf("%+v: got %d steps, last of %d rows, %d dropped", c, len(got.Rows), got.Rows[len(got.Rows)-1], l.Dropped())
			}
			if !slices.Equal(got.IDs, got.Indices) {
				t.Errorf("%+v: the device got samples %v, want %v", c, got.IDs, got.Indices)
			}
			if slices.Sort(got.Indices); len(slices.Compact(got.Indices)) != c.n-c.dropped {
				t.Errorf("%+v: got %d distinct samples", c, len(got.Indices))
			}
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		opt   dataloader.Options
		class error
		says  string
	}{
		{"batch 0", 4, dataloader.Options{}, dataloader.ErrOption, "batch 0"},
		{"negative batch", 4, dataloader.Options{Batch: -8}, dataloader.ErrOption, "batch -8"},
		{"huge batch", 4, dataloader.Options{Batch: math.MaxInt}, dataloader.ErrOption, "batch"},
		{"negative workers", 4, dataloader.Options{Batch: 1, Workers: -1}, dataloader.ErrOption, "workers -1"},
		{"too many workers", 4, dataloader.Options{Batch: 1, Workers: 1e6}, dataloader.ErrOption, "workers 1000000"},
		{"unknown tail", 4, dataloader.Options{Batch: 1, Tail: 7}, dataloader.ErrOption, "tail 7"},
		{"negative grace", 4, dataloader.Options{Batch: 1, Grace: -1}, dataloader.ErrOption, "grace"},
		{"no whole batch", 4, dataloader.Options{Batch: 5, Tail: dataloader.DropTail}, dataloader.ErrShort, "4 samples, batch 5"},
		{"empty", 0, dataloader.Options{Batch: 5}, dataloader.ErrEmpty, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := dataloader.New(&fake{n: c.n}, c.opt)
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v that says %q", err, c.class, c.says)
			}
		})
	}
}

func TestMisuseIsATypedErrorAndHarmsNothing(t *testing.T) {
	ds := &fake{n: 10}
	l := open(t, ds, dataloader.Options{Batch: 4})
	s := slots(ds, 2, 4)
	small := slots(ds, 2, 4)
	small[1].Fields[1] = small[1].Fields[1][:31]
	few := slots(ds, 2, 4)
	few[0].Fields = few[0].Fields[:1]
	for _, bad := range [][]dataloader.Slot{nil, small, few} {
		if _, err := l.Epoch(t.Context(), 0, bad); !errors.Is(err, dataloader.ErrSlot) {
			t.Errorf("got %v, want %v", err, dataloader.ErrSlot)
		}
	}
	if _, err := l.Epoch(t.Context(), -1, s); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("epoch -1: got %v", err)
	}
	r := start(t, l, 0, s)
	if _, err := l.Epoch(t.Context(), 1, s); !errors.Is(err, dataloader.ErrBusy) {
		t.Errorf("second epoch: got %v, want %v", err, dataloader.ErrBusy)
	}
	for _, i := range []int{-1, 0, 2} {
		if err := r.Release(i, nil); !errors.Is(err, dataloader.ErrSlot) {
			t.Errorf("release %d: got %v, want %v", i, err, dataloader.ErrSlot)
		}
	}
	var held [2]dataloader.Batch
	for i := range held {
		var err error
		if held[i], err = r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, dataloader.ErrHeld) {
		t.Errorf("all held: got %v, want %v", err, dataloader.ErrHeld)
	}
	for range 2 {
		err := r.Release(held[1].Slot, nil)
		if err != nil && !errors.Is(err, dataloader.ErrSlot) {
			t.Errorf("second release: got %v", err)
		}
	}
	if b, err := r.Next(t.Context()); err != nil || b.Step != 2 || b.Rows != 2 {
		t.Errorf("after misuse: got %+v, %v", b, err)
	}
	for range 2 {
		if _, err := r.Next(t.Context()); err != io.EOF {
			t.Errorf("at the end: got %v, want EOF", err)
		}
	}
}

func TestCallsAfterCloseAreTypedErrors(t *testing.T) {
	ds := &fake{n: 10}
	l := open(t, ds, dataloader.Options{Batch: 4})
	s := slots(ds, 2, 4)
	r := start(t, l, 0, s)
	for range 2 {
		if err := r.Close(); err != nil {
			t.Errorf("close: got %v", err)
		}
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, dataloader.ErrClosed) {
		t.Errorf("next after close: got %v", err)
	}
	if err := r.Release(0, nil); !errors.Is(err, dataloader.ErrClosed) {
		t.Errorf("release after close: got %v", err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("close: got %v", err)
		}
	}
	if _, err := l.Epoch(t.Context(), 1, s); !errors.Is(err, dataloader.ErrClosed) {
		t.Errorf("epoch after close: got %v", err)
	}
}

// sink is an array dataset with n samples of 64 bytes.
func sink(t testing.TB, n int) dataloader.Dataset {
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", make([]uint8, 64*n), 64), dataloader.Column("y", make([]uint8, n)))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// pass reads one epoch and lets every batch go at once.
func pass(t testing.TB, l *dataloader.Loader, epoch int, s []dataloader.Slot) {
	r, err := l.Epoch(context.Background(), epoch, s)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Release(b.Slot, event{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// event is done at once.
type event struct{}

func (event) Sync() error { return nil }

func TestAStepAllocatesNothing(t *testing.T) {
	var allocs []float64
	for _, steps := range []int{1, 20, 2000} {
		ds := sink(t, 8*steps-3)
		l := open(t, ds, dataloader.Options{Batch: 8, Shuffle: true, Workers: 2})
		s := slots(ds, 2, 8)
		epoch := 0
		least := math.Inf(1) // the runtime's own goroutines allocate now and then
		for range 3 {
			least = min(least, testing.AllocsPerRun(3, func() {
				pass(t, l, epoch, s)
				epoch++
			}))
		}
		allocs = append(allocs, least)
	}
	t.Logf("allocations of an epoch of 1, 20 and 2,000 steps: %v", allocs)
	if allocs[0] > 12 || allocs[2] > allocs[0] {
		t.Errorf("got %v allocations, want at most 12 an epoch, and none a step", allocs)
	}
}

func TestHostMemoryIsFlatWithoutTheGarbageCollector(t *testing.T) {
	ds := sink(t, 10000)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, workers := range []int{1, 8} {
		l := open(t, ds, dataloader.Options{Batch: 4, Shuffle: true, Workers: workers})
		s := slots(ds, 2, 4)
		pass(t, l, 0, s)
		goroutines := runtime.NumGoroutine()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for epoch := range 10 {
			pass(t, l, 1+epoch, s)
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<10 {
			t.Errorf("%d workers: 10 epochs of 2,500 steps allocated %d bytes, want at most 64 KiB", workers, grown)
		}
		if now := runtime.NumGoroutine(); now > goroutines {
			t.Errorf("%d workers: got %d goroutines after 10 epochs, %d before", workers, now, goroutines)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnEpochStartsNoGoroutine(t *testing.T) {
	ds := &fake{n: 6}
	l := open(t, ds, dataloader.Options{Batch: 2, Workers: 3})
	before := runtime.NumGoroutine()
	r := start(t, l, 0, slots(ds, 2, 2))
	defer r.Close()
	for {
		b, err := r.Next(t.Context())
		if err != nil {
			break
		}
		if now := runtime.NumGoroutine(); now > before {
			t.Fatalf("got %d goroutines, %d before the epoch", now, before)
		}
		if err := r.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkEpoch(b *testing.B) {
	const n, batch = 60000, 128
	ds, err := dataloader.FromSlices(n, dataloader.Column("image", make([]uint8, 784*n), 784), dataloader.Column("label", make([]uint8, n)))
	if err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			l := open(b, ds, dataloader.Options{Batch: batch, Shuffle: true, Workers: workers})
			s := slots(ds, 2, batch)
			pass(b, l, 0, s)
			b.ReportAllocs()
			b.SetBytes(785 * n)
			for epoch := 1; b.Loop(); epoch++ {
				pass(b, l, epoch, s)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

func BenchmarkShuffle(b *testing.B) {
	ds := dataloader.Indices(60000)
	l := open(b, ds, dataloader.Options{Batch: 60000, Shuffle: true, Workers: 1})
	s := slots(ds, 1, 60000)
	binary.NativeEndian.PutUint32(s[0].Fields[0], 1)
	for epoch := 0; b.Loop(); epoch++ {
		r, err := l.Epoch(context.Background(), epoch, s)
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// A pass, shuffled or not, needs memory for the batches in the slots only.
func TestAPassNeedsNoOrderInMemory(t *testing.T) {
	const n, batch = 50_000_000, 16
	for _, shuffle := range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l, err := dataloader.New(dataloader.Indices(n), dataloader.Options{Batch: batch, Shuffle: shuffle, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		fields := func() [][]byte { return [][]byte{make([]byte, 4*batch)} }
		run, err := l.Epoch(t.Context(), 0, []dataloader.Slot{{Fields: fields()}, {Fields: fields()}})
		if err != nil {
			t.Fatal(err)
		}
		for step := range 5 { // slots are used again
			b, err := run.Next(t.Context())
			if err != nil || !shuffle && (b.Indices[0] != step*batch || b.Indices[batch-1] != step*batch+batch-1) {
				t.Fatalf("step %d: got %v, %v", step, b.Indices, err)
			}
			if err := run.Release(b.Slot, nil); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		want := int64(2 * 8 * batch)
		if got := l.Bytes(); got != want {
			t.Errorf("shuffle %v: %d bytes of indices, want %d", shuffle, got, want)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("shuffle %v: %d bytes allocated for %d samples", shuffle, got, n)
		}
		if err := errors.Join(run.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	}
}
