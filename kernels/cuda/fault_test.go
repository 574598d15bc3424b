//go:build gpu && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
)

// lifeVariable makes the test binary live one life of a device in place of its tests, with the
// options it names. Package fakecuda's driver makes a call fail that FAKECUDA_FAIL names, once,
// from the start of the process.
const lifeVariable = "EVENKEEL_CUDA_LIFE"

// TestMain demands that the emulated driver saw no two streams, or host and stream, touch the same
// bytes without an event between them, no copy of memory that is not pinned, and no mistake in the use
// of NCCL.
func TestMain(m *testing.M) {
	if mode := os.Getenv(lifeVariable); mode != "" {
		os.Exit(live(mode))
	}
	code := m.Run()
	for _, r := range fakecuda.Reports() { // none where the driver is NVIDIA's
		if strings.HasPrefix(r, "race:") || strings.HasPrefix(r, "pageable:") || strings.HasPrefix(r, "nccl:") {
			fmt.Fprintln(os.Stderr, r)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// lifeCalls are the calls of the driver that a device makes from Open to Close, and which modes
// make them.
var lifeCalls = map[string][]string{
	"graphs launches": {
		"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemGetInfo",
		"cuStreamCreate", "cuEventCreate", "cuMemAlloc", "cuMemHostAlloc", "cuModuleLoadDataEx", "cuModuleGetFunction",
		"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpyAsync", "cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent", "cuEventSynchronize", "cuStreamSynchronize",
		"cuLaunchKernel", "cuMemFree", "cuMemFreeHost", "cuEventDestroy", "cuStreamDestroy", "cuModuleUnload", "cuDevicePrimaryCtxRelease",
	},
	"graphs": {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy", "cuGraphLaunch", "cuGraphExecDestroy"},
}

func TestEveryCallThatFailsIsNamedAndClosesCleanly(t *testing.T) {
	if out, ok := liveAs(t, "graphs", ""); !ok || !strings.Contains(out, "error: <nil>") {
		t.Fatalf("without a fault: %s", out)
	}
	if out, _ := liveAs(t, "graphs", "cuDeviceGetCount:1:1"); strings.Contains(out, "error: <nil>") {
		t.Skip("needs package fakecuda's driver: this one makes no faults on demand")
	}
	for modes, calls := range lifeCalls {
		for _, mode := range strings.Fields(modes) {
			for _, call := range calls {
				codes := []int{1, 719} // a mistake, which passes, and a failed kernel, which does not
				if testing.Short() {
					codes = codes[1:]
				}
				for _, code := range codes {
					t.Run(fmt.Sprintf("%s/%s/%d", mode, call, code), func(t *testing.T) {
						out, ok := liveAs(t, mode, fmt.Sprintf("%s:1:%d", call, code))
						if !ok || !strings.Contains(out, call) || strings.Contains(out, "error: <nil>") {
							t.Errorf("got %q, want an error that names %s", out, call)
						}
						if !strings.Contains(out, "left: 0") || !strings.Contains(out, "again: <nil>") {
							t.Errorf("got %q, want nothing left, and a second device that works", out)
						}
					})
				}
			}
		}
	}
}

// liveAs runs the test binary for one life, and returns what it says.
func liveAs(t *testing.T, mode, fail string) (said string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "FAKECUDA_FAIL=") }), lifeVariable+"="+mode)
	if fail != "" {
		c.Env = append(c.Env, "FAKECUDA_FAIL="+fail)
	}
	out, err := c.CombinedOutput()
	return fmt.Sprintf("%s%v", out, err), err == nil
}

// live is one life of a device, then the start of another. It says what went wrong and what is left.
func live(mode string) int {
	o := modes[mode]
	var d *Device
	err := func() (err error) {
		if d, err = Open(o); err != nil {
			return err
		}
		return steps(d)
	}()
	err = errors.Join(err, d.Close())
	left := 0
	if d != nil {
		left = len(d.live) + len(d.modules)
	}
	fmt.Printf("error: %v\nleft: %d\n", err, left)
	next, again := Open(o)
	if again == nil {
		again = errors.Join(steps(next), next.Close())
	}
	fmt.Printf("again: %v\n", again)
	return 0
}

// steps makes all that training makes, takes three steps, and gives all back.
func steps(d *Device) (err error) {
	both := func(e error) { err = errors.Join(err, e) }
	mem, err := d.Alloc(512)
	if err != nil {
		return err
	}
	defer func() { both(mem.Free()) }()
	host, err := d.Pin(256)
	if err != nil {
		return err
	}
	defer func() { both(host.Free()) }()
	s, err := d.NewStream("steps")
	if err != nil {
		return err
	}
	defer func() { both(s.Close()) }()
	e, err := d.NewEvent()
	if err != nil {
		return err
	}
	defer func() { both(e.Close()) }()
	at := mem.(*memory).at
	b := &binding{props: &d.props}
	b.fill(at, 0, 256)
	b.launchText(addPTX, "add", line(1), line(1), 0, at, int32(1))
	b.copy(at+256, at, 256)
	if err := d.enter("bind"); err != nil {
		return err
	}
	p, err := d.bind(b.steps, []string{"steps"}, &sums{})
	d.leave()
	if err != nil {
		return err
	}
	defer func() { both(p.Close()) }()
	half := func(k int64) arena.Span { return arena.Span{Memory: mem, Offset: 256 * k, Size: 256} }
	whole := arena.Span{Memory: host, Size: 256}
	for range 3 {
		for _, do := range []func() error{
			func() error { return s.Wait(e) }, func() error { return s.Copy(half(0), whole) }, func() error { return p.Launch(s) },
			func() error { return s.Copy(half(0), half(1)) }, func() error { return s.Copy(whole, half(1)) },
			func() error { return s.Record(e) }, e.Sync, s.Sync,
		} {
			if err := do(); err != nil {
				return err
			}
		}
	}
	_, err = d.Info()
	return err
}
