package kerneltest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// errPlanted is the error of failing.
var errPlanted = errors.New("planted")

// failing is a function of the host that fails.
type failing struct{}

func (failing) Infer([]kernels.Spec) ([]kernels.Spec, error) {
	return []kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{1}}}, nil
}
func (failing) Run(_, _ [][]byte) error { return errPlanted }
func (failing) String() string          { return "failing" }

// bindFailing binds a program that fails, on memory of at least one byte.
func bindFailing(dev kernels.Device, m arena.Memory) (kernels.Program, error) {
	out := kernels.Operand{Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{1}}, Ref: arena.Ref{Size: 1}}
	c := kernels.Call{Op: kernels.Host, Attrs: failing{}, Out: []kernels.Operand{out}, Label: "planted"}
	return dev.Bind([]kernels.Call{c}, kernels.Binding{Memory: m, Base: []int64{0}})
}

// testFailures checks that an error in a stream reaches every call that waits for its work, each
// once, and that work that depends on it does not run.
func testFailures(t *testing.T, open opener) {
	p := openPair(t, open, 4096)
	other, err := p.dev.NewStream("other")
	must(t, err)
	e, err := p.dev.NewEvent()
	must(t, err)
	prog, err := bindFailing(p.dev, p.a)
	must(t, err)
	must(t, other.Fill(whole(p.b), 1), other.Sync(),
		prog.Launch(p.stream), p.stream.Record(e), other.Wait(e), other.Fill(whole(p.b), 2))
	for what, err := range map[string]error{"the stream": p.stream.Sync(), "the event": e.Sync(), "a stream that waited": other.Sync()} {
		if !errors.Is(err, errPlanted) {
			t.Errorf("%s: got %v, want the planted error", what, err)
		}
	}
	must(t, p.stream.Sync(), other.Sync(), p.stream.Record(e), other.Wait(e), other.Copy(whole(p.host), whole(p.b)),
		other.Sync())
	if got := p.host.Bytes()[0]; got != 1 {
		t.Errorf("work after an event of work that failed: got %d, want it dropped", got)
	}
	must(t, prog.Close(), other.Close(), e.Close(), p.a.Free(), p.b.Free(), p.host.Free())
}

// testClose checks that a device closes with everything still open, twice, and that all its
// resources return errors afterwards.
func testClose(t *testing.T, open opener) {
	dev, err := open()
	must(t, err)
	s, err := dev.NewStream("left")
	must(t, err)
	e, err := dev.NewEvent()
	must(t, err)
	m, err := dev.Alloc(4096)
	must(t, err)
	pinned, err := dev.Pin(4096)
	must(t, err)
	prog, err := bindFailing(dev, m)
	must(t, err)
	must(t, s.Fill(whole(m), 1), s.Record(e))
	must(t, dev.Close(), dev.Close())
	for what, err := range map[string]error{
		"launch": prog.Launch(s), "copy": s.Copy(whole(pinned), whole(m)), "fill": s.Fill(whole(m), 1),
		"record": s.Record(e),
		"wait":   s.Wait(e), "sync": s.Sync(), "event sync": e.Sync(), "free": m.Free(),
		"free of pinned memory": pinned.Free(),
	} {
		if !errors.Is(err, arena.ErrClosed) {
			t.Errorf("%s on a closed device: got %v, want ErrClosed", what, err)
		}
	}
	if err := m.Free(); !errors.Is(err, arena.ErrFreed) {
		t.Errorf("second free on a closed device: got %v, want ErrFreed", err)
	}
	refuses(t, "closed", dev, m)
	must(t, prog.Close(), e.Close(), s.Close())
}

// testNotOpened checks that the methods of a nil device, and of the zero value of its type, return
// errors.
func testNotOpened(t *testing.T, open opener) {
	dev := openBench(t, open).dev
	typ := reflect.TypeOf(dev)
	if typ.Kind() != reflect.Pointer {
		t.Skipf("a %v is no pointer: nothing to try", typ)
	}
	m, err := dev.Alloc(256)
	must(t, err)
	for name, v := range map[string]reflect.Value{"nil": reflect.Zero(typ), "zero": reflect.New(typ.Elem())} {
		dead := v.Interface().(kernels.Device)
		if p := panicOf(func() { _, _ = dead.Info() }); p != nil {
			t.Errorf("a %s device panics: %v: its methods must return errors that wrap arena.ErrClosed", name, p)
			continue
		}
		refuses(t, name, dead, m)
		if err := dead.Supports(kernels.Neg, nil, nil, nil); err == nil {
			t.Errorf("a %s device supports operations", name)
		}
		if dead.Name() != dev.Name() || dead.Unified() != dev.Unified() || dead.Workspace(kernels.Neg, nil, nil, nil) != 0 {
			t.Errorf("a %s device: name %q, unified %v, workspace %d", name, dead.Name(), dead.Unified(),
				dead.Workspace(kernels.Neg, nil, nil, nil))
		}
		must(t, dead.Close(), dead.Close())
	}
	must(t, m.Free())
}

// panicOf returns what f panics with, nil where it does not.
func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// refuses checks that no call of a device that is not open succeeds.
func refuses(t *testing.T, how string, dev kernels.Device, m arena.Memory) {
	t.Helper()
	_, info := dev.Info()
	_, alloc := dev.Alloc(1)
	_, pin := dev.Pin(1)
	_, stream := dev.NewStream("late")
	_, event := dev.NewEvent()
	_, bind := bindFailing(dev, m)
	for what, err := range map[string]error{"info": info, "alloc": alloc, "pin": pin, "stream": stream, "event": event, "bind": bind} {
		if !errors.Is(err, arena.ErrClosed) {
			t.Errorf("%s on a %s device: got %v, want ErrClosed", what, how, err)
		}
	}
}
