package compile

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// dropping is a step that drops elements of w, all ones; its loss is the sum of the others.
type dropping struct {
	*machine
	w *gorgonia.Node
}

func newDropping(t *testing.T, rate float64, name string, seed uint64) dropping {
	t.Helper()
	d := graphtest.New(rand.New(rand.NewPCG(1, 1)), tensor.Float32)
	w := d.Of(func() float64 { return 1 }, 200, 50)
	y := d.Must(gorgonia.Dropout(w, rate))
	gorgonia.WithName(name)(y)
	dev := openCPU(t)
	cfg := Config{Model: frontend.Model{Loss: d.Must(gorgonia.Sum(y)), Keep: gorgonia.Nodes{y}, Seed: seed}, Mode: Train, Update: updateOf(still{}, optim.Clip{}),
		Device: dev, Homes: &ir.Homes{}}
	m := load(t, dev, cfg.Homes, compileFor(t, d.Graph, cfg))
	m.start(t, d.Graph, still{})
	return dropping{m, w}
}

// step runs step number n and returns the elements after dropout.
func (d dropping) step(t *testing.T, n int) []float64 {
	t.Helper()
	part, _ := d.homes.Find(ir.Slot, ir.ControlsName)
	elementsOf[float64](d.at(part.Ref))[kernels.ControlStep] = float64(n)
	d.run(t)
	return d.numbers(t, ir.Results, d.Results[1].Name)
}

func TestDropoutDropsInTrainingAndItsGradientFollowsTheMask(t *testing.T) {
	const p = 0.25
	m := newDropping(t, p, "drop", 5)
	ys, kept := m.step(t, 1), 0
	for i, y := range ys {
		if y != 0 {
			kept++
		}
		if y != 0 && !graphtest.Near([]float64{y}, []float64{1 / (1 - p)}, 1e-6) {
			t.Fatalf("element %d: got %v, want %v", i, y, 1/(1-p))
		}
	}
	// 10,000 draws: five standard deviations are 0.022.
	if share := float64(kept) / float64(len(ys)); share < 1-p-0.022 || share > 1-p+0.022 {
		t.Errorf("kept %v of the elements, want %v", share, 1-p)
	}
	if dw := m.numbers(t, ir.Gradients, m.w.Name()); !slices.Equal(dw, ys) {
		t.Errorf("the gradient is not that of the mask: %v, %v", dw[:10], ys[:10])
	}
}

func TestMasksAreAFunctionOfSeedStepAndLayer(t *testing.T) {
	m := newDropping(t, 0.5, "drop", 5)
	first := m.step(t, 1)
	if second := m.step(t, 2); slices.Equal(first, second) {
		t.Error("the second step has the mask of the first")
	}
	if again := m.step(t, 1); !slices.Equal(first, again) {
		t.Error("the same step has another mask when it runs again")
	}
	if same := newDropping(t, 0.5, "drop", 5).step(t, 1); !slices.Equal(first, same) {
		t.Error("the same model has another mask")
	}
	if other := newDropping(t, 0.5, "drop", 6).step(t, 1); slices.Equal(first, other) {
		t.Error("another seed has the same mask")
	}
	if other := newDropping(t, 0.5, "drop2", 5).step(t, 1); slices.Equal(first, other) {
		t.Error("another layer has the same mask")
	}
}
