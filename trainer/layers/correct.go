package layers

import (
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// argmax returns the index of the largest element, the first on ties.
func argmax(x []float64) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// correct is 1 where the largest logit is at the label, else 0.  logits [B, C], labels [B] → [B].
type correct struct{ base }

func (*correct) Arity() int    { return 2 }
func (*correct) Type() hm.Type { return hm.NewFnType(matrix, labels, vector) }
func (*correct) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return rowShape(in)
}
func (op *correct) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *correct) Hashcode() uint32      { return hashcode(op) }
func (*correct) String() string           { return "correct" }

func (op *correct) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	x, b, c, err := rows(op, in, 2)
	if err != nil {
		return nil, err
	}
	label, err := ints(in[1])
	if err != nil {
		return nil, err
	}
	y := make([]float64, b)
	for r := range y {
		if argmax(x[r*c:(r+1)*c]) == label[r] {
			y[r] = 1
		}
	}
	return result(in[0], y, b), nil
}

// correctDense is 1 where the largest logit is where the target's largest element is, else 0.  logits, target [B, C] → [B].
type correctDense struct{ base }

func (*correctDense) Arity() int    { return 2 }
func (*correctDense) Type() hm.Type { return hm.NewFnType(matrix, matrix, vector) }
func (*correctDense) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return rowShape(in)
}
func (op *correctDense) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *correctDense) Hashcode() uint32      { return hashcode(op) }
func (*correctDense) String() string           { return "correctDense" }

func (op *correctDense) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	x, b, c, err := rows(op, in, 2)
	if err != nil {
		return nil, err
	}
	target, err := floats(in[1])
	if err != nil {
		return nil, err
	}
	y := make([]float64, b)
	for r := range y {
		if argmax(x[r*c:(r+1)*c]) == argmax(target[r*c:(r+1)*c]) {
			y[r] = 1
		}
	}
	return result(in[0], y, b), nil
}
