// Package cudatest opens a GPU for tests: a real one, or that of package fakecuda's driver.
package cudatest

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// Device is a GPU. With the emulated driver it is a kernels.HostAccessChecker.
type Device interface {
	kernels.Device
	kernels.WorkTimer
	Allocated() (bytes int64, blocks int)
	Err() error
}

// Open opens a GPU, and fails the test where that is not possible. Reports of the emulated driver
// begin anew. The caller closes the device.
func Open(t testing.TB, o cuda.Options) Device {
	t.Helper()
	fakecuda.Forget()
	d, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if !fakecuda.Loaded() {
		return d
	}
	return announcing{d, t}
}

// OpenChecked is Open, and closes the device at the end of the test. Then no memory may be left on
// it, no fatal error may have happened, and, where the driver checks it, all conflicting accesses
// must have been ordered.
func OpenChecked(t testing.TB, o cuda.Options) Device {
	t.Helper()
	d := Open(t, o)
	t.Cleanup(func() {
		if err := d.Err(); err != nil {
			t.Errorf("the device: %v", err)
		}
		if bytes, blocks := d.Allocated(); blocks != 0 {
			t.Errorf("%d bytes in %d blocks are left on the device", bytes, blocks)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		for _, r := range Unordered() {
			t.Error(r)
		}
	})
	return d
}

// Unordered returns what the emulated driver has reported about the order of accesses since the
// last Open: races, copies of memory that is not pinned, and mistakes in the use of NCCL.
func Unordered() (found []string) {
	for _, r := range fakecuda.Reports() {
		if strings.HasPrefix(r, "race:") || strings.HasPrefix(r, "pageable:") || strings.HasPrefix(r, "nccl:") {
			found = append(found, r)
		}
	}
	return found
}

// announcing is a GPU that reports reads and writes of the host to the emulated driver.
type announcing struct {
	*cuda.Device
	t testing.TB
}

// Touch reports that the host reads or writes pinned memory now.
func (d announcing) Touch(s arena.Span, write bool) {
	if s.Size == 0 {
		return
	}
	if err := fakecuda.Touch(unsafe.Pointer(&s.Memory.Bytes()[s.Offset]), s.Size, write); err != nil {
		d.t.Error(err)
	}
}
