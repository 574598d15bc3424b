package dataloader_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

func TestNilAndPanickingDatasetsAreErrorsThatSaySo(t *testing.T) {
	var slices *dataloader.Slices
	for _, c := range []struct {
		name string
		ds   dataloader.Dataset
		is   error
		want string
	}{
		{"nil", nil, dataloader.ErrOption, "nil dataset"},
		{"nil pointer", slices, dataloader.ErrOption, "dataset is a nil *dataloader.Slices"},
		{"map without a function", dataloader.Map(&fake{n: 4}, nil), dataloader.ErrOption, "map: the function is nil"},
		{"map of a map without a function", dataloader.Map(dataloader.Map(&fake{n: 4}, nil), func(dataloader.At, [][]byte) error { return nil }),
			dataloader.ErrOption, "map: the function is nil"},
		{"map of nil", dataloader.Map(slices, func(dataloader.At, [][]byte) error { return nil }), dataloader.ErrOption, "nil *dataloader.Slices"},
		{"panic", &moody{Dataset: &fake{n: 4}, size: func() int { panic("moody") }}, dataloader.ErrPanic, "dataset of type *dataloader_test.moody: panic: moody"},
	} {
		_, made := dataloader.New(c.ds, dataloader.Options{Batch: 1})
		_, part := dataloader.Subset(c.ds, 0, 1)
		_, selected := dataloader.Select(c.ds, "id")
		for what, err := range map[string]error{"check": dataloader.Check(c.ds), "new": made, "subset": part, "select": selected} {
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: got %v, want %q that is %v", c.name, what, err, c.want, c.is)
			}
		}
	}
}

func TestANilContextIsAnError(t *testing.T) {
	ds := &fake{n: 4}
	l := open(t, ds, dataloader.Options{Batch: 2})
	var none context.Context
	if _, err := l.Epoch(none, 0, slots(ds, 1, 2)); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("epoch: got %v, want ErrOption", err)
	}
	r := start(t, l, 0, slots(ds, 1, 2))
	if _, err := r.Next(none); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("next: got %v, want ErrOption", err)
	}
	if _, err := r.Next(t.Context()); err != nil {
		t.Errorf("next with a context: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestLoadersAndRunsThatWereNotMadeAnswerWithErrors(t *testing.T) {
	for name, l := range map[string]*dataloader.Loader{"nil": nil, "zero": new(dataloader.Loader)} {
		if _, err := l.Epoch(t.Context(), 0, nil); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: epoch: got %v, want ErrOption", name, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
	for name, r := range map[string]*dataloader.Run{"nil": nil, "zero": new(dataloader.Run)} {
		_, err := r.Next(t.Context())
		for what, err := range map[string]error{"next": err, "release": r.Release(0, nil)} {
			if !errors.Is(err, dataloader.ErrOption) {
				t.Errorf("%s: %s: got %v, want ErrOption", name, what, err)
			}
		}
		if err := errors.Join(r.Close(), r.Stuck()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// moody is a dataset that says something else than another about itself.
type moody struct {
	dataloader.Dataset
	size   func() int
	fields func() []dataloader.Field
}

func (m *moody) Len() int {
	if m.size == nil {
		return m.Dataset.Len()
	}
	return m.size()
}

func (m *moody) Fields() []dataloader.Field {
	if m.fields == nil {
		return m.Dataset.Fields()
	}
	return m.fields()
}

func TestADatasetThatChangesIsAnErrorAndNeverReadByStaleCounts(t *testing.T) {
	var n atomic.Int64
	size := func() int { return int(n.Load()) }
	part := func(ds dataloader.Dataset) dataloader.Dataset {
		s, err := dataloader.Subset(ds, 3, 10)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	same := func(ds dataloader.Dataset) dataloader.Dataset { return ds }
	mapped := func(ds dataloader.Dataset) dataloader.Dataset {
		return dataloader.Map(ds, func(dataloader.At, [][]byte) error { return nil })
	}
	for name, wrap := range map[string]func(dataloader.Dataset) dataloader.Dataset{"itself": same, "subset": part, "map": mapped} {
		for _, when := range []string{"before an epoch", "in an epoch", "in the last batch"} {
			t.Run(name+" "+when, func(t *testing.T) {
				n.Store(10)
				ds := wrap(&moody{Dataset: &fake{n: 10}, size: size})
				l, s := open(t, ds, dataloader.Options{Batch: 2}), slots(ds, 2, 2)
				if _, err := drain(t, l, 0, s); err != nil {
					t.Fatal(err)
				}
				r, err := l.Epoch(t.Context(), 1, s)
				if err != nil {
					t.Fatal(err)
				}
				at := map[string]int{"before an epoch": 0, "in an epoch": 2, "in the last batch": l.Steps()}[when]
				for range at {
					b, err := r.Next(t.Context())
					if err == nil {
						err = r.Release(b.Slot, nil)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				n.Store(6)
				_, first := r.Next(t.Context())
				_, again := r.Next(t.Context())
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				_, epoch := l.Epoch(t.Context(), 2, s)
				for what, err := range map[string]error{"next": first, "next again": again, "epoch": epoch} {
					var e *dataloader.ChangedError
					if !errors.As(err, &e) || !errors.Is(err, dataloader.ErrChanged) || errors.Is(err, io.EOF) || e.Now >= e.Was {
						t.Errorf("%s: got %v, want a ChangedError", what, err)
					}
				}
			})
		}
	}
}

func TestFieldsThatChangeAreAnErrorOfTheNextEpoch(t *testing.T) {
	fields := (&fake{}).Fields()
	ds := &moody{Dataset: &fake{n: 4}, fields: func() []dataloader.Field { return fields }}
	l, s := open(t, ds, dataloader.Options{Batch: 2}), slots(ds, 2, 2)
	if _, err := drain(t, l, 0, s); err != nil {
		t.Fatal(err)
	}
	fields[1].Shape[0] = 3
	if _, err := l.Epoch(t.Context(), 1, s); !errors.Is(err, dataloader.ErrChanged) || !strings.Contains(err.Error(), "*dataloader_test.moody") {
		t.Errorf("got %v, want ErrChanged and the dataset", err)
	}
	asked := 0
	fickle := &moody{Dataset: &fake{n: 4}, size: func() int { asked++; return 4 - 4*(asked/2) }}
	if _, err := dataloader.New(fickle, dataloader.Options{Batch: 2}); !errors.Is(err, dataloader.ErrChanged) {
		t.Errorf("a length that is another each time: got %v, want ErrChanged", err)
	}
}

func TestAClosedRunKeepsNoSlotAlive(t *testing.T) {
	ds := &fake{n: 8}
	l := open(t, ds, dataloader.Options{Batch: 4})
	gone := make(chan bool, 1)
	r := func() *dataloader.Run {
		big := make([]byte, 1<<20)
		runtime.AddCleanup(&big[0], func(gone chan bool) { gone <- true }, gone)
		s := []dataloader.Slot{{Fields: [][]byte{big, make([]byte, 4*8)}, Ready: new(done)}}
		r := start(t, l, 0, s)
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return r
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-gone:
			runtime.KeepAlive(r)
			runtime.KeepAlive(l)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the slot's memory is still reachable")
}

// done is an event that is done.
type done struct{ _ int }

func (*done) Sync() error { return nil }

func TestAStuckErrorTellsWhatToDo(t *testing.T) {
	e := &dataloader.StuckError{Blocked: []dataloader.StuckCall{{Worker: 1, Index: 5, Block: -1}}}
	want := "worker 1 is in Fetch of sample 5: it ignores its context and may still write to the slots: close again after it returns"
	if e.Error() != want {
		t.Errorf("got %q, want %q", e.Error(), want)
	}
}
