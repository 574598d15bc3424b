package layers

import (
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// logSumExp returns log Σ exp(x) without overflow.
func logSumExp(x []float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

// crossEntropy is y = log Σ exp(x) - x[label] for each row.  logits [B, C], labels [B] → [B].
// A label outside 0..C-1 gives NaN for its row.
type crossEntropy struct{ base }

func (*crossEntropy) Arity() int    { return 2 }
func (*crossEntropy) Type() hm.Type { return hm.NewFnType(matrix, labels, vector) }
func (*crossEntropy) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return rowShape(in)
}
func (op *crossEntropy) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *crossEntropy) Hashcode() uint32      { return hashcode(op) }
func (*crossEntropy) String() string           { return "crossEntropy" }

func (op *crossEntropy) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
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
		y[r] = math.NaN()
		if k := label[r]; k >= 0 && k < c {
			row := x[r*c : (r+1)*c]
			y[r] = logSumExp(row) - row[k]
		}
	}
	return result(in[0], y, b), nil
}

func (*crossEntropy) DiffWRT(inputs int) []bool { return []bool{true, false} }

func (op *crossEntropy) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := gorgonia.ApplyOp(&crossEntropyGrad{op.base}, in[0], in[1], dy)
	return gorgonia.Nodes{dx, nil}, err
}

// crossEntropyGrad is dx = (softmax(x) - onehot(label))·dy.  logits [B, C], labels [B], dy [B] → [B, C].
type crossEntropyGrad struct{ base }

func (*crossEntropyGrad) Arity() int    { return 3 }
func (*crossEntropyGrad) Type() hm.Type { return hm.NewFnType(matrix, labels, vector, matrix) }
func (*crossEntropyGrad) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return sameShape(in)
}
func (op *crossEntropyGrad) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *crossEntropyGrad) Hashcode() uint32      { return hashcode(op) }
func (*crossEntropyGrad) String() string           { return "crossEntropyGrad" }

func (op *crossEntropyGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	x, b, c, err := rows(op, in, 3)
	if err != nil {
		return nil, err
	}
	label, err := ints(in[1])
	if err != nil {
		return nil, err
	}
	dy, err := floats(in[2])
	if err != nil {
		return nil, err
	}
	dx := make([]float64, b*c)
	for r := range b {
		row, drow := x[r*c:(r+1)*c], dx[r*c:(r+1)*c]
		k := label[r]
		if k < 0 || k >= c {
			constant(drow, math.NaN())
			continue
		}
		norm := logSumExp(row)
		for j, v := range row {
			drow[j] = math.Exp(v-norm) * dy[r]
		}
		drow[k] -= dy[r]
	}
	return result(in[0], dx, b, c), nil
}

// crossEntropyDense is y = -Σ target·log softmax(x) for each row.  logits, target [B, C] → [B].
type crossEntropyDense struct{ base }

func (*crossEntropyDense) Arity() int    { return 2 }
func (*crossEntropyDense) Type() hm.Type { return hm.NewFnType(matrix, matrix, vector) }
func (*crossEntropyDense) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return rowShape(in)
}
func (op *crossEntropyDense) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *crossEntropyDense) Hashcode() uint32      { return hashcode(op) }
func (*crossEntropyDense) String() string           { return "crossEntropyDense" }

func (op *crossEntropyDense) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
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
		row := x[r*c : (r+1)*c]
		norm := logSumExp(row)
		for j, v := range row {
			y[r] -= target[r*c+j] * (v - norm)
		}
	}
	return result(in[0], y, b), nil
}

func (*crossEntropyDense) DiffWRT(inputs int) []bool { return []bool{true, true} }

func (op *crossEntropyDense) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := gorgonia.ApplyOp(&crossEntropyDenseGrad{op.base}, in[0], in[1], dy)
	if err != nil {
		return nil, err
	}
	dt, err := gorgonia.ApplyOp(&crossEntropyTargetGrad{op.base}, in[0], dy)
	return gorgonia.Nodes{dx, dt}, err
}

// crossEntropyDenseGrad is dx = (softmax(x)·Σ target - target)·dy.  logits, target [B, C], dy [B] → [B, C].
type crossEntropyDenseGrad struct{ base }

func (*crossEntropyDenseGrad) Arity() int    { return 3 }
func (*crossEntropyDenseGrad) Type() hm.Type { return hm.NewFnType(matrix, matrix, vector, matrix) }
func (*crossEntropyDenseGrad) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return sameShape(in)
}
func (op *crossEntropyDenseGrad) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *crossEntropyDenseGrad) Hashcode() uint32      { return hashcode(op) }
func (*crossEntropyDenseGrad) String() string           { return "crossEntropyDenseGrad" }

func (op *crossEntropyDenseGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	x, b, c, err := rows(op, in, 3)
	if err != nil {
		return nil, err
	}
	target, err := floats(in[1])
	if err != nil {
		return nil, err
	}
	dy, err := floats(in[2])
	if err != nil {
		return nil, err
	}
	dx := make([]float64, b*c)
	for r := range b {
		row, t := x[r*c:(r+1)*c], target[r*c:(r+1)*c]
		norm, mass := logSumExp(row), 0.0
		for _, v := range t {
			mass += v
		}
		for j, v := range row {
			dx[r*c+j] = (math.Exp(v-norm)*mass - t[j]) * dy[r]
		}
	}
	return result(in[0], dx, b, c), nil
}

// crossEntropyTargetGrad is dtarget = -log softmax(x)·dy.  logits [B, C], dy [B] → [B, C].
type crossEntropyTargetGrad struct{ base }

func (*crossEntropyTargetGrad) Arity() int    { return 2 }
func (*crossEntropyTargetGrad) Type() hm.Type { return hm.NewFnType(matrix, vector, matrix) }
func (*crossEntropyTargetGrad) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	return sameShape(in)
}
func (op *crossEntropyTargetGrad) WriteHash(h hash.Hash) { op.write(h, op.String()) }
func (op *crossEntropyTargetGrad) Hashcode() uint32      { return hashcode(op) }
func (*crossEntropyTargetGrad) String() string           { return "crossEntropyTargetGrad" }

func (op *crossEntropyTargetGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	x, b, c, err := rows(op, in, 2)
	if err != nil {
		return nil, err
	}
	dy, err := floats(in[1])
	if err != nil {
		return nil, err
	}
	dt := make([]float64, b*c)
	for r := range b {
		row := x[r*c : (r+1)*c]
		norm := logSumExp(row)
		for j, v := range row {
			dt[r*c+j] = (norm - v) * dy[r]
		}
	}
	return result(in[0], dt, b, c), nil
}
