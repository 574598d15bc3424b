//go:build gpu && cgo

package cuda

import (
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// repeat times work on a stream: n of them between two waits.
func repeat(b *testing.B, s arena.Stream, work func() error) {
	b.Helper()
	for b.Loop() {
		if err := work(); err != nil {
			b.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpload copies pinned memory to the device.
func BenchmarkUpload(b *testing.B) {
	for _, size := range []int64{64 << 10, 4 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			d := opened(b, Options{})
			bed, src, dst := blocks(b, d, size)
			b.SetBytes(size)
			repeat(b, bed.s, func() error { return bed.s.Copy(dst, src) })
		})
	}
}

// blocks makes pinned and device memory of a size.
func blocks(b testing.TB, d *Device, size int64) (bed *bed, pinned, device arena.Span) {
	bed = newBed(b, d)
	host, err := d.Pin(size)
	if err != nil {
		b.Fatal(err)
	}
	mem, err := d.Alloc(size)
	if err != nil {
		b.Fatal(err)
	}
	return bed, arena.Span{Memory: host, Size: size}, arena.Span{Memory: mem, Size: size}
}

// product binds an n×n product of float32.
func product(b testing.TB, d *Device, n int) kernels.Program {
	b.Helper()
	s := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{n, n}}
	at := func(k int64) kernels.Operand {
		return kernels.Operand{Spec: s, Ref: arena.Ref{Offset: k * arena.Round(s.Bytes()), Size: s.Bytes()}}
	}
	in, out := []kernels.Spec{s, s}, []kernels.Spec{s}
	work := d.Workspace(kernels.MatMul, kernels.MatMulAttrs{}, in, out)
	end := 3 * arena.Round(s.Bytes())
	mem, err := d.Alloc(end + work)
	if err != nil {
		b.Fatal(err)
	}
	c := kernels.Call{Op: kernels.MatMul, Attrs: kernels.MatMulAttrs{}, In: []kernels.Operand{at(0), at(1)}, Out: []kernels.Operand{at(2)},
		Work: arena.Ref{Offset: end, Size: work}, Label: "product"}
	p, err := d.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0}})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkProduct is products of square matrices of float32, in operations a second.
func BenchmarkProduct(b *testing.B) {
	for _, n := range []int{128, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := opened(b, Options{})
			bed, p := newBed(b, d), product(b, d, n)
			repeat(b, bed.s, func() error { return p.Launch(bed.s) })
			b.ReportMetric(2*float64(n)*float64(n)*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkOverlap uploads on one stream while another computes for about as long: together over the longer of the two alone. 1 is
// perfect, 2 is one after the other.
func BenchmarkOverlap(b *testing.B) {
	d := opened(b, Options{})
	bed, src, dst := blocks(b, d, 32<<20)
	other, err := d.NewStream("compute")
	if err != nil {
		b.Fatal(err)
	}
	p := product(b, d, 512)
	took := func(copies bool, launches int) time.Duration {
		start := time.Now()
		if copies {
			if err := bed.s.Copy(dst, src); err != nil {
				b.Fatal(err)
			}
		}
		for range launches {
			if err := p.Launch(other); err != nil {
				b.Fatal(err)
			}
		}
		for _, s := range []arena.Stream{bed.s, other} {
			if err := s.Sync(); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
	took(true, 1) // the first of each is slow
	upload, one := took(true, 0), took(false, 1)
	launches := max(1, int(upload/one))
	var both, alone time.Duration
	for b.Loop() {
		alone += max(took(true, 0), took(false, launches))
		both += took(true, launches)
	}
	b.ReportMetric(float64(both)/float64(alone), "together/alone")
}
