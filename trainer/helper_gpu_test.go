//go:build gpu && cgo

package trainer_test

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
	row.open = func(t testing.TB, memory int64) kernels.Device {
		return cudatest.OpenChecked(t, cuda.Options{Memory: memory})
	}
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
