//go:build gpu && cgo

package cuda_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

func TestDevice(t *testing.T) {
	kerneltest.Test(t, func() (kernels.Device, error) { return cuda.Open(cuda.Options{}) })
}
