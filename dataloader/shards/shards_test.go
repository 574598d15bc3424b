package shards_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
)

// The samples of several shards are read at random, whatever the compression of each.
func TestSamplesOfShardsAreRead(t *testing.T) {
	const size = 3000
	for _, c := range []struct {
		name, pattern string
		compress      []func(testing.TB, []byte) []byte
		compressed    int
	}{
		{"plain", "train-{000..002}.tar", []func(testing.TB, []byte) []byte{same, same, same}, 0},
		{"gzip", "train-*.tar", []func(testing.TB, []byte) []byte{gz, gz, gz}, 3},
		{"zstd", "train-*", []func(testing.TB, []byte) []byte{zst, zst, zst}, 3},
		{"mixed", "train-000.tar::train-002.tar::train-00[01].tar", []func(testing.TB, []byte) []byte{zst, same, gz}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string][]byte{}
			for i := range 3 {
				files[fmt.Sprintf("train-%03d.tar", i)] = c.compress[i](t, archive(t, samples(20*i, 20, size)...))
			}
			d := open(t, folder(files), c.pattern, shards.Options{Fields: two(size)})
			check(t, d, 0, 60, size)
			info := d.Info()
			if info.Compressed != c.compressed || !slices.Equal(info.Samples, []int{20, 20, 20}) || info.IndexBytes != 60*2*16 || info.Ignored != 0 {
				t.Errorf("info %+v", info)
			}
			if got, want := len(d.Blocks().Starts), 3*min(1, c.compressed); got != want {
				t.Errorf("%d blocks, want %d", got, want)
			}
			want := make([]int, 60)
			for i := range want {
				want[i] = i
			}
			for _, shuffle := range []bool{false, true} {
				if got := epoch(t, d, dataloader.Options{Batch: 7, Shuffle: shuffle, Workers: 3}); !slices.Equal(got, want) {
					t.Errorf("shuffle %v: an epoch has the samples %v", shuffle, got)
				}
			}
		})
	}
}

func same(_ testing.TB, b []byte) []byte { return b }

// Samples of archives with many frames are in several blocks, also if they lie across frames.
func TestFramesAreBlocks(t *testing.T) {
	const n, size = 22, 1 << 20
	whole := archive(t, samples(0, n, size)...)
	for name, compress := range map[string]func(testing.TB, []byte) []byte{"gzip": gzStored, "zstd": zst} {
		var b []byte
		for i, step := 0, 3<<20+12345; i < len(whole); i += step {
			b = append(b, compress(t, whole[i:min(i+step, len(whole))])...)
		}
		d := open(t, folder(map[string][]byte{"a.tar": b}), "a.tar", shards.Options{Fields: two(size), Held: 2, MaxBlock: 12 << 20})
		checkSamples(t, d, 0, []int{0, 3, 7, 8, 9, 10, 15, 16, 17, 18, 20, 21, 2}, size)
		if got := len(d.Blocks().Starts); got != 3 || d.Len() != n {
			t.Errorf("%s: %d samples in %d blocks, want %d in 3", name, d.Len(), got, n)
		}
		if _, err := shards.OpenFS(folder(map[string][]byte{"a.tar": b}), "a.tar", shards.Options{Fields: two(size), MaxBlock: 9 << 20}); !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("%s: blocks beyond MaxBlock: got %v", name, err)
		}
	}
}

// The files of testdata, which other programs have written.
func TestFilesOfOtherProgramsAreRead(t *testing.T) {
	fields := []shards.Field{{Name: "x", Ext: "bin", Decoder: shards.Raw(arena.Uint8, 3)}, {Name: "y", Ext: "cls", Decoder: shards.Integer(arena.Int64)}}
	for name, want := range map[string]string{
		"members.tar.gz": "[[0 1 2] [1 2 3] [2 3 4] [3 4 5]] [0 1 2 3]",
		"padded.tar.gz":  "[[0 1 2] [1 2 3]] [0 1]",
		"frames.tar.zst": "[[0 1 2] [1 2 3] [2 3 4] [3 4 5]] [0 1 2 3]",
		"writer.tar":     "[[0 1 2] [1 2 3] [2 3 4] [3 4 5]] [0 1 2 3]",
		"long_gnu.tar":   "[[97 98 99]] [3]",
		"long_pax.tar":   "[[97 98 99]] [3]",
	} {
		d := open(t, os.DirFS("testdata"), name, shards.Options{Fields: fields})
		var x [][]byte
		var y []int64
		for i := range d.Len() {
			dst := memory(d)
			if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
			x, y = append(x, dst[0]), append(y, int64(binary.NativeEndian.Uint64(dst[1])))
		}
		if got := fmt.Sprint(x, y); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	dots := open(t, os.DirFS("testdata"), "dots.tar", shards.Options{Fields: append(fields[1:2:2],
		shards.Field{Name: "seg", Ext: "d.seg.bin", Decoder: shards.Raw(arena.Uint8, 3)})})
	dst := memory(dots)
	if err := dots.Fetch(t.Context(), dataloader.At{}, dst); err != nil || string(dst[1]) != "seg" || dots.Len() != 1 || dots.Info().Ignored != 3 {
		t.Errorf("dots.tar: %q, %+v, %v", dst, dots.Info(), err)
	}
	j := open(t, os.DirFS("testdata"), "writer.tar", shards.Options{Fields: []shards.Field{{Name: "a", Ext: "json", Decoder: shards.JSON("a.0", arena.Float64)}}})
	if dst = memory(j); j.Fetch(t.Context(), dataloader.At{Index: 3}, dst) != nil || dataloader.View[float64](dst[0])[0] != 1.5 {
		t.Errorf("JSON of sample 3: got %v", dst)
	}
}

// Of alternatives the first one that a sample has is read, whatever the order of the entries.
func TestAlternativeExtensions(t *testing.T) {
	b := archive(t, item{"1.PNG", make([]byte, 1)}, item{"1.jpg", make([]byte, 2)}, item{"2.png", make([]byte, 3)}, item{"./3.jpg", make([]byte, 4)}, item{"3.png", nil})
	if _, err := shards.OpenFS(folder(map[string][]byte{"a.tar": b}), "a.tar", shards.Options{Fields: []shards.Field{{Name: "n", Ext: "jpg", Decoder: lengthOf{}}}}); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), `"2"`) {
		t.Errorf("a sample without jpg: got %v", err)
	}
	for ext, want := range map[string]string{"jpg;png": "[2 3 4]", ".png; jpg": "[1 3 0]", "png": ""} {
		if want == "" { // the third sample has ./3 as its key, which is 3
			want = "[1 3 0]"
		}
		d := open(t, folder(map[string][]byte{"a.tar": b}), "a.tar", shards.Options{Fields: []shards.Field{{Name: "n", Ext: ext, Decoder: lengthOf{}}}})
		var got []int64
		for i := range d.Len() {
			dst := memory(d)
			if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
			got = append(got, dataloader.View[int64](dst[0])[0])
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", ext, got, want)
		}
	}
}

// Encoded bytes are those of the entries; other fields are decoded.
func TestFetchEncoded(t *testing.T) {
	b := archive(t, samples(0, 9, 77)...)
	for _, file := range [][]byte{b, gz(t, b)} {
		d := open(t, folder(map[string][]byte{"a.tar": file}), "a.tar", shards.Options{Fields: two(77)})
		encoded, dst := make([][]byte, 2), [][]byte{nil, make([]byte, 4)}
		for i := range 9 {
			if err := d.FetchEncoded(t.Context(), dataloader.At{Index: i}, dst, encoded); err != nil || !bytes.Equal(encoded[0], contents(i, 77)) || dst[1][0] != byte(i) || encoded[1] != nil {
				t.Fatalf("sample %d: %v %v %v", i, dst, encoded, err)
			}
		}
		if err := d.FetchEncoded(t.Context(), dataloader.At{}, dst[:1], encoded); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("too few fields: got %v", err)
		}
	}
}

func TestFetchAllocatesNothing(t *testing.T) {
	b := archive(t, samples(0, 30, 3000)...)
	for name, file := range map[string][]byte{"plain": b, "gzip": gz(t, b)} {
		d := open(t, folder(map[string][]byte{"a.tar": file}), "a.tar", shards.Options{Fields: two(3000)})
		dst, i, ctx := memory(d), 0, t.Context()
		step := func() {
			if err := d.Fetch(ctx, dataloader.At{Index: i % 30}, dst); err != nil {
				t.Fatal(err)
			}
			i++
		}
		step()
		least := 1.0
		for range 5 { // the garbage collector empties a sync.Pool
			least = min(least, testing.AllocsPerRun(100, step))
		}
		if least != 0 {
			t.Errorf("%s: %v allocations a sample, want 0", name, least)
		}
	}
}

// An error of a decoder names the shard, the entry and its offset.
func TestErrorsOfDecodersNameTheEntry(t *testing.T) {
	bad := errors.New("no picture")
	b := archive(t, item{"a/0.bin", []byte("x")}, item{"a/1.bin", []byte("yy")})
	for _, file := range [][]byte{b, zst(t, b)} {
		d := open(t, folder(map[string][]byte{"data/a.tar": file}), "data/a.tar", shards.Options{Fields: []shards.Field{{Name: "n", Ext: "bin", Decoder: lengthOf{bad}}}})
		err := d.Fetch(t.Context(), dataloader.At{Index: 1}, memory(d))
		if want := `data/a.tar: field "n": entry "a/1.bin", 2 bytes at byte 1536: no picture`; !errors.Is(err, bad) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := d.Fetch(t.Context(), dataloader.At{Index: 2}, memory(d)); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("sample 2 of 2: got %v", err)
		}
	}
}

// More shards than may be open at one time are read; a shard that has changed is an error.
func TestManyShardsAreOpenedWhenTheyAreRead(t *testing.T) {
	dir := t.TempDir()
	for i := range 150 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%03d.tar", i)), archive(t, samples(2*i, 2, 10)...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := shards.Open(filepath.Join(dir, "s{000..149}.tar"), shards.Options{Fields: two(10)})
	if err != nil {
		t.Fatal(err)
	}
	check(t, d, 0, 300, 10)
	if n := openFiles(t, dir); n > 70 {
		t.Errorf("%d files are open, want at most about 64", n)
	}
	if got := epoch(t, d, dataloader.Options{Batch: 16, Workers: 8, Shuffle: true}); len(got) != 300 {
		t.Errorf("an epoch has %d samples", len(got))
	}
	for i := range 150 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%03d.tar", i)), archive(t, samples(2*i, 3, 10)...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changed := 0
	for i := range 300 {
		if err := d.Fetch(t.Context(), dataloader.At{Index: i}, memory(d)); errors.Is(err, dataloader.ErrChanged) {
			changed++
		}
	}
	if changed < 100 {
		t.Errorf("%d samples of changed files are errors, want those of all files that were not open", changed)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Fetch(t.Context(), dataloader.At{}, memory(d)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
	if n := openFiles(t, dir); n > 0 {
		t.Errorf("%d files are open after Close", n)
	}
}

// openFiles counts the open files in a folder, or returns 0 where that cannot be seen.
func openFiles(t *testing.T, dir string) (n int) {
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

func TestAContextEndsOpenAndFetch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	fsys := folder(map[string][]byte{"a.tar": archive(t, samples(0, 3, 5)...), "b.tar": gz(t, archive(t, samples(3, 3, 5)...))})
	d := open(t, fsys, "*.tar", shards.Options{Fields: two(5)})
	cancel()
	if _, err := shards.OpenContext(ctx, fsys, "*.tar", shards.Options{Fields: two(5)}); !errors.Is(err, context.Canceled) {
		t.Errorf("open: got %v", err)
	}
	for _, i := range []int{0, 4} {
		if err := d.Fetch(ctx, dataloader.At{Index: i}, memory(d)); !errors.Is(err, context.Canceled) {
			t.Errorf("sample %d: got %v", i, err)
		}
	}
}

func TestOptionsThatDoNotFitAreRefused(t *testing.T) {
	fsys := folder(map[string][]byte{"a.tar": archive(t, samples(0, 3, 5)...)})
	for name, opt := range map[string]shards.Options{
		"no fields":     {},
		"no decoder":    {Fields: []shards.Field{{Name: "x", Ext: "bin"}}},
		"no extension":  {Fields: []shards.Field{{Name: "x", Decoder: lengthOf{}}}},
		"upper case":    {Fields: []shards.Field{{Name: "x", Ext: "BIN", Decoder: lengthOf{}}}},
		"held":          {Fields: two(5), Held: -1},
		"largest block": {Fields: two(5), MaxBlock: -1},
		"largest value": {Fields: two(5), MaxValue: 1 << 32},
	} {
		if _, err := shards.OpenFS(fsys, "a.tar", opt); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: got %v, want ErrOption", name, err)
		}
	}
	for name, fields := range map[string][]shards.Field{
		"same name": append(two(5), two(5)...),
		"type":      {{Name: "x", Ext: "cls", Decoder: shards.Integer(arena.Float32)}},
		"half type": {{Name: "x", Ext: "json", Decoder: shards.JSON("a", arena.Float16)}},
		"classes":   {{Name: "x", Ext: "cls", Decoder: shards.Class(0)}},
	} {
		if _, err := shards.OpenFS(fsys, "a.tar", shards.Options{Fields: fields}); !errors.Is(err, dataloader.ErrField) {
			t.Errorf("%s: got %v, want ErrField", name, err)
		}
	}
	if _, err := shards.OpenFS(fsys, "b-*.tar", shards.Options{Fields: two(5)}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no match: got %v", err)
	}
	if _, err := shards.OpenFS(fsys, "{a,b}.tar", shards.Options{Fields: two(5)}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "b.tar") {
		t.Errorf("a shard is missing: got %v", err)
	}
	if _, err := shards.OpenFS(folder(map[string][]byte{"a.tar": archive(t)}), "a.tar", shards.Options{Fields: two(5)}); !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("an empty archive: got %v", err)
	}
}

// printed is a decoder with a fingerprint.
type printed struct {
	lengthOf
	is uint64
}

func (p printed) Fingerprint() uint64 { return p.is }

// The fingerprint depends on the names and contents of the shards, the extensions and the decoders.
func TestTheFingerprintIsThatOfTheData(t *testing.T) {
	one, two := archive(t, samples(0, 3, 5)...), archive(t, samples(0, 4, 5)...)
	of := func(name string, file []byte, ext string, c dataloader.Decoder) uint64 {
		return open(t, folder(map[string][]byte{name: file}), name, shards.Options{Fields: []shards.Field{{Name: "x", Ext: ext, Decoder: c}}}).Fingerprint()
	}
	base := of("a.tar", one, "bin", printed{is: 1})
	if of("a.tar", one, "bin", printed{is: 1}) != base {
		t.Error("the same data have two fingerprints")
	}
	for what, got := range map[string]uint64{
		"name": of("b.tar", one, "bin", printed{is: 1}), "contents": of("a.tar", two, "bin", printed{is: 1}), "first bytes": of("a.tar", archive(t, samples(1, 3, 5)...), "bin", printed{is: 1}),
		"extension": of("a.tar", one, "cls", printed{is: 1}), "decoder": of("a.tar", one, "bin", printed{is: 2}), "compression": of("a.tar", gz(t, one), "bin", printed{is: 1}),
	} {
		if got == base {
			t.Errorf("another %s: the same fingerprint", what)
		}
	}
}
