// Package flat checks in a test that work which is repeated, such as an epoch, needs no more of
// anything each time.
//
// [Check] is one line for what belongs to the process: heap, resident memory, goroutines, file
// descriptors. A [Checker] also looks at a trainer and its device: bytes of the arena, of device memory
// and of pinned memory, bytes that the trainer keeps on the heap, compiled programs, and uploads.
//
//	flat.Checker{Trainer: tr, Device: dev}.Check(t, func() {
//		if _, err := tr.Fit(ctx, ds); err != nil {
//			t.Fatal(err)
//		}
//	})
package flat

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// Statistics is a trainer, or what counts like one.
type Statistics interface {
	// Stats returns the counters as they are now.
	Stats() trainer.Stats
}

// Dumper is a flight recorder, such as a *flight.Recorder.
type Dumper interface {
	// Dump writes what it has recorded.
	Dump(w io.Writer, cause string) error
}

// Checker says what is checked. The zero value checks what belongs to the process. Negative numbers are
// mistakes.
type Checker struct {
	Trainer Statistics     // nil: none
	Device  kernels.Device // whose memory is checked; nil: none
	// Warmup is the number of calls before the first measurement, which compile programs, start
	// workers and fill caches. 0: 2. One more call follows, which measures what a call uploads.
	Warmup int
	// Rounds is the number of calls between the measurements. 0: 5. More of them find smaller leaks.
	Rounds int
	// Heap is how many bytes the Go heap may grow by in all rounds, after a collection. 0: 64 KiB,
	// since the runtime keeps structures of its own there, such as those of goroutines that waited.
	Heap int64
	// Resident is how many bytes the resident memory of the process may grow by in all rounds, after
	// free memory was returned to the system. 0: 2 MiB, since the runtime and the system map memory in
	// large pieces, and stacks and page faults do not repeat exactly.
	Resident int64
	// Recorder, unless nil, is dumped to the log of the test when something leaks.
	Recorder Dumper
}

// Leak is something of which there was more after the rounds than before.
type Leak struct {
	Resource      string // such as "goroutines"
	Unit          string // "bytes", or "" for a number
	Before, After int64
	Allowed       int64 // by which After may exceed Before
	Rounds        int   // calls between the two
}

// String returns one line that names the resource, both measurements, and how much is allowed.
func (l Leak) String() string {
	unit := l.Unit
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s: %d%s before, %d after %d calls: %+d, allowed %+d", l.Resource, l.Before, unit, l.After, l.Rounds, l.After-l.Before, l.Allowed)
}

// Check calls f 8 times and reports an error for everything of the process that leaks: heap,
// resident memory, goroutines, file descriptors. See Checker for the tolerances. Resident memory and
// file descriptors are checked on Linux only. Other tests must not run in parallel.
func Check(t testing.TB, f func()) {
	t.Helper()
	Checker{}.Check(t, f)
}

// Check calls f Warmup + 1 + Rounds times, 8 by default, and reports an error for each leak. A negative
// number in c ends the test before.
func (c Checker) Check(t testing.TB, f func()) {
	t.Helper()
	if err := c.mistake(); err != nil {
		t.Fatal(err)
	}
	leaks := c.Leaks(f)
	for _, l := range leaks {
		t.Errorf("not flat: %v", l)
	}
	if len(leaks) > 0 && c.Recorder != nil {
		if err := c.Recorder.Dump(logWriter{t}, "not flat"); err != nil {
			t.Errorf("flight recorder: %v", err)
		}
	}
}

// mistake returns an error for each negative number.
func (c Checker) mistake() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int64
	}{{"Warmup", int64(c.Warmup)}, {"Rounds", int64(c.Rounds)}, {"Heap", c.Heap}, {"Resident", c.Resident}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("flat: %s is %d: it must not be negative: 0 is the default", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// Leaks calls f as Check does and returns what leaks, nil if all is flat. What takes a moment to go,
// such as a goroutine on its way out, has half a second. Negative numbers in c count as 0, the default.
func (c Checker) Leaks(f func()) []Leak {
	c.Warmup, c.Rounds = cmp.Or(max(c.Warmup, 0), 2), cmp.Or(max(c.Rounds, 0), 5)
	c.Heap, c.Resident = cmp.Or(max(c.Heap, 0), 64<<10), cmp.Or(max(c.Resident, 0), 2<<20)
	for range c.Warmup {
		f()
	}
	uploads := c.uploaded()
	f()
	uploads = c.uploaded() - uploads // of a call
	c.measure()                      // for the first time it needs memory of its own
	before, uploaded := c.measure(), c.uploaded()
	for range c.Rounds {
		f()
	}
	uploaded = c.uploaded() - uploaded
	leaks := c.settled(before)
	if want := uploads * int64(c.Rounds); uploaded > want {
		leaks = append(leaks, Leak{Resource: "uploads", Unit: "bytes", Before: want, After: uploaded, Rounds: c.Rounds})
	}
	return leaks
}

// uploaded returns the bytes of samples that the trainer has copied to the device since it was made.
func (c Checker) uploaded() int64 {
	if c.Trainer == nil {
		return 0
	}
	return c.Trainer.Stats().Uploaded
}

// logWriter writes to the log of a test.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Helper()
	w.t.Logf("%s", b)
	return len(b), nil
}
