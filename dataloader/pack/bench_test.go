package pack_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// images is a dataset of 3×32×32 images in memory, 61 MB, as CIFAR-10 has them.
func images(b *testing.B) (dataloader.Dataset, []byte) {
	const n = 20000
	x, y := make([]byte, n*3072), make([]byte, n)
	for i := range x {
		x[i] = byte(i * i >> 8)
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 3, 32, 32), dataloader.Column("y", y))
	if err != nil {
		b.Fatal(err)
	}
	return ds, x
}

// BenchmarkMemcpy is the bound of reading: samples are copied from memory, in random order.
func BenchmarkMemcpy(b *testing.B) {
	fetchAll(b, func(d dataloader.Dataset) dataloader.Dataset { return d })
}

// BenchmarkFetch reads samples in random order through the system.
func BenchmarkFetch(b *testing.B) { packed(b, pack.Options{}) }

// BenchmarkFetchMapped reads them from the mapped file.
func BenchmarkFetchMapped(b *testing.B) { packed(b, pack.Options{Mapped: true}) }

func packed(b *testing.B, opt pack.Options) {
	fetchAll(b, func(d dataloader.Dataset) dataloader.Dataset { return open(b, write(b, d, pack.WriteOptions{}), opt) })
}

// fetchAll fetches samples in random order.
func fetchAll(b *testing.B, of func(dataloader.Dataset) dataloader.Dataset) {
	ds, _ := images(b)
	d := of(ds)
	dst, order := memory(d), random(b).Perm(d.Len())
	b.SetBytes(3073)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := d.Fetch(context.Background(), dataloader.At{Index: order[i%len(order)]}, dst); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite packs the images, and BenchmarkPlainWrite writes as many bytes and syncs them: the
// bound of the disk. BenchmarkPlainRead reads a pack in order, and BenchmarkVerify with checksums.
func BenchmarkWrite(b *testing.B) {
	ds, x := images(b)
	p := path(b)
	b.SetBytes(int64(len(x)))
	for b.Loop() {
		if err := pack.Write(b.Context(), p, ds, pack.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlainWrite(b *testing.B) {
	_, x := images(b)
	p := path(b)
	b.SetBytes(int64(len(x)))
	for b.Loop() {
		f, err := os.Create(p)
		if err != nil {
			b.Fatal(err)
		}
		for at := 0; at < len(x); at += 1 << 20 {
			if _, err := f.Write(x[at:min(at+1<<20, len(x))]); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkPlainRead(b *testing.B) {
	ds, x := images(b)
	p := write(b, ds, pack.WriteOptions{})
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(x)))
	for b.Loop() {
		f, err := os.Open(p)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkVerify(b *testing.B) {
	ds, x := images(b)
	d := open(b, write(b, ds, pack.WriteOptions{}), pack.Options{})
	b.SetBytes(int64(len(x)))
	for b.Loop() {
		if err := d.Verify(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}
