package shards_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
)

// write makes shards in a folder and returns it.
func write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for i, compress := range []func(testing.TB, []byte) []byte{same, gz, zst} {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".tar"), compress(t, archive(t, samples(5*i, 5, 40)...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A saved index gives the same samples, and only shards that have changed are scanned again.
func TestASavedIndexIsUsed(t *testing.T) {
	dir := write(t)
	opt := shards.Options{Fields: two(40), Index: filepath.Join(dir, "shards.index")}
	reopen := func(pattern string) *shards.Dataset {
		t.Helper()
		d, err := shards.Open(filepath.Join(dir, pattern), opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	first := reopen("*.tar")
	saved, err := os.ReadFile(opt.Index)
	if err != nil {
		t.Fatal(err)
	}
	second := reopen("*.tar")
	check(t, second, 0, 15, 40)
	if first.Fingerprint() != second.Fingerprint() || !slices.Equal(first.Info().Samples, second.Info().Samples) {
		t.Errorf("got %+v, want %+v", second.Info(), first.Info())
	}
	// The scan would find the damage, which the index does not know of.
	path := filepath.Join(dir, "a.tar")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(b)
	bad[4096+1] ^= 1
	store := func(b []byte, at time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, b, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	store(bad, info.ModTime())
	reopen("*.tar")
	for name, change := range map[string]func(){
		"time":        func() { store(bad, info.ModTime().Add(time.Second)) },
		"size":        func() { store(b[:len(b)-1300], info.ModTime()) },
		"first bytes": func() { c := slices.Clone(bad); c[1] ^= 1; store(c, info.ModTime()) },
	} {
		change()
		if _, err := shards.Open(filepath.Join(dir, "*.tar"), opt); !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("another %s: got %v, want the error of a scan", name, err)
		}
	}
	store(b, info.ModTime().Add(time.Hour))
	check(t, reopen("*.tar"), 0, 15, 40)
	if again, err := os.ReadFile(opt.Index); err != nil || slices.Equal(again, saved) {
		t.Errorf("the index was not written again: %v", err)
	}
	opt.Fields = []shards.Field{{Name: "n", Ext: "cls", Decoder: lengthOf{}}} // other extensions: a new index
	if d := reopen("{a,b}.tar"); d.Len() != 10 || d.Info().Ignored != 10 {
		t.Errorf("got %+v", d.Info())
	}
}

// indexOf returns the bytes of an index, and the folder and options of its shards.
func indexOf(t testing.TB) (b []byte, dir string, opt shards.Options) {
	dir = write(t)
	opt = shards.Options{Fields: two(40), Index: filepath.Join(dir, "shards.index")}
	d, err := shards.Open(filepath.Join(dir, "*.tar"), opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(opt.Index); err != nil {
		t.Fatal(err)
	}
	return b, dir, opt
}

// reading opens shards with an index of the given bytes and reads all samples.
func reading(t testing.TB, b []byte, dir string, opt shards.Options) error {
	t.Helper()
	if err := os.WriteFile(opt.Index, b, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := shards.Open(filepath.Join(dir, "*.tar"), opt)
	if err != nil {
		return err
	}
	defer d.Close()
	dst := memory(d)
	for i := range min(d.Len(), 100) {
		if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			return err
		}
	}
	return nil
}

// signed sets the checksum of an index.
func signed(b []byte) []byte {
	if len(b) >= 12 {
		binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// An index that is damaged, cut or foreign is an error that says to remove it.
func TestABadIndexIsRefused(t *testing.T) {
	b, dir, opt := indexOf(t)
	for n := 0; n < len(b); n += 5 {
		refused(t, "cut", reading(t, slices.Clone(b[:n]), dir, opt))
		if n > 20 {
			refused(t, "cut, with a right checksum", reading(t, signed(slices.Clone(b[:n])), dir, opt))
		}
		flipped := slices.Clone(b)
		flipped[n] ^= 0x10
		refused(t, "flipped", reading(t, flipped, dir, opt))
	}
	refused(t, "more bytes", reading(t, signed(append(slices.Clone(b), 0)), dir, opt))
	refused(t, "another file", reading(t, []byte("what is this file, which was there before?"), dir, opt))
	opt.MaxValue = 39 // is less than an entry in the index has
	refused(t, "largest value", reading(t, b, dir, opt))
}

func FuzzIndex(f *testing.F) {
	b, _, _ := indexOf(f)
	f.Add(b)
	f.Add(b[:60])
	f.Fuzz(func(t *testing.T, b []byte) {
		own, dir, opt := indexOf(t)
		if len(b) >= 20 { // most inputs should get beyond the head
			b = slices.Concat(own[:20], b[20:])
		}
		err := reading(t, signed(slices.Clone(b)), dir, opt)
		if err != nil && !errors.Is(err, dataloader.ErrFormat) && !errors.Is(err, dataloader.ErrEmpty) {
			t.Errorf("got %v", err)
		}
	})
}
