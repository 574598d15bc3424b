//go:build gpu && cgo

package main

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// With the tag gpu, the tests run on a GPU too: on a real one, or on the emulated driver.
func init() {
	devices["cuda"] = func(t testing.TB) kernels.Device {
		dev, err := cuda.Open(cuda.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(dev.Err(), dev.Close()); err != nil {
				t.Error(err)
			}
		})
		return dev
	}
}
