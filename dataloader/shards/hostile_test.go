package shards_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
	"github.com/klauspost/compress/gzip"
)

// try opens an archive and reads all samples.
func try(t testing.TB, file []byte, opt shards.Options) error {
	t.Helper()
	if opt.Fields == nil {
		opt.Fields = two(3)
	}
	d, err := shards.OpenFS(folder(map[string][]byte{"a.tar": file}), "a.tar", opt)
	if err != nil {
		return err
	}
	defer d.Close()
	dst := memory(d)
	for i := range d.Len() {
		if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			return err
		}
	}
	return nil
}

// Files that violate the format or the rules of samples are errors that name file, place and entry.
func TestBadArchivesAreRefused(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := archive(t, samples(0, 3, 3)...)
	edit := func(at int, to byte) []byte {
		b := slices.Clone(good)
		b[at] = to
		return b
	}
	special := func(h tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		file   []byte
		offset int64
		want   string
	}{
		"cut in an entry":        {read("trunc.tar"), 0, `entry "a.bin"`},
		"cut in a header":        {good[:1024+100], 1024, "it was cut"},
		"cut between entries":    {good[:2048], 2048, "it was cut"},
		"cut in the padding":     {good[:1024-10], 1024, "it was cut"},
		"split sample":           {read("split.tar"), 4096, `key "1"`},
		"extension twice":        {read("dup.tar"), 1024, `entry "1.bin"`},
		"extension missing":      {archive(t, item{"d/7.bin", []byte("abc")}, item{"d/8.bin", nil}, item{"d/8.cls", nil}), 0, `sample "d/7" at byte 0: want an entry .cls`},
		"last one incomplete":    {archive(t, append(samples(0, 1, 3), item{"8.cls", nil})...), 2048, `sample "8"`},
		"bad checksum":           {edit(1024+3, 'x'), 1024, "right checksum"},
		"no archive":             {bytes.Repeat([]byte("<html>"), 200), 0, "right checksum"},
		"empty file":             {nil, 0, "it was cut"},
		"name that leads out":    {archive(t, item{"../../etc/x.bin", []byte("abc")}), 0, `"../../etc/x.bin"`},
		"the same, backslashes":  {archive(t, item{`a\..\..\x.bin`, []byte("abc")}), 0, `without ".."`},
		"symbolic link":          {special(tar.Header{Name: "1.bin", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), 0, "--dereference"},
		"hard link":              {special(tar.Header{Name: "1.bin", Typeflag: tar.TypeLink, Linkname: "0.bin"}), 0, "--dereference"},
		"device":                 {special(tar.Header{Name: "1.bin", Typeflag: tar.TypeChar}), 0, "regular file"},
		"other bytes at the end": {append(slices.Clone(good), "more"...), int64(len(good)), "zeros"},
		"a header at the end":    {append(slices.Clone(good), bytes.Repeat([]byte("more"), 128)...), int64(len(good)), "right checksum"},
	} {
		err := try(t, c.file, shards.Options{})
		if e := refused(t, name, err); err != nil && (e.File != "a.tar" || !strings.Contains(err.Error(), c.want) || e.Offset != c.offset) {
			t.Errorf("%s: got %v at %d, want %q at %d", name, err, e.Offset, c.want, c.offset)
		}
	}
	if err := try(t, archive(t, item{"1.bin", []byte("abcd")}, item{"1.cls", []byte("3")}), shards.Options{MaxValue: 3}); !strings.Contains(fmt.Sprint(err), "Options.MaxValue") {
		t.Errorf("a large entry: got %v", err)
	}
}

// Every archive that was cut is an error, with no sample of it: also where only zeros are missing.
func TestEveryCutIsFound(t *testing.T) {
	good := archive(t, samples(0, 3, 600)...)
	for n := range len(good) - 1023 {
		if n%64 != 0 && n%512 > 3 {
			continue
		}
		err := try(t, good[:n], shards.Options{Fields: two(600)})
		if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, dataloader.ErrFormat) {
			t.Fatalf("%d bytes: got %v", n, err)
		}
	}
	whole := len(good) - 1024
	if err := try(t, good[:whole], shards.Options{Fields: two(600), Unfinished: true}); err != nil {
		t.Errorf("unfinished: got %v", err)
	}
	if err := try(t, good[:whole-2048], shards.Options{Fields: two(600), Unfinished: true}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("unfinished and cut: got %v", err)
	}
	for name, c := range map[string][]byte{"gzip": gz(t, good), "zstd": zst(t, good)} {
		for n := 1; n < len(c)-1; n += 1 + n/20 {
			if err := try(t, c[:n], shards.Options{Fields: two(600)}); !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("%s, %d of %d bytes: got %v", name, n, len(c), err)
			}
		}
		if err := try(t, c, shards.Options{Fields: two(600)}); err != nil {
			t.Error(name, err)
		}
	}
}

// A flipped bit in a compressed shard is found by its checksum.
func TestFlippedBitsOfCompressedShardsAreFound(t *testing.T) {
	good := archive(t, samples(0, 3, 600)...)
	r := random(t)
	for name, c := range map[string][]byte{"gzip": gz(t, good), "zstd": zst(t, good)} {
		for range 60 {
			b := slices.Clone(c)
			at := 12 + r.IntN(len(b)-12)
			b[at] ^= 1 << r.IntN(8)
			if err := try(t, b, shards.Options{Fields: two(600)}); !errors.Is(err, dataloader.ErrFormat) {
				t.Errorf("%s, byte %d: got %v", name, at, err)
			}
		}
	}
}

// After gzip data there may be zeros, and nothing else.
func TestOnlyZerosMayFollowGzipData(t *testing.T) {
	b := gz(t, archive(t, samples(0, 3, 3)...))
	if err := try(t, append(slices.Clone(b), make([]byte, 100<<10)...), shards.Options{}); err != nil {
		t.Error(err)
	}
	e := refused(t, "one byte", try(t, append(append(slices.Clone(b), make([]byte, 100<<10)...), 1), shards.Options{}))
	if e.Offset != int64(len(b)+100<<10) {
		t.Errorf("at %d, want %d", e.Offset, len(b)+100<<10)
	}
	refused(t, "text", try(t, append(slices.Clone(b), "text"...), shards.Options{}))
	refused(t, "zeros only", try(t, append([]byte{0x1f, 0x8b}, make([]byte, 1000)...), shards.Options{}))
}

// Data that grow without end when they are decompressed end at the limit of a block.
func TestBombsEndAtTheLimit(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	head := archive(t, samples(0, 2, 3)...)
	if _, err := w.Write(head[:len(head)-1024]); err != nil {
		t.Fatal(err)
	}
	h := tar.NewWriter(w)
	if err := h.WriteHeader(&tar.Header{Name: "000001.txt", Size: 24 << 20, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	for range 24 {
		if _, err := h.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(h.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	grown := testing.AllocsPerRun(1, func() {
		err := try(t, b.Bytes(), shards.Options{MaxBlock: 1 << 20})
		refused(t, "gzip", err)
		if !strings.Contains(fmt.Sprint(err), "MaxBlock") {
			t.Errorf("got %v", err)
		}
	})
	if grown > 2000 {
		t.Errorf("%v allocations", grown)
	}
	zeros := append(archive(t, samples(0, 2, 3)...), make([]byte, 17<<20)...)
	for name, c := range map[string][]byte{"plain": zeros, "gzip": gz(t, zeros), "zstd": zst(t, zeros)} {
		err := try(t, c, shards.Options{MaxBlock: 17<<20 + 1<<16})
		if e := refused(t, name, err); e.Offset > 18<<20 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Archives that were joined are one, in one file or in members of gzip.
func TestJoinedArchivesAreReadToTheEnd(t *testing.T) {
	one, two := archive(t, samples(0, 4, 3)...), archive(t, samples(4, 3, 3)...)
	for name, b := range map[string][]byte{
		"plain":   slices.Concat(one, two),
		"padded":  slices.Concat(one, make([]byte, 10240), two, make([]byte, 700)),
		"gzip":    gz(t, slices.Concat(one, two)),
		"members": slices.Concat(gz(t, one), gz(t, two)),
		"frames":  slices.Concat(zst(t, one), zst(t, two)),
		"skipped": slices.Concat([]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}, zst(t, one), zst(t, two)),
	} {
		d := open(t, folder(map[string][]byte{"a.tar": b}), "a.tar", shards.Options{Fields: []shards.Field{
			{Name: "x", Ext: "bin", Decoder: shards.Raw(arena.Uint8, 3)}, {Name: "y", Ext: "cls", Decoder: shards.Class(10)}}})
		t.Run(name, func(t *testing.T) { check(t, d, 0, 7, 3) })
	}
	refused(t, "the same keys", try(t, slices.Concat(one, one), shards.Options{}))
}

// fixtures are inputs to begin from.
func fixtures(t testing.TB) (all [][]byte) {
	good := archive(t, samples(0, 3, 3)...)
	all = append(all, good, gz(t, good), zst(t, good), slices.Concat(gz(t, good[:1000]), gz(t, good[1000:])))
	for _, name := range []string{"long_gnu.tar", "long_pax.tar", "dots.tar", "split.tar", "padded.tar.gz", "frames.tar.zst"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

func FuzzOpen(f *testing.F) {
	for _, b := range fixtures(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := try(t, b, shards.Options{MaxBlock: 1 << 20, MaxValue: 1 << 16})
		if err != nil && !errors.Is(err, dataloader.ErrFormat) && !errors.Is(err, dataloader.ErrEmpty) {
			t.Errorf("got %v", err)
		}
	})
}
