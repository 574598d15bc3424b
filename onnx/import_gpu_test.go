//go:build gpu && cgo

package onnx_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

func init() {
	devices["cuda"] = func(t testing.TB, memory int64) kernels.Device {
		d, err := cuda.Open(cuda.Options{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(d.Err(), d.Close()); err != nil {
				t.Error(err)
			}
		})
		return d
	}
}
