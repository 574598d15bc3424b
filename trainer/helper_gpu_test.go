//go:build gpu && cgo

package trainer_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, every promise is tested on a GPU too: on a real one, or on package fakecuda's driver.
func init() {
	targets = append(targets, struct {
		name string
		open func(t testing.TB) kernels.Device
	}{"cuda", openCUDA})
}

// openCUDA opens a GPU. At the end of the test no memory may be left, and no fatal error may have come.
func openCUDA(t testing.TB) kernels.Device {
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
	})
	return dev
}
