//go:build gpu && cgo

package dataloader_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, slots lie on a GPU too: on a real one, or on package fakecuda's driver, which delays copies and looks at their order.
func init() {
	row := target{name: "cuda", open: openCUDA}
	if fakecuda.Loaded() {
		row.races, row.fail = func(arena.Device) []string { return cudatest.Unordered() }, cudaFail
	}
	targets = append(targets, row)
}

func openCUDA(t testing.TB) arena.Device {
	if fakecuda.Loaded() {
		for name, v := range map[string][2]int64{"seed": {int64(random(t).Uint32()), 1}, "delay_us": {50, 0}} {
			if err := fakecuda.Set(name, v[0]); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fakecuda.Set(name, v[1]) })
		}
	}
	return closed(t, cudatest.Open(t, cuda.Options{}))
}

// cudaFail lets the next wait for an event fail with CUDA_ERROR_NOT_READY, which is not fatal.
func cudaFail(t testing.TB, _ arena.Device) {
	if err := fakecuda.Fail("cuEventSynchronize", 1, 600); err != nil {
		t.Fatal(err)
	}
}
