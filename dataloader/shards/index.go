package shards

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io/fs"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/codec"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/internal/atomicfile"
)

// A saved index:
//
//	offset 0   8 bytes  "EVKTARI1"
//	       8   uint32   CRC-32C of what follows, little-endian
//	      12   uint64   hash of the extensions and options that decide which entries are samples
//	      20            the shards, in variable-length integers of encoding/binary
const (
	indexMagic = "EVKTARI1"
	indexHead  = 20
	mostIndex  = 1 << 32 // bytes
)

// scope returns the hash of what decides which entries of an archive are samples.
func scope(opt Options, extensions [][]string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %v", extensions, opt.Unfinished)
	return h.Sum64()
}

// saveIndex writes the index of all shards.
func saveIndex(opt Options, extensions [][]string, names []string, shards []*shard) error {
	b := append([]byte(indexMagic), 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, scope(opt, extensions))
	b = binary.AppendUvarint(b, uint64(len(shards)))
	for i, s := range shards {
		b = appendText(b, names[i])
		b = binary.AppendUvarint(b, uint64(s.stamp.size))
		b = binary.AppendVarint(b, s.stamp.time)
		b = appendText(b, s.stamp.version)
		b = binary.AppendUvarint(b, uint64(s.stamp.head))
		b = append(b, byte(s.kind))
		b = binary.AppendUvarint(b, uint64(s.ignored))
		b = binary.AppendUvarint(b, uint64(len(s.parts)))
		for _, p := range s.parts {
			for _, n := range []int64{p.off, p.n, p.start} {
				b = binary.AppendUvarint(b, uint64(n))
			}
		}
		b = binary.AppendUvarint(b, uint64(s.samples))
		last := int64(0)
		for _, e := range s.entries {
			b = binary.AppendVarint(b, e.off-last)
			b = binary.AppendUvarint(b, uint64(e.size))
			b = append(b, e.alt)
			last = e.off
		}
	}
	binary.LittleEndian.PutUint32(b[len(indexMagic):], crc32.Checksum(b[len(indexMagic)+4:], castagnoli))
	return atomicfile.WriteFile(nil, opt.Index, b)
}

// appendText appends a text with its length.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// loadIndex returns the shards of Options.Index by name: none if there is no such file, or if it is
// of other extensions.
func loadIndex(opt Options, extensions [][]string) (shards map[string]*shard, err error) {
	if opt.Index == "" {
		return nil, nil
	}
	f, err := storage.OpenFile(opt.Index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &indexReader{name: opt.Index, opt: opt, fields: len(extensions)}
	if f.Size() < indexHead || f.Size() > mostIndex {
		return nil, r.bad("bytes of the file", fmt.Sprintf("%d to %d", indexHead, int64(mostIndex)), f.Size())
	}
	r.b = make([]byte, f.Size())
	if err := storage.ReadAt(context.Background(), f, r.b, 0); err != nil {
		return nil, err
	}
	return r.read(scope(opt, extensions))
}

// indexReader reads a saved index.
type indexReader struct {
	name   string
	opt    Options
	fields int
	b      []byte
	at     int
	err    error // the first
}

// bad returns an error of the format, and says what to do.
func (r *indexReader) bad(what, want string, got any) error {
	return &dataloader.FormatError{File: r.name, Offset: int64(r.at), What: what, Want: want,
		Got: fmt.Sprintf("%v: remove the index, and it is made anew", got)}
}

// fail keeps the first error.
func (r *indexReader) fail(what, want string, got any) {
	if r.err == nil {
		r.err = r.bad(what, want, got)
	}
}

// read reads the file.
func (r *indexReader) read(scope uint64) (map[string]*shard, error) {
	if string(r.b[:len(indexMagic)]) != indexMagic {
		return nil, r.bad("magic", fmt.Sprintf("%q: an index of shards", indexMagic), fmt.Sprintf("%q", r.b[:len(indexMagic)]))
	}
	r.at = len(indexMagic)
	if want, got := binary.LittleEndian.Uint32(r.b[r.at:]), crc32.Checksum(r.b[r.at+4:], castagnoli); want != got {
		return nil, r.bad("checksum", fmt.Sprintf("%08x", got), fmt.Sprintf("%08x", want))
	}
	r.at = indexHead
	if binary.LittleEndian.Uint64(r.b[indexHead-8:]) != scope {
		return nil, nil
	}
	shards := map[string]*shard{}
	n := r.number("shards", mostShards)
	for range n {
		name := r.text("name")
		if _, ok := shards[name]; ok {
			r.fail("name of a shard", "one shard of each name", fmt.Sprintf("two of %q", name))
		}
		if shards[name] = r.shard(); r.err != nil {
			return nil, r.err
		}
	}
	if r.at != len(r.b) {
		r.fail("end", "nothing after the shards", fmt.Sprintf("%d bytes", len(r.b)-r.at))
	}
	return shards, r.err
}

// shard reads one shard.
func (r *indexReader) shard() *shard {
	s := new(shard)
	s.stamp.size = r.number("size", math.MaxInt64>>2)
	s.stamp.time = r.signed("time")
	s.stamp.version = r.text("version")
	s.stamp.head = uint32(r.number("checksum of the first bytes", math.MaxUint32))
	s.kind = codec.Kind(r.number("compression", int64(codec.Kinds)-1))
	s.ignored = int(r.number("ignored entries", math.MaxInt32))
	n := r.number("parts", int64(len(r.b)-r.at)/3)
	if (n > 0) != (s.kind != codec.Plain) {
		r.fail("parts", "parts of compressed shards only, at least one", n)
	}
	if r.err != nil {
		return s
	}
	s.parts = make([]part, n)
	least := part{}
	for i := range s.parts {
		p := part{off: r.number("part", s.stamp.size), n: r.number("part", s.stamp.size), start: r.number("part", math.MaxInt64>>2)}
		if p.off < least.off || p.n > s.stamp.size-p.off || p.start < least.start || i == 0 && p.start != 0 {
			r.fail("part", fmt.Sprintf("one after another in %d bytes", s.stamp.size), p)
		}
		s.parts[i], least = p, part{off: p.off + p.n, start: p.start}
	}
	s.samples = int(r.number("samples", min(mostSamples, int64(len(r.b)-r.at)/int64(3*r.fields))))
	if r.err != nil {
		return s
	}
	s.entries = make([]entry, s.samples*r.fields)
	end := int64(math.MaxInt64 >> 2)
	if s.kind == codec.Plain {
		end = s.stamp.size
	}
	off := int64(0)
	for i := range s.entries {
		d := r.signed("offset of an entry")
		if d > end || d < -end {
			r.fail("offset of an entry", fmt.Sprintf("one within %d bytes", end), d)
			return s
		}
		off += d
		size := r.number("bytes of an entry", r.opt.MaxValue)
		alt := r.number("alternative", math.MaxUint8)
		if off < blockBytes || off > end-size {
			r.fail("entry", fmt.Sprintf("one within %d bytes", end), fmt.Sprintf("%d bytes at %d", size, off))
		}
		s.entries[i] = entry{off: off, size: uint32(size), alt: uint8(alt)}
	}
	return s
}

// number reads an integer from 0 to most.
func (r *indexReader) number(what string, most int64) int64 {
	n, k := binary.Uvarint(r.b[r.at:])
	if k <= 0 || n > uint64(max(0, most)) {
		r.fail(what, fmt.Sprintf("0 to %d", most), n)
		return 0
	}
	r.at += k
	return int64(n)
}

// signed reads an integer.
func (r *indexReader) signed(what string) int64 {
	n, k := binary.Varint(r.b[r.at:])
	if k <= 0 {
		r.fail(what, "an integer", "none")
		return 0
	}
	r.at += k
	return n
}

// text reads a text.
func (r *indexReader) text(what string) string {
	n := r.number("length of "+what, int64(len(r.b)-r.at))
	if r.err != nil || n > int64(len(r.b)-r.at) {
		r.fail(what, fmt.Sprintf("%d bytes", n), "less")
		return ""
	}
	s := string(r.b[r.at:][:n])
	r.at += int(n)
	return s
}
