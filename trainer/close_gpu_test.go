//go:build gpu && cgo

package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
)

// alone runs a test again in a process of its own, where nothing else has left anything, and reports whether it is there already.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv("EVENKEEL_ALONE") != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$", fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Env = append(os.Environ(), "EVENKEEL_ALONE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// driverThreads are the emulated driver's own: one a stream, and one a context.
func driverThreads(t testing.TB) int {
	t.Helper()
	o, err := fakecuda.Ledger()
	if err != nil {
		t.Fatal(err)
	}
	return o.Streams + o.Contexts
}

// Threads are as many after thousands of steps as after the first, although goroutines come and go and any of them calls the driver.
func TestThreadsAreFewAndStayThatMany(t *testing.T) {
	emulated(t)
	if !alone(t) {
		return
	}
	steps := 2000
	if testing.Short() {
		steps = 1200
	}
	startThreads(4)
	ds, step, first := samples(t, 4*100, 4, 3), 0, 0
	tr := made(t, small, trainer.Options{Device: cudatest.OpenChecked(t, cuda.Options{}), Batch: 4, Fields: ds.Fields(), Workers: 8, Progress: func(trainer.Progress) {
		if step++; step == steps/4 { // by when Go's runtime has those that it wants on a busy machine
			first = threads()
		}
	}})
	for step < steps {
		done := make(chan error)
		go func() { // another goroutine each epoch
			_, err := tr.Fit(context.Background(), ds)
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	last, driver := threads(), driverThreads(t)
	t.Logf("%d threads after %d steps, %d after %d, %d of them the driver's", first, steps/4, last, step, driver)
	if last > first+1 { // Go's runtime may start one for itself
		t.Errorf("%d threads after %d steps, %d after %d", last, step, first, steps/4)
	}
	if most := runtime.GOMAXPROCS(0) + 16; last-driver > most {
		t.Errorf("%d threads in addition to the driver's %d, at most %d are allowed", last-driver, driver, most)
	}
}

// startThreads has Go's runtime start n threads, which it keeps and uses again: those that it would start for itself on a busy machine.
func startThreads(n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 20e6}, nil)
		})
	}
	all.Wait()
}

// A hundred lives leave no object with the driver, no byte of its memory, no goroutine and no thread.
func TestAHundredLivesWithAGPULeaveNothing(t *testing.T) {
	emulated(t)
	if !alone(t) {
		return
	}
	count := 100
	if testing.Short() {
		count = 20
	}
	startThreads(4)
	fakecuda.Forget()
	goroutines, first := runtime.NumGoroutine(), 0
	for i := range count {
		l := newLife(t, cuda.Options{})
		if i%2 == 1 { // what a user forgets, the device releases
			if err := errors.Join(l.until(len(phases)-2), l.dev.Close()); err != nil {
				t.Fatal(err)
			}
		} else if err := l.until(len(phases)); err != nil {
			t.Fatal(err)
		}
		left, err := fakecuda.Ledger()
		if err != nil || left != (fakecuda.Objects{}) {
			t.Fatalf("life %d has left %+v, %v", i, left, err)
		}
		if i%2 == 1 {
			_ = l.tr.Close() // returns an error: the device is closed
		}
		if !settles(goroutines) {
			t.Fatalf("life %d: %d goroutines, %d before", i, runtime.NumGoroutine(), goroutines)
		}
		if i == count/4 {
			first = threads()
		}
	}
	if last := threads(); last > first+1 { // Go's runtime may start one for itself
		t.Errorf("%d threads after %d lives, %d after %d", last, count, first, count/4)
	}
}
