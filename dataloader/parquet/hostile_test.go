package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

// hostileLimit is Options.Limit for damaged files.
const hostileLimit = 1 << 20

// readAll opens a file in memory and reads all its rows. It fails unless each error has a class.
func readAll(t testing.TB, file []byte, columns []parquet.Column) (rows int, err error) {
	t.Helper()
	d, err := parquet.OpenFS(fstest.MapFS{"x": {Data: file}}, "x", parquet.Options{Limit: hostileLimit, Columns: columns})
	if err == nil {
		defer d.Close()
		dst := slots(d)
		for i := 0; i < d.Len() && i < 2000 && err == nil; i++ {
			err = d.Fetch(context.Background(), dataloader.At{Index: i}, dst)
			rows++
		}
	}
	for _, class := range []error{nil, dataloader.ErrFormat, dataloader.ErrField, dataloader.ErrOption, dataloader.ErrEmpty, io.ErrUnexpectedEOF} {
		if errors.Is(err, class) {
			return rows, err
		}
	}
	t.Errorf("an error without a class: %v", err)
	return rows, err
}

// all returns columns for every file of testdata: all that it has, with classes and decoders.
func all(name string) []parquet.Column {
	switch name {
	case "images.parquet":
		return []parquet.Column{{Name: "image", Decoder: length{}}, {Name: "label"}}
	case "rules-int.parquet", "prefix.parquet":
		return []parquet.Column{{Name: "label", Classes: []string{"cat", "dog", "ox"}}}
	case "rules.parquet":
		return []parquet.Column{{Name: "label", FindClasses: true}}
	case "nested.parquet":
		return []parquet.Column{{Name: "x"}}
	case "holes.parquet":
		return []parquet.Column{{Name: "l", Shape: []int{2}, Fill: new(0.0)}, {Name: "n", Fill: new(0.0)}}
	}
	return nil
}

// length is a decoder that stores the last byte of the encoded bytes.
type length struct{}

func (length) Field(name string) dataloader.Field { return dataloader.Field{Name: name, Type: 3} }
func (length) Decode(_ dataloader.At, encoded, dst []byte) error {
	if len(encoded) > 0 {
		dst[0] = encoded[len(encoded)-1]
	}
	return nil
}

func TestCutFiles(t *testing.T) {
	t.Parallel()
	found, _ := filepath.Glob("testdata/*.parquet")
	for _, path := range found {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(b); n += 64 {
			if _, err := readAll(t, b[:n], all(filepath.Base(path))); !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("%s cut to %d bytes: got %v, want ErrFormat", path, n, err)
			}
		}
	}
}

// TestCutAndMended cuts the data of a file and keeps the footer, which points to the wrong places.
func TestCutAndMended(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"numbers-zstd.parquet", "lists-v2.parquet", "images.parquet"} {
		b := file(t, name).Data
		for n := 4; n < 2000; n += 64 {
			if _, err := readAll(t, bytes.Join([][]byte{b[:4], b[4+n:]}, nil), all(name)); err == nil {
				t.Errorf("%s without %d bytes: no error", name, n)
			}
		}
	}
}

func TestFlippedBits(t *testing.T) {
	t.Parallel()
	found, _ := filepath.Glob("testdata/*.parquet")
	for k, path := range found {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		columns := all(filepath.Base(path))
		step := max(1, len(b)/120)
		for i := k % step; i < len(b); i += step {
			b[i] ^= 1 << (i % 8)
			readAll(t, b, columns) // any result, but no panic and no error without a class
			b[i] ^= 1 << (i % 8)
		}
	}
	sums := file(t, "numbers-v2.parquet").Data
	for i := 200; i < 2000; i += 100 {
		sums[i] ^= 4
		if _, err := readAll(t, sums, nil); !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("bit 2 of byte %d of a file with checksums: got %v, want ErrFormat", i, err)
		}
		sums[i] ^= 4
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
	found, _ := filepath.Glob("testdata/*.parquet")
	for _, path := range found {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, byte(len(all(filepath.Base(path)))))
		f.Add(b, byte(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, columns byte) {
		lists := [][]parquet.Column{nil, {{Name: "label", Classes: []string{"cat", "dog", "ox"}}}, {{Name: "image", Decoder: length{}}, {Name: "label"}}, {{Name: "label", FindClasses: true}}}
		n := allocated(func() { readAll(t, b, lists[int(columns)%len(lists)]) })
		if n > 64*hostileLimit+uint64(200*len(b)) {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
	})
}
