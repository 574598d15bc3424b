//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"gorgonia.org/cu"
)

// setting changes a setting of the emulated driver until the end of the test.
func setting(t testing.TB, name string, value, usual int64) {
	t.Helper()
	if err := fakecuda.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fakecuda.Set(name, usual); err != nil {
			t.Error(err)
		}
	})
}

// peer is a rank of a test.
type peer struct {
	*Comm
	d     *Device
	s     arena.Stream
	local group.Group
}

// several skips a test or benchmark where there are fewer than n GPUs, or no NCCL.
func several(t testing.TB, n int) {
	t.Helper()
	if fakecuda.Loaded() {
		setting(t, "devices", int64(n), 1)
		fakecuda.Forget()
	}
	if have, err := cu.NumDevices(); err != nil || have < n {
		t.Skipf("needs %d GPUs: there are %d, %v", n, have, err)
	}
	lib, err := openNCCL()
	if err != nil {
		t.Skipf("needs NCCL: %v", err)
	}
	lib.free()
}

// joined calls f for each of n ranks, at once, each on a GPU of its own.
func joined(t testing.TB, n int, o Options, limit time.Duration, f func(p *peer) error) {
	t.Helper()
	several(t, n)
	all, err := group.Local(n, group.Options{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	devices := make([]*Device, n)
	for r := range n {
		o.Device = r
		devices[r] = opened(t, o)
	}
	var wg sync.WaitGroup
	for r, g := range all {
		wg.Go(func() {
			p := &peer{d: devices[r], local: g}
			var err error
			if p.Comm, err = devices[r].Join(t.Context(), g, group.Options{Limit: limit}); err != nil {
				t.Errorf("rank %d: %v", r, err)
				return
			}
			defer func() {
				if err := p.Close(); err != nil {
					t.Errorf("rank %d: close: %v", r, err)
				}
			}()
			if p.s, err = devices[r].NewStream("test"); err != nil {
				t.Error(err)
				return
			}
			if err := f(p); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
	for _, g := range all {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// quiet fails the test if the emulated driver has reported anything.
func quiet(t *testing.T) {
	t.Helper()
	for _, r := range fakecuda.Reports() {
		t.Error(r)
	}
}

// onDevice copies bytes to new device memory; the second function reads it.
func (p *peer) onDevice(data []byte) (arena.Memory, func() ([]byte, error), error) {
	mem, e1 := p.d.Alloc(int64(len(data)))
	host, e2 := p.d.Pin(int64(len(data)))
	if err := errors.Join(e1, e2); err != nil {
		return nil, nil, err
	}
	m, h := arena.Span{Memory: mem, Size: int64(len(data))}, arena.Span{Memory: host, Size: int64(len(data))}
	copy(host.Bytes(), data)
	err := errors.Join(p.s.Copy(m, h), p.s.Sync())
	return mem, func() ([]byte, error) {
		err := errors.Join(p.s.Copy(h, m), p.s.Sync())
		return append([]byte(nil), host.Bytes()...), err
	}, err
}

// Each kind, type and number of ranks computes what a group of the host does, on ranges of any size.
func TestCollectivesComputeWhatALocalGroupDoes(t *testing.T) {
	copies := []group.Kind{group.Broadcast, group.AllGather}
	sums := append([]group.Kind{group.Sum, group.ReduceScatter}, copies...)
	types := []struct {
		elem  arena.DType
		kinds []group.Kind
	}{
		{arena.Float32, sums}, {arena.Float64, append([]group.Kind{group.Max}, sums...)}, {arena.Int32, append([]group.Kind{group.Max}, sums...)},
		{arena.Int64, copies}, {arena.Uint8, copies}, {arena.BFloat16, copies}, {arena.Float16, copies},
	}
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if n > 2 {
				emulated(t) // NVIDIA's adds more than two numbers in an order of its own
			}
			joined(t, n, Options{}, 20*time.Second, func(p *peer) error {
				for _, x := range types {
					for _, kind := range x.kinds {
						for _, elements := range []int64{1, 7, 20000} {
							if err := p.sameAsLocal(group.Op{Kind: kind, Type: x.elem, Root: p.Size() - 1, Label: fmt.Sprint(elements)}, elements*x.elem.Size()); err != nil {
								return err
							}
						}
					}
				}
				return nil
			})
			quiet(t)
		})
	}
}

// sameAsLocal runs an operation of bytes for each rank on the device, and on the host.
func (p *peer) sameAsLocal(op group.Op, bytes int64) error {
	if op.Kind == group.AllGather || op.Kind == group.ReduceScatter {
		bytes *= int64(p.Size())
	}
	if op.Kind != group.Broadcast {
		op.Root = 0
	}
	r := rand.New(rand.NewPCG(7, uint64(p.Rank())))
	words := make([]uint64, (bytes+7)/8)
	data := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), bytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	switch op.Type {
	case arena.Float32:
		for i := range bytes / 4 {
			unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), bytes/4)[i] = float32(r.NormFloat64())
		}
	case arena.Float64:
		for i := range bytes / 8 {
			unsafe.Slice((*float64)(unsafe.Pointer(&data[0])), bytes/8)[i] = r.NormFloat64()
		}
	}
	mem, read, err := p.onDevice(data)
	if err != nil {
		return err
	}
	op.Data = data
	if err := group.Once(p, op); err != nil {
		return err
	}
	if err := p.Enqueue(p.s, Collective{Kind: op.Kind, Type: op.Type, Root: op.Root, Data: arena.Span{Memory: mem, Size: bytes}}); err != nil {
		return err
	}
	got, err := read()
	if err == nil && string(got) != string(data) {
		err = fmt.Errorf("%v of %d ranks: the device has other bytes than a local group", op, p.Size())
	}
	return errors.Join(err, mem.Free())
}

// Sums of 16 bits, which groups of the host do not have, are those of numbers that need no rounding.
func TestSumsOf16Bits(t *testing.T) {
	joined(t, 2, Options{}, 20*time.Second, func(p *peer) error {
		for _, x := range []struct {
			elem            arena.DType
			one, two, three uint16
		}{{arena.BFloat16, 0x3f80, 0x4000, 0x4040}, {arena.Float16, 0x3c00, 0x4000, 0x4200}} {
			v := []uint16{x.one, x.two}[p.Rank()]
			mem, read, err := p.onDevice([]byte{byte(v), byte(v >> 8)})
			if err != nil {
				return err
			}
			if err := p.Enqueue(p.s, Collective{Kind: group.Sum, Type: x.elem, Data: arena.Span{Memory: mem, Size: 2}}); err != nil {
				return err
			}
			got, err := read()
			if err != nil {
				return err
			}
			if sum := uint16(got[0]) | uint16(got[1])<<8; sum != x.three {
				t.Errorf("%v: 1 + 2 is %#x, want %#x", x.elem, sum, x.three)
			}
		}
		return nil
	})
	quiet(t)
}

func TestACollectiveThatCannotBeRightIsRefused(t *testing.T) {
	joined(t, 2, Options{}, 20*time.Second, func(p *peer) error {
		mem, err := p.d.Alloc(64)
		if err != nil {
			return err
		}
		host, err := p.d.Pin(64)
		if err != nil {
			return err
		}
		for want, c := range map[string]Collective{
			"NCCL has no barrier":         {Kind: group.Barrier},
			"NCCL has no type":            {Kind: group.Sum},
			"Root is 2: use 0 to 1":       {Kind: group.Broadcast, Type: arena.Uint8, Root: 2},
			"multiples of an element's 4": {Kind: group.Sum, Type: arena.Float32, Data: arena.Span{Memory: mem, Offset: 2, Size: 4}},
			"cannot share equally":        {Kind: group.AllGather, Type: arena.Float32, Data: arena.Span{Memory: mem, Size: 12}},
			"pinned memory":               {Kind: group.Sum, Type: arena.Float32, Data: arena.Span{Memory: host, Size: 8}},
		} {
			var e *group.OpError
			if err := p.Enqueue(p.s, c); !errors.As(err, &e) || !errors.Is(err, arena.ErrOption) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an OpError with %q", err, want)
			}
		}
		return nil
	})
	quiet(t)
}

// What NCCL takes of a device counts as memory of the driver's own, until it is closed.
func TestTheMemoryOfNCCLIsCounted(t *testing.T) {
	emulated(t)
	d := opened(t, Options{})
	all, err := group.Local(1, group.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer all[0].Close()
	before, e1 := d.Info()
	c, e2 := d.Join(t.Context(), all[0], group.Options{})
	if err := errors.Join(e1, e2); err != nil {
		t.Fatal(err)
	}
	during, e1 := d.Info()
	e2 = c.Close()
	after, e3 := d.Info()
	if err := errors.Join(e1, e2, e3); err != nil {
		t.Fatal(err)
	}
	const own = 1 << 20 // of the emulated NCCL
	if during.Context != before.Context+own || during.Free != before.Free-own || after != before {
		t.Errorf("before %+v, joined %+v, closed %+v", before, during, after)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// BenchmarkSumOverGPUs measures sums over two GPUs, by the time of the host for several.
func BenchmarkSumOverGPUs(b *testing.B) {
	const times = 10
	sizes := map[string]int64{"4MiB": 4 << 20, "128MiB": 128 << 20}
	if testing.Short() {
		sizes = map[string]int64{"4KiB": 4 << 10}
	}
	for name, bytes := range sizes {
		b.Run(name, func(b *testing.B) {
			joined(b, 2, Options{}, time.Minute, func(p *peer) error {
				more := []byte{0}
				ask, e1 := p.Prepare(group.Op{Kind: group.Broadcast, Type: arena.Uint8, Data: more})
				mem, e2 := p.d.Alloc(bytes)
				err := errors.Join(e1, e2)
				for err == nil {
					if p.Rank() == 0 && b.Loop() {
						more[0] = 1
					} else {
						more[0] = 0
					}
					if err = group.Run(ask); err != nil || more[0] == 0 {
						break
					}
					data := arena.Span{Memory: mem, Size: bytes}
					err = p.s.Fill(data, 0)
					for range times {
						err = errors.Join(err, p.Enqueue(p.s, Collective{Kind: group.Sum, Type: arena.Float32, Data: data}))
					}
					err = errors.Join(err, p.s.Sync())
				}
				if p.Rank() == 0 {
					one := b.Elapsed().Seconds() / float64(b.N) / times
					b.ReportMetric(one*1e9, "ns/op")
					b.ReportMetric(float64(bytes)/one/1e9, "GB/s")
				}
				return err
			})
		})
	}
}
