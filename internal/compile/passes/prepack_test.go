package passes

import (
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/kernels"
)

// splits is a device that prepacks the weights of every convolution.
type splits struct{}

func (splits) Prepack(op *kernels.Op, _ any, _, _ []kernels.Spec) (kernels.Prepacked, bool) {
	return kernels.Prepacked{Operand: 1, Pack: kernels.WinogradWeight, Op: kernels.WinogradConv, Attrs: kernels.WinogradConvAttrs{}},
		op == kernels.Conv
}

var plainConv = kernels.ConvAttrs{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}

var prepackExamples = []irtest.Example{
	{Name: "weights", Build: func(b *irtest.Builder) { // two convolutions share v
		w, v := b.HomeOf(ir.Parameters, "w", arena.Float32, 32, 3, 3, 3), b.HomeOf(ir.Parameters, "v", arena.Float32, 32, 32, 3, 3)
		y := b.Op("first", kernels.Conv, plainConv, b.X(1, 3, 12, 12), w)
		y = b.Op("second", kernels.Conv, plainConv, y, v)
		b.Need(b.Op("third", kernels.Conv, plainConv, y, v))
	}},
	{Name: "not weights", Build: func(b *irtest.Builder) { // an input of the batch, and a value of the step
		x := b.X(1, 3, 12, 12)
		y := b.Op("input", kernels.Conv, plainConv, x, b.HomeOf(ir.Slot, "kernel", arena.Float32, 32, 3, 3, 3))
		w := b.Op("doubled", kernels.Affine, kernels.AffineAttrs{Scale: 2}, b.HomeOf(ir.Parameters, "w", arena.Float32, 32, 32, 3, 3))
		b.Need(b.Op("computed", kernels.Conv, plainConv, y, w))
	}},
}

func TestPrepackListsEachWeight(t *testing.T) {
	b := irtest.New(t)
	prepackExamples[0].Build(b)
	if err := Prepack(b.Program, b.Homes, splits{}); err != nil {
		t.Fatal(err)
	}
	homes := b.Homes.Parts(ir.Prepacked)
	if len(homes) != 2 || len(b.Program.Prepacked) != 3 {
		t.Fatalf("%d homes and %d packings, want 2 and 3", len(homes), len(b.Program.Prepacked))
	}
	for i, p := range b.Program.Prepacked {
		from, to := [...]string{"w0", "v1", "v1"}[i], homes[min(i, 1)]
		if p.Op != kernels.WinogradWeight || p.From.Name != from || p.From.Ref.Region != ir.Parameters ||
			p.To.Name != to.Name || p.To.Ref != to.Ref || !p.To.Spec.Equal(to.Spec) {
			t.Errorf("packing %d: %+v, want one of %q to %+v", i, p, from, to)
		}
	}
}
