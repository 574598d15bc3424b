package arrow_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader/arrow"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
)

// hostileLimit is Options.Limit for damaged files.
const hostileLimit = 1 << 20

// readAll reads all rows of the file at path, mapped or not.
func readAll(t testing.TB, path string, opt arrow.Options) error {
	t.Helper()
	opt.Limit = hostileLimit
	d, err := arrow.Open(path, opt)
	return tabletest.ReadAll(t, d, err)
}

// columns returns what to read of a file of testdata.
func columns(name string) []arrow.Column {
	switch name {
	case "images.arrow":
		return []arrow.Column{{Name: "image", Decoder: tabletest.LastByte{}}, {Name: "label"}}
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

// damaged writes the bytes b to the file at path, and returns path.
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
	return tabletest.Samples(t, 22, "*.arrow", "*.arrows", "*.feather")
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

func FuzzOpen(f *testing.F) {
	for name, b := range samples(f) {
		f.Add(b, columns(name) != nil)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, text bool) {
		path := damaged(t, filepath.Join(dir, "x"), b)
		for _, opt := range ways {
			if text {
				opt.Columns = []arrow.Column{{Name: "view", Classes: []string{"cat"}}, {Name: "label", Decoder: tabletest.LastByte{}}}
			}
			if n := tabletest.Allocated(func() { readAll(t, path, opt) }); n > 64*hostileLimit+uint64(400*len(b)) {
				t.Errorf("%d bytes allocated for a file of %d", n, len(b))
			}
		}
	})
}
