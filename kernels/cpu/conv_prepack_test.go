package cpu_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// computed returns the bits of a call's output. Operand k has the contents of in[k], or random ones.
func computed(t testing.TB, d *cpu.Device, op *kernels.Op, attrs any, specs []kernels.Spec, in [][]float64) []byte {
	t.Helper()
	fill := func(_ *rand.Rand, k int, v []float64) { copy(v, in[k]) }
	u := newUse(t, newRand(), d, op, kernels.Case{Attrs: attrs, In: specs, Fill: fill})
	defer u.close(t)
	for range 2 { // each launch restores the memory, the workspace too
		u.launch(t)
	}
	return bytes.Clone(u.results()[0])
}

func TestAPrepackedConvolutionHasTheSameBits(t *testing.T) {
	t.Parallel()
	split := 0
	splitting := map[cpu.Instructions]bool{}
	for _, level := range []cpu.Instructions{cpu.AVX512, cpu.AVX2, cpu.Portable} {
		for _, threads := range []int{1, 3} {
			d, err := cpu.Open(cpu.Options{Threads: threads, Instructions: level})
			if err != nil {
				continue // the processor lacks them
			}
			defer d.Close()
			if level != cpu.Portable {
				splitting[level] = true
			}
			for _, g := range []geometry{
				{1, 32, 64, 14, 3, 1, 1, 1, 1},
				{2, 33, 96, 7, 3, 1, 1, 1, 1},
				{1, 40, 96, 5, 3, 1, 1, 1, 1},
				{1, 35, 32, 9, 3, 1, 0, 1, 1},
				{1, 35, 96, 6, 3, 1, 1, 1, 1},
				{3, 33, 96, 7, 3, 1, 1, 1, 1},
			} {
				for _, typ := range floats {
					for _, act := range []*kernels.Op{nil, kernels.ReLU} {
						attrs, in := g.call(kernels.Conv, typ)
						a := attrs.(kernels.ConvAttrs)
						if a.Act = act; act != nil {
							a.Bias = true
							in = append(in, kernels.Spec{Type: typ, Shape: kernels.Shape{g.out}})
						}
						p, ok := d.Prepack(kernels.Conv, a, in, mustInfer(t, kernels.Conv, a, in))
						if !ok {
							continue
						}
						split++
						if same, what := prepackedIsSame(t, d, a, in, p); !same {
							t.Errorf("%v, %d threads, %v of %v: %s", level, threads, g, typ, what)
						}
					}
				}
			}
		}
	}
	if len(splitting) > 0 && split < 20 {
		t.Errorf("%d convolutions are split with %v", split, splitting)
	}
}

// prepackedIsSame computes a convolution whole and split, on the same numbers.
func prepackedIsSame(t *testing.T, d *cpu.Device, a kernels.ConvAttrs, in []kernels.Spec, p kernels.Prepacked) (bool, string) {
	r := newRand()
	var data [][]float64
	for _, s := range in {
		x := make([]float64, s.Shape.Elems())
		for i := range x {
			x[i] = kernels.Round(s.Type, r.NormFloat64())
		}
		data = append(data, x)
	}
	want := computed(t, d, kernels.Conv, a, in, data)
	k := p.Operand
	packed := mustInfer(t, p.Pack, p.PackAttrs, in[k:k+1])[0]
	u := make([]float64, packed.Shape.Elems())
	kernels.Load(u, packed.Type, computed(t, d, p.Pack, p.PackAttrs, in[k:k+1], data[k:k+1]))
	in[k], data[k] = packed, u
	got := computed(t, d, p.Op, p.Attrs, in, data)
	return sameNumbers(packed.Type, got, want), fmt.Sprintf("other bits: %v, want %v …", got[:8], want[:8])
}

// instructionsOf returns the instructions that d uses.
func instructionsOf(t testing.TB, d *cpu.Device) cpu.Instructions {
	t.Helper()
	i, err := d.Instructions()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// newCall returns a convolution of one image, which is split on every level, with a change.
func newCall(change func(g *geometry, a *kernels.ConvAttrs)) (kernels.ConvAttrs, []kernels.Spec) {
	g := geometry{1, 32, 64, 6, 3, 1, 1, 1, 1} // 9 tiles: of every level's panels, an eighth is idle
	var more kernels.ConvAttrs
	change(&g, &more)
	attrs, in := g.call(kernels.Conv, arena.Float32)
	a := attrs.(kernels.ConvAttrs)
	a.Norm, a.Act, a.ComputeType = more.Norm, more.Act, more.ComputeType
	if a.Norm {
		c := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{g.out}}
		in = append(in, c, c, c)
	}
	return a, in
}

func TestConvolutionsThatAreNotSplit(t *testing.T) {
	t.Parallel()
	for _, level := range []cpu.Instructions{cpu.AVX512, cpu.AVX2, cpu.Portable} {
		d, err := cpu.Open(cpu.Options{Instructions: level})
		if err != nil {
			continue // the processor lacks them
		}
		defer d.Close()
		testSplits(t, d)
	}
}

// testSplits compares the convolutions that d splits with those that it should.
func testSplits(t *testing.T, d *cpu.Device) {
	t.Helper()
	for name, c := range map[string]struct {
		change func(g *geometry, a *kernels.ConvAttrs)
		split  bool
	}{
		"as it is":        {func(*geometry, *kernels.ConvAttrs) {}, true},
		"ReLU":            {func(_ *geometry, a *kernels.ConvAttrs) { a.Act = kernels.ReLU }, true},
		"tanh":            {func(_ *geometry, a *kernels.ConvAttrs) { a.Act = kernels.Tanh }, false},
		"normalized":      {func(_ *geometry, a *kernels.ConvAttrs) { a.Norm = true }, false},
		"rounded":         {func(_ *geometry, a *kernels.ConvAttrs) { a.ComputeType = arena.BFloat16 }, false},
		"5x5":             {func(g *geometry, _ *kernels.ConvAttrs) { g.kernel = 5 }, false},
		"stride 2":        {func(g *geometry, _ *kernels.ConvAttrs) { g.stride = 2 }, false},
		"two groups":      {func(g *geometry, _ *kernels.ConvAttrs) { g.in, g.groups = 64, 2 }, false},
		"no image":        {func(g *geometry, _ *kernels.ConvAttrs) { g.batch = 0 }, false},
		"many images":     {func(g *geometry, _ *kernels.ConvAttrs) { g.batch = 9 }, false},
		"half a panel":    {func(g *geometry, _ *kernels.ConvAttrs) { g.out = 48 }, false},
		"few channels":    {func(g *geometry, _ *kernels.ConvAttrs) { g.in = 31 }, false},
		"a tiny image":    {func(g *geometry, _ *kernels.ConvAttrs) { g.size = 3 }, false},
		"three panels":    {func(g *geometry, _ *kernels.ConvAttrs) { g.out, g.size = 96, 4 }, true},
		"without padding": {func(g *geometry, _ *kernels.ConvAttrs) { g.size, g.pad = 8, 0 }, true},
	} {
		a, in := newCall(c.change)
		want := c.split && instructionsOf(t, d) != cpu.Portable
		if _, ok := d.Prepack(kernels.Conv, a, in, mustInfer(t, kernels.Conv, a, in)); ok != want {
			t.Errorf("%v, %s: split %v, want %v", instructionsOf(t, d), name, ok, want)
		}
	}
	if _, ok := d.Prepack(kernels.Neg, nil, []kernels.Spec{{Type: arena.Float32}}, []kernels.Spec{{Type: arena.Float32}}); ok {
		t.Error("a negation is split")
	}
}

func TestAWinogradConvOfManyTilesIsUnsupported(t *testing.T) {
	t.Parallel()
	d := cputest.Open(t, cpu.Options{})
	defer d.Close()
	for size, want := range map[int]error{2: kernels.ErrUnsupported, 4: nil, 10: nil, 16: kernels.ErrUnsupported} {
		if instructionsOf(t, d) == cpu.Portable {
			want = kernels.ErrUnsupported
		}
		a := kernels.WinogradConvAttrs{Pad: both(1)}
		in := []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{1, 8, size, size}},
			{Type: arena.Float32, Shape: kernels.Shape{1, 16, 8, kernels.WinogradPanel}}}
		if err := d.Supports(kernels.WinogradConv, a, in, mustInfer(t, kernels.WinogradConv, a, in)); !errors.Is(err, want) {
			t.Errorf("%d² pixels: got %v, want %v", size, err, want)
		}
	}
}

// scaledWinogradWeight and scaledWinogradConv return operands at two sizes.
func scaledWinogradWeight(r *rand.Rand, typ arena.DType) scaled {
	of := func(panels, channels int) []kernels.Spec {
		return []kernels.Spec{{Type: typ, Shape: kernels.Shape{panels * kernels.WinogradPanel, channels, 3, 3}}}
	}
	panels, channels := 1+r.IntN(4), sizeUpTo(r, 300)
	return scaled{nil, of(panels, channels), of(1+r.IntN(panels), sizeUpTo(r, channels))}
}

func scaledWinogradConv(r *rand.Rand, typ arena.DType) scaled {
	of := func(rows, panels, channels int) []kernels.Spec {
		return []kernels.Spec{{Type: typ, Shape: kernels.Shape{1, channels, rows, 10}},
			{Type: typ, Shape: kernels.Shape{panels, 16, channels, kernels.WinogradPanel}}}
	}
	rows, panels, channels := 4+r.IntN(7), 1+r.IntN(4), sizeUpTo(r, 300)
	return scaled{kernels.WinogradConvAttrs{Pad: both(1)}, of(rows, panels, channels),
		of(4+r.IntN(rows-3), 1+r.IntN(panels), sizeUpTo(r, channels))}
}

// BenchmarkPrepackedConv is the second convolution of examples/cnn on one image, whole and split.
func BenchmarkPrepackedConv(b *testing.B) {
	d := cputest.Open(b, cpu.Options{Threads: 1})
	defer d.Close()
	if instructionsOf(b, d) == cpu.Portable {
		b.Skip("needs kernels in assembly")
	}
	attrs, in := geometry{1, 32, 64, 14, 3, 1, 1, 1, 1}.call(kernels.Conv, arena.Float32)
	p, ok := d.Prepack(kernels.Conv, attrs, in, mustInfer(b, kernels.Conv, attrs, in))
	if !ok {
		b.Fatal("it is not split")
	}
	packed := []kernels.Spec{in[0], mustInfer(b, p.Pack, p.PackAttrs, in[1:])[0]}
	b.Run("whole", func(b *testing.B) { benchmarkConv(b, kernels.Conv, attrs, in, cpu.Options{Threads: 1}) })
	b.Run("pack", func(b *testing.B) { benchmarkConv(b, p.Pack, p.PackAttrs, in[1:], cpu.Options{Threads: 1}) })
	b.Run("rest", func(b *testing.B) { benchmarkConv(b, p.Op, p.Attrs, packed, cpu.Options{Threads: 1}) })
}
