package emu_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

// host is a fallback of one input and a number of outputs like it.
type host struct {
	outputs int
	f       func(in, out [][]byte)
}

func (h host) Infer(in []kernels.Spec) ([]kernels.Spec, error) {
	var out []kernels.Spec
	for range h.outputs {
		out = append(out, in[0])
	}
	return out, nil
}

func (h host) Run(in, out [][]byte) error {
	h.f(in, out)
	return nil
}

func (h host) String() string { return "host" }

func hostCall(f func(in, out [][]byte), from int64, to ...int64) kernels.Call {
	c := kernels.Call{Op: kernels.Host, Attrs: host{len(to), f}, Label: "fallback", In: []kernels.Operand{operand(from)}}
	for _, at := range to {
		c.Out = append(c.Out, operand(at))
	}
	return c
}

func TestAFallbackThatWritesItsInputIsFound(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(512))(t)
	s := must(d.NewStream("s"))(t)
	c := hostCall(func(in, out [][]byte) { in[0][5]++ }, 0, 256)
	p := must(d.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, p.Launch(s))
	var e *emu.CallError
	if err := s.Sync(); !errors.As(err, &e) || !errors.Is(err, arena.ErrInvalid) || e.Call != `call 0 "fallback" (host)` {
		t.Errorf("got %v", err)
	}
}

func TestWhatACallForgetsToWriteIsPoison(t *testing.T) {
	d := open(t, emu.Options{})
	mem, pin := must(d.Alloc(512))(t), must(d.Pin(512))(t)
	s := must(d.NewStream("s"))(t)
	c := hostCall(func(in, out [][]byte) { copy(out[0], in[0][:8]) }, 0, 256)
	p := must(d.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, s.Fill(all(mem), 1), p.Launch(s), s.Copy(all(pin), all(mem)), s.Sync())
	if b := pin.Bytes()[256:]; b[7] != 1 || b[8] != 0xFF || b[15] != 0xFF || b[16] != 1 {
		t.Errorf("got %v: want 8 bytes of 1, 8 of poison, and the rest as it was", b[:17])
	}
}

func TestOutputsMayNotShareBytes(t *testing.T) {
	d := open(t, emu.Options{})
	at := kernels.Binding{Memory: must(d.Alloc(1024))(t), Base: []int64{0}}
	must(d.Bind([]kernels.Call{hostCall(nil, 0, 256, 512)}, at))(t)
	must(d.Bind([]kernels.Call{hostCall(nil, 0, 256, 272)}, at))(t)
	for _, second := range []int64{256, 264, 241} {
		if _, err := d.Bind([]kernels.Call{hostCall(nil, 0, 256, second)}, at); !errors.Is(err, arena.ErrInvalid) {
			t.Errorf("outputs at 256 and %d: got %v", second, err)
		}
	}
	c := call("work on input", 0, 256)
	c.Work = arena.Ref{Offset: 15, Size: 1}
	if _, err := d.Bind([]kernels.Call{c}, at); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("workspace on an input: got %v", err)
	}
}

func TestViewsMayLieWhereTheyPoint(t *testing.T) {
	d := open(t, emu.Options{})
	mem, pin := must(d.Alloc(1024))(t), must(d.Pin(1024))(t)
	s := must(d.NewStream("s"))(t)
	slice := func(from int64) kernels.Call {
		half := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2}}
		return kernels.Call{Op: kernels.Slice, Label: "half", Attrs: kernels.SliceAttrs{Start: []int{2}, End: []int{4}, Step: []int{1}},
			In:  []kernels.Operand{operand(0)},
			Out: []kernels.Operand{{Spec: half, Ref: arena.Ref{Offset: from, Size: 8}}}}
	}
	at := kernels.Binding{Memory: mem, Base: []int64{0}}
	if _, err := d.Bind([]kernels.Call{slice(4)}, at); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("a view elsewhere in its input: got %v", err)
	}
	p := must(d.Bind([]kernels.Call{slice(8), slice(256)}, at))(t)
	put(pin.Bytes(), 1, 2, 3, 4)
	ok(t, s.Copy(all(mem), all(pin)), p.Launch(s), s.Copy(all(pin), all(mem)), s.Sync())
	if got := read(pin.Bytes()[256:], 2); got[0] != 3 || got[1] != 4 {
		t.Errorf("got %v, want [3 4]", got)
	}
}

// TestUpdatesLieOnTheirStates binds an optimizer with a scale, whose states come one operand later
// than without.
func TestUpdatesLieOnTheirStates(t *testing.T) {
	d := open(t, emu.Options{})
	at := kernels.Binding{Memory: must(d.Alloc(4096))(t), Base: []int64{0}}
	place := func(k int64, s kernels.Spec) kernels.Operand {
		return kernels.Operand{Spec: s, Ref: arena.Ref{Offset: 256 * k, Size: s.Bytes()}}
	}
	momentum := func(scaled bool) kernels.Call {
		in := []kernels.Operand{place(0, vector), place(1, vector), place(2, kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{4}}),
			place(3, kernels.ControlsSpec)}
		if scaled {
			in = append(in, place(4, kernels.Spec{Type: arena.Float64}))
		}
		in = append(in, place(5, vector))
		return kernels.Call{Op: kernels.Momentum, Label: "w", In: in, Out: []kernels.Operand{in[0], in[len(in)-1]},
			Attrs: kernels.MomentumAttrs{UpdateAttrs: kernels.UpdateAttrs{Scaled: scaled}, Momentum: 0.9}}
	}
	for _, scaled := range []bool{false, true} {
		c := momentum(scaled)
		must(d.Bind([]kernels.Call{c}, at))(t)
		c.Out[1] = place(6, vector)
		if _, err := d.Bind([]kernels.Call{c}, at); !errors.Is(err, arena.ErrInvalid) {
			t.Errorf("scaled %v: a state beside its input: got %v", scaled, err)
		}
	}
}

func TestAWorkspaceIsPartOfTheRaceCheck(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(1024))(t)
	a, b := must(d.NewStream("a"))(t), must(d.NewStream("b"))(t)
	c := call("layer", 0, 256)
	c.Work = arena.Ref{Offset: 512, Size: 100}
	p := must(d.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, p.Launch(a), b.Fill(part(mem, 600, 8), 0), a.Sync(), b.Sync())
	if r := d.Races(); len(r) != 1 {
		t.Errorf("races %v, want one", r)
	}
}

func TestCloseFindsAWriteBesideMemoryThatWasLeft(t *testing.T) {
	d := emutest.Open(t, emu.Options{})
	overrun(must(d.Pin(100))(t), 100)
	if err := d.Close(); !errors.Is(err, arena.ErrOverrun) {
		t.Errorf("got %v", err)
	}
}

func TestAFallbackThatEndsItsGoroutineIsAnErrorAndTheStreamGoesOn(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(512))(t)
	s := must(d.NewStream("s"))(t)
	exits := true
	c := hostCall(func(in, out [][]byte) {
		if exits {
			runtime.Goexit()
		}
	}, 0, 256)
	p := must(d.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	sync := func() error {
		done := make(chan error, 1)
		go func() { done <- s.Sync() }()
		select {
		case err := <-done:
			return err
		case <-time.After(10 * time.Second):
			t.Fatal("sync hangs: the stream's goroutine is gone")
			return nil
		}
	}
	ok(t, p.Launch(s), s.Fill(part(mem, 0, 256), 1))
	var e *emu.CallError
	if err := sync(); !errors.As(err, &e) || e.Index != 1 {
		t.Errorf("got %v, want an error of work 1", err)
	}
	exits = false
	ok(t, p.Launch(s), sync(), p.Close(), s.Close())
}
