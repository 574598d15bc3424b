package dataloader_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/seed"
	"go.uber.org/goleak"
)

// TestMain fails if a test leaks a goroutine.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// random returns a generator and prints the seed if the test fails.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 1) }

// fake is a dataset with an "id" (int32) and a "draw" (8 bytes, the sample's first random number), whose Fetch may be
// made to misbehave.
type fake struct {
	n     int
	fetch func(ctx context.Context, at dataloader.At, dst [][]byte) error // before the sample is written; may be nil
	reads atomic.Int64                                                    // calls of Fetch
}

func (f *fake) Len() int { return f.n }

func (f *fake) Fields() []dataloader.Field {
	return []dataloader.Field{{Name: "id", Type: arena.Int32}, {Name: "draw", Type: arena.Uint8, Shape: []int{2, 4}}}
}

func (f *fake) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	f.reads.Add(1)
	if f.fetch != nil {
		if err := f.fetch(ctx, at, dst); err != nil {
			return err
		}
	}
	binary.NativeEndian.PutUint32(dst[0], uint32(at.Index))
	r := at.Rand()
	binary.NativeEndian.PutUint64(dst[1], r.Uint64())
	return nil
}

// slots makes n places for batches of ds.
func slots(ds dataloader.Dataset, n, batch int) []dataloader.Slot {
	s := make([]dataloader.Slot, n)
	for i := range s {
		for _, f := range ds.Fields() {
			s[i].Fields = append(s[i].Fields, make([]byte, int(f.Bytes())*batch))
		}
	}
	return s
}

// seen is what an epoch delivered.
type seen struct {
	Indices []int
	IDs     []int
	Draws   []uint64
	Rows    []int // by step
}

// add takes one batch of a fake dataset.
func (s *seen) add(b dataloader.Batch, slot dataloader.Slot) {
	s.Rows = append(s.Rows, b.Rows)
	s.Indices = append(s.Indices, b.Indices...)
	for row := range b.Rows {
		s.IDs = append(s.IDs, int(binary.NativeEndian.Uint32(slot.Fields[0][4*row:])))
		s.Draws = append(s.Draws, binary.NativeEndian.Uint64(slot.Fields[1][8*row:]))
	}
}

func open(t testing.TB, ds dataloader.Dataset, opt dataloader.Options) *dataloader.Loader {
	t.Helper()
	l, err := dataloader.New(ds, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func start(t testing.TB, l *dataloader.Loader, epoch int, s []dataloader.Slot) *dataloader.Run {
	t.Helper()
	r, err := l.Epoch(t.Context(), epoch, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drain runs one epoch to its end or its error, and closes it.
func drain(t testing.TB, l *dataloader.Loader, epoch int, s []dataloader.Slot) (*seen, error) {
	t.Helper()
	out := new(seen)
	return out, consume(t, l, epoch, s, func(r *dataloader.Run, b dataloader.Batch) error {
		out.add(b, s[b.Slot])
		return r.Release(b.Slot, nil)
	})
}

// consume runs one epoch to its end or its error, has every batch taken and released, and closes the run.
func consume(t testing.TB, l *dataloader.Loader, epoch int, s []dataloader.Slot, take func(*dataloader.Run, dataloader.Batch) error) error {
	t.Helper()
	r := start(t, l, epoch, s)
	defer func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	for step := 0; ; step++ {
		b, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if b.Step != step || b.Rows != len(b.Indices) {
			t.Fatalf("step %d: got batch %+v", step, b)
		}
		if err := take(r, b); err != nil {
			t.Fatal(err)
		}
	}
}

// wide returns the numbers as ints.
func wide(all []int32) []int {
	out := make([]int, len(all))
	for i, x := range all {
		out[i] = int(x)
	}
	return out
}

// within fails the test if f takes longer than d.
func within(t testing.TB, what string, d time.Duration, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > d {
		t.Errorf("%s took %v, want at most %v", what, took, d)
	}
}
