package trainer

import (
	"context"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// No plan may need less than the bound by which combinations are left out.
func TestNoPlanNeedsLessThanLeastBytes(t *testing.T) {
	t.Parallel()
	model := func(g *gorgonia.ExprGraph, batch int) (Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 300)
		h := net.BatchNorm(net.Dense(x, "hidden", 40, layers.ReLU), "norm", nil)
		return net.Classifier(x, net.Dense(h, "out", 3, nil))
	}
	dev := emutest.OpenChecked(t, emu.Options{})
	for _, frozen := range [][]string{nil, {"hidden"}} {
		p, err := newPlanned(context.Background(), model, Options{Device: dev, Batch: 4, Optimizer: optim.Adam{}, Frozen: frozen}, new(programCache))
		if err != nil {
			t.Fatal(err)
		}
		tightest := 0.0
		all := []combination{{opt: p.opt}}
		for _, a := range p.axes() {
			var next []combination
			for _, c := range all {
				for i := range a.settings {
					next = append(next, c.with(a, i))
				}
			}
			all = next
		}
		e := p.explorer(1 << 40)
		for i := range all {
			c := &all[i]
			if i%7 != 0 || c.opt.Batch == 1 { // some of each kind; batch normalization refuses 1
				continue
			}
			c.opt.Memory = 1 << 40
			if err := e.plan(context.Background(), c.opt, &c.choice); err != nil {
				t.Fatal(err)
			}
			least := p.leastBytes(&c.opt)
			if least > c.choice.Total {
				t.Errorf("%v: planned in %d bytes, bound %d", c.choice.Settings, c.choice.Total, least)
			}
			tightest = max(tightest, float64(least)/float64(c.choice.Total))
		}
		if frozen == nil && tightest < 0.5 {
			t.Errorf("the bound is at most %.2f of a plan: it excludes nothing", tightest)
		}
	}
}
