package dataloader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

// target is a device that batches are staged on.
type target struct {
	name  string
	open  func(t testing.TB) arena.Device
	late  bool                                 // no copy runs before a wait for it
	races func(arena.Device) []string          // data races so far; nil: the device does not detect them
	fail  func(t testing.TB, dev arena.Device) // makes the next wait for an event fail; nil: not possible
}

// targets are the devices on which a loader fills slots. A new one needs one line.
var targets = []target{
	{name: "cpu", open: func(t testing.TB) arena.Device { return closed(t, cputest.Open(t, cpu.Options{Threads: 1})) }},
	{name: "emu", races: emuRaces, fail: emuFail, open: func(t testing.TB) arena.Device {
		return openEmu(t, emu.Options{Seed: random(t).Uint64(), Delay: 50 * time.Microsecond})
	}},
	{name: "emu, late", late: true, races: emuRaces, fail: emuFail, open: func(t testing.TB) arena.Device {
		return openEmu(t, emu.Options{Lazy: true})
	}},
}

// each runs a test on every device and fails it for a data race.
func each(t *testing.T, test func(t *testing.T, dev arena.Device)) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) {
			dev := d.open(t)
			if d.races != nil {
				t.Cleanup(func() {
					for _, r := range d.races(dev) {
						t.Error(r)
					}
				})
			}
			test(t, dev)
		})
	}
}

// closed closes a device at the end of the test and fails it if memory is left.
func closed[D interface {
	arena.Device
	Allocated() (int64, int)
}](t testing.TB, dev D) D {
	t.Cleanup(func() {
		if bytes, blocks := dev.Allocated(); blocks != 0 {
			t.Errorf("%d bytes in %d blocks are left on the device", bytes, blocks)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// hostile is the emulated device; its next wait for an event can be made to fail.
type hostile struct {
	*emu.Device
	broken *atomic.Bool
}

var errWait = errors.New("the wait failed")

func openEmu(t testing.TB, o emu.Options) arena.Device {
	var broken atomic.Bool
	o.Fault = func(call string, _ int) error {
		if call == "event sync" && broken.CompareAndSwap(true, false) {
			return errWait
		}
		return nil
	}
	d := hostile{emutest.Open(t, o), &broken}
	t.Cleanup(func() {
		if l := d.Ledger(); !l.Empty() {
			t.Errorf("left on the device: %v", l)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func emuRaces(dev arena.Device) (found []string) {
	for _, err := range dev.(hostile).Races() {
		found = append(found, err.Error())
	}
	return found
}

func emuFail(_ testing.TB, dev arena.Device) { dev.(hostile).broken.Store(true) }

// stage is the part of a trainer between a loader and its kernels, with a copy of the batch back to the host instead of
// kernels.
//
//	loader ─► host ─copies─► twin ─compute─► back ─► took
//	          (one place on unified devices)
type stage struct {
	t               testing.TB
	dev             arena.Device
	touch           func(arena.Span, bool) // reports a read or write of the host to the device; nil: the device does not check it
	memory          []arena.Memory
	copies, compute arena.Stream
	bytes           []int64 // of one sample, by field
	places          []*place
	slots           []dataloader.Slot // for Epoch
	flight          []int             // slots in flight, oldest first
	unguarded       bool              // Release has no event

	took func(dataloader.Batch, dataloader.Slot) // called for each batch sent from now on, when it is back on the host
}

// place is a slot on a device.
type place struct {
	host, twin, back []arena.Span // by field
	copied           arena.Event  // the host may write again
	done             arena.Event  // the batch is in back
	batch            dataloader.Batch
	took             func(dataloader.Batch, dataloader.Slot)
}

// newStage makes n slots for batches of ds.
func newStage(t testing.TB, dev arena.Device, ds dataloader.Dataset, n, batch int) *stage {
	t.Helper()
	g := &stage{t: t, dev: dev}
	if d, ok := dev.(kernels.HostAccessChecker); ok {
		g.touch = d.Touch
	}
	size := int64(0) // of a slot
	for _, f := range ds.Fields() {
		g.bytes = append(g.bytes, f.Bytes())
		size += arena.Align * ((f.Bytes()*int64(batch) + arena.Align - 1) / arena.Align)
	}
	twin, back := g.block(dev.Alloc, int64(n)*size), g.block(dev.Pin, int64(n)*size)
	host := twin
	if !dev.Unified() {
		host = g.block(dev.Pin, int64(n)*size)
	}
	var err error
	if g.copies, err = dev.NewStream("copies"); err != nil {
		t.Fatal(err)
	}
	if g.compute, err = dev.NewStream("compute"); err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	for i := range n {
		p := &place{copied: g.event(), done: g.event()}
		g.places, g.slots = append(g.places, p), append(g.slots, dataloader.Slot{})
		for _, b := range g.bytes {
			part := arena.Span{Offset: at, Size: b * int64(batch)}
			p.host, p.twin, p.back = append(p.host, in(host, part)), append(p.twin, in(twin, part)), append(p.back, in(back, part))
			g.slots[i].Fields = append(g.slots[i].Fields, p.host[len(p.host)-1].Memory.Bytes()[at:at+part.Size])
			at += arena.Align * ((part.Size + arena.Align - 1) / arena.Align)
		}
	}
	t.Cleanup(g.close)
	return g
}

func in(m arena.Memory, s arena.Span) arena.Span {
	s.Memory = m
	return s
}

func (g *stage) block(alloc func(int64) (arena.Memory, error), bytes int64) arena.Memory {
	g.t.Helper()
	m, err := alloc(bytes)
	if err != nil {
		g.t.Fatal(err)
	}
	g.memory = append(g.memory, m)
	return m
}

func (g *stage) event() arena.Event {
	g.t.Helper()
	e, err := g.dev.NewEvent()
	if err != nil {
		g.t.Fatal(err)
	}
	return e
}

// watch returns a dataset that reports each write to a slot to the device.
func (g *stage) watch(ds dataloader.Dataset) dataloader.Dataset {
	if g.touch == nil || g.dev.Unified() {
		return ds
	}
	return watched{ds, g}
}

type watched struct {
	dataloader.Dataset
	g *stage
}

func (w watched) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	host := w.g.places[0].host[0].Memory
	for _, d := range dst {
		off := uintptr(unsafe.Pointer(&d[0])) - uintptr(unsafe.Pointer(&host.Bytes()[0]))
		w.g.touch(arena.Span{Memory: host, Offset: int64(off), Size: int64(len(d))}, true)
	}
	return w.Dataset.Fetch(ctx, at, dst)
}

// take sends a batch on its way and releases its slot. At most as many batches as there are slots are on their way.
func (g *stage) take(r *dataloader.Run, b dataloader.Batch) error {
	if err := g.send(b); err != nil {
		return err
	}
	return r.Release(b.Slot, g.slots[b.Slot].Ready)
}

// send enqueues the way of a batch: to the device and back.
func (g *stage) send(b dataloader.Batch) error {
	for slices.Contains(g.flight, b.Slot) {
		if err := g.collect(); err != nil {
			return err
		}
	}
	p := g.places[b.Slot]
	b.Indices = slices.Clone(b.Indices)
	p.batch, p.took = b, g.took
	free := p.done
	if !g.dev.Unified() {
		free = p.copied
		if err := errors.Join(g.move(g.copies, p.twin, p.host, b.Rows), g.copies.Record(p.copied), g.compute.Wait(p.copied)); err != nil {
			return err
		}
	}
	if !g.unguarded {
		g.slots[b.Slot].Ready = free
	}
	g.flight = append(g.flight, b.Slot)
	return errors.Join(g.move(g.compute, p.back, p.twin, b.Rows), g.compute.Record(p.done))
}

// move enqueues a copy of the first rows of each field.
func (g *stage) move(s arena.Stream, dst, src []arena.Span, rows int) error {
	var errs []error
	for k, b := range g.bytes {
		d, s2 := dst[k], src[k]
		d.Size, s2.Size = b*int64(rows), b*int64(rows)
		errs = append(errs, s.Copy(d, s2))
	}
	return errors.Join(errs...)
}

// collect waits for the oldest batch on its way.
func (g *stage) collect() error {
	i := g.flight[0]
	g.flight = g.flight[1:]
	p := g.places[i]
	if err := p.done.Sync(); err != nil {
		return fmt.Errorf("slot %d: %w", i, err)
	}
	var back dataloader.Slot
	for k, s := range p.back {
		s.Size = g.bytes[k] * int64(p.batch.Rows)
		if g.touch != nil {
			g.touch(s, false)
		}
		back.Fields = append(back.Fields, s.Memory.Bytes()[s.Offset:s.Offset+s.Size])
	}
	p.took(p.batch, back)
	return nil
}

// finish waits for all that is on its way.
func (g *stage) finish() error {
	for len(g.flight) > 0 {
		if err := g.collect(); err != nil {
			return err
		}
	}
	return nil
}

// drain runs one epoch of a fake dataset to its end or its error, and returns what came back from the device.
func (g *stage) drain(l *dataloader.Loader, epoch int) (*seen, error) {
	g.t.Helper()
	out := new(seen)
	g.took = out.add
	err := consume(g.t, l, epoch, g.slots, g.take)
	if err := g.finish(); err != nil {
		g.t.Error(err)
	}
	return out, err
}

// close waits for the work and frees everything. Safe to call twice.
func (g *stage) close() {
	if g.memory == nil {
		return
	}
	for _, s := range []arena.Stream{g.copies, g.compute} {
		if err := errors.Join(s.Sync(), s.Close()); err != nil {
			g.t.Error(err)
		}
	}
	for _, p := range g.places {
		if err := errors.Join(p.copied.Close(), p.done.Close()); err != nil {
			g.t.Error(err)
		}
	}
	for _, m := range g.memory {
		if err := m.Free(); err != nil {
			g.t.Error(err)
		}
	}
	g.memory = nil
}
