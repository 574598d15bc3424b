package trainer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// batchNormInit returns the initial distribution of n if gorgonia.BatchNorm made it because its
// caller gave no scale or no bias: ones for the scale x_γ, zeros for the bias x_β. Gorgonia itself
// draws them at random, without a seed. For other nodes it returns nil.
func batchNormInit(g *gorgonia.ExprGraph, n *gorgonia.Node) layers.Init {
	// Gorgonia names them by its input. A parameter of the model may have such a name too: it is
	// another if no batch normalization reads a node of that input's name and of its shape.
	madeFor := func(suffix string) bool {
		input, ok := strings.CutSuffix(n.Name(), suffix)
		return ok && slices.ContainsFunc(g.ByName(input), func(x *gorgonia.Node) bool {
			return x.Shape().Eq(n.Shape()) && readByBatchNorm(g, x)
		})
	}
	switch {
	case madeFor("_γ"):
		return layers.Ones{}
	case madeFor("_β"):
		return layers.Zeros{}
	}
	return nil
}

// readByBatchNorm reports whether a gorgonia.BatchNorm reads x.
func readByBatchNorm(g *gorgonia.ExprGraph, x *gorgonia.Node) bool {
	return slices.ContainsFunc(g.AllNodes(), func(n *gorgonia.Node) bool {
		_, ok := n.Op().(*gorgonia.BatchNormOp)
		return ok && g.HasEdgeBetween(n.ID(), x.ID())
	})
}

// explainShape adds a remedy to an error about programs that disagree, if the shape of a value
// depends on the batch: gorgonia.BatchNorm made a parameter with one row for each sample, or the
// model function made a node with such a value. homes are those of the other programs.
func explainShape(g *gorgonia.ExprGraph, homes *ir.Homes, rows int, err error) error {
	if !errors.Is(err, ir.ErrHome) {
		return err
	}
	for _, n := range g.AllNodes() {
		if n.IsVar() && batchNormInit(g, n) != nil && n.Shape()[0] == rows {
			return &normalizerError{n.Name(), rows, err}
		}
	}
	for _, n := range g.AllNodes() {
		for _, region := range []arena.Region{ir.Parameters, ir.HostParameters} {
			if home, ok := homes.Find(region, n.Name()); ok && n.IsVar() && !home.Spec.Shape.Equal(kernels.Shape(n.Shape())) {
				return fmt.Errorf("%q has another shape for another batch: if it is not learned, as the first state of a "+
					"recurrent layer, make it with net.Constant of trainer/layers, or feed it as an input; "+
					"if it is learned, give it one shape for every batch: %w", n.Name(), err)
			}
		}
	}
	return err
}

// normalizerError is about a scale or bias that gorgonia.BatchNorm made, with one row for each sample of
// a batch.
type normalizerError struct {
	node string
	rows int
	err  error
}

func (e *normalizerError) Error() string {
	return fmt.Sprintf("gorgonia.BatchNorm made %q for %d samples: "+
		"pass a scale and a bias of [1, channels, 1, 1], or use layers.BatchNorm: %v", e.node, e.rows, e.err)
}

// Unwrap returns the error about programs that disagree.
func (e *normalizerError) Unwrap() error { return e.err }
