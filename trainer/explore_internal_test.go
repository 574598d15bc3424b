package trainer

import (
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// What Explore takes an optimizer's state for without a plan is what a plan has, frozen layers left out.
func TestStateIsKnownWithoutAPlan(t *testing.T) {
	t.Parallel()
	model := func(g *gorgonia.ExprGraph, batch int) (Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 5)
		return net.Classifier(x, net.Dense(net.Dense(x, "hidden", 300, layers.ReLU), "out", 3, nil))
	}
	for _, frozen := range [][]string{nil, {"hidden"}} {
		opt := Options{Batch: 4, Frozen: frozen}
		asked, err := newPlanned(t.Context(), model, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range optim.All() {
			opt.Optimizer = o.Optimizer
			b, err := newPlanned(t.Context(), model, opt, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := asked.stateBytes(o.Optimizer), b.homes.Bytes(ir.State); got != want {
				t.Errorf("%s, frozen %q: %d bytes, want %d", o.Name, frozen, got, want)
			}
		}
	}
}
