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

// OpenChecked is Open, and closes the device at the end of the test. Then nothing may be left on it,
// and all conflicting accesses must have been ordered.
func OpenChecked(t testing.TB, o emu.Options) *emu.Device {
	t.Helper()
	d := Open(t, o)
	t.Cleanup(func() {
		if l := d.Ledger(); !l.Empty() {
			t.Errorf("left on the device: %v", l)
		}
		for _, err := range d.Races() {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
