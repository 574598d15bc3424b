//go:build gpu && cgo

package checkpoint_test

import (
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, every promise is tested on a GPU too: on a real one, or on package fakecuda's
// driver.
func init() { targets = append(targets, target{"cuda", openCUDA}) }

// openCUDA opens a GPU. At the end of the test no memory may be left on it, no fatal error may have
// happened, and, where the driver checks it, no two accesses may have been unordered.
func openCUDA(t testing.TB, memory int64) kernels.Device {
	fakecuda.Forget()
	dev, err := cuda.Open(cuda.Options{Memory: memory})
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
