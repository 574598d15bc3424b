package compile

import (
	"slices"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Fusion decides which activations are kept, so only passes about order and placement keep the bits
// of a step with 16-bit values.
func TestOrderAndPlacesKeepTheBitsOf16Bits(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		o, kept := optim.Adam{}, 0
		for s := range uint64(40) {
			s += seed.Value() * 1000
			g, loss := randomGraph(s, tensor.Float32, false)
			cfg := g.config(dev, loss)
			cfg.Update = updateOf(o, optim.Clip{})
			cfg.Precision.Type = []arena.DType{arena.BFloat16, arena.Float16}[s%2]
			want, p := g.steps(t, dev, cfg, o, 2)
			for _, in := range p.Instrs {
				if in.Op == kernels.Encode {
					kept++
				}
			}
			for _, cfg.Off = range []Pass{Order, InPlace, Views, Order | InPlace | Views} {
				got, q := g.steps(t, dev, cfg, o, 2)
				if name := got.differs(want); name != "" {
					t.Fatalf("seed %d, %v: passes %b off: %s is not what it is: %x, %x\n%v\n%v", s, g.grown, cfg.Off, name, got[name], want[name], listing(q), listing(p))
				}
			}
			cfg.Off, cfg.Recompute = 0, Recompute{Owners: owners(p)}
			again, q := g.steps(t, dev, cfg, o, 2)
			if name := again.differs(want); name != "" {
				t.Fatalf("seed %d, %v: recomputed: %s differs\n%v", s, g.grown, name, listing(q))
			}
		}
		if kept < 40 {
			t.Errorf("%d activations are kept in 16 bits: the test shows nothing", kept)
		}
	})
}

// A product in 16 bits reads narrowed activations; only other readers get decoded ones. Layers that
// stay in float32 have products of float32, forward and backward.
func TestProductsReadActivationsAsTheyAreKept(t *testing.T) {
	n := net{name: "six layers", widths: append(slices.Repeat([]int{64}, 6), 10), batch: 32, act: layers.Tanh, guardEach: true}
	for _, left := range []string{"", "layer2"} {
		g, cfg := n.config(t, Train, n.batch, nil, nil)
		cfg.Precision = Precision{Type: arena.BFloat16, Float32: []string{left}}
		p := compileFor(t, g, cfg)
		half := func(v kernels.Value) bool { return p.Values[v].Spec.Type == arena.BFloat16 }
		products, direct := 0, 0
		for _, in := range p.Instrs {
			if in.Op != kernels.MatMul {
				continue
			}
			if rounded := kernels.ComputeTypeOf(in.Attrs) == arena.BFloat16; rounded == (in.Owner == left) {
				t.Errorf("%q of %q: rounded %v", in.Label, in.Owner, rounded)
			}
			products++
			if slices.ContainsFunc(in.In[:2], half) {
				direct++
			}
			if in.Owner == left && slices.ContainsFunc(in.In, half) {
				t.Errorf("%q of %q reads 16 bits", in.Label, in.Owner)
			}
		}
		if want := map[string]int{"": 2 * 4, "layer2": 2 * 2}[left]; products != 3*6-1 || direct != want { // activations 0 to 3; or 0 and 3, since layer 2 reads 1 and makes 2
			t.Errorf("without %q: %d products, of which %d read 16 bits\n%v", left, products, direct, listing(p))
		}
	}
}
