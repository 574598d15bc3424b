package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// doubtful returns a model of x [B, 300, 2] and y [B], whose loss is the mean of f, a function of x
// and a parameter w [300, 2].
func doubtful(f func(x, w *gorgonia.Node) (*gorgonia.Node, error)) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, w := net.Input("x", batch, 300, 2), net.Param("w", layers.HeUniform{}, 300, 2)
		h, err := gorgonia.BroadcastHadamardProd(x, w, nil, []byte{0})
		if err != nil {
			return trainer.Model{}, err
		}
		out := gorgonia.Must(f(h, w))
		return trainer.Model{Inputs: gorgonia.Nodes{x}, Output: out, Loss: gorgonia.Must(gorgonia.Mean(out)),
			Params: net.Params()}, net.Err()
	}
}

// steps returns step b of x minus step a.
func steps(a, b int) func(x, w *gorgonia.Node) (*gorgonia.Node, error) {
	return func(x, _ *gorgonia.Node) (*gorgonia.Node, error) {
		first, last := gorgonia.Must(gorgonia.Slice(x, nil, gorgonia.S(a))), gorgonia.Must(gorgonia.Slice(x, nil, gorgonia.S(b)))
		return gorgonia.Sub(last, first)
	}
}

// masked returns x + a - (x + b), with constants that differ in one element.
func masked(x, _ *gorgonia.Node) (*gorgonia.Node, error) {
	mask := func(v float32) *gorgonia.Node {
		t := tensor.New(tensor.WithShape(x.Shape()...), tensor.Of(tensor.Float32))
		t.Float32s()[30] = v
		return gorgonia.NewConstant(t)
	}
	return gorgonia.Sub(gorgonia.Must(gorgonia.Add(x, mask(1000))), gorgonia.Must(gorgonia.Add(x, mask(2000))))
}

// A model in which Gorgonia merged nodes that differ is refused, by Plan, New, MaxBatch and Explore,
// unless Options.AllowMerged is set. A graph that only could have such nodes is accepted.
func TestAModelWithMergedNodesIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, node, cure string // empty: accepted
		model            trainer.ModelFunc
	}{
		{"steps 256 apart", "T[:, 0:1", "net.Slice", doubtful(steps(0, 256))},
		{"steps 255 apart", "", "", doubtful(steps(0, 255))},
		{"constants that print alike", "constant float32", "net.Constant", doubtful(masked)},
		{"a softmax that Log rewrites", "Softmax", "net.Softmax", doubtful(func(x, _ *gorgonia.Node) (*gorgonia.Node, error) {
			p := gorgonia.Must(gorgonia.SoftMax(x))
			return gorgonia.Add(p, gorgonia.Must(gorgonia.Log(p)))
		})},
		{"one softmax", "", "", doubtful(func(x, _ *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.SoftMax(x) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			opt := trainer.Options{Batch: 2, Device: openCPU(t)}
			calls := map[string]func() error{
				"Plan": func() error { _, err := trainer.Plan(t.Context(), c.model, opt); return err },
				"New": func() error {
					tr, err := trainer.New(t.Context(), c.model, opt)
					return errors.Join(err, tr.Close())
				},
				"MaxBatch": func() error { _, err := trainer.MaxBatch(t.Context(), c.model, opt, 4); return err },
				"Explore": func() error {
					_, err := trainer.Explore(t.Context(), c.model, opt, trainer.ExploreOptions{})
					return err
				},
			}
			for name, call := range calls {
				err := call()
				var doubt *trainer.DoubtError
				if c.node == "" {
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if !errors.As(err, &doubt) || !errors.Is(err, trainer.ErrModel) {
					t.Fatalf("%s: %v, want a DoubtError", name, err)
				}
				named := slices.ContainsFunc(doubt.Nodes, func(d trainer.Doubt) bool {
					return strings.Contains(d.Node, c.node) && strings.Contains(d.Cure, c.cure)
				})
				if !named || !strings.Contains(err.Error(), c.cure) {
					t.Errorf("%s: %v, want %q with cure %q", name, err, c.node, c.cure)
				}
			}
			opt.AllowMerged, opt.Tail = true, dataloader.DropTail // one of the constants has the rows of a batch
			if _, err := trainer.Plan(t.Context(), c.model, opt); err != nil {
				t.Errorf("with AllowMerged: %v", err)
			}
		})
	}
}

// The gates of a hand-written LSTM of 128 units are 128 columns each. Gorgonia makes one node of the
// first and the third.
func ExampleDoubtError() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 16)
		gates := net.Dense(x, "gates", 4*128, nil)
		if net.Err() != nil {
			return trainer.Model{}, net.Err()
		}
		input := gorgonia.Must(gorgonia.Slice(gates, nil, gorgonia.S(0, 128)))
		output := gorgonia.Must(gorgonia.Slice(gates, nil, gorgonia.S(256, 384)))
		return net.Regressor(x, gorgonia.Must(gorgonia.Sub(output, input)))
	}
	_, err := trainer.Plan(context.Background(), model, trainer.Options{Batch: 2})
	var doubt *trainer.DoubtError
	if errors.As(err, &doubt) {
		fmt.Println(doubt.Nodes[0].What)
		fmt.Println(doubt.Nodes[0].Cure)
	}
	// Output:
	// was merged with another node: T[:, 0:128:1...] and T[:, 256:384:1...] of the same operands have one hash
	// slice with net.Slice or net.Split of trainer/layers
}
