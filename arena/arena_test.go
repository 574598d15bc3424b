package arena_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/google/go-cmp/cmp"
)

// small makes an arena with 1,024 bytes of parameters, of which 600 are parts, and 2,048 bytes of scratch.
func small(t testing.TB, d *fakeDevice) (a *arena.Arena, weight arena.Ref, scratch arena.Region) {
	t.Helper()
	var l arena.Layout
	params := l.Region("parameters")
	scratch = l.Region("scratch")
	weight = l.Place(params, "hidden", "weight", 500)
	l.Place(params, "out", "bias", 100)
	l.Reserve(params, 1024)
	l.Reserve(scratch, 2048)
	a, err := arena.New(d, &l, l.Total())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if n := d.live.Load(); n != 0 {
			t.Errorf("%d allocations and streams are left after Close", n)
		}
	})
	return a, weight, scratch
}

// devices runs a test on memory that the host sees and on memory that it does not.
func devices(t *testing.T, test func(t *testing.T, d *fakeDevice)) {
	t.Run("unified", func(t *testing.T) { test(t, new(fakeDevice)) })
	t.Run("separate", func(t *testing.T) { test(t, &fakeDevice{separate: true}) })
}

func TestNewAllocatesOnceAndHandlesAllocateNothing(t *testing.T) {
	devices(t, func(t *testing.T, d *fakeDevice) {
		a, _, scratch := small(t, d)
		want := []string{"info", "alloc"}
		if d.separate {
			want = append(want, "pin", "stream")
		}
		for range 100 {
			if _, err := a.Handle(arena.Ref{Region: scratch, Size: 700}, "x"); err != nil {
				t.Fatal(err)
			}
			if err := a.Reset(scratch); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, d.calls); diff != "" {
			t.Errorf("calls of the device: %s", diff)
		}
		if a.Memory().Size() != 3072 || a.Base(scratch) != 1024 || a.Base(9) != -1 {
			t.Errorf("got %d bytes, scratch at %d", a.Memory().Size(), a.Base(scratch))
		}
	})
}

func TestALimitOneByteBelowTheTotalIsRefusedWithoutTheDevice(t *testing.T) {
	var l arena.Layout
	r := l.Region("parameters")
	l.Place(r, "a", "small", 10)
	l.Place(r, "b", "large", 700)
	d := new(fakeDevice)
	_, err := arena.New(d, &l, l.Total()-1)
	var e *arena.CapacityError
	if !errors.As(err, &e) || !errors.Is(err, arena.ErrCapacity) || e.Need != 1024 || e.Have != 1023 {
		t.Fatalf("got %v", err)
	}
	if want := "arena: need 1024 bytes, have 1023: 1 missing; largest: b/parameters large 700, a/parameters small 10"; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if len(d.calls) > 0 {
		t.Errorf("the device was asked: %v", d.calls)
	}
	for limit, want := range map[int64]error{-1: arena.ErrInvalid, 1: arena.ErrCapacity} {
		if _, err := arena.New(d, &l, limit); !errors.Is(err, want) {
			t.Errorf("limit %d: got %v, want %v", limit, err, want)
		}
	}
	if _, err := arena.New(d, new(arena.Layout), 0); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("an empty layout: got %v", err)
	}
}

func TestWhatTheDeviceRefusesIsWrappedAndNothingIsLeft(t *testing.T) {
	for _, refuse := range []string{"alloc", "pin", "stream"} {
		t.Run(refuse, func(t *testing.T) {
			var l arena.Layout
			l.Reserve(l.Region("r"), 1000)
			d := &fakeDevice{separate: true, refuse: refuse}
			a, err := arena.New(d, &l, 0)
			if !errors.Is(err, errRefused) || a != nil {
				t.Fatalf("got %v", err)
			}
			if d.calls[len(d.calls)-1] != refuse {
				t.Errorf("calls after the refusal: %v", d.calls)
			}
			if d.live.Load() != 0 {
				t.Errorf("%d allocations are left", d.live.Load())
			}
		})
	}
	_, err := arena.New(&fakeDevice{refuse: "alloc"}, func() *arena.Layout {
		var l arena.Layout
		l.Reserve(l.Region("r"), 1000)
		return &l
	}(), 0)
	if want := "arena of 1024 bytes on fake: 536870912 bytes free of 1073741824: refused by the device"; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestHandlesReadWhatWasWritten(t *testing.T) {
	devices(t, func(t *testing.T, d *fakeDevice) {
		var l arena.Layout
		r := l.Region("r")
		const size = 700_001 // several pieces of a stage, the last one short
		before, ref, after := l.Place(r, "", "before", 256), l.Place(r, "", "x", size), l.Place(r, "", "after", 256)
		a, err := arena.New(d, &l, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		src := make([]byte, size)
		for i := range src {
			src[i] = byte(i * 7 >> 3)
		}
		h, err := a.Handle(ref, "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Write(src); err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, size)
		if err := h.Read(dst); err != nil || !bytes.Equal(src, dst) {
			t.Fatalf("read differs from what was written, error %v", err)
		}
		for _, ref := range []arena.Ref{before, after} {
			n, _ := a.Handle(ref, "neighbour")
			dst := make([]byte, 256)
			if err := n.Read(dst); err != nil || !bytes.Equal(dst, make([]byte, 256)) {
				t.Errorf("a neighbour was written, error %v", err)
			}
		}
		b, err := h.Bytes()
		if d.separate {
			if b != nil || !errors.Is(err, arena.ErrInvalid) {
				t.Errorf("Bytes of hidden memory: %d bytes, error %v", len(b), err)
			}
		} else if err != nil || !bytes.Equal(b, src) || cap(b) != size {
			t.Errorf("Bytes: %d of %d, error %v", len(b), cap(b), err)
		}
		if err := h.Read(dst[1:]); !errors.Is(err, arena.ErrInvalid) {
			t.Errorf("a read that is too short: %v", err)
		}
		if d.separate {
			d.refuse = "copy"
			if err := h.Write(src); !errors.Is(err, errRefused) {
				t.Errorf("a copy that the device refuses: %v", err)
			}
		}
	})
}

func TestAHandleOfAnEarlierStepIsStaleAndNamesBothSteps(t *testing.T) {
	devices(t, func(t *testing.T, d *fakeDevice) {
		a, weight, scratch := small(t, d)
		fixed, err := a.Handle(weight, "weight")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := a.Reset(scratch); err != nil {
				t.Fatal(err)
			}
		}
		place := arena.Ref{Region: scratch, Size: 4}
		h, err := a.Handle(place, "loss")
		if err != nil || h.Name() != "loss" || h.Ref() != place || h.Err() != nil {
			t.Fatalf("got %+v, %v, %v", h.Ref(), err, h.Err())
		}
		planned, err := a.Handle(arena.Ref{Region: scratch, Offset: 1024, Size: 1024}, "planned")
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Reset(scratch)
		if _, err := a.Handle(place, "other"); err != nil {
			t.Fatal(err)
		}
		_, bytesErr := h.Bytes()
		for _, err := range []error{h.Err(), h.Read(make([]byte, 4)), h.Write(make([]byte, 4)), bytesErr, planned.Err()} {
			var e *arena.StaleError
			if !errors.As(err, &e) || !errors.Is(err, arena.ErrStale) || e.Step != 3 || e.Now != 4 || e.Region != "scratch" {
				t.Fatalf("got %v, want a StaleError of step 3 in step 4", err)
			}
		}
		if err := fixed.Err(); err != nil {
			t.Errorf("a handle to another region: %v", err)
		}
	})
}

func TestUseThatMakesNoSenseIsAnError(t *testing.T) {
	a, _, scratch := small(t, new(fakeDevice))
	errs := map[string]error{"zero handle": arena.Handle{}.Err(), "read of it": arena.Handle{}.Read(nil), "reset": a.Reset(5)}
	_, errs["bytes of it"] = arena.Handle{}.Bytes()
	for name, ref := range map[string]arena.Ref{
		"region": {Region: 2}, "offset": {Region: scratch, Offset: -1, Size: 2}, "size": {Region: scratch, Size: -1},
		"end": {Region: scratch, Offset: 2048, Size: 1}, "overflow": {Region: scratch, Offset: 1, Size: 1<<63 - 1},
	} {
		_, errs["place with wrong "+name] = a.Handle(ref, "x")
	}
	for name, err := range errs {
		if !errors.Is(err, arena.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func TestAfterCloseEverythingFailsAndNothingIsInUse(t *testing.T) {
	devices(t, func(t *testing.T, d *fakeDevice) {
		a, weight, scratch := small(t, d)
		h, _ := a.Handle(weight, "weight")
		for range 2 {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
		_, handleErr := a.Handle(weight, "x")
		_, bytesErr := h.Bytes()
		for _, err := range []error{handleErr, bytesErr, a.Reset(scratch), h.Err(), h.Read(make([]byte, 500)), h.Write(make([]byte, 500))} {
			if !errors.Is(err, arena.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		if s := a.Stats(); s.InUse != 0 || s.Reserved != 0 || s.Pinned != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestAStepAllocatesNoGoObjects(t *testing.T) {
	devices(t, func(t *testing.T, d *fakeDevice) {
		a, weight, scratch := small(t, d)
		buf, loss := make([]byte, 500), make([]byte, 4)
		if n := testing.AllocsPerRun(100, func() {
			h, _ := a.Handle(arena.Ref{Region: scratch, Size: 4}, "loss")
			w, _ := a.Handle(weight, "weight")
			if h.Write(loss) != nil || w.Read(buf) != nil || a.Reset(scratch) != nil {
				t.Fatal("a step failed")
			}
		}); n != 0 {
			t.Errorf("%v allocations a step, want 0", n)
		}
	})
}

// Each goroutine has a place of its own; all of them reset the region while the others read and write.
func TestSeveralGoroutinesMayUseAnArena(t *testing.T) {
	devices(t, func(t *testing.T, d *fakeDevice) {
		a, weight, scratch := small(t, d)
		var group sync.WaitGroup
		for g := range 4 {
			group.Go(func() {
				place := arena.Ref{Region: scratch, Offset: int64(g) * 512, Size: 100}
				buf, got := bytes.Repeat([]byte{byte(g + 1)}, 100), make([]byte, 100)
				for i := range 500 {
					h, err := a.Handle(place, "x")
					if err != nil {
						t.Error(err)
					}
					if i%50 == 0 {
						_ = a.Reset(scratch)
					}
					if err := h.Write(buf); err != nil && !errors.Is(err, arena.ErrStale) {
						t.Error(err)
					}
					if err := h.Read(got); err == nil && !bytes.Equal(got, buf) {
						t.Errorf("goroutine %d read bytes of another", g)
					}
					if _, err := a.Handle(weight, "weight"); err != nil {
						t.Error(err)
					}
					_ = a.Stats()
				}
			})
		}
		group.Wait()
		if step := a.Stats().Regions[scratch].Step; step != 41 {
			t.Errorf("step %d after 40 resets, want 41", step)
		}
	})
}

func TestStatsCountPartsAndResets(t *testing.T) {
	a, _, scratch := small(t, &fakeDevice{separate: true})
	for range 1000 {
		if err := a.Reset(scratch); err != nil {
			t.Fatal(err)
		}
	}
	want := arena.Stats{Reserved: 3072, InUse: 768, Pinned: 3072, Regions: []arena.RegionStats{
		{Name: "parameters", Reserved: 1024, InUse: 768, Step: 1},
		{Name: "scratch", Reserved: 2048, Step: 1001},
	}}
	if diff := cmp.Diff(want, a.Stats()); diff != "" {
		t.Error(diff)
	}
}
