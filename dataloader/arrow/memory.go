package arrow

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// errLimit: a batch needs more memory than Options.Limit.
var errLimit = errors.New("more bytes than Options.Limit when decompressed: raise it, write smaller record batches, or pack the data")

// pool is the memory of one decoded record batch. It keeps what is freed, for the next batch. It
// panics with errLimit, which the library recovers from.
type pool struct {
	limit, used int
	free        [][]byte
	exceeded    bool
}

// maxFree is the number of buffers that a pool keeps.
const maxFree = 256

var _ memory.Allocator = (*pool)(nil)

// Allocate implements memory.Allocator.
func (p *pool) Allocate(size int) []byte {
	if size < 0 || size > p.limit-p.used {
		p.exceeded = true
		panic(errLimit)
	}
	p.used += size
	best := -1
	for i, b := range p.free {
		if cap(b) >= size && (best < 0 || cap(b) < cap(p.free[best])) {
			best = i
		}
	}
	if best < 0 || cap(p.free[best]) > 4*size+1024 {
		return make([]byte, size)
	}
	b := p.free[best][:size]
	p.free[best] = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	clear(b)
	return b
}

// Reallocate implements memory.Allocator.
func (p *pool) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) && size >= 0 {
		p.used += size - len(b)
		return b[:size]
	}
	grown := p.Allocate(size)
	copy(grown, b)
	p.Free(b)
	return grown
}

// Free implements memory.Allocator.
func (p *pool) Free(b []byte) {
	p.used -= len(b)
	if len(p.free) < maxFree && cap(b) > 0 {
		p.free = append(p.free, b)
	}
}
