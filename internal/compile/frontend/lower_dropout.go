package frontend

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Dropout. Outside training, and with a rate of 0, it is the identity.
//
//	dropoutOp      x         →  dropout
//	dropoutDiffOp  x, y, dy  →  dropout of dy with the layer, and so the mask, of y

// lowerDropout lowers Gorgonia's dropout.
func lowerDropout(r *reader, n *gorgonia.Node) (*rule, error) {
	p, err := r.dropoutOf(n)
	if err != nil {
		return nil, err
	}
	return r.dropout(children(n)[0], kernels.DropoutAttrs{Rate: p, Layer: kernels.LayerKey(n.Name())})
}

// lowerDropoutDiff lowers the gradient of Gorgonia's dropout, with operands x, y and dy: dy under
// the mask of y. Gorgonia's own gradient is wrong: it divides by the probability of dropping.
func lowerDropoutDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	p, err := r.dropoutOf(n)
	if err != nil {
		return nil, err
	}
	in := children(n)
	if len(in) != 3 || !isOp(in[1], "*gorgonia.dropoutOp") {
		return nil, fmt.Errorf("the gradient of a dropout that is not in the graph: %w", kernels.ErrUnsupported)
	}
	return r.dropout(in[2], kernels.DropoutAttrs{Rate: p, Layer: kernels.LayerKey(in[1].Name())})
}

// dropoutOf returns the probability with which Gorgonia's dropout drops an element: 0 where the op
// is not set to train. A machine sets the mode itself, as a tape machine does when it is made.
func (r *reader) dropoutOf(n *gorgonia.Node) (float64, error) {
	f := fields{n.Op()}
	p, err := f.Float("probability")
	if err != nil {
		return 0, err
	}
	training, err := f.Bool("isTraining")
	if err != nil || !training && !r.Machine {
		return 0, err
	}
	return p, nil
}

// dropout returns the rule of dropout in training, and the identity otherwise. The dropped elements
// are a function of the model's seed, the number of the step, the layer and the index of the
// element.
func (r *reader) dropout(x *gorgonia.Node, a kernels.DropoutAttrs) (*rule, error) {
	if a.Rate == 0 || !r.Training {
		return identity(x), nil
	}
	a.Seed = r.Seed
	return &rule{in: gorgonia.Nodes{x}, build: func(v []kernels.Value) (kernels.Value, error) {
		controls, err := r.Controls()
		if err != nil {
			return kernels.None, err
		}
		return r.Apply(kernels.Dropout, a, v[0], controls), nil
	}}, nil
}
