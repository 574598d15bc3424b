package parquet_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

// hostileLimit is Options.Limit for damaged files.
const hostileLimit = 1 << 20

// readAll opens a file in memory and reads all its rows.
func readAll(t testing.TB, file []byte, columns []parquet.Column) error {
	t.Helper()
	d, err := parquet.OpenFS(fstest.MapFS{"x": {Data: file}}, "x", parquet.Options{Limit: hostileLimit, Columns: columns})
	return tabletest.ReadAll(t, d, err)
}

// samples returns the files of testdata.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	return tabletest.Samples(t, 29, "*.parquet")
}

// all returns columns for every file of testdata: all that it has, with classes and decoders.
func all(name string) []parquet.Column {
	switch name {
	case "images.parquet":
		return []parquet.Column{{Name: "image", Decoder: tabletest.LastByte{}}, {Name: "label"}}
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

func TestCutFiles(t *testing.T) {
	t.Parallel()
	for name, b := range samples(t) {
		for n := 0; n < len(b); n += 64 {
			if err := readAll(t, b[:n], all(name)); !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("%s cut to %d bytes: got %v, want ErrFormat", name, n, err)
			}
		}
	}
}

// TestCutAndMended cuts the data of a file and keeps the footer, which points to the wrong places.
func TestCutAndMended(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"numbers-zstd.parquet", "lists-v2.parquet", "images.parquet"} {
		b := tabletest.File(t, name).Data
		for n := 4; n < 2000; n += 64 {
			if err := readAll(t, bytes.Join([][]byte{b[:4], b[4+n:]}, nil), all(name)); err == nil {
				t.Errorf("%s without %d bytes: no error", name, n)
			}
		}
	}
}

func TestFlippedBits(t *testing.T) {
	t.Parallel()
	files := samples(t)
	for k, name := range slices.Sorted(maps.Keys(files)) {
		b, columns := files[name], all(name)
		step := max(1, len(b)/120)
		for i := k % step; i < len(b); i += step {
			b[i] ^= 1 << (i % 8)
			readAll(t, b, columns) // any result, but no panic and no error without a class
			b[i] ^= 1 << (i % 8)
		}
	}
	sums := tabletest.File(t, "numbers-v2.parquet").Data
	for i := 200; i < 2000; i += 100 {
		sums[i] ^= 4
		if err := readAll(t, sums, nil); !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("bit 2 of byte %d of a file with checksums: got %v, want ErrFormat", i, err)
		}
		sums[i] ^= 4
	}
}

func FuzzOpen(f *testing.F) {
	for name, b := range samples(f) {
		f.Add(b, byte(len(all(name))))
		f.Add(b, byte(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, columns byte) {
		lists := [][]parquet.Column{nil, {{Name: "label", Classes: []string{"cat", "dog", "ox"}}}, {{Name: "image", Decoder: tabletest.LastByte{}}, {Name: "label"}}, {{Name: "label", FindClasses: true}}}
		n := tabletest.Allocated(func() { readAll(t, b, lists[int(columns)%len(lists)]) })
		if n > 64*hostileLimit+uint64(200*len(b)) {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
	})
}
