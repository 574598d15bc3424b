//go:build gpu && cgo

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// addPTX is a kernel that adds n to the word at p, by one thread of the first block.
const addPTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 n)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	.reg .pred %p<2>;
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	or.b32 %r1, %r1, %r2;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $done;
	ld.param.u64 %rd1, [p];
	cvta.to.global.u64 %rd2, %rd1;
	ld.param.u32 %r3, [n];
	ld.global.u32 %r4, [%rd2];
	add.s32 %r4, %r4, %r3;
	st.global.u32 [%rd2], %r4;
$done:
	ret;
}
`

// modes are the ways to launch a program.
var modes = map[string]Options{"graphs": {}, "launches": {Graphs: Never}, "waiting": {Sync: true}, "cublas": {CuBLAS: true}}

func eachMode(t *testing.T, f func(t *testing.T, d *Device)) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) { f(t, opened(t, o)) })
	}
}

// opened opens a device, which the end of the test closes.
func opened(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	var missing *NoLibraryError
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if n := len(d.live) + len(d.modules); n != 0 || d.used != 0 {
			t.Errorf("%d things and %d bytes are left after Close", n, d.used)
		}
	})
	return d
}

// bound binds the steps that f appends, a call each f.
func bound(t testing.TB, d *Device, f ...func(b *binding)) (*program, error) {
	t.Helper()
	var steps []step
	var names []string
	for i, add := range f {
		b := &binding{props: &d.props, index: i}
		add(b)
		steps, names = append(steps, b.steps...), append(names, fmt.Sprintf("call %d", i))
	}
	if err := d.enter("bind"); err != nil {
		t.Fatal(err)
	}
	defer d.leave()
	return d.bind(steps, names, &sums{})
}

// bed is what a test launches with.
type bed struct {
	*Device
	s         *stream
	mem, host *memory
}

func newBed(t testing.TB, d *Device) *bed {
	t.Helper()
	s, e1 := d.NewStream("test")
	mem, e2 := d.Alloc(256)
	host, e3 := d.Pin(256)
	if err := errors.Join(e1, e2, e3); err != nil {
		t.Fatal(err)
	}
	return &bed{d, s.(*stream), mem.(*memory), host.(*memory)}
}

// words reads the memory.
func (b *bed) words(t testing.TB) [64]uint32 {
	t.Helper()
	if err := errors.Join(b.s.Copy(arena.Span{Memory: b.host, Size: 256}, arena.Span{Memory: b.mem, Size: 256}), b.s.Sync()); err != nil {
		t.Fatal(err)
	}
	var w [64]uint32
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b.host.Bytes()[4*i:])
	}
	return w
}

func TestStepsRunInOrderEachLaunch(t *testing.T) {
	eachMode(t, func(t *testing.T, d *Device) {
		b := newBed(t, d)
		p, err := bound(t, d,
			func(c *binding) { c.fill(b.mem.at, 0, 256) },
			func(c *binding) {
				c.launchText(addPTX, "add", line(2), line(32), 0, b.mem.at, int32(3))
				c.launchText(addPTX, "add", line(1), line(1), 0, b.mem.at+4, uint32(1<<31))
			},
			func(c *binding) { c.copy(b.mem.at+128, b.mem.at, 8) },
			func(c *binding) { c.launchText(addPTX, "add", line(1), line(64), 0, b.mem.at, int32(-1)) })
		if err != nil {
			t.Fatal(err)
		}
		if graph := p.parts[0].batch.exec != nil; graph != d.graphs {
			t.Errorf("a graph: %v, want %v", graph, d.graphs)
		}
		for range 3 {
			if err := p.Launch(b.s); err != nil {
				t.Fatal(err)
			}
			if w := b.words(t); w[0] != 2 || w[1] != 1<<31 || w[32] != 3 || w[33] != 1<<31 {
				t.Fatalf("got %v", w)
			}
		}
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
		if len(d.modules) != 0 {
			t.Errorf("%d modules are loaded after the last program that used them is closed", len(d.modules))
		}
	})
}

func TestAFatalErrorIsKeptAndEverythingElseRefused(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			d := opened(t, o)
			b := newBed(t, d)
			e, err := d.NewEvent()
			if err != nil {
				t.Fatal(err)
			}
			p, err := bound(t, d,
				func(c *binding) { c.launchText(addPTX, "add", line(1), line(1), 0, b.mem.at, int32(1)) },
				func(c *binding) { c.launchText(addPTX, "add", line(1), line(1), 0, address(64), int32(1)) })
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(p.Launch(b.s), b.s.Sync())
			var de *DriverError
			if !errors.As(err, &de) || de.Code != 700 || de.Call != "cuStreamSynchronize" {
				t.Fatalf("got %v, want an illegal address", err)
			}
			if want := map[bool]string{true: "call 1: kernel add", false: "call 0 to call 1"}[o.Sync]; !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, which does not name %s", err, want)
			}
			if !errors.As(d.Err(), &de) {
				t.Errorf("Err() = %v, want the first error", d.Err())
			}
			_, alloc := d.Alloc(1)
			_, bind := d.Bind(nil, kernels.Binding{})
			for what, err := range map[string]error{"launch": p.Launch(b.s), "sync": b.s.Sync(), "alloc": alloc, "bind": bind,
				"record": b.s.Record(e), "wait": b.s.Wait(e), "event": e.Sync(), "copy": b.s.Copy(arena.Span{Memory: b.mem}, arena.Span{Memory: b.mem})} {
				if !errors.Is(err, ErrPoisoned) || !errors.As(err, &de) || de.Code != 700 {
					t.Errorf("%s: got %v, want ErrPoisoned that wraps the first error", what, err)
				}
			}
			if !e.Done() {
				t.Error("an event of a poisoned device is not done: who polls it would never end")
			}
			if err := errors.Join(p.Close(), e.Close(), b.s.Close(), b.mem.Free(), b.host.Free(), d.Close()); err != nil {
				t.Errorf("closing: %v", err)
			}
			again := newBed(t, opened(t, o)) // the next device starts afresh
			if err := again.s.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBindWithPTXThatIsNoneNamesTheCallAndLeavesNothing(t *testing.T) {
	eachMode(t, func(t *testing.T, d *Device) {
		b := newBed(t, d)
		good := func(c *binding) { c.launchText(addPTX, "add", line(1), line(1), 0, b.mem.at, int32(1)) }
		for what, bad := range map[string]func(c *binding){
			"no such kernel":  func(c *binding) { c.launchText(addPTX, "sub", line(1), line(1), 0) },
			"no PTX":          func(c *binding) { c.launchText("nonsense", "add", line(1), line(1), 0) },
			"no such family":  func(c *binding) { c.launch("nowhere", "add", line(1), line(1), 0) },
			"a block too big": func(c *binding) { c.launchText(addPTX, "add", line(1), line(4096), 0, b.mem.at, int32(1)) },
		} {
			p, err := bound(t, d, good, bad)
			if err == nil {
				err = p.Launch(b.s) // where nothing is captured the driver sees it now
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
			if len(d.modules) != 0 {
				t.Errorf("%s: %d modules are left", what, len(d.modules))
			}
			if err == nil || !strings.Contains(err.Error(), "call 1") {
				t.Errorf("%s: got %v, want an error that names call 1", what, err)
			}
		}
		p, err := bound(t, d, good)
		if err := errors.Join(err, b.s.Fill(arena.Span{Memory: b.mem, Size: 256}, 0)); err != nil {
			t.Fatal(err)
		}
		if err := p.Launch(b.s); err != nil || b.words(t)[0] != 1 {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestCallsFromManyGoroutines(t *testing.T) {
	d := opened(t, Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			b := newBed(t, d)
			p, err := bound(t, d, func(c *binding) { c.launchText(addPTX, "add", line(1), line(1), 0, b.mem.at, int32(i)) })
			if err != nil {
				t.Error(err)
				return
			}
			err = b.s.Fill(arena.Span{Memory: b.mem, Size: 256}, 0)
			for range 50 {
				err = errors.Join(err, p.Launch(b.s))
				runtime.Gosched()
			}
			if got := b.words(t)[0]; err != nil || got != uint32(50*i) {
				t.Errorf("goroutine %d: got %d, %v", i, got, err)
			}
			if err := errors.Join(p.Close(), b.s.Close(), b.mem.Free(), b.host.Free()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestShortMemoryIsNotBlamedOnWhatFollows(t *testing.T) {
	d := opened(t, Options{})
	info, err := d.Info()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(info.Free + 1<<20); !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("got %v, want ErrCapacity", err)
	}
	b := newBed(t, d)
	if err := errors.Join(b.s.Fill(arena.Span{Memory: b.mem, Size: 256}, 7), b.s.Sync(), d.Err()); err != nil {
		t.Errorf("after memory was short: %v", err)
	}
	small := opened(t, Options{Memory: 1000})
	m, err := small.Alloc(600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Alloc(401); !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("401 bytes of 400: got %v, want ErrCapacity", err)
	}
	if info, err := small.Info(); err != nil || info.Total != 1000 || info.Free != 400 {
		t.Errorf("got %+v, %v", info, err)
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
}

func TestADeviceThatIsNotThereIsNamed(t *testing.T) {
	d, err := Open(Options{Device: 1000})
	var e *NoDeviceError
	if d != nil || !errors.As(err, &e) || e.Device != 1000 || e.Devices < 1 {
		t.Errorf("got %v, %v", d, err)
	}
}

// step enqueues what a training step of one program does: a copy, a launch, an event waited for and
// two recorded.
func (b *bed) step(p *program, copied, consumed *event, other *stream) error {
	if err := other.Wait(consumed); err != nil {
		return err
	}
	if err := other.Copy(arena.Span{Memory: b.mem, Size: 256}, arena.Span{Memory: b.host, Size: 256}); err != nil {
		return err
	}
	if err := other.Record(copied); err != nil {
		return err
	}
	if err := b.s.Wait(copied); err != nil {
		return err
	}
	if err := p.Launch(b.s); err != nil {
		return err
	}
	return b.s.Record(consumed)
}

// newStep returns a step whose program is so many empty kernels.
func newStep(t testing.TB, d *Device, empty int) (b *bed, run func() error) {
	b = newBed(t, d)
	var events [2]*event
	for i := range events {
		e, err := d.NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		events[i] = e.(*event)
	}
	other, err := d.NewStream("copies")
	if err != nil {
		t.Fatal(err)
	}
	p, err := bound(t, d, func(c *binding) {
		for range empty {
			c.launch("probe", "nothing", line(1), line(1), 0)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b, func() error { return b.step(p, events[0], events[1], other.(*stream)) }
}

func TestAStepAllocatesNothing(t *testing.T) {
	for name, o := range map[string]Options{"graphs": {}, "launches": {Graphs: Never}} {
		t.Run(name, func(t *testing.T) {
			b, step := newStep(t, opened(t, o), 20)
			var err error
			if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, step()) }); n != 0 || err != nil {
				t.Errorf("%v allocations a step, %v", n, err)
			}
			if err := b.s.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkStep is the host's time for a step whose kernels are empty.
func BenchmarkStep(b *testing.B) {
	for name, o := range map[string]Options{"graph": {}, "launches": {Graphs: Never}} {
		b.Run(name, func(b *testing.B) {
			bed, step := newStep(b, opened(b, o), 20)
			n := 0
			for b.Loop() {
				if err := step(); err != nil {
					b.Fatal(err)
				}
				if n++; n%64 == 0 { // the device keeps up
					b.StopTimer()
					if err := bed.s.Sync(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
	}
}

func TestThreadsStayAsManyAsTheyAre(t *testing.T) {
	b, step := newStep(t, opened(t, Options{}), 5)
	threads := func() int {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Skipf("needs /proc: %v", err)
		}
		return len(list)
	}
	var before int
	for i := range 2000 {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := b.s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 20 {
			before = threads()
		}
	}
	if after := threads(); after > before+1 { // Go's runtime may start one for itself
		t.Errorf("%d threads after 2,000 steps, %d after 20", after, before)
	}
}

// BenchmarkContext compares setting the context on whatever thread a call runs on with passing the
// call to the one thread that has it.
func BenchmarkContext(b *testing.B) {
	d := opened(b, Options{})
	b.Run("each call", func(b *testing.B) {
		for b.Loop() {
			if err := d.enter("benchmark"); err != nil {
				b.Fatal(err)
			}
			d.leave()
		}
	})
	b.Run("owner thread", func(b *testing.B) {
		calls, done := make(chan struct{}), make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for range calls {
				done <- struct{}{}
			}
		}()
		for b.Loop() {
			calls <- struct{}{}
			<-done
		}
		close(calls)
	})
}
