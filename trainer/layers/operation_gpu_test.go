//go:build gpu && cgo

package layers_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

func init() {
	row := devices[0]
	row.name, row.open = "cuda", func(t testing.TB) kernels.Device {
		d, err := cuda.Open(cuda.Options{})
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
	devices = append(devices, row)
}
