//go:build gpu && cgo

package cuda

import (
	"bytes"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
)

// emulated skips a test where the driver is NVIDIA's.
func emulated(t *testing.T) {
	t.Helper()
	if !fakecuda.Loaded() {
		t.Skip("needs package fakecuda's driver, which holds work back and counts")
	}
}

// Whatever is enqueued, the call returns although the device has not begun: nothing of it has
// happened until then.
func TestCallsReturnWhileTheDeviceIsBusy(t *testing.T) {
	emulated(t)
	for name, o := range map[string]Options{"graphs": {}, "launches": {Graphs: Never}} {
		t.Run(name, func(t *testing.T) {
			d := opened(t, o)
			b := newBed(t, d)
			e, err := d.NewEvent()
			if err != nil {
				t.Fatal(err)
			}
			p, err := bound(t, d, func(c *binding) { c.fill(b.mem.at, 7, 256) })
			if err != nil {
				t.Fatal(err)
			}
			host, mem := arena.Span{Memory: b.host, Size: 256}, arena.Span{Memory: b.mem, Size: 256}
			if err := errors.Join(b.s.Fill(mem, 1), b.s.Copy(host, mem), b.s.Sync()); err != nil {
				t.Fatal(err)
			}
			if err := fakecuda.Set("hold", 1); err != nil {
				t.Fatal(err)
			}
			defer fakecuda.Set("hold", 0)
			done := make(chan error, 1)
			go func() {
				done <- errors.Join(b.s.Copy(mem, host), b.s.Wait(e), p.Launch(b.s), b.s.Copy(host, mem), b.s.Record(e))
			}()
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("a call has not returned while the device is busy")
			}
			if e.Done() {
				t.Error("the event is done before the work")
			}
			if want := bytes.Repeat([]byte{1}, 256); !bytes.Equal(b.host.Bytes(), want) {
				t.Error("the host has results before the work is done")
			}
			if err := errors.Join(fakecuda.Set("hold", 0), e.Sync()); err != nil {
				t.Fatal(err)
			}
			if want := bytes.Repeat([]byte{7}, 256); !bytes.Equal(b.host.Bytes(), want) || !e.Done() {
				t.Errorf("the host has %d…, want %d; the event is done: %v", b.host.Bytes()[0], want[0], e.Done())
			}
		})
	}
}

// Pinned memory is as large as was asked for, whatever the size: nothing rounds it up to a power of two.
func TestPinnedMemoryIsAsLargeAsAsked(t *testing.T) {
	emulated(t)
	d := opened(t, Options{})
	pinned := func() uint64 {
		o, err := fakecuda.Ledger()
		if err != nil {
			t.Fatal(err)
		}
		return uint64(o.PinnedBytes)
	}
	for size := int64(1 << 20); size <= 64<<20; size += 3 << 19 {
		before := pinned()
		m, err := d.Pin(size)
		if err != nil {
			t.Fatal(err)
		}
		if got := pinned() - before; got != uint64(size) || m.Size() != size {
			t.Errorf("%d bytes are pinned, want %d", got, size)
		}
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
		if got := pinned(); got != before {
			t.Errorf("%d bytes are left of %d", got-before, size)
		}
	}
}

// A host that follows an address of device memory gets a fault, as it does with a GPU: nothing can
// work on the emulated driver by that.
func TestTheHostCannotTouchDeviceMemory(t *testing.T) {
	emulated(t)
	b := newBed(t, opened(t, Options{}))
	if b.mem.Bytes() != nil {
		t.Error("device memory has bytes for the host")
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p := *(**byte)(unsafe.Pointer(&b.mem.at))
	for name, touch := range map[string]func(){"read": func() { runtime.KeepAlive(*p) }, "write": func() { *p = 1 }} {
		func() {
			defer func() {
				if e, ok := recover().(interface{ Addr() uintptr }); !ok || e.Addr() != uintptr(b.mem.at) {
					t.Errorf("%s: got %v, want a fault at %#x", name, e, b.mem.at)
				}
			}()
			touch()
		}()
	}
}

// Where the driver's compiler refuses a text, the error says what it had to say.
func TestAnErrorOfACompilationQuotesTheCompiler(t *testing.T) {
	emulated(t)
	d := opened(t, Options{})
	for text, want := range map[string]string{
		"nonsense": "nonsense",
		strings.Replace(addPTX, "sm_70", "sm_999", 1):    "sm_999",
		strings.Replace(addPTX, "st.global", "st.at", 1): "st.at",
	} {
		_, err := bound(t, d, func(c *binding) { c.launchText(text, "add", line(1), line(1), 0) })
		var e *DriverError
		if !errors.As(err, &e) || e.Call != "cuModuleLoadDataEx" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error of cuModuleLoadDataEx that says %q", err, want)
		}
	}
}
