//go:build !amd64 || purego

package asm

// Best returns the highest level of this build: Portable.
func Best() Level { return Portable }

// HasBFloat16Dot reports whether this processor multiplies pairs of bfloat16: not in this build.
func HasBFloat16Dot() bool { return false }

// Pause lets the sibling hardware thread run while a goroutine spins. In this build it does nothing.
func Pause() {}
