//go:build gpu && cgo

package vm_test

import (
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, every promise is tested on a GPU too: on a real one, or on package fakecuda's driver.
func init() {
	row := target{name: "cuda", open: openCUDA, absent: (*cuda.Device)(nil), zero: &cuda.Device{}}
	if fakecuda.Loaded() {
		row.count = countCUDA
	}
	targets = append(targets, row)
}

// countCUDA returns what the emulated driver has allocated in this process, for any device.
func countCUDA(kernels.Device) counts {
	o, err := fakecuda.Ledger()
	if err != nil {
		panic(err)
	}
	return counts{int(fakecuda.Calls("cuMemAlloc")), o.DeviceBytes, o.PinnedBytes}
}

// openCUDA opens a GPU. At the end of the test no memory may be left on it, and no fatal error may have happened. With the
// emulated driver, all conflicting accesses must have been ordered.
func openCUDA(t testing.TB) kernels.Device {
	fakecuda.Forget()
	dev, err := cuda.Open(cuda.Options{})
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
		for _, r := range fakecuda.Reports() {
			if strings.HasPrefix(r, "race:") || strings.HasPrefix(r, "pageable:") {
				t.Error(r)
			}
		}
	})
	return dev
}
