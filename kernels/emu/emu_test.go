package emu_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// twice is y = 2x, enough of an operation to see what a device does with it.
var twice = &kernels.Op{
	Name:    "twice",
	InPlace: []int8{0},
	Infer: func(_ any, in []kernels.Spec) ([]kernels.Spec, error) {
		if len(in) != 1 || !in[0].Type.Float() {
			return nil, fmt.Errorf("one float: %w", kernels.ErrShape)
		}
		return in, nil
	},
	Ref: func(_ any, in, out []kernels.Tensor) {
		for i, v := range in[0].Data {
			out[0].Data[i] = 2 * v
		}
	},
}

var vector = kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{4}}

func operand(offset int64) kernels.Operand {
	return kernels.Operand{Spec: vector, Ref: arena.Ref{Offset: offset, Size: vector.Bytes()}}
}

// call is twice from one offset to another.
func call(label string, from, to int64) kernels.Call {
	return kernels.Call{Op: twice, Label: label, In: []kernels.Operand{operand(from)}, Out: []kernels.Operand{operand(to)}}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// open makes a device that is closed, and held to an empty ledger, at the end of the test.
func open(t *testing.T, o emu.Options) *emu.Device {
	d := emutest.Open(t, o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if l := d.Ledger(); !l.Empty() {
			t.Errorf("after Close there are %v", l)
		}
	})
	return d
}

func all(m arena.Memory) arena.Span { return arena.Span{Memory: m, Size: m.Size()} }

func part(m arena.Memory, offset, size int64) arena.Span {
	return arena.Span{Memory: m, Offset: offset, Size: size}
}

func put(b []byte, v ...float32) {
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
}

func read(b []byte, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

func TestProgramsComputeOnDeviceMemoryThroughPinnedMemory(t *testing.T) {
	for _, o := range []emu.Options{{}, {Lazy: true}, {Delay: time.Millisecond, Seed: 3}} {
		d := open(t, o)
		mem := must(d.Alloc(1024))(t)
		pin := must(d.Pin(512))(t)
		s := must(d.NewStream("compute"))(t)
		if mem.Bytes() != nil {
			t.Error("the host sees device memory")
		}
		p := must(d.Bind([]kernels.Call{call("a", 0, 256), call("b", 256, 256), call("c", 256, 512)},
			kernels.Binding{Memory: mem, Base: []int64{256}}))(t)
		put(pin.Bytes(), 1, 2, 3, 4)
		ok(t, s.Copy(part(mem, 256, 16), part(pin, 0, 16)), p.Launch(s), s.Copy(part(pin, 256, 16), part(mem, 768, 16)), s.Sync())
		if got := read(pin.Bytes()[256:], 4); got[0] != 8 || got[3] != 32 {
			t.Errorf("%+v: got %v, want [8 16 24 32]", o, got)
		}
		want := emu.Traffic{Uploaded: 16, Downloaded: 16, Copies: 2, Launches: 1, Calls: 3}
		got := d.Traffic()
		got.Deepest = 0
		if got != want {
			t.Errorf("traffic %+v, want %+v", got, want)
		}
		if r := d.Races(); r != nil {
			t.Errorf("races: %v", r)
		}
	}
}

func TestLazyWorkWaitsForSomebodyWhoWaits(t *testing.T) {
	setup := func(t *testing.T) (d *emu.Device, a, b arena.Stream, e arena.Event) {
		d = open(t, emu.Options{Lazy: true})
		mem := must(d.Alloc(512))(t)
		a, b = must(d.NewStream("a"))(t), must(d.NewStream("b"))(t)
		e = must(d.NewEvent())(t)
		ok(t, a.Fill(part(mem, 0, 256), 1), a.Record(e), a.Fill(part(mem, 256, 256), 2), b.Wait(e), b.Fill(part(mem, 0, 256), 3))
		time.Sleep(2 * time.Millisecond)
		if got := d.Traffic().Fills; got != 0 {
			t.Fatalf("%d fills ran before anybody waited", got)
		}
		return
	}
	for _, c := range []struct {
		name  string
		wait  func(a, b arena.Stream, e arena.Event) error
		fills int64
	}{
		{"event", func(_, _ arena.Stream, e arena.Event) error { return e.Sync() }, 1},
		{"stream", func(a, _ arena.Stream, _ arena.Event) error { return a.Sync() }, 2},
		{"dependent stream", func(_, b arena.Stream, _ arena.Event) error { return b.Sync() }, 2},
		{"close", func(_, b arena.Stream, _ arena.Event) error { return b.Close() }, 2},
		{"poll", func(_, _ arena.Stream, e arena.Event) error {
			for !e.Done() {
				time.Sleep(100 * time.Microsecond)
			}
			return nil
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, a, b, e := setup(t)
			ok(t, c.wait(a, b, e))
			if got := d.Traffic().Fills; got != c.fills {
				t.Errorf("%d fills ran, want %d", got, c.fills)
			}
		})
	}
}

// TestBothOrdersHappen demands that streams really run beside each other: without an event either
// may come first, with one only the ordered one does.
func TestBothOrdersHappen(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		seen := map[byte]int{}
		for seed := range uint64(64) {
			d := open(t, emu.Options{Seed: seed, Delay: 300 * time.Microsecond})
			mem, pin := must(d.Alloc(256))(t), must(d.Pin(256))(t)
			a, b := must(d.NewStream("a"))(t), must(d.NewStream("b"))(t)
			e := must(d.NewEvent())(t)
			ok(t, a.Fill(all(mem), 1), a.Record(e))
			if ordered {
				ok(t, b.Wait(e))
			}
			ok(t, b.Fill(all(mem), 2), a.Sync(), b.Sync(), a.Copy(all(pin), all(mem)), a.Sync())
			seen[pin.Bytes()[0]]++
			if got := len(d.Races()) > 0; got == ordered {
				t.Errorf("ordered %v, seed %d: race reported: %v", ordered, seed, got)
			}
		}
		if ordered && seen[1] > 0 || !ordered && (seen[1] == 0 || seen[2] == 0) {
			t.Errorf("ordered %v: the last writer was a %d times and b %d times", ordered, seen[1], seen[2])
		}
	}
}

func TestWaitMeansTheLastRecordAtTheTimeOfTheCall(t *testing.T) {
	d := open(t, emu.Options{Lazy: true})
	mem := must(d.Alloc(512))(t)
	a, b := must(d.NewStream("a"))(t), must(d.NewStream("b"))(t)
	e := must(d.NewEvent())(t)
	ok(t, b.Wait(e), e.Sync()) // never recorded: done
	if !e.Done() {
		t.Error("an event that was never recorded is not done")
	}
	ok(t, a.Fill(part(mem, 0, 256), 1), a.Record(e), b.Wait(e), a.Fill(part(mem, 256, 256), 1), a.Record(e))
	ok(t, b.Fill(part(mem, 0, 256), 2))
	if r := d.Races(); r != nil {
		t.Fatalf("ordered by the first record, but: %v", r)
	}
	ok(t, b.Fill(part(mem, 256, 256), 2))
	if r := d.Races(); len(r) != 1 || !errors.Is(r[0], emu.ErrRace) {
		t.Fatalf("the second record came after the wait: races %v, want one", r)
	}
	ok(t, b.Sync())
	if got := d.Traffic().Fills; got != 3 {
		t.Errorf("%d fills ran, want 3: b must not wait for the second record", got)
	}
}

func TestDelaysHoldWorkBack(t *testing.T) {
	const least = 20 * time.Millisecond // what 40 delays of up to 10 ms, half of them 0, add up to for this seed, and more
	d := open(t, emu.Options{Seed: 1, Delay: 10 * time.Millisecond})
	mem := must(d.Alloc(256))(t)
	s := must(d.NewStream("s"))(t)
	start := time.Now()
	for range 40 {
		ok(t, s.Fill(all(mem), 0))
	}
	ok(t, s.Sync())
	if took := time.Since(start); took < least {
		t.Errorf("40 fills took %v, less than %v: nothing was delayed", took, least)
	}
}
