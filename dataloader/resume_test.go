package dataloader_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// rest reads the batches of an epoch from a step on.
func rest(t *testing.T, l *dataloader.Loader, ds dataloader.Dataset, epoch, step, places, batch int) *seen {
	t.Helper()
	s := slots(ds, places, batch)
	r, err := l.EpochFrom(context.Background(), epoch, step, s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := new(seen)
	for {
		b, err := r.Next(context.Background())
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Step != step+len(got.Rows) {
			t.Fatalf("from step %d: got step %d after %d batches", step, b.Step, len(got.Rows))
		}
		if want := r.Indices(b.Step); !slices.Equal(want, b.Indices) {
			t.Fatalf("step %d: indices %v, the run has %v", b.Step, b.Indices, want)
		}
		got.add(b, s[b.Slot])
		if err := r.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// From any step on, an epoch has the batches that a whole epoch has there, with any number of workers and slots, whatever was read before.
func TestAnEpochGoesOnAtAnyStep(t *testing.T) {
	r := random(t)
	for range 40 {
		n, opt := 1+r.IntN(60), dataloader.Options{Batch: 1 + r.IntN(9), Seed: r.Uint64(), Workers: 1 + r.IntN(4), Shuffle: r.IntN(3) > 0}
		if opt.Tail = dataloader.Tail(r.IntN(2)); n < opt.Batch {
			opt.Tail = dataloader.KeepTail
		}
		ds := &fake{n: n}
		l := open(t, ds, opt)
		for range 6 {
			epoch, step := r.IntN(3), r.IntN(l.Steps()+1)
			whole := rest(t, open(t, ds, opt), ds, epoch, 0, 2, opt.Batch)
			before := min(step*opt.Batch, len(whole.Indices))
			want := &seen{Rows: whole.Rows[step:], Indices: whole.Indices[before:], IDs: whole.IDs[before:], Draws: whole.Draws[before:]}
			got := rest(t, l, ds, epoch, step, 1+r.IntN(3), opt.Batch)
			if len(got.Rows) != len(want.Rows) || len(want.Rows) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("n %d, %+v, epoch %d from step %d of %d: got\\n%v, want\\n%v", n, opt, epoch, step, l.Steps(), got, want)
			}
		}
	}
}

// Nothing is fetched of the batches before the step, and a failing sample among them is no error.
func TestBatchesBeforeTheFirstStepAreNotRead(t *testing.T) {
	ds := &unread{Dataset: &fake{n: 40}, below: 24}
	got := rest(t, open(t, ds, dataloader.Options{Batch: 8}), ds, 0, 3, 2, 8)
	if len(got.Rows) != 2 || got.IDs[0] != 24 {
		t.Errorf("got %v", got)
	}
	s := slots(ds, 2, 8)
	run, err := open(t, ds, dataloader.Options{Batch: 8}).EpochFrom(context.Background(), 0, 2, s)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	var e *dataloader.SampleError
	if _, err := run.Next(context.Background()); !errors.As(err, &e) || e.Step != 2 {
		t.Errorf("step 2: got %v, want the error of a sample", err)
	}
}

// unread is a dataset that cannot fetch the samples below a number.
type unread struct {
	dataloader.Dataset
	below int
}

func (u *unread) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index < u.below {
		return errors.New("read")
	}
	return u.Dataset.Fetch(ctx, at, dst)
}

func TestAStepOutsideTheEpochIsRefused(t *testing.T) {
	ds := &fake{n: 20}
	l := open(t, ds, dataloader.Options{Batch: 8})
	for _, step := range []int{-1, 4, 1 << 40} {
		if _, err := l.EpochFrom(context.Background(), 0, step, slots(ds, 2, 8)); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("step %d: got %v, want ErrOption", step, err)
		}
	}
	r, err := l.EpochFrom(context.Background(), 0, 3, slots(ds, 2, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := r.Next(context.Background()); err != io.EOF {
		t.Errorf("after the last step: got %v, %v, want io.EOF", b, err)
	}
}
