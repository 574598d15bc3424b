// Package mapped allocates blocks of host memory outside the Go heap. A [Block] goes back to the
// system at its Free, whoever still holds a slice of it, and not when the garbage collector finds
// that nobody does.
//
// On Linux a block is an anonymous mapping. Elsewhere it is Go memory, which the collector frees.
package mapped

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
)

// Align is the alignment of every block in bytes: a page, so that blocks share none.
const Align = 4096

// Block is a block of memory. Its methods are for one goroutine at a time.
type Block struct {
	bytes   []byte
	mapping []byte // what the system has mapped; nil: bytes are Go memory, or freed
}

// New returns a zeroed block of n bytes that starts at a multiple of Align. Its pages exist from the
// start: none is made at the first access. The error wraps arena.ErrInvalid for a negative or
// impossible size, and arena.ErrCapacity if the system refuses.
func New(n int64) (*Block, error) {
	if n < 0 || n > math.MaxInt-hugeBytes {
		return nil, fmt.Errorf("a block of %d bytes: %w", n, arena.ErrInvalid)
	}
	b, err := allocate(n)
	if err != nil {
		return nil, fmt.Errorf("a block of %d bytes: %w: %w", n, arena.ErrCapacity, err)
	}
	for i := int64(0); i < n; i += Align {
		b.bytes[i] = 0
	}
	return b, nil
}

// Bytes returns the block, or nil after Free. A slice of it must not be used after Free: on Linux
// that ends the process.
func (b *Block) Bytes() []byte { return b.bytes }
