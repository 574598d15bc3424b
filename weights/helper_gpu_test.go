//go:build gpu && cgo

package weights_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, the tests run on a GPU too: on a real one, or on package fakecuda's driver.
func init() {
	devices["cuda"] = func(t testing.TB) kernels.Device {
		dev, err := cuda.Open(cuda.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if bytes, blocks := dev.Allocated(); blocks != 0 {
				t.Errorf("%d bytes in %d blocks are left on the device", bytes, blocks)
			}
			check(t, dev.Err())
			check(t, dev.Close())
		})
		return dev
	}
}
