package layers

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// leakyRelu is y = x where x > 0, else slope·x, for any shape. Gorgonia's own LeakyRelu is a graph of seven nodes.
type leakyRelu struct {
	base
	slope float64
}

func (*leakyRelu) Arity() int    { return 1 }
func (*leakyRelu) Type() hm.Type { return hm.NewFnType(floatVar, floatVar) }
func (*leakyRelu) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return sameShape(in)
}
func (op *leakyRelu) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *leakyRelu) Hashcode() uint32      { return hashcode(op) }
func (op *leakyRelu) String() string        { return fmt.Sprintf("leakyRelu(%v)", op.slope) }

func (op *leakyRelu) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("%v: %d operands, needs 1", op, len(in))
	}
	x, err := floats(in[0])
	if err != nil {
		return nil, fmt.Errorf("%v: %w", op, err)
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v
		if !(v > 0) {
			y[i] = op.slope * v
		}
	}
	return result(in[0], y, in[0].Shape()...), nil
}

func (*leakyRelu) DiffWRT(inputs int) []bool { return []bool{true} }

func (op *leakyRelu) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := gorgonia.ApplyOp(&leakyReluGrad{base: op.base, slope: op.slope}, in[0], dy)
	return gorgonia.Nodes{dx}, err
}

// leakyReluGrad is dx = dy where x > 0, else slope·dy.  (x, dy) → dx.
type leakyReluGrad struct {
	base
	slope float64
}

func (*leakyReluGrad) Arity() int    { return 2 }
func (*leakyReluGrad) Type() hm.Type { return hm.NewFnType(floatVar, floatVar, floatVar) }
func (*leakyReluGrad) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return sameShape(in)
}
func (op *leakyReluGrad) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *leakyReluGrad) Hashcode() uint32      { return hashcode(op) }
func (op *leakyReluGrad) String() string        { return fmt.Sprintf("leakyReluGrad(%v)", op.slope) }

func (op *leakyReluGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if len(in) != 2 {
		return nil, fmt.Errorf("%v: %d operands, needs 2", op, len(in))
	}
	x, err := floats(in[0])
	if err != nil {
		return nil, fmt.Errorf("%v: %w", op, err)
	}
	dy, err := floats(in[1])
	if err != nil {
		return nil, fmt.Errorf("%v: %w", op, err)
	}
	if len(dy) != len(x) {
		return nil, fmt.Errorf("%v: %s and %s: %w", op, shapeString(in[0].Shape()), shapeString(in[1].Shape()), ErrShape)
	}
	dx := make([]float64, len(x))
	for i, v := range x {
		dx[i] = dy[i]
		if !(v > 0) {
			dx[i] = op.slope * dy[i]
		}
	}
	return result(in[0], dx, in[0].Shape()...), nil
}
