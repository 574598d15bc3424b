package flat_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/flat"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// counters is a trainer whose counters a test sets.
type counters struct{ now trainer.Stats }

func (c *counters) Stats() trainer.Stats { return c.now }

// open opens a device that is closed at the end of the test.
func open[D io.Closer](t *testing.T, d D, err error) D {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Each thing is leaked on purpose, and named.
func TestEveryLeakIsNamed(t *testing.T) {
	c := &counters{}
	host, err := cpu.Open(cpu.Options{Threads: 1})
	host = open(t, host, err)
	own, err := emu.Open(emu.Options{})
	own = open(t, own, err)
	quit := make(chan struct{})
	defer close(quit)
	var kept [][]byte
	var blocks []arena.Memory
	keep := func(m arena.Memory, err error) {
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, m)
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
		for _, m := range blocks {
			_ = m.Free()
		}
		runtime.KeepAlive(kept)
	}()
	for _, leak := range []struct {
		want   []string // resources; "" first: Linux only
		device kernels.Device
		f      func()
	}{
		{[]string{"arena in use"}, nil, func() { c.now.Arena.InUse++ }},
		{[]string{"arena reserved"}, nil, func() { c.now.Arena.Reserved += 256 }},
		{[]string{"pinned memory of the trainer"}, nil, func() { c.now.Pinned++ }},
		{[]string{"heap of the trainer"}, nil, func() { c.now.Host++ }},
		{[]string{"programs"}, nil, func() { c.now.Programs++ }},
		{[]string{"uploads"}, nil, func() { c.now.Uploaded = c.now.Uploaded*2 + 1 }},
		{[]string{"memory of the device", "blocks of the device"}, host, func() { keep(host.Alloc(1)) }},
		{[]string{"memory of the device", "blocks of the device"}, own, func() { keep(own.Alloc(1)) }},
		{[]string{"memory of the device", "blocks of the device"}, own, func() { keep(own.Pin(1)) }},
		{[]string{"memory of the device"}, plain{own}, func() { keep(own.Alloc(1)) }},
		{[]string{"goroutines"}, nil, func() { go func() { <-quit }() }},
		{[]string{"heap"}, nil, func() { kept = append(kept, make([]byte, 14<<10)) }},
		{[]string{"", "file descriptors"}, nil, func() {
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}},
		{[]string{"", "resident memory"}, nil, func() { // memory that is not Go's
			m, err := host.Alloc(1 << 20)
			keep(m, err)
			for i := 0; i < len(m.Bytes()); i += 4096 {
				m.Bytes()[i] = 1
			}
		}},
	} {
		if leak.want[0] == "" {
			if leak.want = leak.want[1:]; runtime.GOOS != "linux" {
				continue
			}
		}
		var got []string
		for _, l := range (flat.Checker{Trainer: c, Device: leak.device}).Leaks(leak.f) {
			got = append(got, l.Resource)
			if l.After <= l.Before+l.Allowed || l.Rounds != 5 || !strings.HasPrefix(l.String(), l.Resource+": ") {
				t.Errorf("%+v: %v", l, l)
			}
		}
		if !slices.Equal(got, leak.want) {
			t.Errorf("leaks of %q, want %q", got, leak.want)
		}
	}
}

// fataled is a test that keeps the reason of its end, and goes on.
type fataled struct {
	testing.TB
	reason string
}

func (f *fataled) Helper() {}

func (f *fataled) Fatal(args ...any) {
	f.reason = fmt.Sprint(args...)
	runtime.Goexit()
}

func TestNegativeNumbersEndATestBeforeAnyCall(t *testing.T) {
	for want, c := range map[string]flat.Checker{"Warmup is -1": {Warmup: -1}, "Rounds is -3": {Rounds: -3}, "Heap is -1": {Heap: -1}, "Resident is -5": {Resident: -5}} {
		end, calls := &fataled{TB: t}, 0
		var done sync.WaitGroup
		done.Go(func() { c.Check(end, func() { calls++ }) })
		done.Wait()
		if !strings.Contains(end.reason, want) || calls > 0 {
			t.Errorf("want %q: ended by %q after %d calls", want, end.reason, calls)
		}
		if c.Leaks(func() { calls++ }); calls != max(c.Warmup, 2)+1+max(c.Rounds, 5) {
			t.Errorf("%+v: %d calls, want the default", c, calls)
		}
	}
}

func TestCallsAreCounted(t *testing.T) {
	for want, c := range map[int]flat.Checker{8: {}, 1 + 1 + 3: {Warmup: 1, Rounds: 3}} {
		calls := 0
		if c.Check(t, func() { calls++ }); calls != want {
			t.Errorf("%+v: %d calls, want %d", c, calls, want)
		}
	}
}

// plain hides all capabilities of a device.
type plain struct{ kernels.Device }

// A tolerance is one: what stays below is no leak, and the caller may set it.
func TestTolerancesAreBounds(t *testing.T) {
	var kept [][]byte
	grow := func(n int) func() { return func() { kept = append(kept, make([]byte, n)) } }
	if l := (flat.Checker{}).Leaks(grow(4 << 10)); l != nil { // 20 KiB in 5 rounds
		t.Errorf("below the tolerance: %v", l)
	}
	if l := (flat.Checker{Heap: 16 << 10}).Leaks(grow(4 << 10)); len(l) != 1 || l[0].Allowed != 16<<10 {
		t.Errorf("above the tolerance: %v", l)
	}
	if l := (flat.Checker{Rounds: 50}).Leaks(grow(4 << 10)); len(l) != 1 || l[0].Rounds != 50 {
		t.Errorf("in more rounds: %v", l)
	}
	calls := 0
	if l := (flat.Checker{Warmup: 7, Rounds: 3}).Leaks(func() { calls++ }); l != nil || calls != 7+1+3 {
		t.Errorf("%d calls, %v", calls, l)
	}
	runtime.KeepAlive(kept)
}

// What goes by itself within a moment is no leak.
func TestAGoroutineOnItsWayOutIsNoLeak(t *testing.T) {
	flat.Check(t, func() { go time.Sleep(20 * time.Millisecond) })
}

// failing is a test that records its errors.
type failing struct {
	testing.TB
	errors, log []string
}

func (f *failing) Helper()                   {}
func (f *failing) Errorf(s string, a ...any) { f.errors = append(f.errors, fmt.Sprintf(s, a...)) }
func (f *failing) Logf(s string, a ...any)   { f.log = append(f.log, fmt.Sprintf(s, a...)) }

// recorder is a flight recorder that has a line.
type recorder struct{}

func (recorder) Dump(w io.Writer, cause string) error {
	_, err := fmt.Fprintf(w, "step 7, %s", cause)
	return err
}

func TestALeakFailsTheTestAndDumpsTheRecorder(t *testing.T) {
	c, f := &counters{}, &failing{TB: t}
	checker := flat.Checker{Trainer: c, Recorder: recorder{}}
	checker.Check(f, func() {})
	if f.errors != nil || f.log != nil {
		t.Errorf("nothing leaks: %q %q", f.errors, f.log)
	}
	checker.Check(f, func() { c.now.Arena.InUse += 3 })
	if want := []string{"not flat: arena in use: 9 bytes before, 24 after 5 calls: +15, allowed +0"}; !slices.Equal(f.errors, want) ||
		!slices.Equal(f.log, []string{"step 7, not flat"}) {
		t.Errorf("errors %q, log %q", f.errors, f.log)
	}
}

// Epochs, evaluations and predictions of a trainer are flat.
func TestTrainingIsFlat(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 2})
	dev = open(t, dev, err)
	x, y := make([]float32, 64*4), make([]uint8, 64)
	ds, err := dataloader.FromSlices(64, dataloader.Column("x", x, 4), dataloader.Column("y", y))
	if err != nil {
		t.Fatal(err)
	}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		return net.Classifier(x, net.Dense(x, "out", 3, nil))
	}
	tr, err := trainer.New(t.Context(), model, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	flat.Checker{Trainer: tr, Device: dev}.Check(t, func() {
		if _, err := tr.Fit(context.Background(), ds); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Evaluate(context.Background(), ds); err != nil {
			t.Fatal(err)
		}
	})
}
