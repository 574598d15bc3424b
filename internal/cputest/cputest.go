// Package cputest opens the host for tests, with the instructions that the environment names, and
// says whether the race detector is on.
//
//	EVENKEEL_INSTRUCTIONS=portable go test ./...
package cputest

import (
	"errors"
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// Variable is the environment variable that names the instructions: portable, avx2, avx512, or
// nothing for the best.
const Variable = "EVENKEEL_INSTRUCTIONS"

// Open opens the host with the instructions that the environment names, unless the options name
// some. It skips the test if the processor lacks them, and fails it at any other error. The caller
// closes the device.
func Open(t testing.TB, o cpu.Options) *cpu.Device {
	t.Helper()
	if o.Instructions == cpu.Best {
		o.Instructions = Instructions(t)
	}
	d, err := cpu.Open(o)
	var lacking *cpu.InstructionsError
	if errors.As(err, &lacking) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Instructions returns the instructions that the environment names, Best for none. The processor
// may lack them.
func Instructions(t testing.TB) (i cpu.Instructions) {
	t.Helper()
	if err := i.UnmarshalText([]byte(os.Getenv(Variable))); err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	return i
}

// OpenChecked is Open, and closes the device at the end of the test. Then no memory may be left on
// it.
func OpenChecked(t testing.TB, o cpu.Options) *cpu.Device {
	t.Helper()
	d := Open(t, o)
	t.Cleanup(func() {
		if bytes, blocks := d.Allocated(); blocks != 0 {
			t.Errorf("%d bytes in %d blocks are left on the device", bytes, blocks)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
