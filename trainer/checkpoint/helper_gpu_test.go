//go:build gpu && cgo

package checkpoint_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, every promise is tested on a GPU too: on a real one, or on package fakecuda's
// driver.
func init() {
	targets = append(targets, target{"cuda", func(t testing.TB, memory int64) kernels.Device {
		return cudatest.OpenChecked(t, cuda.Options{Memory: memory})
	}})
}
