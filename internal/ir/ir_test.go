package ir_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/kernels"
)

func TestAProgramPrintsAsALineForEachHomeAndInstruction(t *testing.T) {
	b := irtest.New(t)
	x, w := b.X(4, 5), b.X(3, 5)
	y := b.Op("layer/xw", kernels.MatMul, kernels.MatMulAttrs{TransB: true, Bias: true, Act: kernels.Tanh}, x, w, b.X(3))
	b.Values[y].Ref = arena.Ref{Region: ir.Scratch, Offset: 256, Size: 48}
	b.Backward = true
	b.Mark = "fallback, allocates"
	z := b.Op("layer/y", kernels.Chain, &kernels.ChainAttrs{
		Steps: []kernels.Step{
			{Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 2}, A: 0, B: -1},
			{Op: kernels.Fill, Attrs: kernels.FillAttrs{Type: arena.Float32, Value: 3}, A: -1, B: -1},
			{Op: kernels.Add, A: 1, B: 2},
		},
		Reduce: kernels.Sum, ReduceAttrs: kernels.ReduceAttrs{Axes: []int{1}},
	}, y)
	b.Values[z].Of, b.Values[z].Delta = y, 16
	b.Need(y, z)
	const want = `%0 = parameters "x0" float32 (4, 5)
%1 = parameters "x1" float32 (3, 5)
%2 = parameters "x2" float32 (3)
%3 = matmul %0 %1 %2 {TransB Bias Act:tanh} float32 (4, 3) @scratch:256 "layer/xw"
%4 = chain %3 {affine(0){Scale:2}; fill{Type:float32 Value:3}; add(1, 2); sum Axes:[1]} float32 (4) alias %3+16 "layer/y" backward fallback, allocates
needed %3 %4
`
	if got := b.Program.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAnOwnerIsInferredFromParametersFirst(t *testing.T) {
	b := irtest.New(t)
	x := b.HomeOf(ir.Slot, "x", arena.Float32, 4)
	b.Values[x].Owner = "batch"
	w := b.X(4)
	b.Values[w].Owner = "dense"
	for _, c := range []struct {
		in   []kernels.Value
		want string
	}{{[]kernels.Value{x, w}, "dense"}, {[]kernels.Value{x, x}, "batch"}} {
		y := b.Apply(kernels.Add, nil, c.in...)
		if got := b.Values[y].Owner; got != c.want {
			t.Errorf("add %v: got owner %q, want %q", c.in, got, c.want)
		}
	}
	b.Owner = "given"
	if got := b.Values[b.Apply(kernels.Neg, nil, w)].Owner; got != "given" {
		t.Errorf("got owner %q, want that of the builder", got)
	}
}

func TestPanicsOfABuilderBecomeErrors(t *testing.T) {
	recovered := func(f func()) (err error) {
		defer func() { err = ir.Recovered(recover()) }()
		f()
		return nil
	}
	b := irtest.New(t)
	err := recovered(func() { b.Op("hidden/xw", kernels.MatMul, kernels.MatMulAttrs{}, b.X(2, 3), b.X(2, 3)) })
	if !errors.Is(err, kernels.ErrShape) || !strings.Contains(err.Error(), "hidden/xw") {
		t.Errorf("operands that do not fit: got %v, want ErrShape that names hidden/xw", err)
	}
	if err := recovered(func() { panic("rule") }); !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("another panic: got %v, want ErrUnsupported", err)
	}
	if err := recovered(func() {}); err != nil {
		t.Errorf("no panic: got %v", err)
	}
}

// Transfers run one after the other, concurrently with compute, and a reader of a copy waits for
// it.
func TestTransfersOverlapWithWork(t *testing.T) {
	const n = 1 << 12
	const transfer, tanh = ir.BusBalance * n * 4, 2 * n * 4
	for _, c := range []struct {
		compute int // instructions between the transfer and its reader
		want    int64
	}{{0, transfer + tanh}, {3, transfer + tanh}, {100, 101 * tanh}} {
		b := irtest.New(t)
		copied := b.Op("copy", kernels.Prefetch, nil, b.HomeOf(ir.HostParameters, "w", arena.Float32, n))
		x := b.X(n)
		for range c.compute {
			x = b.Op("compute", kernels.Tanh, nil, x)
		}
		b.Need(x, b.Op("reader", kernels.Tanh, nil, copied))
		if got := b.Program.Work().Time; got != c.want {
			t.Errorf("%d instructions before the reader: got a time of %d, want %d", c.compute, got, c.want)
		}
	}
}

func TestHomesRepeatAllOrNothing(t *testing.T) {
	spec := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{100}}
	place := func(h *ir.Homes, names ...string) {
		for _, name := range names {
			if _, err := h.Place(ir.Parameters, "", name, spec); err != nil {
				t.Fatal(err)
			}
		}
	}
	var recorded, same, other ir.Homes
	place(&recorded, "a", "b", "a", "c")
	place(&same, "a")
	if !same.Repeat(recorded.Asked()) || same.Bytes(ir.Parameters) != recorded.Bytes(ir.Parameters) {
		t.Errorf("homes that begin alike: got %v, want %v", same.Parts(ir.Parameters), recorded.Parts(ir.Parameters))
	}
	place(&other, "b")
	before := fmt.Sprint(other)
	if other.Repeat(recorded.Asked()) {
		t.Error("homes that begin otherwise are repeated")
	}
	if after := fmt.Sprint(other); after != before {
		t.Errorf("a repetition that fails leaves %s, want %s", after, before)
	}
}
