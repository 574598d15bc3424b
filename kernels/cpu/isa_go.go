//go:build !amd64 || purego

package cpu

// isas lists the kernels that this processor can run, fastest first.
func isas() []*isa { return portable }

// pause lets the sibling hardware thread run while a goroutine spins. Without assembly it does nothing.
func pause() {}
