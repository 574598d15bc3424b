package parquet_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	library "github.com/parquet-go/parquet-go"
)

// floats is a row of 20 columns.
type floats struct {
	A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, B0, B1, B2, B3, B4, B5, B6, B7, B8, B9 float32
}

// picture is a row with the bytes of an image.
type picture struct {
	Image []byte
	Label int32
}

// written returns a file of n rows in row groups of group rows.
func written[T any](b *testing.B, n, group int, row func(r *rand.Rand) T) []byte {
	b.Helper()
	var out bytes.Buffer
	w := library.NewGenericWriter[T](&out, library.MaxRowsPerRowGroup(int64(group)), library.Compression(&library.Snappy))
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		if _, err := w.Write([]T{row(r)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

func floatFile(b *testing.B) []byte {
	return written(b, 100_000, 20_000, func(r *rand.Rand) floats {
		f := func() float32 { return float32(r.NormFloat64()) }
		return floats{f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f(), f()}
	})
}

func pictureFile(b *testing.B) []byte {
	return written(b, 2_000, 100, func(r *rand.Rand) picture {
		image := make([]byte, 16<<10)
		for i := range image {
			image[i] = byte(r.Uint32())
		}
		return picture{image, int32(r.IntN(10))}
	})
}

// copied is a decoder that copies the first 16 KiB of the encoded bytes.
type copied struct{}

func (copied) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Uint8, Shape: []int{16 << 10}}
}

func (copied) Decode(_ dataloader.At, encoded, dst []byte) error {
	copy(dst, encoded)
	return nil
}

// sequential fetches all samples in their order, until b.N are fetched.
func sequential(b *testing.B, file []byte, columns []parquet.Column) {
	d, err := parquet.OpenFS(fstest.MapFS{"x": {Data: file}}, "x", parquet.Options{Columns: columns})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	dst := tabletest.Slots(d)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := d.Fetch(context.Background(), dataloader.At{Index: i % d.Len()}, dst); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// plainLoop reads all columns of all row groups with the library, page by page, until b.N rows are
// read. It looks at the values but does not turn them into rows.
func plainLoop(b *testing.B, file []byte) {
	f, err := library.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for rows := 0; rows < b.N; {
		for _, g := range f.RowGroups() {
			for _, c := range g.ColumnChunks() {
				pages := c.Pages()
				for {
					p, err := pages.ReadPage()
					if err == io.EOF {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					v := p.Data()
					if v.Size() == 0 {
						b.Fatal("an empty page")
					}
					library.Release(p)
				}
				pages.Close()
			}
			if rows += int(g.NumRows()); rows >= b.N {
				break
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkFloats(b *testing.B) {
	file := floatFile(b)
	b.Run("dataset", func(b *testing.B) { sequential(b, file, nil) })
	b.Run("library", func(b *testing.B) { plainLoop(b, file) })
}

func BenchmarkImageBytes(b *testing.B) {
	file := pictureFile(b)
	b.Run("dataset", func(b *testing.B) {
		sequential(b, file, []parquet.Column{{Name: "Image", Decoder: copied{}}, {Name: "Label"}})
	})
	b.Run("library", func(b *testing.B) { plainLoop(b, file) })
}
