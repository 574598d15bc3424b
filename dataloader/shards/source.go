package shards

import (
	"context"
	"io"
	"math"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/codec"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// leastBlock is the number of bytes from which on a block ends at the next part.
const leastBlock = 8 << 20

// source is the blocks of a set of shards of which some are compressed. A block of a plain shard is
// the whole shard, which is read without being loaded.
type source struct {
	d             *Dataset
	blocks        []span
	decompressors [codec.Kinds]sync.Pool // of *codec.Reader
}

// span is a block: samples of a shard, whose contents begin in its parts.
type span struct {
	shard    int
	row, n   int   // samples of the shard
	part     int   // first part, of a compressed shard
	from, to int64 // in the decompressed archive; 0 for plain shards
}

// newSource divides the shards into blocks. A block beyond Options.MaxBlock is an error.
func newSource(d *Dataset) (*source, error) {
	s := &source{d: d}
	for i, shard := range d.shards {
		if shard.kind == codec.Plain {
			s.blocks = append(s.blocks, span{shard: i, n: shard.samples})
			continue
		}
		row := 0
		for p := 0; p < len(shard.parts) && row < shard.samples; {
			b := span{shard: i, row: row, part: p, from: shard.parts[p].start}
			end := int64(math.MaxInt64)
			for p++; p < len(shard.parts); p++ {
				if end = shard.parts[p].start; end-b.from >= leastBlock {
					break
				}
			}
			if p == len(shard.parts) {
				end = math.MaxInt64
			}
			for ; row < shard.samples && firstByte(d.entries(i, row)) < end; row++ {
				b.n++
				for _, e := range d.entries(i, row) {
					b.to = max(b.to, e.off+int64(e.size))
				}
			}
			if b.n == 0 {
				continue
			}
			if b.to-b.from > d.opt.MaxBlock {
				return nil, tooLarge(d.files.names[i], shard.parts[b.part].off, d.opt.MaxBlock)
			}
			s.blocks = append(s.blocks, b)
		}
	}
	return s, nil
}

// firstByte returns the offset of the first entry of a sample.
func firstByte(entries []entry) int64 {
	at := entries[0].off
	for _, e := range entries {
		at = min(at, e.off)
	}
	return at
}

// Fields implements dataloader.BlockSource.
func (s *source) Fields() []dataloader.Field { return s.d.fields }

// Sizes implements dataloader.BlockSource.
func (s *source) Sizes() []int {
	var n []int
	for _, b := range s.blocks {
		n = append(n, b.n)
	}
	return n
}

// Fingerprint implements dataloader.Fingerprinter.
func (s *source) Fingerprint() uint64 { return s.d.Fingerprint() }

// block is a decompressed block, or samples of a plain shard.
type block struct {
	s    *source
	span span
	data []byte // from span.from on
}

// Load implements dataloader.BlockSource.
func (s *source) Load(ctx context.Context, i int, old dataloader.Block) (dataloader.Block, error) {
	b, _ := old.(*block)
	if b == nil {
		b = new(block)
	}
	b.s, b.span = s, s.blocks[i]
	if s.d.shards[b.span.shard].kind == codec.Plain {
		return b, nil
	}
	n := int(b.span.to - b.span.from)
	if cap(b.data) < n {
		b.data = nil // before the new one
		b.data = make([]byte, n)
	}
	b.data = b.data[:n]
	if err := s.decompress(ctx, b.span, b.data); err != nil {
		return nil, err
	}
	return b, nil
}

// decompress fills data with the contents from the first part of a block on.
func (s *source) decompress(ctx context.Context, b span, data []byte) error {
	f, err := s.d.files.acquire(ctx, b.shard)
	if err != nil {
		return err
	}
	defer s.d.files.release(b.shard)
	shard := s.d.shards[b.shard]
	d, _ := s.decompressors[shard.kind].Get().(*codec.Reader)
	if d == nil {
		d = &codec.Reader{Kind: shard.kind}
	}
	defer s.decompressors[shard.kind].Put(d)
	for p := b.part; len(data) > 0 && p < len(shard.parts); p++ {
		part := shard.parts[p]
		if err := d.Open(ctx, f, part.off, part.n); err != nil {
			return badPart(f, d.Kind, part.off, err)
		}
		n, err := fill(ctx, d, data)
		data = data[n:]
		if err == io.EOF && len(data) > 0 && p+1 < len(shard.parts) {
			continue
		}
		if err == nil { // if the end is near, its checksum is compared
			if _, err = io.CopyN(io.Discard, d, tailBytes); err == io.EOF {
				err = nil
			}
		}
		if err != nil {
			return badPart(f, d.Kind, part.off, err)
		}
	}
	return nil
}

// tailBytes is the most bytes that are decompressed after the last one that is needed.
const tailBytes = 64 << 10

// fill reads until p is full, and looks at ctx now and then.
func fill(ctx context.Context, r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if err := ctx.Err(); err != nil {
			return n, &storage.ReadError{Want: int64(len(p) - n), Err: err}
		}
		var m int
		m, err = io.ReadFull(r, p[n:min(n+256<<10, len(p))])
		n += m
	}
	if n == len(p) {
		return n, nil
	}
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}

// Fetch implements dataloader.Block.
func (b *block) Fetch(ctx context.Context, row int, at dataloader.At, dst [][]byte) error {
	d := b.s.d
	if d.shards[b.span.shard].kind == codec.Plain {
		return d.fetchPlain(ctx, b.span.shard, row, at, dst)
	}
	for k, e := range d.entries(b.span.shard, b.span.row+row) {
		off := e.off - b.span.from
		if err := d.put(k, b.data[off:][:e.size], at, dst); err != nil {
			var header []byte
			if off >= blockBytes {
				header = b.data[off-blockBytes : off]
			}
			return d.entryError(b.span.shard, k, e, header, err)
		}
	}
	return nil
}
