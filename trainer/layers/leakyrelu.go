package layers

import (
	"fmt"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
)

// leakyRelu is y = x where x > 0, else slope·x, for any shape. Gorgonia's own LeakyRelu is a graph of seven nodes.
type leakyRelu struct{ leaky }

func newLeakyRelu(id uint64, slope float64) *leakyRelu {
	return &leakyRelu{leaky{base{id, fmt.Sprintf("leakyRelu(%v)", slope), []hm.Type{floatVar, floatVar}}, slope}}
}

func (*leakyRelu) DiffWRT(inputs int) []bool { return []bool{true} }

func (op *leakyRelu) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := gorgonia.ApplyOp(leakyReluGrad(op.id, op.slope), in[0], dy)
	return gorgonia.Nodes{dx}, err
}

// leakyReluGrad is dx = dy where x > 0, else slope·dy.  (x, dy) → dx.
func leakyReluGrad(id uint64, slope float64) *leaky {
	return &leaky{base{id, fmt.Sprintf("leakyReluGrad(%v)", slope), []hm.Type{floatVar, floatVar, floatVar}}, slope}
}

// leaky passes its last operand where the first is above 0, and slope times it elsewhere.
type leaky struct {
	base
	slope float64
}

// Do computes the elements one after another.
func (op *leaky) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if err := op.check(in); err != nil {
		return nil, err
	}
	last := in[len(in)-1]
	x, err := floats(in[0])
	if err != nil {
		return nil, fmt.Errorf("%v: %w", op, err)
	}
	d, err := floats(last)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", op, err)
	}
	if len(d) != len(x) {
		return nil, fmt.Errorf("%v: %s and %s: %w", op, shapeString(in[0].Shape()), shapeString(last.Shape()), ErrShape)
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = d[i]
		if !(v > 0) {
			y[i] = op.slope * d[i]
		}
	}
	return result(in[0], y, in[0].Shape()...), nil
}
