package cpu_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

func TestCapacityIsRefusedOneByteTooFar(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1, Memory: 10_000})
	m, err := d.Alloc(10_000)
	if err != nil {
		t.Fatalf("all of the memory: %v", err)
	}
	if _, err := d.Pin(1); !errors.Is(err, arena.ErrCapacity) {
		t.Fatalf("one byte more: got %v, want ErrCapacity", err)
	}
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(10_001); !errors.Is(err, arena.ErrCapacity) {
		t.Fatalf("10001 of 10000: got %v, want ErrCapacity", err)
	}
	if info, err := d.Info(); err != nil || info.Total != 10_000 || info.Free != 10_000 {
		t.Errorf("info: got %+v, %v", info, err)
	}
}

func TestTheSystemsMemoryIsKnown(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	info, err := d.Info()
	if err != nil || info.Total < 1<<20 || info.Free <= 0 || info.Free > info.Total {
		t.Fatalf("info: got %+v, %v", info, err)
	}
	if _, err := d.Alloc(1 << 60); !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("2^60 bytes: got %v, want ErrCapacity", err)
	}
}

func TestAllocationsAreCountedExactly(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	var all []arena.Memory
	for _, n := range []int64{0, 1, 4095, 4096, 3 << 20} {
		m, err := d.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if bytes, blocks := d.Allocated(); bytes != 0+1+4095+4096+3<<20 || blocks != 5 {
		t.Errorf("got %d bytes in %d blocks", bytes, blocks)
	}
	for _, m := range all {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
		if err := m.Free(); !errors.Is(err, arena.ErrFreed) {
			t.Errorf("second free: got %v, want ErrFreed", err)
		}
	}
	if bytes, blocks := d.Allocated(); bytes != 0 || blocks != 0 {
		t.Errorf("after freeing: %d bytes in %d blocks", bytes, blocks)
	}
}

func TestWritingToGoMemoryAfterFreeHarmsNobody(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	m, err := d.AllocGo(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	old := m.Bytes()
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
	n, err := d.Alloc(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range old {
		old[i] = 1
	}
	for i, v := range n.Bytes() {
		if v != 0 {
			t.Fatalf("byte %d of a new block is %d", i, v)
		}
	}
}

func TestCloseLeavesNoGoroutineAndNoMemory(t *testing.T) {
	before := goleak.IgnoreCurrent()
	d := cputest.Open(t, cpu.Options{Threads: 6})
	if _, err := d.Alloc(1000); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if bytes, blocks := d.Allocated(); bytes != 0 || blocks != 0 {
		t.Errorf("%d bytes in %d blocks are left", bytes, blocks)
	}
	if _, err := d.Alloc(1); !errors.Is(err, arena.ErrClosed) {
		t.Errorf("alloc: got %v, want ErrClosed", err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// hostFunc is a Host op of one output.
type hostFunc func(in, out [][]byte) error

func (hostFunc) Infer([]kernels.Spec) ([]kernels.Spec, error) {
	return []kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{1}}}, nil
}
func (f hostFunc) Run(in, out [][]byte) error { return f(in, out) }
func (hostFunc) String() string               { return "a function of the test" }

// hostProgram binds the functions one after the other, each writing a byte of its own.
func hostProgram(t *testing.T, d *cpu.Device, fs ...hostFunc) (kernels.Program, arena.Memory) {
	t.Helper()
	m, err := d.Alloc(int64(len(fs)))
	if err != nil {
		t.Fatal(err)
	}
	var calls []kernels.Call
	for i, f := range fs {
		out := kernels.Operand{
			Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{1}},
			Ref:  arena.Ref{Offset: int64(i), Size: 1},
		}
		calls = append(calls, kernels.Call{Op: kernels.Host, Attrs: f, Out: []kernels.Operand{out}, Label: "layer " + string(rune('a'+i))})
	}
	p, err := d.Bind(calls, kernels.Binding{Memory: m, Base: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	return p, m
}

func TestErrorsOfCallsWaitForSync(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	broken := errors.New("broken")
	good := hostFunc(func(_, out [][]byte) error { out[0][0]++; return nil })
	for _, c := range []struct {
		name string
		f    hostFunc
		want string
	}{
		{"an error", func(_, _ [][]byte) error { return broken }, "broken"},
		{"a panic", func(_, _ [][]byte) error { panic("out of luck") }, "out of luck"},
	} {
		p, m := hostProgram(t, d, good, c.f, good)
		s, err := d.NewStream("test")
		if err != nil {
			t.Fatal(err)
		}
		e, err := d.NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second must not run: it would compute from what was never made
			if err := p.Launch(s); err != nil {
				t.Fatalf("%s: launch: %v", c.name, err)
			}
		}
		if err := s.Record(e); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"event": e.Sync(), "stream": s.Sync()} {
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"layer b"`) {
				t.Errorf("%s, by the %s: got %v, want one with %q and the call's label", c.name, what, err, c.want)
			}
			if c.want == "broken" && !errors.Is(err, broken) {
				t.Errorf("%s, by the %s: %v does not wrap the function's error", c.name, what, err)
			}
		}
		if err := s.Sync(); err != nil {
			t.Errorf("%s: the second Sync repeats it: %v", c.name, err)
		}
		if got := m.Bytes(); got[0] != 1 || got[2] != 0 {
			t.Errorf("%s: calls ran %d and %d times, want 1 and 0", c.name, got[0], got[2])
		}
	}
}

func TestBindReportsEverythingThatIsWrong(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	m, err := d.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{8}}
	at := func(s kernels.Spec, region arena.Region, offset, size int64) kernels.Operand {
		return kernels.Operand{Spec: s, Ref: arena.Ref{Region: region, Offset: offset, Size: size}}
	}
	ok := at(x, 0, 0, 32)
	call := func(label string, in, out kernels.Operand) kernels.Call {
		return kernels.Call{Op: kernels.Neg, In: []kernels.Operand{in}, Out: []kernels.Operand{out}, Label: label}
	}
	calls := []kernels.Call{
		call("past the end", at(x, 0, 4080, 32), ok),
		call("too small", at(x, 0, 0, 31), ok),
		call("negative", at(x, 0, -256, 32), ok),
		call("no region", at(x, 7, 0, 32), ok),
		call("not aligned", at(x, 0, 2, 32), ok),
		call("overflow", at(x, 0, 1<<62, 1<<62), ok),
		call("other shape", ok, at(kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{7}}, 0, 0, 28)),
		{Label: "no op"},
	}
	_, err = d.Bind(calls, kernels.Binding{Memory: m, Base: []int64{0}})
	if err == nil {
		t.Fatal("bound")
	}
	for _, c := range calls {
		if !strings.Contains(err.Error(), c.Label) {
			t.Errorf("the error does not name %q:\n%v", c.Label, err)
		}
	}
	if p, err := d.Bind([]kernels.Call{call("good", ok, ok)}, kernels.Binding{Memory: m, Base: []int64{0}}); err != nil {
		t.Errorf("a good call: %v", err)
	} else {
		s, err := d.NewStream("test")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Launch(s); !errors.Is(err, arena.ErrClosed) {
			t.Errorf("launch after close: got %v, want ErrClosed", err)
		}
	}
}

func TestProgramsOfSeveralGoroutinesRunAtOnce(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: runtime.GOMAXPROCS(0) + 1})
	x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{100_000}}
	const goroutines = 4
	done := make(chan bool, goroutines)
	for range goroutines {
		u := newUse(t, r, d, kernels.Sum, kernels.Case{Attrs: kernels.ReduceAttrs{}, In: []kernels.Spec{x}})
		u.launch(t)
		want := string(u.results()[0])
		go func() {
			same := true
			for range 50 {
				if u.prog.Launch(u.stream) != nil || u.stream.Sync() != nil || string(u.results()[0]) != want {
					same = false
				}
			}
			done <- same
		}()
	}
	for range goroutines {
		select {
		case same := <-done:
			if !same {
				t.Error("a sum beside others differs from itself alone")
			}
		case <-time.After(time.Minute):
			t.Fatal("launches hang")
		}
	}
}

func TestAnArenaWhoseDeviceWasClosedSaysSo(t *testing.T) {
	d := cputest.Open(t, cpu.Options{})
	var l arena.Layout
	ref := l.Place(l.Region("parameters"), "", "w", 6400)
	a, err := arena.New(d, &l, 0)
	if err != nil {
		t.Fatal(err)
	}
	h, err := a.Handle(ref, "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, bytes := h.Bytes()
	for what, err := range map[string]error{"bytes": bytes, "read": h.Read(make([]byte, 6400)), "write": h.Write(make([]byte, 6400)), "close": a.Close()} {
		if !errors.Is(err, arena.ErrClosed) || !strings.Contains(err.Error(), "the device") {
			t.Errorf("%s: got %v, want an error that says that the device was closed", what, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
