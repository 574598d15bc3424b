package arena_test

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
)

// fakeDevice is host memory that plays a device. Separate ones hide it from the host.
type fakeDevice struct {
	separate bool
	refuse   string // the call to refuse: "alloc", "pin", "stream", "copy"
	calls    []string
	live     atomic.Int64 // allocations and streams that are open
}

var errRefused = errors.New("refused by the device")

func (d *fakeDevice) call(name string) error {
	d.calls = append(d.calls, name)
	if d.refuse == name {
		return errRefused
	}
	return nil
}

func (d *fakeDevice) Name() string  { return "fake" }
func (d *fakeDevice) Unified() bool { return !d.separate }
func (d *fakeDevice) Info() (arena.Info, error) {
	return arena.Info{Total: 1 << 30, Free: 1 << 29}, d.call("info")
}
func (d *fakeDevice) NewEvent() (arena.Event, error) { return nil, errors.ErrUnsupported }
func (d *fakeDevice) Close() error                   { return nil }

func (d *fakeDevice) Alloc(bytes int64) (arena.Memory, error) {
	if err := d.call("alloc"); err != nil {
		return nil, err
	}
	d.live.Add(1)
	return &fakeMemory{d: d, data: make([]byte, bytes), hidden: d.separate}, nil
}

func (d *fakeDevice) Pin(bytes int64) (arena.Memory, error) {
	if err := d.call("pin"); err != nil {
		return nil, err
	}
	d.live.Add(1)
	return &fakeMemory{d: d, data: make([]byte, bytes)}, nil
}

func (d *fakeDevice) NewStream(string) (arena.Stream, error) {
	if err := d.call("stream"); err != nil {
		return nil, err
	}
	d.live.Add(1)
	return &fakeStream{d: d}, nil
}

type fakeMemory struct {
	d      *fakeDevice
	data   []byte
	hidden bool
}

func (m *fakeMemory) Size() int64 { return int64(len(m.data)) }

func (m *fakeMemory) Bytes() []byte {
	if m.hidden {
		return nil
	}
	return m.data
}

func (m *fakeMemory) Free() error {
	if m.data == nil {
		return arena.ErrFreed
	}
	m.data = nil
	m.d.live.Add(-1)
	return nil
}

// fakeStream copies at once.
type fakeStream struct{ d *fakeDevice }

func (s *fakeStream) Copy(dst, src arena.Span) error {
	if s.d.refuse == "copy" {
		return errRefused
	}
	if dst.Size != src.Size {
		return fmt.Errorf("copy of %d bytes to %d", src.Size, dst.Size)
	}
	copy(dst.Memory.(*fakeMemory).data[dst.Offset:][:dst.Size], src.Memory.(*fakeMemory).data[src.Offset:][:src.Size])
	return nil
}

func (s *fakeStream) Fill(arena.Span, byte) error { return errors.ErrUnsupported }
func (s *fakeStream) Record(arena.Event) error    { return errors.ErrUnsupported }
func (s *fakeStream) Wait(arena.Event) error      { return errors.ErrUnsupported }
func (s *fakeStream) Sync() error                 { return nil }
func (s *fakeStream) Close() error                { s.d.live.Add(-1); return nil }
