package kerneltest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Blocks of the programs below, of 12 bytes each, arena.Align bytes apart, in device memory and in
// pinned memory.
const (
	memoryBlocks = 6
	pinnedBlocks = 4
)

// testTransfers checks that transfers that overlap other calls have the results of all calls in
// their order, launch after launch, and that other calls are refused in pinned memory. A device
// with unified memory refuses pinned regions.
func testTransfers(t *testing.T, open opener) {
	b, r := openBench(t, open), random(t)
	mem, err := b.dev.Alloc(memoryBlocks * arena.Align)
	must(t, err)
	defer func() { must(t, mem.Free()) }()
	host, err := b.dev.Pin((1 + pinnedBlocks) * arena.Align)
	must(t, err)
	defer func() { must(t, host.Free()) }()
	region := arena.Span{Memory: host, Offset: arena.Align, Size: pinnedBlocks * arena.Align}
	at := kernels.Binding{Memory: mem, Base: []int64{0, -1}, Pinned: map[arena.Region]arena.Span{1: region}}
	if b.dev.Unified() {
		if prog, err := b.dev.Bind(nil, at); err == nil {
			t.Error("pinned memory was not refused")
			must(t, prog.Close())
		}
		return
	}
	for range 20 {
		calls := randomTransfers(r, 1+r.IntN(40))
		image, outside := make([]byte, mem.Size()), host.Bytes()
		for i := range int64(memoryBlocks) {
			kernels.Store(image[i*arena.Align:], arena.Float32, []float64{float64(i), 2, 3})
		}
		for i := range int64(1 + pinnedBlocks) {
			kernels.Store(outside[i*arena.Align:], arena.Float32, []float64{float64(-i), 5, 6})
		}
		must(t, b.write(mem, image))
		want := [2][]byte{bytes.Clone(image), bytes.Clone(outside[arena.Align:])}
		const launches = 3
		for range launches {
			for _, c := range calls {
				must(t, kernels.Run(c, func(o kernels.Operand) []byte { return want[o.Ref.Region][o.Ref.Offset : o.Ref.Offset+o.Bytes()] }))
			}
		}
		prog, err := b.dev.Bind(calls, at)
		must(t, err)
		for range launches {
			must(t, prog.Launch(b.stream))
		}
		must(t, b.stream.Sync())
		got, err := b.read(mem)
		must(t, err)
		if !bytes.Equal(got, want[0]) || !bytes.Equal(host.Bytes()[arena.Align:], want[1]) {
			t.Fatalf("%d calls leave other bytes than one after the other: %v", len(calls), names(calls))
		}
		must(t, prog.Close())
	}
	b.refuseTransfers(t, at)
}

// randomTransfers returns n calls on few blocks: additions, prefetches and writebacks. Values stay
// whole numbers that float32 holds.
func randomTransfers(r *rand.Rand, n int) []kernels.Call {
	x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	block := func(region arena.Region, of int64) kernels.Operand {
		return kernels.Operand{Spec: x, Ref: arena.Ref{Region: region, Offset: r.Int64N(of) * arena.Align, Size: x.Bytes()}}
	}
	calls := make([]kernels.Call, n)
	for i := range calls {
		to := block(0, memoryBlocks)
		switch r.IntN(3) {
		case 0:
			calls[i] = kernels.Call{Op: kernels.Prefetch, In: []kernels.Operand{block(1, pinnedBlocks)},
				Out: []kernels.Operand{to}}
		case 1:
			home := block(1, pinnedBlocks)
			calls[i] = kernels.Call{Op: kernels.Writeback, In: []kernels.Operand{to, home}, Out: []kernels.Operand{home}}
		default:
			calls[i] = kernels.Call{Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 1, Shift: float64(1 + i)},
				In: []kernels.Operand{block(0, memoryBlocks)}, Out: []kernels.Operand{to}}
		}
		calls[i].Label = "random"
	}
	return calls
}

func names(calls []kernels.Call) (all []string) {
	for _, c := range calls {
		all = append(all, c.Op.Name)
	}
	return all
}

// refuseTransfers checks that a device refuses other calls in pinned memory, transfers past its
// end, and pinned regions in device memory.
func (b *bench) refuseTransfers(t *testing.T, at kernels.Binding) {
	t.Helper()
	x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	operand := func(region arena.Region, offset int64) []kernels.Operand {
		return []kernels.Operand{{Spec: x, Ref: arena.Ref{Region: region, Offset: offset, Size: x.Bytes()}}}
	}
	device := at
	device.Pinned = map[arena.Region]arena.Span{1: {Memory: at.Memory, Size: arena.Align}}
	for what, c := range map[string]struct {
		call kernels.Call
		at   kernels.Binding
	}{
		"an addition to pinned memory":  {kernels.Call{Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 1}, In: operand(0, 0), Out: operand(1, 0)}, at},
		"a prefetch past the end":       {kernels.Call{Op: kernels.Prefetch, In: operand(1, pinnedBlocks*arena.Align-4), Out: operand(0, 0)}, at},
		"a prefetch from device memory": {kernels.Call{Op: kernels.Prefetch, In: operand(1, 0), Out: operand(0, 0)}, device},
	} {
		if prog, err := b.dev.Bind([]kernels.Call{c.call}, c.at); err == nil {
			t.Errorf("%s was not refused", what)
			must(t, prog.Close())
		}
	}
}
