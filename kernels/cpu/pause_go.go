package cpu

// pause lets the sibling hardware thread run while a goroutine spins. Without assembly it does nothing.
func pause() {}
