// Package asmtest helps tests of assembly packages: random numbers with a printed seed, the
// processor's levels, and memory between pages that fault.
package asmtest

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Rand returns random numbers and their seed, which a failing test prints.
func Rand(t testing.TB) (*rand.Rand, uint64) {
	t.Helper()
	return seed.Rand(t, 0), seed.Value()
}

// Levels lists the levels of this build and processor, from Portable up.
func Levels() []asm.Level {
	var all []asm.Level
	for l := asm.Portable; l <= asm.Best(); l++ {
		all = append(all, l)
	}
	return all
}

// Offsets returns the byte offset of each field of struct T by name, fields of embedded structs
// included.
func Offsets[T any]() map[string]uintptr {
	fields := map[string]uintptr{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		fields[f.Name] = f.Offset
	}
	return fields
}
