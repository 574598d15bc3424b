// Package cputest opens the host for tests, at the instructions that the environment asks for, and says whether the race detector is on.
//
//	EVENKEEL_INSTRUCTIONS=portable go test ./...
package cputest

import (
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// Variable is the environment variable that names the instructions: portable, avx2, avx512, or nothing for the best.
const Variable = "EVENKEEL_INSTRUCTIONS"

// Open opens the host at the instructions that the environment asks for, unless the options name some.
func Open(t testing.TB, o cpu.Options) *cpu.Device {
	t.Helper()
	if o.Instructions == cpu.Best {
		o.Instructions = Instructions(t)
	}
	return cpu.OpenWith(o)
}

// Instructions returns what the environment asks for. It skips the test where the processor does not have them.
func Instructions(t testing.TB) cpu.Instructions {
	t.Helper()
	var i cpu.Instructions
	if err := i.UnmarshalText([]byte(os.Getenv(Variable))); err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	d := cpu.OpenWith(cpu.Options{Threads: 1, Instructions: i})
	defer d.Close()
	if _, err := d.Instructions(); err != nil {
		t.Skipf("%s: %v", Variable, err)
	}
	return i
}
