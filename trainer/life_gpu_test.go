//go:build gpu && cgo

package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// life is all that a program does with a GPU, from opening it to closing it.
type life struct {
	device   cuda.Options
	options  trainer.Options
	resident dataloader.Dataset
	streamed dataloader.Dataset

	dev *cuda.Device
	tr  *trainer.Trainer
}

// newLife returns one that has not begun. Both datasets have a short batch at the end, whose program is made in the first pass.
func newLife(t testing.TB, o cuda.Options) *life {
	l := &life{device: o, resident: samples(t, 14, 4, 3), streamed: samples(t, 11, 4, 3)}
	l.options = trainer.Options{Batch: 4, Fields: l.streamed.Fields(), Workers: 1, Optimizer: optim.Adam{}, Resident: []dataloader.Dataset{l.resident},
		Offload: offloaded}
	return l
}

// phase is a part of a life.
type phase struct {
	name string
	run  func(l *life) error
}

var phases = []phase{
	{"open", func(l *life) (err error) { l.dev, err = cuda.Open(l.device); return err }},
	{"new", func(l *life) (err error) {
		l.options.Device = l.dev
		l.tr, err = trainer.New(context.Background(), small, l.options)
		return err
	}},
	{"fit resident", func(l *life) error { _, err := l.tr.Fit(context.Background(), l.resident); return err }},
	{"fit", func(l *life) error { _, err := l.tr.Fit(context.Background(), l.streamed); return err }},
	{"evaluate", func(l *life) error { _, err := l.tr.Evaluate(context.Background(), l.streamed); return err }},
	{"predict", func(l *life) error { return firstError(l.tr, l.streamed) }},
	{"parameters", (*life).rewrite},
	{"close", func(l *life) error { return l.tr.Close() }},
	{"close device", func(l *life) error { return l.dev.Close() }},
}

// rewrite reads every parameter and writes it back.
func (l *life) rewrite() error {
	ps, err := l.tr.Params()
	for _, p := range ps {
		b := make([]byte, p.Spec.Bytes())
		err = errors.Join(err, p.Read(b))
		if err == nil {
			err = p.Write(b)
		}
	}
	return err
}

// moment is the n-th call of a function of the driver, counted from the start of a phase.
type moment struct {
	phase int
	call  string
	n     uint64
}

func (m moment) String() string {
	return fmt.Sprintf("%s/%s/%d", strings.ReplaceAll(phases[m.phase].name, " ", "_"), m.call, m.n)
}

// moments lives a whole life and returns calls that it makes: of each function in each phase up to so many; where there are more, those that the
// generator draws, and, of more than one, the first and the last.
func moments(t *testing.T, o cuda.Options, most int, r *rand.Rand) (all []moment) {
	l := newLife(t, o)
	for i, p := range phases {
		fakecuda.Forget()
		if err := p.run(l); err != nil {
			t.Fatalf("%s without a fault: %v", p.name, err)
		}
		calls := fakecuda.Called()
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			if !strings.HasPrefix(name, "cu") {
				continue
			}
			var chosen []uint64
			if most > 1 {
				chosen = append(chosen, 1, calls[name])
			}
			for n := uint64(1); len(chosen) < most && n <= calls[name]; n++ {
				pick := n
				if calls[name] > uint64(most) && name != "cuCtxSetCurrent" { // of which the next life may have fewer: threads decide

					pick = 1 + r.Uint64N(calls[name])
				}
				chosen = append(chosen, pick)
			}
			slices.Sort(chosen)
			for _, n := range slices.Compact(chosen) {
				all = append(all, moment{i, name, n})
			}
		}
	}
	return all
}

const (
	passing = 1   // CUDA_ERROR_INVALID_VALUE: the call did nothing, the next works
	fatal   = 719 // CUDA_ERROR_LAUNCH_FAILED: no call works any more
)

// TestEveryCallOfALifeThatFails makes one call of the driver fail a life. The phase that makes it returns an error that names the call, and the
// step; after an error that passes the same phase works and the rest of the life; after a fatal one everything answers ErrPoisoned with that
// first error, and Close returns. Nothing is left, and the next life begins as if nothing had been.
func TestEveryCallOfALifeThatFails(t *testing.T) {
	emulated(t)
	launches := map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}, "waiting": {Sync: true}}
	most, r := 3, random(t)
	if testing.Short() {
		launches, most = map[string]cuda.Options{"graphs": {}}, 1
	}
	for name, o := range launches {
		t.Run(name, func(t *testing.T) {
			for _, m := range moments(t, o, most, r) {
				codes := []int{passing, fatal}
				if testing.Short() {
					codes = codes[r.IntN(2):][:1]
				}
				for _, code := range codes {
					t.Run(fmt.Sprintf("%v/%d", m, code), func(t *testing.T) {
						within(t, 30*time.Second, "a life with a fault", func() { endure(t, newLife(t, o), m, code) })
					})
				}
			}
		})
	}
}

// TestEveryCallOfAPassThatFails does the same with each call that a pass of training makes, every one of them.
func TestEveryCallOfAPassThatFails(t *testing.T) {
	emulated(t)
	pass := slices.IndexFunc(phases, func(p phase) bool { return p.name == "fit" })
	tried := 0
	for _, m := range moments(t, cuda.Options{}, math.MaxInt, nil) {
		if m.phase != pass {
			continue
		}
		for i, code := range []int{passing, fatal} {
			if testing.Short() && (int(m.n)%2 != i || m.call == "cuCtxSetCurrent") { // which comes before each of the others
				continue
			}
			tried++
			t.Run(fmt.Sprintf("%v/%d", m, code), func(t *testing.T) {
				within(t, 30*time.Second, "a life with a fault", func() { endure(t, newLife(t, cuda.Options{}), m, code) })
			})
		}
	}
	t.Logf("%d faults", tried)
}

// endure lives with a fault.
func endure(t *testing.T, l *life, m moment, code int) {
	fakecuda.Forget()
	defer fakecuda.Fail("", 0, 0)
	if err := l.until(m.phase); err != nil {
		t.Errorf("before the fault: %v", err)
		return
	}
	if err := fakecuda.Fail(m.call, m.n, code); err != nil {
		t.Error(err)
	}
	checkBlame(t, m, code, phases[m.phase].run(l))
	if code == fatal {
		checkPoisoned(t, l, m.phase)
	} else {
		if err := l.dev.Err(); err != nil {
			t.Errorf("an error that passes is kept: %v", err)
		}
		for _, p := range phases[m.phase:] {
			if err := p.run(l); err != nil {
				t.Errorf("%s, after an error that passes: %v", p.name, err)
				_ = errors.Join(l.tr.Close(), l.dev.Close())
				break
			}
		}
	}
	checkNothingLeft(t, m, code)
	next := newLife(t, l.device)
	if err := errors.Join(next.until(2), next.tr.Close(), next.dev.Close()); err != nil {
		t.Errorf("the next life: %v", err)
	}
}

// until lives the phases before the n-th.
func (l *life) until(n int) error {
	for _, p := range phases[:n] {
		if err := p.run(l); err != nil {
			return fmt.Errorf("%s: %w", p.name, errors.Join(err, l.tr.Close(), l.dev.Close()))
		}
	}
	return nil
}

// checkBlame demands an error that says which call failed, and in which step.
func checkBlame(t *testing.T, m moment, code int, err error) {
	t.Helper()
	var e *cuda.DriverError
	switch {
	case code == passing && m.call == "cuMemGetInfo" && phases[m.phase].name == "new" && err == nil:
		return // it would have said how much is free, had another call failed
	case code == fatal && errors.As(err, &e) && e.Code == fatal && (callOfTwo(m.call) || callOfTwo(e.Call)):
		return // the context failed between two calls of two goroutines: either call may be the first that returns the error
	}
	if !blames(err, m.call, code) || !strings.Contains(err.Error(), m.call) {
		t.Errorf("got %v, want a DriverError of %s, code %d", err, m.call, code)
		return
	}
	pass := slices.Contains([]string{"fit resident", "fit", "evaluate", "predict"}, phases[m.phase].name)
	inStep := slices.Contains([]string{"cuGraphLaunch", "cuLaunchKernel", "cuStreamWaitEvent", "cuEventRecord", "cuEventSynchronize", "cuEventQuery",
		"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamBeginCapture", "cuModuleGetFunction"}, m.call)
	named := func(s string) bool { return strings.Contains(err.Error(), s) }
	if pass && inStep && !slices.ContainsFunc([]string{"step ", "samples from ", "bind ", "upload resident dataset "}, named) {
		t.Errorf("got %v, which does not say where", err)
	}
}

// callOfTwo reports whether the loader's goroutine makes a driver call too, while it waits for a slot.
func callOfTwo(call string) bool {
	return call == "cuEventSynchronize" || call == "cuEventQuery" || call == "cuCtxSetCurrent"
}

// blames reports whether a DriverError of a call is among what err joins: after a fatal one, the step before may have heard of it first.
func blames(err error, call string, code int) bool {
	if e, ok := err.(*cuda.DriverError); ok {
		return e.Call == call && e.Code == code
	}
	switch x := err.(type) {
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(x.Unwrap(), func(err error) bool { return blames(err, call, code) })
	case interface{ Unwrap() error }:
		return blames(x.Unwrap(), call, code)
	}
	return false
}

// checkPoisoned demands that nothing works after a fatal error in phase i but closing, twice.
func checkPoisoned(t *testing.T, l *life, i int) {
	t.Helper()
	if l.dev == nil { // there is none: Open has failed
		return
	}
	const last = 7 // before closing
	first := l.dev.Err()
	var e *cuda.DriverError
	if !errors.As(first, &e) || e.Code != fatal {
		t.Errorf("Err() = %v, want the fatal error", first)
		return
	}
	for _, p := range phases[min(i+1, last):last] {
		if l.tr == nil && p.name != "new" {
			continue
		}
		if err := p.run(l); !errors.Is(err, cuda.ErrPoisoned) || !errors.Is(err, first) {
			t.Errorf("%s: got %v, want ErrPoisoned that wraps the first error", p.name, err)
		}
	}
	if err := errors.Join(l.tr.Close(), l.tr.Close(), l.dev.Close(), l.dev.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := l.dev.Err(); err != first {
		t.Errorf("after Close: Err() = %v, want the first error", err)
	}
}

// releases are calls that give one object back: where one of them fails, the object goes with its context.
var releases = []string{"cuMemFree", "cuMemFreeHost", "cuStreamDestroy", "cuEventDestroy", "cuModuleUnload", "cuGraphDestroy", "cuGraphExecDestroy"}

// checkNothingLeft demands an empty ledger, in which contexts had to clean up only after a fatal error or a release that failed.
func checkNothingLeft(t *testing.T, m moment, code int) {
	t.Helper()
	if m.call == "cuDevicePrimaryCtxRelease" { // it did nothing: the context is still there
		if got, err := fakecuda.Invoke(m.call+"_v2", 0); got != 0 || err != nil {
			t.Errorf("the context is not there: %d, %v", got, err)
		}
	}
	left, err := fakecuda.Ledger()
	if err != nil {
		t.Error(err)
	}
	switch {
	case code == fatal:
		left.Abandoned = 0
	case slices.Contains(releases, m.call) && left.Abandoned <= 1, m.call == "cuCtxSetCurrent" && phases[m.phase].name == "close device":
		left.Abandoned = 0
	}
	if left != (fakecuda.Objects{}) {
		t.Errorf("left: %+v", left)
	}
}
