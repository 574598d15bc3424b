package safetensors

import (
	"context"
	"fmt"
	"hash/crc32"
)

// ChecksumKey is the name of the checksum in the metadata of a file. Its value is 16 hexadecimal
// digits: the CRC-32C and then the CRC-32 (IEEE) of the whole file, header and data, in which the
// 16 digits are 0. Together they are a 64-bit CRC whose polynomial is the product of the two: any
// damage within 64 successive bits is found for certain, and other damage but for one case in 2^64.
const ChecksumKey = "evenkeel.checksum"

const (
	digitCount = 16
	noDigits   = "0000000000000000" // stands for the digits when the checksum is computed
)

// checksum is the checksum that a file has.
type checksum struct {
	at     int64  // offset of the digits in the file; 0: none
	digits string // "" if they are not 16 hexadecimal digits
}

// parse sets the digits from the metadata. text is the header.
func (c *checksum) parse(metadata map[string]string, text []byte) {
	digits, ok := metadata[ChecksumKey]
	if !ok {
		c.at = 0
		return
	}
	delete(metadata, ChecksumKey)
	from := c.at - lengthBytes
	if from+digitCount <= int64(len(text)) && string(text[from:from+digitCount]) == digits {
		c.digits = digits
	}
}

// sums computes the checksum of what is written to it in order.
type sums struct{ c, ieee uint32 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add adds the next bytes. Both sums are taken of pieces that stay in the processor's cache.
func (s *sums) add(p []byte) {
	const piece = 32 << 10
	for len(p) > 0 {
		n := min(len(p), piece)
		s.c = crc32.Update(s.c, castagnoli, p[:n])
		s.ieee = crc32.Update(s.ieee, crc32.IEEETable, p[:n])
		p = p[n:]
	}
}

// digits returns the checksum as text.
func (s *sums) digits() string { return fmt.Sprintf("%08x%08x", s.c, s.ieee) }

// Checksum returns the digits of the checksum in the file, without comparing them; "" if it has
// none or they are damaged. Of shards it is that of the index.
func (f *File) Checksum() string {
	if f.index != nil {
		return f.index.checksum.digits
	}
	return f.parts[0].checksum.digits
}

// Verify reads the whole file, and all shards, and compares the checksums. A file that differs is a
// *FormatError that wraps ErrChecksum. A file without a checksum is ErrNoChecksum: it may be one of
// another program, or its metadata are damaged. Verify takes a buffer of 1 MiB. Cancelling ctx ends
// it.
func (f *File) Verify(ctx context.Context) error {
	if err := f.usable(); err != nil {
		return err
	}
	if f.index != nil {
		if err := f.index.verify(f.parts); err != nil {
			return err
		}
	}
	buffer := make([]byte, 1<<20)
	for _, p := range f.parts {
		if err := p.verify(ctx, buffer); err != nil {
			return err
		}
	}
	return nil
}

// verify compares the checksum of one file.
func (p *part) verify(ctx context.Context, buffer []byte) error {
	if p.checksum.at == 0 {
		return fmt.Errorf("%s: %w", p.name(), ErrNoChecksum)
	}
	var s sums
	for at := int64(0); at < p.size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buffer[:min(int64(len(buffer)), p.size-at)]
		if err := readAt(p.r, b, at, p.path); err != nil {
			return err
		}
		// The part of the digits in b, if any, counts as zeros.
		from, to := max(p.checksum.at-at, 0), min(p.checksum.at+digitCount-at, int64(len(b)))
		for i := from; i < to; i++ {
			b[i] = '0'
		}
		s.add(b)
		at += int64(len(b))
	}
	if got := s.digits(); got != p.checksum.digits {
		return &FormatError{File: p.path, Offset: p.checksum.at,
			Reason: fmt.Sprintf("the file says %q, its bytes have %s", p.checksum.digits, got), Err: ErrChecksum}
	}
	return nil
}
