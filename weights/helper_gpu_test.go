//go:build gpu && cgo

package weights_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, the tests run on a GPU too: on a real one, or on package fakecuda's driver.
func init() {
	devices["cuda"] = func(t testing.TB) kernels.Device { return cudatest.OpenChecked(t, cuda.Options{}) }
}
