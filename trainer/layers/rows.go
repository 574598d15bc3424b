package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// rowOp is an operation on each row of logits [B, C], with what belongs to the row in the other operands.
type rowOp struct {
	base
	f func(out []float64, r row) // out has one element, or C
}

// row is one row of each operand that the operation has.
type row struct {
	x      []float64 // logits
	label  int
	target []float64
	dy     float64 // gradient of the operation's result
}

// Do computes the rows one after another.
func (op *rowOp) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if err := op.check(in); err != nil {
		return nil, err
	}
	s := in[0].Shape()
	if s.Dims() != 2 {
		return nil, fmt.Errorf("%v: logits %s need 2 dimensions: %w", op, shapeString(s), ErrShape)
	}
	var label []int
	var x, target, dy []float64
	for k, v := range in {
		var err error
		wide := op.signature[k] == matrix
		switch {
		case wide && k == 0:
			x, err = floats(v)
		case wide:
			target, err = floats(v)
		case op.signature[k] == labels:
			label, err = ints(v)
		default:
			dy, err = floats(v)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", op, err)
		}
		if t := v.Shape(); wide && !slices.Equal(t, s) || !wide && (t.Dims() > 1 || t.TotalSize() != s[0]) {
			return nil, fmt.Errorf("%v: operand %s does not go with logits %s: %w", op, shapeString(t), shapeString(s), ErrShape)
		}
	}
	shape, n := s[:1], 1
	if op.signature[len(in)] == matrix {
		shape, n = s, s[1]
	}
	out := make([]float64, s[0]*n)
	for i := range s[0] {
		r := row{x: x[i*s[1] : (i+1)*s[1]]}
		if label != nil {
			r.label = label[i]
		}
		if target != nil {
			r.target = target[i*s[1] : (i+1)*s[1]]
		}
		if dy != nil {
			r.dy = dy[i]
		}
		op.f(out[i*n:(i+1)*n], r)
	}
	return result(in[0], out, shape...), nil
}
