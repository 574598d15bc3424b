package storage_test

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// The benchmark reads 2 KiB at random offsets of a file of 16 MiB.
func BenchmarkReadAt(b *testing.B) {
	const size = 16 << 20
	dir := folder(b, map[string][]byte{"a": numbers(size)})
	open := func() storage.File {
		f, err := storage.Open(dir, "a")
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	files := map[string]func() (storage.File, error){
		"file":  func() (storage.File, error) { return open(), nil },
		"ahead": func() (storage.File, error) { return storage.ReadAhead(open(), storage.AheadOptions{Blocks: 16}) },
		"map":   func() (storage.File, error) { f, _, err := storage.Map(open()); return f, err },
	}
	for name, file := range files {
		b.Run(name, func(b *testing.B) {
			f, err := file()
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			buf, rng := make([]byte, 2<<10), rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if err := storage.ReadAt(b.Context(), f, buf, rng.Int64N(size-int64(len(buf)))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
