package arrow_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/arrow"
)

// hostileLimit is Options.Limit for damaged files.
const hostileLimit = 1 << 20

// readAll reads all rows of the file at path, mapped or not. It fails unless each error has a class.
func readAll(t testing.TB, path string, opt arrow.Options) error {
	t.Helper()
	opt.Limit = hostileLimit
	d, err := arrow.Open(path, opt)
	if err == nil {
		defer d.Close()
		dst := slots(d)
		for i := 0; i < d.Len() && i < 2000 && err == nil; i++ {
			err = d.Fetch(context.Background(), dataloader.At{Index: i}, dst)
		}
	}
	for _, class := range []error{nil, dataloader.ErrFormat, dataloader.ErrField, dataloader.ErrOption, dataloader.ErrEmpty, io.ErrUnexpectedEOF} {
		if errors.Is(err, class) {
			return err
		}
	}
	t.Errorf("an error without a class: %v", err)
	return err
}

// columns returns what to read of a file of testdata.
func columns(name string) []arrow.Column {
	switch name {
	case "images.arrow":
		return []arrow.Column{{Name: "image", Decoder: last{}}, {Name: "label"}}
	case "rules.arrow":
		return []arrow.Column{{Name: "dec"}, {Name: "view", Classes: []string{"cat", "dog"}}, {Name: "large", FindClasses: true}, {Name: "s.b.c"}}
	case "growing.arrows":
		return []arrow.Column{{Name: "x", FindClasses: true}}
	case "nested.arrow":
		return []arrow.Column{{Name: "x"}}
	case "holes.arrow":
		return []arrow.Column{{Name: "l", Shape: []int{2}, Fill: new(0.0)}, {Name: "n", Fill: new(0.0)}}
	}
	return nil
}

// last is a decoder that stores the last byte of the encoded bytes.
type last struct{}

func (last) Field(name string) dataloader.Field { return dataloader.Field{Name: name, Type: 3} }
func (last) Decode(_ dataloader.At, encoded, dst []byte) error {
	if len(encoded) > 0 {
		dst[0] = encoded[len(encoded)-1]
	}
	return nil
}

// damaged calls f with the path of a file that has the bytes b.
func damaged(t testing.TB, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// samples returns the files of testdata.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{"*.arrow", "*.arrows", "*.feather"} {
		found, _ := filepath.Glob("testdata/" + pattern)
		for _, path := range found {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(path)] = b
		}
	}
	if len(all) != 22 {
		t.Fatalf("%d files, want 22", len(all))
	}
	return all
}

func TestCutFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	for name, b := range samples(t) {
		stream := string(b[:6]) != "ARROW1"
		for n := 0; n < len(b); n += 64 {
			for _, opt := range ways {
				opt.Columns = columns(name)
				err := readAll(t, damaged(t, path, b[:n]), opt)
				if err == nil && !stream { // a stream may end after each message
					t.Fatalf("%s cut to %d bytes: no error", name, n)
				}
			}
		}
	}
}

func TestFlippedBits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	for name, b := range samples(t) {
		step := max(1, len(b)/60)
		for i := 1; i < len(b); i += step {
			for _, bit := range []byte{1 << (i % 8), 0x80} {
				b[i] ^= bit
				damaged(t, path, b)
				for _, opt := range ways {
					opt.Columns = columns(name)
					readAll(t, path, opt) // any result, but no panic and no error without a class
				}
				b[i] ^= bit
			}
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzOpen(f *testing.F) {
	for name, b := range samples(f) {
		f.Add(b, columns(name) != nil)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, text bool) {
		path := damaged(t, filepath.Join(dir, "x"), b)
		for _, opt := range ways {
			if text {
				opt.Columns = []arrow.Column{{Name: "view", Classes: []string{"cat"}}, {Name: "label", Decoder: last{}}}
			}
			if n := allocated(func() { readAll(t, path, opt) }); n > 64*hostileLimit+uint64(400*len(b)) {
				t.Errorf("%d bytes allocated for a file of %d", n, len(b))
			}
		}
	})
}
