package trainer

import (
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// pairOf has two objectives, which both train the trunk.
func pairOf(g *gorgonia.ExprGraph, batch int) (Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 5)
	trunk := net.Dense(x, "trunk", 300, layers.ReLU)
	m := Model{}
	for _, name := range []string{"a", "b"} {
		loss := net.Mean(net.Square(net.Dense(trunk, name, 3, nil), ""), name+"/loss", layers.Reduce{})
		m.Objectives = append(m.Objectives, layers.Objective{Name: name, Loss: loss, Params: []string{"trunk", name}})
	}
	m.Inputs, m.Params = net.Inputs(), net.Params()
	return m, net.Err()
}

// What Explore and refusals compute without compiling is right for objectives, groups and stages, too: the state of an
// optimizer exactly, and a number of bytes that no plan goes below.
func TestSizesOfObjectivesAndGroupsAreArithmetic(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"objectives": {Objectives: []Objective{{Name: "b", Optimizer: optim.Adam{}}}},
		"groups":     {Groups: []Group{{Match: []string{"trunk"}, Optimizer: optim.Lion{}}, {Match: []string{"a"}, RateFactor: 2}}},
		"stages":     {Frozen: []string{"trunk"}, Unfreeze: [][]string{{"trunk/b"}, {"trunk"}}},
		"windows":    {Accumulate: 3, Groups: []Group{{Match: BiasesAndNorms, Frozen: true}}},
	} {
		opt.Batch = 4
		asked, err := newPlanned(t.Context(), pairOf, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range optim.All() {
			opt.Optimizer = o.Optimizer
			b, err := newPlanned(t.Context(), pairOf, opt, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := asked.stateBytes(o.Optimizer), b.homes.Bytes(ir.State); got != want {
				t.Errorf("%s, %s: state of %d bytes, want %d", name, o.Name, got, want)
			}
			if least, total := asked.leastBytes(&opt), b.layout.Total(); least > total || least < b.homes.Bytes(ir.State) {
				t.Errorf("%s, %s: at least %d bytes, the plan has %d", name, o.Name, least, total)
			}
		}
	}
}

// Gradients of objectives share scratch, and have homes of their own where steps share an update.
func TestGradientsOfObjectivesShareScratch(t *testing.T) {
	t.Parallel()
	shared, err := newPlanned(t.Context(), pairOf, Options{Batch: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := shared.homes.Bytes(ir.Gradients); got != 0 {
		t.Errorf("region gradients has %d bytes, want 0", got)
	}
	windows, err := newPlanned(t.Context(), pairOf, Options{Batch: 4, Accumulate: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// trunk/w 5×300, trunk/b 300, and 300×3 and 3 of a tower, rounded to 256 bytes: for each objective.
	if got, want := windows.homes.Bytes(ir.Gradients), int64(2*(6144+1280+3840+256)); got != want {
		t.Errorf("region gradients has %d bytes, want %d", got, want)
	}
	for i, want := range []string{"train 4", "train 4, b"} {
		if got := shared.programs[shared.key(compile.Train, 4, streamed, compile.Alone, i)].Name; got != want {
			t.Errorf("program %d is called %q, want %q", i, got, want)
		}
	}
}
