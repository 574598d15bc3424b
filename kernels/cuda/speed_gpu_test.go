//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"gorgonia.org/cu"
)

// The benchmarks measure on the device, by events; -test.short makes everything small, to see
// whether they run at all. Before the first figure a process prints the GPU and its limits, as
// lines "key: value" of the format of benchmarks.

var sayLimits sync.Once

// limitsFor returns the limits of a device.
func limitsFor(b *testing.B, d *Device) limits {
	b.Helper()
	var clock, memory, bus int
	for to, key := range map[*int]cu.DeviceAttribute{&clock: cu.ClockRate, &memory: cu.MemoryClockRate, &bus: cu.GlobalMemoryBusWidth} {
		var err error
		if *to, err = d.gpu.Attribute(key); err != nil {
			b.Fatal(err)
		}
	}
	l := limitsOf(&d.props, clock, memory, bus)
	sayLimits.Do(func() {
		fmt.Printf("\ngpu: %s\ncapability: %d.%d\nprocessors: %d\nclock-kHz: %d\nmemory-clock-kHz: %d\nmemory-bus-bits: %d\n",
			d.props.name, d.props.capability/10, d.props.capability%10, d.props.processors, clock, memory, bus)
		fmt.Printf("limit-GB/s: %.4g\nlimit-float32-GFLOP/s: %.4g\nlimit-tf32-GFLOP/s: %.4g\nlimit-bf16-GFLOP/s: %.4g\n",
			l.bandwidth/1e9, l.rates[Full]/1e9, l.rates[TF32]/1e9, l.rates[BFloat16]/1e9)
	})
	return l
}

func sizesOf() sizes {
	if testing.Short() {
		return smallSizes
	}
	return largeSizes
}

// marker is an event that keeps the time.
type marker struct {
	d *Device
	e cu.Event
}

func newMarker(b *testing.B, d *Device) *marker {
	b.Helper()
	m := &marker{d: d}
	m.call(b, func() (err error) { m.e, err = cu.MakeEvent(cu.DefaultEvent); return err })
	b.Cleanup(func() { m.call(b, func() error { return cu.DestroyEvent(&m.e) }) })
	return m
}

func (m *marker) call(b *testing.B, f func() error) {
	b.Helper()
	if err := m.d.enter("marker"); err != nil {
		b.Fatal(err)
	}
	defer m.d.leave()
	if err := f(); err != nil {
		b.Fatal(err)
	}
}

func (m *marker) record(b *testing.B, s *stream) {
	m.call(b, func() error { return m.e.Record(s.handle) })
}

// since is the time from another marker to this one, both of them done.
func (m *marker) since(b *testing.B, from *marker) time.Duration {
	var ms float64
	m.call(b, func() (err error) { ms, err = from.e.Elapsed(m.e); return err })
	return time.Duration(ms * float64(time.Millisecond))
}

// warmUp is how long work runs before it is timed, at least once: clocks rise when there is
// something to do.
const warmUp = 20 * time.Millisecond

// timeOnDevice enqueues work as often as the benchmark asks, and returns the device's time for one.
func timeOnDevice(b *testing.B, s *stream, work func() error) time.Duration {
	b.Helper()
	from, to := newMarker(b, s.dev), newMarker(b, s.dev)
	for began, warm := time.Now(), false; !warm; warm = testing.Short() || time.Since(began) > warmUp {
		if err := errors.Join(work(), s.Sync()); err != nil {
			b.Fatal(err)
		}
	}
	from.record(b, s)
	for b.Loop() {
		if err := work(); err != nil {
			b.Fatal(err)
		}
	}
	to.record(b, s)
	if err := s.Sync(); err != nil {
		b.Fatal(err)
	}
	one := max(to.since(b, from)/time.Duration(b.N), 1)
	b.ReportMetric(float64(one), "ns/op")
	return one
}

// share reports a rate in units of 1e9, and what share of a limit it is.
func share(b *testing.B, perSecond, limit float64, unit string) {
	b.ReportMetric(perSecond/1e9, "G"+unit+"/s")
	if limit > 0 {
		b.ReportMetric(100*perSecond/limit, "%"+unit)
	}
}

// patternBytes is how much of operands is made: the rest repeats it.
const patternBytes = 1 << 20

// fill writes an operand: standard normal numbers a little away from 0, whole numbers below a limit.
func (l *lab) fill(b *testing.B, mem arena.Memory, o kernels.Operand, below int) {
	b.Helper()
	n := int(min(o.Bytes(), patternBytes) / o.Type.Size())
	data, r := make([]float64, n), rand.New(rand.NewPCG(1, uint64(n)))
	for i := range data {
		switch {
		case o.Type.Float():
			data[i] = 0.5 + 0.1*r.NormFloat64()
		case below > 0:
			data[i] = float64(r.IntN(below))
		}
	}
	kernels.Store(l.pinned.Bytes(), o.Type, data)
	for done := int64(0); done < o.Bytes(); {
		size := min(int64(n)*o.Type.Size(), o.Bytes()-done)
		if err := l.stream.Copy(arena.Span{Memory: mem, Offset: o.Ref.Offset + done, Size: size}, arena.Span{Memory: l.pinned, Size: size}); err != nil {
			b.Fatal(err)
		}
		done += size
	}
	if err := l.stream.Sync(); err != nil {
		b.Fatal(err)
	}
}

// lab is a device with what measuring takes.
type lab struct {
	*Device
	stream *stream
	pinned arena.Memory
	limits limits
}

func newLab(b *testing.B, o Options) *lab {
	b.Helper()
	d, err := Open(o)
	var missing *NoLibraryError
	if errors.Is(err, kernels.ErrUnsupported) || errors.As(err, &missing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	s, e1 := d.NewStream("measured")
	pinned, e2 := d.Pin(patternBytes)
	if err := errors.Join(e1, e2); err != nil {
		b.Fatal(err)
	}
	return &lab{d, s.(*stream), pinned, limitsFor(b, d)}
}

// bound places, fills and binds a call.
func (l *lab) bound(b *testing.B, op *kernels.Op, m measured) (p kernels.Program, c kernels.Call, mem arena.Memory) {
	b.Helper()
	c, size := callOf(b, &l.props, op, m.attrs, m.in)
	mem, err := l.Alloc(size)
	if err != nil {
		b.Fatal(err)
	}
	for _, o := range c.In {
		below := m.below
		if o.Type == arena.Int32 && o.Shape.Elems() == 4 {
			below = 0 // a guard: nothing is wrong
		}
		l.fill(b, mem, o, below)
	}
	if p, err = l.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0}}); err != nil {
		b.Fatal(err)
	}
	return p, c, mem
}

// measure times a call. Bytes are those of its operands, once each.
func (l *lab) measure(b *testing.B, op *kernels.Op, m measured, rate float64) {
	b.Helper()
	p, c, mem := l.bound(b, op, m)
	one := timeOnDevice(b, l.stream, func() error { return p.Launch(l.stream) })
	var bytes int64
	for _, o := range append(c.In, c.Out...) {
		bytes += o.Bytes()
	}
	flops := int64(c.Out[0].Shape.Elems())
	if op.Cost != nil {
		flops = op.Cost(m.attrs, m.in, kernels.Specs(c.Out))
	}
	share(b, float64(bytes)/one.Seconds(), l.limits.bandwidth, "B")
	if flops > 0 {
		share(b, float64(flops)/one.Seconds(), rate, "FLOP")
	}
	if err := errors.Join(p.Close(), mem.Free()); err != nil {
		b.Error(err)
	}
}

// BenchmarkKernel measures every operation of the table on large operands.
func BenchmarkKernel(b *testing.B) {
	l := newLab(b, Options{})
	for _, op := range kernels.All() {
		if m, ok := measuredUse(op, sizesOf()); ok {
			b.Run(op.Name, func(b *testing.B) { l.measure(b, op, m, l.limits.rates[Full]) })
		}
	}
}

// BenchmarkProduct measures products of square matrices of float32 by precision, and of such that
// are stored in 16 bits.
func BenchmarkProduct(b *testing.B) {
	products(b, false)
	l := newLab(b, Options{})
	for x, t := range map[Precision]arena.DType{BFloat16: arena.BFloat16, Float16: arena.Float16} {
		n := sizesOf().product
		half := kernels.Spec{Type: t, Shape: kernels.Shape{n, n}}
		m := measured{attrs: kernels.MatMulAttrs{ComputeType: t}, in: []kernels.Spec{half, half}}
		b.Run(fmt.Sprintf("%v-stored/%d", x, n), func(b *testing.B) { l.measure(b, kernels.MatMul, m, l.limits.rates[x]) })
	}
}

// BenchmarkCuBLAS measures the same by cuBLAS.
func BenchmarkCuBLAS(b *testing.B) { products(b, true) }

func products(b *testing.B, cublas bool) {
	for x := Full; x <= Float16; x++ {
		b.Run(x.String(), func(b *testing.B) {
			l := newLab(b, Options{Products: x, CuBLAS: cublas})
			for _, n := range []int{sizesOf().product / 4, sizesOf().product} {
				m := measured{attrs: kernels.MatMulAttrs{}, in: []kernels.Spec{float(n, n), float(n, n)}}
				b.Run(fmt.Sprint(n), func(b *testing.B) { l.measure(b, kernels.MatMul, m, l.limits.rates[x]) })
			}
		})
	}
}

// BenchmarkUpload copies pinned memory to the device.
func BenchmarkUpload(b *testing.B) {
	l := newLab(b, Options{})
	for _, size := range []int64{64 << 10, 4 << 20, 64 << 20} {
		if testing.Short() {
			size >>= 6
		}
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			to, from := l.copied(b, size)
			one := timeOnDevice(b, l.stream, func() error { return l.stream.Copy(to, from) })
			b.ReportMetric(float64(size)/one.Seconds()/1e9, "GB/s")
			if err := errors.Join(to.Memory.Free(), from.Memory.Free()); err != nil {
				b.Error(err)
			}
		})
	}
}

// copied makes device memory and pinned memory of a size.
func (l *lab) copied(b *testing.B, size int64) (device, pinned arena.Span) {
	b.Helper()
	mem, e1 := l.Alloc(size)
	host, e2 := l.Pin(size)
	if err := errors.Join(e1, e2); err != nil {
		b.Fatal(err)
	}
	return arena.Span{Memory: mem, Size: size}, arena.Span{Memory: host, Size: size}
}

// BenchmarkOverlap uploads on one stream while another computes for about as long. Overlap is the
// share of the shorter in which both ran, in percent; together/alone is the time of both over that
// of the longer alone: 1 is perfect, 2 is one after the other.
func BenchmarkOverlap(b *testing.B) {
	l := newLab(b, Options{})
	size := int64(64 << 20)
	n := sizesOf().product / 4
	if testing.Short() {
		size >>= 6
	}
	to, from := l.copied(b, size)
	other, err := l.NewStream("compute")
	if err != nil {
		b.Fatal(err)
	}
	p, _, _ := l.bound(b, kernels.MatMul, measured{attrs: kernels.MatMulAttrs{}, in: []kernels.Spec{float(n, n), float(n, n)}})
	o := &overlap{l, other.(*stream), [4]*marker{newMarker(b, l.Device), newMarker(b, l.Device), newMarker(b, l.Device), newMarker(b, l.Device)}}
	upload := func() error { return l.stream.Copy(to, from) }
	launches := 1
	compute := func() error {
		var errs []error
		for range launches {
			errs = append(errs, p.Launch(other))
		}
		return errors.Join(errs...)
	}
	nothing := func() error { return nil }
	o.run(b, upload, compute) // the first of each is slow
	copies, _, _, _ := o.run(b, upload, nothing)
	_, one, _, _ := o.run(b, nothing, compute)
	launches = max(1, int(copies/max(one, 1)))
	var both, longer, shared, shorter time.Duration
	for b.Loop() {
		copying, _, _, _ := o.run(b, upload, nothing)
		_, computing, _, _ := o.run(b, nothing, compute)
		c, k, all, in := o.run(b, upload, compute)
		longer, both = longer+max(copying, computing), both+all
		shorter, shared = shorter+min(c, k), shared+in
	}
	b.ReportMetric(float64(both)/float64(longer), "together/alone")
	b.ReportMetric(100*float64(shared)/float64(shorter), "%overlap")
}

// overlap runs two kinds of work on two streams between markers: the beginnings of both, and the
// ends of both.
type overlap struct {
	*lab
	compute *stream
	marks   [4]*marker
}

// run returns how long each took, how long both together, and how long both ran at once.
func (o *overlap) run(b *testing.B, upload, compute func() error) (copying, computing, all, shared time.Duration) {
	o.marks[0].record(b, o.stream)
	o.marks[1].record(b, o.compute)
	if err := errors.Join(compute(), upload()); err != nil {
		b.Fatal(err)
	}
	o.marks[2].record(b, o.stream)
	o.marks[3].record(b, o.compute)
	if err := errors.Join(o.stream.Sync(), o.compute.Sync()); err != nil {
		b.Fatal(err)
	}
	begun := o.marks[1].since(b, o.marks[0]) // of the computing, after the beginning of the copy
	copying, end := max(o.marks[2].since(b, o.marks[0]), 1), o.marks[3].since(b, o.marks[0])
	computing = max(end-begun, 1)
	return copying, computing, max(copying, end), max(0, min(copying, end)-max(0, begun))
}
