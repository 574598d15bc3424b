package shards

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/codec"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

const (
	blockBytes  = 512      // of tar
	mostSamples = 1 << 22  // of a shard
	mostZeros   = 16 << 20 // bytes between joined archives and at the end
)

// entry is the contents of one field of a sample, in the (decompressed) archive.
type entry struct {
	off  int64
	size uint32
	alt  uint8 // index of its extension among those of the field
}

// entryBytes is the size of an entry in memory.
const entryBytes = 16

// shard is the index of one archive.
type shard struct {
	stamp   stamp
	kind    codec.Kind
	parts   []part // empty for plain archives
	samples int
	entries []entry // [samples, fields]
	ignored int     // entries of the archive
}

// contents is the (decompressed) archive that is scanned.
type contents interface {
	io.Reader
	position() int64
	unread(b []byte)
}

// scanner builds the index of one shard.
type scanner struct {
	name       string
	extensions [][]string // by field
	most       int64      // bytes of an entry of a field
	unfinished bool

	shard  *shard
	seed   maphash.Seed
	keys   map[uint64]struct{} // of the samples before this one
	key    string
	at     int64    // of the first entry of this sample
	has    []string // extensions of this sample
	sample []entry  // by field; off 0: not found yet
}

// scan reads the index of f.
func scan(ctx context.Context, f storage.File, extensions [][]string, opt Options) (*shard, error) {
	kind, err := sniff(ctx, f)
	if err != nil {
		return nil, err
	}
	s := &scanner{name: f.Name(), extensions: extensions, most: opt.MaxValue, unfinished: opt.Unfinished,
		shard: &shard{kind: kind}, seed: maphash.MakeSeed(), keys: map[uint64]struct{}{}, sample: make([]entry, len(extensions))}
	if kind == codec.Plain {
		if err := s.archives(&window{ctx: ctx, f: f}); err != nil {
			return nil, err
		}
	} else {
		in := &stream{ctx: ctx, f: f, d: codec.Reader{Kind: kind}, frames: window{ctx: ctx, f: f}, most: opt.MaxBlock}
		defer in.d.Close()
		if err := s.archives(in); err != nil {
			return nil, err
		}
		s.shard.parts = slices.Clip(in.parts)
	}
	s.shard.entries = slices.Clip(s.shard.entries)
	return s.shard, nil
}

// bad returns an error of the format.
func (s *scanner) bad(at int64, what, want, got string, err error) error {
	return &dataloader.FormatError{File: s.name, Offset: at, What: what, Want: want, Got: got, Err: err}
}

// archives reads one archive after another.
func (s *scanner) archives(in contents) error {
	for {
		end, err := s.archive(in)
		if err != nil {
			return err
		}
		if in.position() <= end { // nothing after the last entry
			if !s.unfinished {
				return s.bad(end, "end of the archive", "two blocks of zeros",
					"the end of the file: it was cut, or its writer did not close it; Options.Unfinished accepts it", io.ErrUnexpectedEOF)
			}
			break
		}
		more, err := s.skipZeros(in)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return s.endSample()
}

// archive reads entries up to the end of an archive. It returns the offset after the last entry.
func (s *scanner) archive(in contents) (end int64, err error) {
	r := tar.NewReader(in)
	end = in.position()
	last, begin := "", end // the entry before
	for {
		h, err := r.Next()
		if err == io.EOF {
			return end, nil
		}
		if err != nil && in.position() < end {
			return 0, s.header(begin, fmt.Sprintf("entry %q", last), err)
		}
		if err != nil {
			return 0, s.header(end, "header of an entry", err)
		}
		at := in.position()
		if err := s.entry(h, end, at); err != nil {
			return 0, err
		}
		if h.Size > 1<<62 {
			return 0, s.bad(end, fmt.Sprintf("entry %q", h.Name), "a size that fits the file", fmt.Sprint(h.Size), nil)
		}
		last, begin = h.Name, end
		end = at + (h.Size+blockBytes-1)&^(blockBytes-1)
	}
}

// header returns the error of reading a header or the end of an entry.
func (s *scanner) header(at int64, what string, err error) error {
	var read *storage.ReadError
	var format *dataloader.FormatError
	switch {
	case errors.As(err, &read), errors.As(err, &format):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return s.bad(at, what, "all its bytes", "the end of the file: it was cut", io.ErrUnexpectedEOF)
	}
	return s.bad(at, what, "a header of tar with a right checksum", "other bytes", err)
}

// skipZeros reads zeros up to the next archive or the end.
func (s *scanner) skipZeros(in contents) (more bool, err error) {
	var block [blockBytes]byte
	for range mostZeros / blockBytes {
		at := in.position()
		n, err := io.ReadFull(in, block[:])
		for i, c := range block[:n] {
			if c != 0 && n < blockBytes {
				return false, s.bad(at+int64(i), "end of the archive", "zeros, or another archive", "other bytes", nil)
			}
			if c != 0 {
				in.unread(block[:])
				return true, nil
			}
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			return false, nil
		case err != nil:
			return false, err
		}
	}
	return false, s.bad(in.position(), "end of the archive", fmt.Sprintf("at most %d zeros", mostZeros), "more", nil)
}

// entry adds an entry whose header is at an offset, and its contents at another.
func (s *scanner) entry(h *tar.Header, header, at int64) error {
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeXGlobalHeader:
		s.shard.ignored++
		return nil
	}
	if escapes(h.Name) {
		return s.bad(header, "name of an entry", `a name without ".."`, fmt.Sprintf("%q", h.Name), nil)
	}
	key, ext, ok := split(h.Name)
	if !ok {
		s.shard.ignored++
		return nil
	}
	if h.Typeflag != tar.TypeReg || isSparse(h) {
		return s.bad(header, fmt.Sprintf("entry %q", h.Name), "a regular file: write the archive with the contents of links (tar --dereference --hard-dereference)",
			fmt.Sprintf("type %q", h.Typeflag), nil)
	}
	if key != s.key {
		if err := s.endSample(); err != nil {
			return err
		}
		if err := s.beginSample(key, header); err != nil {
			return err
		}
	}
	if slices.Contains(s.has, ext) {
		return s.bad(header, fmt.Sprintf("entry %q", h.Name), "one entry for each extension of a sample", "two", nil)
	}
	s.has = append(s.has, ext)
	used := false
	for k, all := range s.extensions {
		alt := slices.Index(all, ext)
		if alt < 0 {
			continue
		}
		used = true
		if h.Size > s.most {
			return s.bad(header, fmt.Sprintf("entry %q", h.Name), fmt.Sprintf("at most %d bytes, or a larger Options.MaxValue", s.most), fmt.Sprint(h.Size), nil)
		}
		if s.sample[k].off == 0 || alt < int(s.sample[k].alt) {
			s.sample[k] = entry{off: at, size: uint32(h.Size), alt: uint8(alt)}
		}
	}
	if !used {
		s.shard.ignored++
	}
	return nil
}

// isSparse reports whether an entry has holes that are not stored.
func isSparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// beginSample begins a sample with a key that was not there before.
func (s *scanner) beginSample(key string, at int64) error {
	hash := maphash.String(s.seed, key)
	if _, ok := s.keys[hash]; ok {
		return s.bad(at, fmt.Sprintf("key %q", key), "the entries of a sample one after another: sort the names when writing", "an entry after those of another sample", nil)
	}
	if len(s.keys) == mostSamples {
		return s.bad(at, "samples", fmt.Sprintf("at most %d in a shard", mostSamples), "more", nil)
	}
	s.keys[hash] = struct{}{}
	s.key, s.at = key, at
	return nil
}

// endSample checks that the sample is complete and adds it.
func (s *scanner) endSample() error {
	if len(s.has) == 0 {
		return nil
	}
	var missing []string
	for k, e := range s.sample {
		if e.off == 0 {
			missing = append(missing, strings.Join(s.extensions[k], " or "))
		}
	}
	if len(missing) > 0 {
		return s.bad(s.at, fmt.Sprintf("sample %q", s.key), "an entry ."+strings.Join(missing, " and one ."), fmt.Sprintf("only %q", s.has), nil)
	}
	s.shard.entries = append(s.shard.entries, s.sample...)
	s.shard.samples++
	clear(s.sample)
	s.has = s.has[:0]
	return nil
}
