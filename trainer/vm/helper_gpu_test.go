//go:build gpu && cgo

package vm_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, every promise is tested on a GPU too: on a real one, or on package fakecuda's driver.
func init() {
	row := target{name: "cuda", absent: (*cuda.Device)(nil), zero: &cuda.Device{}}
	row.open = func(t testing.TB) kernels.Device { return cudatest.OpenChecked(t, cuda.Options{}) }
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
