package kerneltest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// testSupports checks that a device refuses a missing operation, and dimensions below 0.
func testSupports(t *testing.T, open opener) {
	dev, r := openBench(t, open).dev, random(t)
	if err := dev.Supports(nil, nil, nil, nil); err == nil {
		t.Error("no operation is supported")
	}
	if n := dev.Workspace(nil, nil, nil, nil); n != 0 {
		t.Errorf("no operation wants %d bytes", n)
	}
	for _, op := range kernels.All() {
		c := op.Cases(r, arena.Float32)
		for k, s := range c.In {
			for d := range s.Shape {
				in := slices.Clone(c.In)
				in[k].Shape = slices.Clone(s.Shape)
				in[k].Shape[d] = -1
				out, err := op.Infer(c.Attrs, in)
				if err != nil {
					continue
				}
				if err := dev.Supports(op, c.Attrs, in, out); !errors.Is(err, kernels.ErrShape) {
					t.Errorf("%s on %v: got %v, want ErrShape", op.Name, in, err)
				}
			}
		}
	}
}

// testPrograms checks that calls run in order, that a program is bound to its addresses, and that
// bad calls are refused.
func testPrograms(t *testing.T, open opener) {
	b := openBench(t, open)
	x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	at := func(region arena.Region, slot int64) kernels.Operand {
		return kernels.Operand{Spec: x, Ref: arena.Ref{Region: region, Offset: slot * arena.Align, Size: x.Bytes()}}
	}
	attrs := kernels.AffineAttrs{Scale: 2, Shift: 1}
	var calls []kernels.Call
	for i := range int64(8) { // a chain over ten places, whose first is in another region
		from := at(1, i)
		if i == 0 {
			from = at(0, 0)
		}
		calls = append(calls, kernels.Call{
			Op: kernels.Affine, Attrs: attrs, Label: "link",
			In: []kernels.Operand{from}, Out: []kernels.Operand{at(1, i+1)},
		})
	}
	mem, err := b.dev.Alloc(12 * arena.Align)
	must(t, err)
	defer func() { must(t, mem.Free()) }()
	for slot := range int64(2) { // two bindings of the same calls: region 0 is slot 0 or 1
		image := make([]byte, mem.Size())
		kernels.Store(image[slot*arena.Align:], arena.Float32, []float64{1, float64(slot), -1})
		must(t, b.write(mem, image))
		prog, err := b.dev.Bind(calls, kernels.Binding{Memory: mem, Base: []int64{slot * arena.Align, 2 * arena.Align}})
		must(t, err)
		must(t, prog.Launch(b.stream), b.stream.Sync())
		after, err := b.read(mem)
		must(t, err)
		must(t, prog.Close(), prog.Close())
		got := make([]float64, 3)
		kernels.Load(got, arena.Float32, after[10*arena.Align:])
		for i, v := range []float64{1, float64(slot), -1} {
			if want := 256*v + 255; got[i] != want {
				t.Errorf("slot %d, element %d after eight calls: got %v, want %v", slot, i, got[i], want)
			}
		}
	}
	b.refuse(t, mem, calls[0])
	b.copies(t, mem, calls[:1])
}

// copies checks the copies at the end of a program: to pinned memory and within device memory, at
// each launch anew.
func (b *bench) copies(t *testing.T, mem arena.Memory, calls []kernels.Call) {
	t.Helper()
	host, err := b.dev.Pin(arena.Align)
	must(t, err)
	defer func() { must(t, host.Free()) }()
	at := func(m arena.Memory, block int64) arena.Span {
		return arena.Span{Memory: m, Offset: block * arena.Align, Size: 12}
	}
	bind := kernels.Binding{Memory: mem, Base: []int64{0, 2 * arena.Align}, After: []kernels.Copy{
		{Dst: at(mem, 11), Src: at(mem, 3)}, // what the call has made
		{Dst: at(host, 0), Src: at(mem, 11)},
	}}
	prog, err := b.dev.Bind(calls, bind)
	must(t, err)
	for launch := range 2 {
		image := make([]byte, mem.Size())
		x := []float64{1, float64(launch), -1}
		kernels.Store(image, arena.Float32, x)
		must(t, b.write(mem, image))
		must(t, prog.Launch(b.stream), b.stream.Sync())
		got := make([]float64, 3)
		kernels.Load(got, arena.Float32, host.Bytes())
		for i, v := range x {
			if want := 2*v + 1; got[i] != want {
				t.Errorf("launch %d, element %d of the copy after a call: got %v, want %v", launch, i, got[i], want)
			}
		}
	}
	must(t, prog.Close())
	bind.After[0].Dst.Size = 8
	if prog, err = b.dev.Bind(calls, bind); err == nil {
		t.Error("a copy of 12 bytes to 8 was not refused")
		must(t, prog.Close())
	}
	bind.After[0].Dst = arena.Span{Memory: mem, Offset: mem.Size() - 4, Size: 12}
	if prog, err = b.dev.Bind(calls, bind); err == nil {
		t.Error("a copy past the end of a block was not refused")
		must(t, prog.Close())
	}
}

// refuse checks that calls whose operands do not lie in memory are refused when bound.
func (b *bench) refuse(t *testing.T, mem arena.Memory, good kernels.Call) {
	t.Helper()
	bad := map[string]func(r *arena.Ref){
		"a place past the end":       func(r *arena.Ref) { r.Offset = mem.Size() - 4 },
		"a place before the start":   func(r *arena.Ref) { r.Offset = -arena.Align },
		"a place that overflows":     func(r *arena.Ref) { r.Offset = math.MaxInt64 - 4 },
		"a region that is not bound": func(r *arena.Ref) { r.Region = 7 },
		"a negative region":          func(r *arena.Ref) { r.Region = -1 },
	}
	for what, spoil := range bad {
		c := good
		c.Out = []kernels.Operand{good.Out[0]}
		spoil(&c.Out[0].Ref)
		prog, err := b.dev.Bind([]kernels.Call{c}, kernels.Binding{Memory: mem, Base: []int64{0, 2 * arena.Align}})
		if err == nil {
			t.Errorf("%s was not refused", what)
			must(t, prog.Close())
		}
	}
}
