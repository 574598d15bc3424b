package shards

import (
	"bytes"
	"context"
	"fmt"
	"sort"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// gapBytes is the most bytes between entries of a sample that are read together with them.
const gapBytes = 64 << 10

// scratch is the memory of one call of Fetch.
type scratch struct{ buf []byte }

// Fetch reads and decodes one sample. An error of a decoder names the shard, the entry and its offset.
func (d *Dataset) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	return d.fetch(ctx, at, dst)
}

// FetchEncoded is Fetch, except for the fields whose dst is nil: the contents of the entry of field k
// are appended to encoded[k][:0] and the result is stored in encoded[k].
func (d *Dataset) FetchEncoded(ctx context.Context, at dataloader.At, dst, encoded [][]byte) error {
	if len(dst) != len(d.fields) || len(encoded) != len(d.fields) {
		return fmt.Errorf("shards: %d and %d fields, the dataset has %d: %w", len(dst), len(encoded), len(d.fields), dataloader.ErrOption)
	}
	both := append(append(make([][]byte, 0, 2*len(dst)), dst...), encoded...)
	if err := d.fetch(ctx, at, both); err != nil {
		return err
	}
	copy(encoded, both[len(dst):])
	return nil
}

// fetch writes a sample to dst, which has a place for each field, followed by a place for its encoded
// bytes, or not.
func (d *Dataset) fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= d.Len() {
		return fmt.Errorf("shards: sample %d of %d: %w", at.Index, d.Len(), dataloader.ErrOption)
	}
	if d.blocks != nil {
		return d.blocks.Fetch(ctx, at, dst)
	}
	i := sort.SearchInts(d.starts, at.Index+1) - 1
	return d.fetchPlain(ctx, i, at.Index-d.starts[i], at, dst)
}

// fetchPlain reads a sample of a shard that is not compressed.
func (d *Dataset) fetchPlain(ctx context.Context, i, row int, at dataloader.At, dst [][]byte) error {
	f, err := d.files.acquire(ctx, i)
	if err != nil {
		return err
	}
	defer d.files.release(i)
	s := d.scratches.Get().(*scratch)
	defer d.scratches.Put(s) // a decoder does not keep it
	entries := d.entries(i, row)
	from, to, sum := entries[0].off, int64(0), int64(0)
	for _, e := range entries {
		from, to, sum = min(from, e.off), max(to, e.off+int64(e.size)), sum+int64(e.size)
	}
	if to-from <= sum+gapBytes { // one read for all
		if err := s.read(ctx, f, from, to-from); err != nil {
			return err
		}
		for k, e := range entries {
			if err := d.put(k, s.buf[e.off-from:][:e.size], at, dst); err != nil {
				return d.name(ctx, f, i, k, e, err)
			}
		}
		return nil
	}
	for k, e := range entries {
		if err := s.read(ctx, f, e.off, int64(e.size)); err != nil {
			return err
		}
		if err := d.put(k, s.buf, at, dst); err != nil {
			return d.name(ctx, f, i, k, e, err)
		}
	}
	return nil
}

// read reads n bytes into buf.
func (s *scratch) read(ctx context.Context, f storage.File, off, n int64) error {
	if int64(cap(s.buf)) < n {
		s.buf = make([]byte, n)
	}
	s.buf = s.buf[:n]
	return storage.ReadAt(ctx, f, s.buf, off)
}

// entries returns the entries of a sample.
func (d *Dataset) entries(i, row int) []entry {
	n := len(d.fields)
	return d.shards[i].entries[row*n:][:n]
}

// put decodes an entry, or copies it to where encoded bytes are wanted.
func (d *Dataset) put(k int, encoded []byte, at dataloader.At, dst [][]byte) error {
	if n := len(d.fields); len(dst) == 2*n && dst[k] == nil {
		dst[n+k] = append(dst[n+k][:0], encoded...)
		return nil
	}
	return d.opt.Fields[k].Decoder.Decode(at, encoded, dst[k])
}

// name adds the shard and the entry to an error of a decoder. The name of the entry is the one in the
// block before its contents, which of long names has a part.
func (d *Dataset) name(ctx context.Context, f storage.File, i, k int, e entry, err error) error {
	var header [blockBytes]byte
	if storage.ReadAt(ctx, f, header[:], e.off-blockBytes) != nil {
		clear(header[:])
	}
	return d.entryError(i, k, e, header[:], err)
}

// entryError is the error of a decoder.
func (d *Dataset) entryError(i, k int, e entry, header []byte, err error) error {
	name := ""
	if len(header) == blockBytes && bytes.HasPrefix(header[257:], []byte("ustar")) {
		name = text(header[:100])
		if prefix := text(header[345:500]); prefix != "" && header[262] == 0 {
			name = prefix + "/" + name
		}
	}
	return fmt.Errorf("%s: field %q: entry %q, %d bytes at byte %d: %w", d.files.names[i], d.fields[k].Name, name, e.size, e.off, err)
}

// text returns the text in front of the first zero.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}
