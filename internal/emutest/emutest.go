// Package emutest opens the emulated device for tests.
package emutest

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels/emu"
)

// Open opens an emulated device, and fails the test where that is not possible. The caller closes it.
func Open(t testing.TB, o emu.Options) *emu.Device {
	t.Helper()
	d, err := emu.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
