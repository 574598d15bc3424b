//go:build gpu && cgo

package onnx_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

func init() {
	devices["cuda"] = func(t testing.TB, memory int64) kernels.Device {
		return cudatest.OpenChecked(t, cuda.Options{Memory: memory})
	}
}
