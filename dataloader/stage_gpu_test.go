//go:build gpu && cgo

package dataloader_test

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, slots lie on a GPU too: on a real one, or on package fakecuda's driver, which delays copies and looks at their order.
func init() {
	row := target{name: "cuda", open: openCUDA}
	if fakecuda.Loaded() {
		row.races, row.fail = cudaRaces, cudaFail
	}
	targets = append(targets, row)
}

func openCUDA(t testing.TB) arena.Device {
	fakecuda.Forget()
	if fakecuda.Loaded() {
		for name, v := range map[string][2]int64{"seed": {int64(random(t).Uint32()), 1}, "delay_us": {50, 0}} {
			if err := fakecuda.Set(name, v[0]); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fakecuda.Set(name, v[1]) })
		}
	}
	dev, err := cuda.Open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, dev)
	if !fakecuda.Loaded() {
		return dev
	}
	return announcing{dev, t}
}

// announcing is a GPU that reports reads and writes of the host to the emulated driver.
type announcing struct {
	*cuda.Device
	t testing.TB
}

// Touch says that the host reads or writes pinned memory now.
func (d announcing) Touch(s arena.Span, write bool) {
	if err := fakecuda.Touch(unsafe.Pointer(&s.Memory.Bytes()[s.Offset]), s.Size, write); err != nil {
		d.t.Error(err)
	}
}

// cudaRaces returns what the driver has reported about the order of accesses: races, and copies of memory that is not pinned.
func cudaRaces(arena.Device) (found []string) {
	for _, r := range fakecuda.Reports() {
		if strings.HasPrefix(r, "race:") || strings.HasPrefix(r, "pageable:") {
			found = append(found, r)
		}
	}
	return found
}

// cudaFail lets the next wait for an event fail with CUDA_ERROR_NOT_READY, which is not fatal.
func cudaFail(t testing.TB, _ arena.Device) {
	if err := fakecuda.Fail("cuEventSynchronize", 1, 600); err != nil {
		t.Fatal(err)
	}
}
