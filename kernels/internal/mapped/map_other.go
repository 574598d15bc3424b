//go:build !linux

package mapped

import "runtime/debug"

// hugeBytes is no size of pages here: the system decides.
const hugeBytes = 0

// returnSize is the least bytes of a block that is returned to the system as soon as it is freed.
const returnSize = 1 << 20

// allocate makes n bytes of Go memory.
func allocate(n int64) (*Block, error) {
	b := make([]byte, n+Align-1)
	skip := misalignment(b, Align)
	return &Block{bytes: b[skip : skip+n : skip+n]}, nil
}

// Free drops the block. The garbage collector, which Free runs for a large block, returns it to the
// system unless somebody holds a slice of it. A second call does nothing.
func (b *Block) Free() error {
	n := len(b.bytes)
	b.bytes = nil
	if n >= returnSize {
		debug.FreeOSMemory()
	}
	return nil
}

// Discard does nothing here: the collector frees the pages after Free.
func (b *Block) Discard() {}
