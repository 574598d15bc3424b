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

// MaxBatch finds the largest batch in few plans: sizes are steps, and nearly a line.
func TestTheLargestBatchIsFoundInFewPlans(t *testing.T) {
	t.Parallel()
	tried := make(map[int]bool)
	model := func(g *gorgonia.ExprGraph, batch int) (Model, error) {
		tried[batch] = true
		net := layers.New(g)
		x := net.Input("x", batch, 5)
		return net.Classifier(x, net.Dense(net.Dense(x, "hidden", 30, layers.ReLU), "out", 3, nil))
	}
	total := func(batch int) int64 {
		p, err := newPlanned(t.Context(), model, Options{Batch: batch}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.layout.Total()
	}
	for _, limit := range []int64{total(2), total(64) - 1, total(64), total(1000), total(1000) + 100, total(77777)} {
		clear(tried)
		got, err := MaxBatch(t.Context(), model, Options{Memory: limit}, 1<<20)
		if n := len(tried); n > 12 {
			t.Errorf("%d bytes: %d batches are tried", limit, n)
		}
		if err != nil || total(got) > limit || total(got+1) <= limit {
			t.Errorf("%d bytes: batch %d, %v, needs %d, and one more %d", limit, got, err, total(got), total(got+1))
		}
	}
}
