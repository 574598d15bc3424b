package mapped

import "golang.org/x/sys/unix"

// hugeBytes is the size of a huge page. A processor that finds addresses in huge pages looks up
// fewer of them.
const hugeBytes = 2 << 20

// allocate maps n bytes. Their start is a multiple of hugeBytes if they hold a huge page.
func allocate(n int64) (*Block, error) {
	size, skip := max(n, 1), int64(0)
	if n >= hugeBytes {
		size += hugeBytes // only touched pages use memory
	}
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	if n >= hugeBytes {
		skip = misalignment(m, hugeBytes)
		// Advice: without huge pages the block works, too.
		_ = unix.Madvise(m[skip:skip+n-n%hugeBytes], unix.MADV_HUGEPAGE)
	}
	return &Block{bytes: m[skip : skip+n : skip+n], mapping: m}, nil
}

// Free gives the block back to the system. A second call does nothing.
func (b *Block) Free() error {
	m := b.mapping
	b.bytes, b.mapping = nil, nil
	if m == nil {
		return nil
	}
	return unix.Munmap(m)
}

// Discard gives the pages of the block back to the system and keeps their addresses: whoever reads
// them gets 0, and whoever writes them gets a new page. Free still has to be called. It may be
// called while others use the bytes.
func (b *Block) Discard() {
	if b.mapping != nil {
		_ = unix.Madvise(b.mapping, unix.MADV_DONTNEED) // can only fail for bad addresses
	}
}
