//go:build gpu && cgo

package layers_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

func init() {
	row := devices[0]
	row.name, row.open = "cuda", func(t testing.TB) kernels.Device { return cudatest.OpenChecked(t, cuda.Options{}) }
	devices = append(devices, row)
}
