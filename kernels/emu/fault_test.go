package emu_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

// session uses every call of a device, stops at the first error, and closes what it made in any case.
func session(d *emu.Device) (err error) {
	var closers []func() error
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
	}()
	if _, err := d.Info(); err != nil {
		return err
	}
	mem, err := d.Alloc(1024)
	if err != nil {
		return err
	}
	closers = append(closers, mem.Free)
	pin, err := d.Pin(1024)
	if err != nil {
		return err
	}
	closers = append(closers, pin.Free)
	p, err := d.Bind([]kernels.Call{call("first", 0, 256), call("second", 256, 512)}, kernels.Binding{Memory: mem, Base: []int64{0}})
	if err != nil {
		return err
	}
	closers = append(closers, p.Close)
	e, err := d.NewEvent()
	if err != nil {
		return err
	}
	closers = append(closers, e.Close)
	var s [2]arena.Stream
	for i := range s {
		if s[i], err = d.NewStream(fmt.Sprint("stream ", i)); err != nil {
			return err
		}
		closers = append(closers, s[i].Close)
	}
	for range 2 {
		for _, step := range []func() error{
			func() error { return s[0].Fill(all(mem), 0) },
			func() error { return s[0].Copy(all(mem), all(pin)) },
			func() error { return s[0].Record(e) },
			func() error { return s[1].Wait(e) },
			func() error { return p.Launch(s[1]) },
			e.Sync, s[0].Sync, s[1].Sync,
		} {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestEveryCallCanFailAndNothingIsLeft(t *testing.T) {
	planted := errors.New("planted")
	for _, lazy := range []bool{false, true} {
		for _, fatal := range []bool{false, true} {
			for _, name := range emu.Calls() {
				for nth := 1; ; nth++ {
					fired := false
					d := emutest.Open(t, emu.Options{Lazy: lazy, Fault: func(call string, n int) error {
						if call != name || n != nth {
							return nil
						}
						fired = true
						if fatal {
							return fmt.Errorf("%w: %w", planted, emu.ErrFatal)
						}
						return planted
					}})
					err := session(d)
					if l := d.Ledger(); !l.Empty() {
						t.Errorf("%s %d fails, lazy %v, fatal %v: %v left", name, nth, lazy, fatal, l)
					}
					hit := fired
					_, after := d.NewEvent()
					if hit && fatal != errors.Is(after, emu.ErrFatal) {
						t.Errorf("%s %d fails, fatal %v: the next call returns %v", name, nth, fatal, after)
					}
					if err := d.Close(); err != nil {
						t.Errorf("%s %d fails: close: %v", name, nth, err)
					}
					if !hit {
						if err != nil {
							t.Errorf("nothing fails, but: %v", err)
						}
						if nth == 1 {
							t.Errorf("%q was never asked about", name)
						}
						break
					}
					if !errors.Is(err, planted) {
						t.Errorf("%s %d fails, lazy %v, fatal %v: got %v", name, nth, lazy, fatal, err)
					}
				}
			}
		}
	}
}

func TestAnErrorOfQueuedWorkNamesTheCallAndIsToldOnce(t *testing.T) {
	planted := errors.New("planted")
	d := open(t, emu.Options{Fault: func(call string, n int) error {
		if call == "run call" && n == 2 {
			return planted
		}
		return nil
	}})
	mem := must(d.Alloc(1024))(t)
	s, other := must(d.NewStream("compute"))(t), must(d.NewStream("other"))(t)
	e := must(d.NewEvent())(t)
	p := must(d.Bind([]kernels.Call{call("hidden", 0, 256), call("out", 256, 512)}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, p.Launch(s), s.Record(e), s.Fill(all(mem), 0), other.Wait(e))
	check := func(what string, err error) {
		var c *emu.CallError
		if !errors.Is(err, planted) || !errors.As(err, &c) || c.Stream != "compute" || c.Index != 1 || !strings.Contains(c.Call, `"out"`) {
			t.Errorf("%s: got %v, want one that names the stream, work 1 and call \"out\"", what, err)
		}
	}
	check("event", e.Sync())
	check("stream", s.Sync())
	check("a stream that waited", other.Sync())
	ok(t, s.Sync(), other.Sync())
	ok(t, p.Launch(s), s.Sync()) // not blamed on what comes later
	if got := d.Traffic(); got.Launches != 1 || got.Fills != 0 {
		t.Errorf("work after an error ran before the error was told: %+v", got)
	}
}

func TestAFatalErrorDropsAllQueuedWorkAndCloseReturns(t *testing.T) {
	queued := make(chan struct{})
	d := emutest.Open(t, emu.Options{Fault: func(call string, n int) error {
		if call == "run fill" {
			<-queued
			return emu.ErrFatal
		}
		return nil
	}})
	mem := must(d.Alloc(256))(t)
	a, b := must(d.NewStream("a"))(t), must(d.NewStream("b"))(t)
	e := must(d.NewEvent())(t)
	ok(t, a.Fill(all(mem), 0), a.Record(e), b.Wait(e))
	close(queued)
	if err := e.Sync(); !errors.Is(err, emu.ErrFatal) {
		t.Errorf("event after the failed fill: %v", err)
	}
	for name, err := range map[string]error{"sync": a.Sync(), "fill": b.Fill(all(mem), 0), "event": e.Sync()} {
		if !errors.Is(err, emu.ErrFatal) {
			t.Errorf("%s after a fatal error: %v", name, err)
		}
	}
	if err := d.Close(); !errors.Is(err, emu.ErrFatal) {
		t.Errorf("close: got %v, want the fatal error that no stream was told of", err)
	}
	if l := d.Left(); l.Streams.Live != 2 || l.Events.Live != 1 || l.DeviceBytes != 256 {
		t.Errorf("left: %v", l)
	}
	if l := d.Ledger(); !l.Empty() {
		t.Errorf("ledger: %v", l)
	}
	ok(t, d.Close())
}

func TestAPanicInAnOperationIsAnError(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(512))(t)
	s := must(d.NewStream("s"))(t)
	bad := *twice
	bad.Ref = func(any, []kernels.Tensor, []kernels.Tensor) { panic("out of luck") }
	c := call("layer", 0, 256)
	c.Op = &bad
	p := must(d.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, p.Launch(s))
	if err := s.Sync(); err == nil || !strings.Contains(err.Error(), "out of luck") || !strings.Contains(err.Error(), "layer") {
		t.Errorf("got %v", err)
	}
}
