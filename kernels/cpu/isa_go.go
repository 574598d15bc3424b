//go:build !amd64 || purego

package cpu

// bestLevel returns the highest level that this build has.
func bestLevel() level { return levelPortable }

// isasAt returns the kernels of a level, one a type.
func isasAt(level) []*isa { return portable }

// pairs returns the kernels for pairs of bfloat16: none.
func pairs() *isa { return nil }

// pause lets the sibling hardware thread run while a goroutine spins. Without assembly it does nothing.
func pause() {}
