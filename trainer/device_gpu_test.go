//go:build gpu && cgo

package trainer_test

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// hasContext reports whether a device has a context of this process.
func hasContext(t *testing.T, device int) bool {
	t.Helper()
	state := new(struct{ flags, active int32 })
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(state)
	code, err := fakecuda.Invoke("cuDevicePrimaryCtxGetState", uintptr(device), uintptr(unsafe.Pointer(&state.flags)), uintptr(unsafe.Pointer(&state.active)))
	if code != 0 || err != nil {
		t.Fatalf("cuDevicePrimaryCtxGetState: %d, %v", code, err)
	}
	return state.active != 0
}

// Only the GPU that was opened has a context, whatever goroutine trains on it; two of them train at the same time.
func TestOnlyTheGPUThatWasOpenedHasAContext(t *testing.T) {
	emulated(t)
	gpu(t, "devices", 2, 1)
	for device := range 2 {
		l := newLife(t, cuda.Options{Device: device})
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := l.until(len(phases) - 2); err != nil {
				t.Error(err)
			}
		}()
		<-done
		for k := range 2 {
			if got := hasContext(t, k); got != (k == device) {
				t.Errorf("device %d was opened; a context on device %d: %v", device, k, got)
			}
		}
		if err := errors.Join(l.tr.Close(), l.dev.Close()); err != nil || hasContext(t, device) {
			t.Errorf("closed, %v; a context on device %d: %v", err, device, hasContext(t, device))
		}
	}
	var both sync.WaitGroup
	for device := range 2 {
		both.Go(func() {
			if err := newLife(t, cuda.Options{Device: device}).until(len(phases)); err != nil {
				t.Errorf("at the same time, device %d: %v", device, err)
			}
		})
	}
	both.Wait()
}

func TestAGPUThatIsNotThereIsNamed(t *testing.T) {
	emulated(t)
	dev, err := cuda.Open(cuda.Options{Device: 7})
	var e *cuda.NoDeviceError
	if dev != nil || !errors.As(err, &e) || e.Device != 7 || e.Devices != 1 || !strings.Contains(err.Error(), "no device 7: there is 1") {
		t.Errorf("device 7 of 1: got %v, %v", dev, err)
	}
}

// A driver that cannot capture, or make a graph of what it captured, is asked once, when the device is opened. What trains on it is the same.
func TestADriverWithoutGraphsTrainsAsWell(t *testing.T) {
	emulated(t)
	ds := samples(t, 14, 4, 3)
	graphs := func(dev kernels.Device) bool { return dev.(interface{ Graphs() bool }).Graphs() }
	train := func(dev kernels.Device) float64 {
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.Adam{}})
		fit(t, tr, ds)
		return fit(t, tr, ds).Loss
	}
	able := cudatest.OpenChecked(t, cuda.Options{})
	if !graphs(able) {
		t.Error("the emulated driver makes graphs, and the device says that it does not")
	}
	want := train(able)
	for call, code := range map[string]int{"cuStreamBeginCapture": 801, "cuStreamEndCapture": 900, "cuGraphInstantiateWithFlags": 801} {
		if err := fakecuda.Fail(call, 1, code); err != nil {
			t.Fatal(err)
		}
		dev := cudatest.OpenChecked(t, cuda.Options{})
		before := fakecuda.Calls("cuGraphLaunch")
		got := train(dev)
		if graphs(dev) || fakecuda.Calls("cuGraphLaunch") != before {
			t.Errorf("%s answers %d: the device says that it has graphs, or launches them", call, code)
		}
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%s answers %d: loss %v, with graphs %v", call, code, got, want)
		}
	}
}

// Without any GPU a program with the tag ends before its main function, and says why: it never trains on the host instead.
func TestWithoutAnyGPUTheProgramEnds(t *testing.T) {
	emulated(t)
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestAGPUThatIsNotThereIsNamed$")
	cmd.Env = append(os.Environ(), "FAKECUDA_DEVICES=0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "NoDevice") || strings.Contains(string(out), "=== RUN") {
		t.Errorf("ended with %v, %q", err, out)
	}
}
