package dataloader_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
)

// misread runs two epochs whose batches are copied as late as the protocol allows, and returns the number of rows that were
// overwritten before their copy. guarded: Release gets the events of the copies.
func misread(t *testing.T, dev arena.Device, workers, places int, guarded bool) (rows int) {
	t.Helper()
	ds := &fake{n: 120}
	g := newStage(t, dev, ds, places, 4)
	defer g.close()
	g.unguarded = !guarded
	l := open(t, g.watch(ds), dataloader.Options{Batch: 4, Shuffle: true, Workers: workers})
	g.took = func(b dataloader.Batch, back dataloader.Slot) {
		for row, id := range dataloader.View[int32](back.Fields[0]) {
			if int(id) != b.Indices[row] {
				rows++
			}
		}
	}
	for epoch := range 2 {
		if err := consume(t, l, epoch, g.slots, g.take); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.finish(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestASlotIsRefilledOnlyAfterItsLastReader(t *testing.T) {
	each(t, func(t *testing.T, dev arena.Device) {
		for _, workers := range []int{1, 2, 8} {
			for _, places := range []int{1, 2, 3} {
				if got := misread(t, dev, workers, places, true); got != 0 {
					t.Errorf("%d workers, %d slots: the device saw %d wrong rows, want 0", workers, places, got)
				}
			}
		}
	})
}

// TestALoaderThatIsNotToldOfCopiesIsFound shows that the devices of the test above would see it.
func TestALoaderThatIsNotToldOfCopiesIsFound(t *testing.T) {
	for _, d := range targets {
		if d.races == nil || cputest.Race && d.name == "emu" {
			continue // it does not look, or is Go that writes while another reads, which the race detector finds
		}
		t.Run(d.name, func(t *testing.T) {
			dev := d.open(t)
			rows := misread(t, dev, 2, 2, false)
			if len(d.races(dev)) == 0 || d.late && rows == 0 {
				t.Errorf("got %d reports and %d wrong rows, want some", len(d.races(dev)), rows)
			}
		})
	}
}

func TestAFailedUploadReachesNextAndTheSlotIsNotTouched(t *testing.T) {
	for _, d := range targets {
		if d.fail == nil {
			continue // its copies cannot fail
		}
		t.Run(d.name, func(t *testing.T) {
			dev, ds := d.open(t), &fake{n: 20}
			g := newStage(t, dev, ds, 2, 2)
			g.took = new(seen).add
			l := open(t, g.watch(ds), dataloader.Options{Batch: 2, Workers: 2})
			r := start(t, l, 0, g.slots)
			next := func(step int) dataloader.Batch {
				b, err := r.Next(t.Context())
				if err != nil || b.Step != step {
					t.Fatalf("step %d: got %+v, %v", step, b, err)
				}
				return b
			}
			for step := range 2 {
				if err := g.take(r, next(step)); err != nil {
					t.Fatal(err)
				}
			}
			two, three := next(2), next(3) // no worker waits for an event now
			if err := g.send(two); err != nil {
				t.Fatal(err)
			}
			d.fail(t, dev)
			if err := r.Release(two.Slot, g.slots[two.Slot].Ready); err != nil {
				t.Fatal(err)
			}
			var e *dataloader.SlotError
			for range 2 {
				if _, err := r.Next(t.Context()); !errors.As(err, &e) || e.Slot != two.Slot || e.Step != 4 {
					t.Fatalf("got %v, want a slot error for slot %d, step 4", err, two.Slot)
				}
			}
			if got := binary.NativeEndian.Uint32(g.slots[two.Slot].Fields[0]); got != 4 {
				t.Errorf("slot holds sample %d, want 4: it was refilled though its copy had failed", got)
			}
			if err := errors.Join(r.Release(three.Slot, nil), r.Close(), g.finish()); err != nil {
				t.Error(err)
			}
			if got, err := g.drain(l, 1); err != nil || !slices.Equal(got.IDs, got.Indices) || len(got.IDs) != 20 {
				t.Errorf("next epoch: got samples %v and %v", got.IDs, err)
			}
		})
	}
}

// TestSlotsServeTheEpochAfterOneThatEndedInMidFill ends an epoch while samples are written and batches copied, and demands that the next one,
// in the same slots, is whole.
func TestSlotsServeTheEpochAfterOneThatEndedInMidFill(t *testing.T) {
	boom := errors.New("disk on fire")
	each(t, func(t *testing.T, dev arena.Device) {
		rng := random(t)
		var ctx context.Context
		var cancel context.CancelFunc
		var stop func() error // at sample last
		last := -1
		ds := &fake{n: 45, fetch: func(_ context.Context, at dataloader.At, _ [][]byte) error {
			if at.Index == last {
				return stop()
			}
			return nil
		}}
		ends := map[string]func() error{
			"the sample fails":      func() error { return boom },
			"the sample panics":     func() error { panic(boom) },
			"the context is done":   func() error { cancel(); return nil },
			"the consumer goes off": nil,
		}
		for name, end := range ends {
			for _, workers := range []int{1, 2, 8} {
				g := newStage(t, dev, ds, 2, 4)
				l := open(t, g.watch(ds), dataloader.Options{Batch: 4, Shuffle: true, Seed: rng.Uint64(), Workers: workers})
				want, err := g.drain(l, 1)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel = context.WithCancel(t.Context())
				var late seen // what the epoch sent before it ended
				stop, g.took = end, late.add
				at := rng.IntN(12) // the step in which it ends
				if end != nil {
					last = want.Indices[min(4*at+rng.IntN(4), 44)]
				}
				r, err := l.Epoch(ctx, 1, g.slots)
				if err != nil {
					t.Fatal(err)
				}
				for step := 0; err == nil && (end != nil || step < at); step++ {
					var b dataloader.Batch
					if b, err = r.Next(t.Context()); err == nil {
						err = g.take(r, b)
					}
				}
				if end != nil && !errors.Is(err, boom) && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
					t.Errorf("%s: got %v", name, err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				cancel()
				last = -1
				got, err := g.drain(l, 1) // while copies of the other are on their way
				if err != nil || !reflect.DeepEqual(got, want) || !slices.Equal(late.IDs, want.IDs[:len(late.IDs)]) || !slices.Equal(late.Draws, want.Draws[:len(late.IDs)]) {
					t.Errorf("%s, %d workers, in step %d: got samples %v and before %v, %v; want %v", name, workers, at, got.IDs, late.IDs, err, want.IDs)
				}
			}
		}
	})
}

func TestAFailedReaderOfASlotReachesNextAndTheSlotIsNotTouched(t *testing.T) {
	boom := errors.New("copy failed")
	for _, c := range []struct {
		name string
		wait waiter
		want error
	}{
		{"error", func() error { return boom }, boom},
		{"panic", func() error { panic("bad event") }, dataloader.ErrPanic},
		{"exit", func() error { runtime.Goexit(); return nil }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ds := &fake{n: 20}
			l := open(t, ds, dataloader.Options{Batch: 2, Workers: 2})
			s := slots(ds, 2, 2)
			r := start(t, l, 0, s)
			defer r.Close()
			var slot int
			for step := range 4 {
				b, err := r.Next(t.Context())
				if err != nil || b.Step != step {
					t.Fatalf("step %d: got %+v, %v", step, b, err)
				}
				var ready dataloader.Waiter
				if step == 2 {
					ready, slot = c.wait, b.Slot
				}
				if err := r.Release(b.Slot, ready); err != nil {
					t.Fatal(err)
				}
			}
			var e *dataloader.SlotError
			for range 2 {
				_, err := r.Next(t.Context())
				if !errors.As(err, &e) || e.Slot != slot || e.Step != 4 || c.want != nil && !errors.Is(err, c.want) {
					t.Fatalf("got %v, want a slot error for slot %d, step 4", err, slot)
				}
			}
			if got := binary.NativeEndian.Uint32(s[slot].Fields[0]); got != 4 {
				t.Errorf("slot holds sample %d, want 4: it was refilled though its copy had failed", got)
			}
		})
	}
}

// waiter is a function as an event.
type waiter func() error

func (w waiter) Sync() error { return w() }

func TestAStalledConsumerStopsTheReaders(t *testing.T) {
	for _, places := range []int{1, 2, 3} {
		ds := &fake{n: 1000}
		const batch = 5
		l := open(t, ds, dataloader.Options{Batch: batch, Workers: 8})
		r := start(t, l, 0, slots(ds, places, batch))
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		if got := ds.reads.Load(); got > int64(places*batch) {
			t.Errorf("%d slots: got %d reads while the consumer holds a batch, want at most %d", places, got, places*batch)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		after := ds.reads.Load()
		time.Sleep(10 * time.Millisecond)
		if got := ds.reads.Load(); got != after {
			t.Errorf("%d slots: %d reads after Close", places, got-after)
		}
	}
}

func TestBatchesAliveNeverExceedTheSlots(t *testing.T) {
	const places, batch = 2, 3
	var alive, most, claimed atomic.Int64
	ds := &fake{n: 100}
	ds.fetch = func(context.Context, dataloader.At, [][]byte) error {
		if now := alive.Add(1); now > most.Load() {
			most.Store(now)
		}
		claimed.Add(1)
		return nil
	}
	l := open(t, ds, dataloader.Options{Batch: batch, Workers: 4})
	s := slots(ds, places, batch)
	for epoch := range 3 {
		r := start(t, l, epoch, s)
		for {
			b, err := r.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			alive.Add(-int64(b.Rows)) // before Release: the workers that it wakes must not be counted on top
			if err := r.Release(b.Slot, nil); err != nil {
				t.Fatal(err)
			}
		}
		r.Close()
	}
	if most.Load() > places*batch || claimed.Load() != 300 {
		t.Errorf("got up to %d rows alive of %d, want at most %d of 300", most.Load(), claimed.Load(), places*batch)
	}
}

func TestCloseAtAnyPointLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, dev arena.Device) {
		rng := random(t)
		before := runtime.NumGoroutine()
		ds := &fake{n: 60}
		ds.fetch = func(ctx context.Context, at dataloader.At, _ [][]byte) error {
			if at.Index%7 == 0 {
				time.Sleep(time.Duration(at.Index) * time.Microsecond)
			}
			return nil
		}
		for range 40 {
			g := newStage(t, dev, ds, 3, 8)
			l, err := dataloader.New(g.watch(ds), dataloader.Options{Batch: 1 + rng.IntN(8), Workers: 1 + rng.IntN(8), Shuffle: true})
			if err != nil {
				t.Fatal(err)
			}
			for epoch := range 10 {
				closeSomewhere(t, rng, l, ds, g, epoch)
			}
			if err := errors.Join(l.Close(), g.finish()); err != nil {
				t.Fatal(err)
			}
			g.close() // no worker writes there now
		}
		for range 100 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("got %d goroutines, want %d", runtime.NumGoroutine(), before)
	})
}

// closeSomewhere takes a few batches and closes the run, while they are still on their way to the device: in turn, from aside in the middle of a
// call of Next, or, in the tenth epoch, through the loader.
func closeSomewhere(t *testing.T, rng *rand.Rand, l *dataloader.Loader, ds *fake, g *stage, epoch int) {
	g.took = func(b dataloader.Batch, back dataloader.Slot) {
		if got := dataloader.View[int32](back.Fields[0]); !slices.Equal(wide(got), b.Indices) {
			t.Errorf("epoch %d, step %d: the device got samples %v, want %v", epoch, b.Step, got, b.Indices)
		}
	}
	r := start(t, l, epoch, g.slots[:1+rng.IntN(3)])
	shut := r.Close
	if epoch == 9 && rng.IntN(2) == 0 {
		shut = l.Close
	}
	takes, aside, pause := rng.IntN(6), rng.IntN(3) == 0, time.Duration(rng.IntN(60))*time.Microsecond
	closed := make(chan error, 1)
	if aside {
		go func() {
			time.Sleep(pause)
			closed <- shut()
		}()
	}
	for range takes {
		b, err := r.Next(t.Context())
		if err != nil {
			if !errors.Is(err, dataloader.ErrClosed) && !errors.Is(err, io.EOF) {
				t.Fatalf("epoch %d: got %v", epoch, err)
			}
			break
		}
		if err := g.take(r, b); err != nil && !errors.Is(err, dataloader.ErrClosed) {
			t.Fatalf("epoch %d: got %v", epoch, err)
		}
	}
	if !aside {
		closed <- shut()
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	reads := ds.reads.Load()
	if _, err := r.Next(t.Context()); !errors.Is(err, dataloader.ErrClosed) {
		t.Fatalf("epoch %d: got %v, want %v", epoch, err, dataloader.ErrClosed)
	}
	if got := ds.reads.Load(); got != reads {
		t.Fatalf("epoch %d: %d reads after Close", epoch, got-reads)
	}
}

func TestTheFirstBadSampleReachesNextAfterTheBatchesBefore(t *testing.T) {
	boom := errors.New("disk on fire")
	kinds := []struct {
		name string
		fail func(dst [][]byte) error
		want error
		says string
	}{
		{"error", func([][]byte) error { return boom }, boom, "disk on fire"},
		{"panic", func([][]byte) error { var none []int; return fmt.Errorf("%d", none[len(none)+3]) }, dataloader.ErrPanic, "index out of range [3]"},
		{"panic with an error", func([][]byte) error { panic(boom) }, boom, "disk on fire"},
		{"panic with nil", func([][]byte) error { panic(error(nil)) }, dataloader.ErrPanic, "nil"},
		{"goexit", func([][]byte) error { runtime.Goexit(); return nil }, nil, "Goexit"},
		{"replaced slice", func(dst [][]byte) error { dst[1] = make([]byte, 8); return nil }, dataloader.ErrField, "draw"},
		{"shortened slice", func(dst [][]byte) error { dst[1] = dst[1][:0]; return nil }, dataloader.ErrField, "draw"},
		{"end of file", func([][]byte) error { return io.EOF }, io.ErrUnexpectedEOF, "EOF"},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev arena.Device) {
				rng := random(t)
				for _, workers := range []int{1, 2, 8} {
					n, batch := 30+rng.IntN(30), 1+rng.IntN(9)
					first := rng.IntN(n) // position of the first bad sample; later ones fail too, and sooner
					opt := dataloader.Options{Batch: batch, Shuffle: true, Seed: 7, Workers: workers}
					ds := &fake{n: n}
					g := newStage(t, dev, ds, 2, batch)
					good, err := g.drain(open(t, g.watch(ds), opt), 1)
					if err != nil {
						t.Fatal(err)
					}
					bad := make([]bool, n)
					for _, index := range good.Indices[first:] {
						bad[index] = true
					}
					culprit := good.Indices[first]
					l := open(t, g.watch(&broken{ds, bad, culprit, k.fail}), opt)
					got, err := g.drain(l, 1)
					var e *dataloader.SampleError
					if !errors.As(err, &e) || k.want != nil && !errors.Is(err, k.want) || errors.Is(err, io.EOF) {
						t.Fatalf("got %v, want a sample error", err)
					}
					if e.Index != culprit || e.Step != first/batch || e.Worker < 0 || e.Worker >= workers ||
						!strings.Contains(err.Error(), fmt.Sprintf("worker %d: sample %d", e.Worker, culprit)) || !strings.Contains(err.Error(), k.says) {
						t.Errorf("got %q, want sample %d, step %d and %q", err, culprit, first/batch, k.says)
					}
					before := first / batch * batch
					if !slices.Equal(got.Indices, good.Indices[:before]) || !slices.Equal(got.IDs, good.IDs[:before]) || !slices.Equal(got.Draws, good.Draws[:before]) {
						t.Errorf("got %v before the error, want %v", got.Indices, good.Indices[:before])
					}
					if _, err := g.drain(l, 1); !errors.As(err, &e) || e.Index != culprit {
						t.Errorf("next epoch: got %v, want the same failure: the loader must live on", err)
					}
				}
			})
		})
	}
}

// broken fails for bad samples; the culprit takes its time, so that others fail before it.
type broken struct {
	*fake
	bad     []bool
	culprit int
	fail    func([][]byte) error
}

func (b *broken) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index == b.culprit {
		time.Sleep(200 * time.Microsecond)
	}
	if err := b.fake.Fetch(ctx, at, dst); err != nil || !b.bad[at.Index] {
		return err
	}
	return b.fail(dst)
}

func TestAnErrorOfTheRunIsReturnedAgain(t *testing.T) {
	ds := &fake{n: 4, fetch: func(_ context.Context, at dataloader.At, _ [][]byte) error { return errors.New("no") }}
	l := open(t, ds, dataloader.Options{Batch: 2})
	r := start(t, l, 0, slots(ds, 2, 2))
	defer r.Close()
	_, first := r.Next(t.Context())
	_, second := r.Next(t.Context())
	if first == nil || first != second {
		t.Errorf("got %v, then %v; want the same error", first, second)
	}
}

func TestPanicsKeepTheirStack(t *testing.T) {
	ds := &fake{n: 1, fetch: func(context.Context, dataloader.At, [][]byte) error { panic("here") }}
	_, err := drain(t, open(t, ds, dataloader.Options{Batch: 1}), 0, slots(ds, 1, 1))
	var p *dataloader.PanicError
	if !errors.As(err, &p) || p.Value != "here" || !strings.Contains(string(p.Stack), "TestPanicsKeepTheirStack") {
		t.Errorf("got %v, want a panic with the stack of its place", err)
	}
}

// After the last batch the epoch is over, whatever has become of its context; and Indices are those of its batches.
func TestAContextThatEndsAfterTheLastBatchEndsNothing(t *testing.T) {
	ds := &fake{n: 10}
	l := open(t, ds, dataloader.Options{Batch: 4, Shuffle: true, Seed: 3})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run, err := l.Epoch(ctx, 2, slots(ds, 2, 4))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for step := range 3 {
		ahead := slices.Clone(run.Indices(step))
		b, err := run.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ahead, b.Indices) || len(ahead) != b.Rows {
			t.Errorf("step %d: indices %v, the batch has %v", step, ahead, b.Indices)
		}
		if err := run.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
	if run.Indices(-1) != nil || run.Indices(3) != nil {
		t.Error("indices of steps that the epoch does not have")
	}
	cancel()
	for range 2 {
		if _, err := run.Next(ctx); err != io.EOF {
			t.Errorf("got %v, want io.EOF", err)
		}
	}
}
