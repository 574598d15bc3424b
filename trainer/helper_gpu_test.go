//go:build gpu && cgo

package trainer_test

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, every promise is tested on a GPU too: on a real one, or on package fakecuda's driver.
func init() {
	row := target{name: "cuda", absent: (*cuda.Device)(nil), zero: &cuda.Device{}}
	row.open = func(t testing.TB, memory int64) kernels.Device { return openCUDA(t, cuda.Options{Memory: memory}) }
	if fakecuda.Loaded() {
		row.count = countCUDA
	}
	targets = append(targets, row)
}

// countCUDA counts what the emulated driver was asked for in this process, by any device.
func countCUDA(kernels.Device) counts {
	calls := func(name string) int { return int(fakecuda.Calls(name)) }
	o, err := fakecuda.Ledger()
	if err != nil {
		panic(err)
	}
	return counts{calls("cuMemAlloc"), calls("cuMemHostAlloc"), calls("cuStreamCreate"), calls("cuEventCreate"),
		int64(fakecuda.Copied("cuMemcpyHtoDAsync")), o.DeviceBytes, o.PinnedBytes}
}

// openCUDA opens a GPU. At the end of the test no memory may be left, no fatal error may have come, and, where the driver checks it, no two
// accesses may have been unordered.
func openCUDA(t testing.TB, o cuda.Options) kernels.Device {
	fakecuda.Forget()
	dev, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Err(); err != nil {
			t.Errorf("the device: %v", err)
		}
		if bytes, blocks := dev.Allocated(); blocks != 0 {
			t.Errorf("%d bytes in %d blocks are left on the device", bytes, blocks)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		for _, r := range unordered() {
			t.Error(r)
		}
	})
	if !fakecuda.Loaded() {
		return dev
	}
	return announcing{dev, t}
}

// unordered returns what the driver has reported about the order of accesses: races, and copies of memory that is not pinned.
func unordered() (found []string) {
	for _, r := range fakecuda.Reports() {
		if strings.HasPrefix(r, "race:") || strings.HasPrefix(r, "pageable:") {
			found = append(found, r)
		}
	}
	return found
}

// announcing is a GPU whose emulated driver hears of what the host reads and writes.
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
