package emu_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

func TestCapacityIsExact(t *testing.T) {
	d := open(t, emu.Options{Memory: 1000})
	_, err := d.Alloc(1001)
	var c *arena.CapacityError
	if !errors.As(err, &c) || c.Need != 1001 || c.Have != 1000 {
		t.Errorf("1001 of 1000 bytes: got %v", err)
	}
	m := must(d.Alloc(1000))(t)
	if i := must(d.Info())(t); i.Free != 0 || i.Total != 1000 {
		t.Errorf("info %+v with everything allocated", i)
	}
	must(d.Pin(5000))(t) // not part of it
	if _, err := d.Alloc(1); !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("1 byte more: got %v", err)
	}
	ok(t, m.Free())
	must(d.Alloc(1000))(t)
	for _, n := range []int64{0, -1, 1 << 60} {
		if _, err := d.Pin(n); !errors.Is(err, arena.ErrInvalid) {
			t.Errorf("pin %d bytes: got %v", n, err)
		}
	}
}

func TestNewMemoryIsPoisonAndAligned(t *testing.T) {
	d := open(t, emu.Options{})
	s := must(d.NewStream("s"))(t)
	for _, n := range []int64{1, 255, 256, 257, 5000, 1 << 17} {
		mem, pin := must(d.Alloc(n))(t), must(d.Pin(n))(t)
		b := pin.Bytes()
		if a := uintptr(unsafe.Pointer(&b[0])); a%arena.Align != 0 {
			t.Errorf("%d pinned bytes lie at %#x", n, a)
		}
		check := func(what string) {
			for i, v := range b {
				if v != 0xFF {
					t.Fatalf("%s: byte %d of %d is %#x, want poison", what, i, n, v)
				}
			}
		}
		check("pinned")
		clear(b)
		ok(t, s.Copy(all(pin), all(mem)), s.Sync())
		check("device")
	}
}

func TestFreeTwiceAndUseAfterFreeAreErrors(t *testing.T) {
	d := open(t, emu.Options{Lazy: true})
	s := must(d.NewStream("s"))(t)
	mem, pin := must(d.Alloc(512))(t), must(d.Pin(512))(t)
	p := must(d.Bind([]kernels.Call{call("a", 0, 256)}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, s.Copy(all(mem), all(pin)), p.Launch(s))
	for name, err := range map[string]error{"device": mem.Free(), "pinned": pin.Free(), "program": p.Close()} {
		if !errors.Is(err, emu.ErrInUse) {
			t.Errorf("%s memory in use by queued work: got %v", name, err)
		}
	}
	ok(t, s.Sync())
	stale := pin.Bytes()
	ok(t, mem.Free(), pin.Free())
	for name, err := range map[string]error{
		"device": mem.Free(), "pinned": pin.Free(), "copy": s.Copy(all(mem), all(pin)),
		"fill": s.Fill(all(mem), 1), "launch": p.Launch(s),
	} {
		if !errors.Is(err, arena.ErrFreed) {
			t.Errorf("%s after Free: got %v", name, err)
		}
	}
	if pin.Bytes() != nil || stale[0] == 0xFF {
		t.Errorf("freed pinned memory can still be read: %v", stale[0])
	}
	ok(t, p.Close(), p.Close())
}

func TestAWriteBesidePinnedMemoryIsFoundByFree(t *testing.T) {
	for _, at := range []int{-1, 100} {
		d := open(t, emu.Options{})
		pin := must(d.Pin(100))(t)
		overrun(pin, at)
		if err := pin.Free(); !errors.Is(err, arena.ErrOverrun) {
			t.Errorf("byte %d of 100 overwritten: got %v", at, err)
		}
	}
}

// overrun writes a byte outside of pinned memory, as unsafe code might.
func overrun(pin arena.Memory, at int) {
	*(*byte)(unsafe.Add(unsafe.Pointer(&pin.Bytes()[0]), at)) = 0
}

// heap is memory that a device did not make.
type heap struct{ b []byte }

func (h heap) Size() int64   { return int64(len(h.b)) }
func (h heap) Bytes() []byte { return h.b }
func (h heap) Free() error   { return nil }

func TestCopiesTakeOnlyTheDevicesOwnMemoryWithinBounds(t *testing.T) {
	d, other := open(t, emu.Options{}), open(t, emu.Options{})
	s := must(d.NewStream("s"))(t)
	mem, pin := must(d.Alloc(256))(t), must(d.Pin(256))(t)
	foreign := must(other.Alloc(256))(t)
	for _, c := range []struct {
		name     string
		dst, src arena.Span
		want     error
	}{
		{"from the Go heap", all(mem), all(heap{make([]byte, 256)}), emu.ErrForeign},
		{"to the Go heap", all(heap{make([]byte, 256)}), all(mem), emu.ErrForeign},
		{"another device's", all(mem), all(foreign), emu.ErrForeign},
		{"no memory", all(mem), arena.Span{Size: 256}, emu.ErrForeign},
		{"negative offset", part(mem, -1, 8), part(pin, 0, 8), arena.ErrInvalid},
		{"negative size", part(mem, 0, -8), part(pin, 0, -8), arena.ErrInvalid},
		{"past the end", part(mem, 250, 8), part(pin, 0, 8), arena.ErrInvalid},
		{"offset past the end", part(mem, 257, 0), part(pin, 0, 0), arena.ErrInvalid},
		{"overflow", part(mem, 8, 1<<63-1), part(pin, 0, 1<<63-1), arena.ErrInvalid},
		{"unequal", part(mem, 0, 8), part(pin, 0, 9), arena.ErrInvalid},
		{"onto itself", part(mem, 0, 8), part(mem, 7, 8), arena.ErrInvalid},
	} {
		if err := s.Copy(c.dst, c.src); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	e := must(other.NewEvent())(t)
	if err := errors.Join(s.Record(e)); !errors.Is(err, emu.ErrForeign) {
		t.Errorf("another device's event: got %v", err)
	}
	ok(t, s.Copy(part(mem, 256, 0), part(pin, 256, 0)), s.Copy(part(mem, 0, 128), part(mem, 128, 128)), s.Sync())
}

func TestWhatIsClosedRefusesWork(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(512))(t)
	s, e := must(d.NewStream("s"))(t), must(d.NewEvent())(t)
	p := must(d.Bind([]kernels.Call{call("a", 0, 256)}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, p.Close(), e.Close(), e.Close())
	for name, err := range map[string]error{"launch": p.Launch(s), "record": s.Record(e), "wait": s.Wait(e), "event sync": e.Sync()} {
		if !errors.Is(err, arena.ErrClosed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ok(t, s.Close(), s.Close())
	for name, err := range map[string]error{"fill": s.Fill(all(mem), 0), "sync": s.Sync()} {
		if !errors.Is(err, arena.ErrClosed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ok(t, d.Close(), d.Close())
	_, err := d.Alloc(1)
	if !errors.Is(err, arena.ErrClosed) || d.Left().DeviceBytes != 512 {
		t.Errorf("closed device: got %v, left %v", err, d.Left())
	}
}

func TestBindReportsEveryMistake(t *testing.T) {
	d := open(t, emu.Options{})
	mem, pin := must(d.Alloc(1024))(t), must(d.Pin(1024))(t)
	at := kernels.Binding{Memory: mem, Base: []int64{0, 512}}
	edit := func(f func(c *kernels.Call)) kernels.Call {
		c := call("layer", 0, 256)
		f(&c)
		return c
	}
	bad := map[string]struct {
		call kernels.Call
		want error
	}{
		"no such region":       {edit(func(c *kernels.Call) { c.In[0].Ref.Region = 2 }), arena.ErrInvalid},
		"negative region":      {edit(func(c *kernels.Call) { c.In[0].Ref.Region = -1 }), arena.ErrInvalid},
		"past the end":         {edit(func(c *kernels.Call) { c.Out[0].Ref = arena.Ref{Region: 1, Offset: 508, Size: 16} }), arena.ErrInvalid},
		"overflow":             {edit(func(c *kernels.Call) { c.Out[0].Ref = arena.Ref{Region: 1, Offset: 1<<63 - 1, Size: 16} }), arena.ErrInvalid},
		"negative offset":      {edit(func(c *kernels.Call) { c.In[0].Ref = arena.Ref{Region: 1, Offset: -16, Size: 16} }), arena.ErrInvalid},
		"too small a place":    {edit(func(c *kernels.Call) { c.In[0].Ref.Size = 15 }), arena.ErrInvalid},
		"output half on input": {edit(func(c *kernels.Call) { c.Out[0].Ref.Offset = 8 }), arena.ErrInvalid},
		"workspace on output":  {edit(func(c *kernels.Call) { c.Work = arena.Ref{Offset: 260, Size: 4} }), arena.ErrInvalid},
		"shapes":               {edit(func(c *kernels.Call) { c.Out[0].Shape = kernels.Shape{2, 2} }), kernels.ErrShape},
		"inputs":               {edit(func(c *kernels.Call) { c.In = nil }), kernels.ErrShape},
		"no operation":         {edit(func(c *kernels.Call) { c.Op = nil }), kernels.ErrUnsupported},
	}
	var calls []kernels.Call
	for name, b := range bad {
		b.call.Label = name
		calls = append(calls, b.call)
		if _, err := d.Bind([]kernels.Call{call("right", 0, 256), b.call}, at); !errors.Is(err, b.want) {
			t.Errorf("%s: got %v, want %v", name, err, b.want)
		}
	}
	_, err := d.Bind(calls, at)
	for name := range bad {
		if want := fmt.Sprintf("%q", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the joined error does not name %s:\n%v", want, err)
		}
	}
	if _, err := d.Bind(nil, kernels.Binding{Memory: pin}); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("pinned memory: got %v", err)
	}
	if _, err := d.Bind(nil, kernels.Binding{Memory: heap{}}); !errors.Is(err, emu.ErrForeign) {
		t.Errorf("heap memory: got %v", err)
	}
	if n := d.Ledger().Programs.Ever; n != 0 {
		t.Errorf("%d programs made by calls that failed", n)
	}
}

func TestAnUpdateMustLieOnItsInput(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(1024))(t)
	at := kernels.Binding{Memory: mem, Base: []int64{0}}
	grow := *twice
	grow.InPlace, grow.Updates = nil, []int8{0}
	on, off := call("on", 0, 0), call("off", 0, 256)
	on.Op, off.Op = &grow, &grow
	if _, err := d.Bind([]kernels.Call{off}, at); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("an update beside its input: got %v", err)
	}
	must(d.Bind([]kernels.Call{on}, at))(t)
	plain := *twice
	plain.InPlace = nil
	on.Op = &plain
	if _, err := d.Bind([]kernels.Call{on}, at); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("in place, where the op does not allow it: got %v", err)
	}
}

func TestManyGoroutinesMayUseOneDevice(t *testing.T) {
	d := open(t, emu.Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 20 {
				if err := session(d); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
				}
			}
		})
	}
	wg.Wait()
	if l := d.Ledger(); !l.Empty() || l.Streams.Ever != 8*20*2 {
		t.Errorf("ledger: %v, %d streams ever", l, l.Streams.Ever)
	}
	if r := d.Races(); r != nil {
		t.Errorf("goroutines with memory of their own race: %v", errors.Join(r...))
	}
}
