//go:build !race

package cputest

// Race is whether the race detector is on. It keeps memory of its own beside that of the program,
// and makes heap objects.
const Race = false
