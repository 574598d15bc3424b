package layers

import (
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
)

// crossEntropy is y = log Σ exp(x) - x[label] for each row.  logits [B, C], labels [B] → [B].
// A label outside 0..C-1 gives NaN for its row.
type crossEntropy struct{ rowOp }

func newCrossEntropy(id uint64) *crossEntropy {
	return &crossEntropy{rowOp{base{id, "crossEntropy", []hm.Type{matrix, labels, vector}}, func(y []float64, r row) {
		y[0] = math.NaN()
		if r.label >= 0 && r.label < len(r.x) {
			y[0] = logSumExp(r.x) - r.x[r.label]
		}
	}}}
}

func (*crossEntropy) DiffWRT(inputs int) []bool { return []bool{true, false} }

func (op *crossEntropy) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := gorgonia.ApplyOp(crossEntropyGrad(op.id), in[0], in[1], dy)
	return gorgonia.Nodes{dx, nil}, err
}

// crossEntropyGrad is dx = (softmax(x) - onehot(label))·dy.  logits [B, C], labels [B], dy [B] → [B, C].
func crossEntropyGrad(id uint64) *rowOp {
	return &rowOp{base{id, "crossEntropyGrad", []hm.Type{matrix, labels, vector, matrix}}, func(dx []float64, r row) {
		if r.label < 0 || r.label >= len(r.x) {
			constant(dx, math.NaN())
			return
		}
		norm := logSumExp(r.x)
		for j, v := range r.x {
			dx[j] = math.Exp(v-norm) * r.dy
		}
		dx[r.label] -= r.dy
	}}
}

// crossEntropyDense is y = -Σ target·log softmax(x) for each row.  logits, target [B, C] → [B].
type crossEntropyDense struct{ rowOp }

func newCrossEntropyDense(id uint64) *crossEntropyDense {
	return &crossEntropyDense{rowOp{base{id, "crossEntropyDense", []hm.Type{matrix, matrix, vector}}, func(y []float64, r row) {
		norm := logSumExp(r.x)
		for j, v := range r.x {
			y[0] -= r.target[j] * (v - norm)
		}
	}}}
}

func (*crossEntropyDense) DiffWRT(inputs int) []bool { return []bool{true, true} }

func (op *crossEntropyDense) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := gorgonia.ApplyOp(crossEntropyDenseGrad(op.id), in[0], in[1], dy)
	if err != nil {
		return nil, err
	}
	dt, err := gorgonia.ApplyOp(crossEntropyTargetGrad(op.id), in[0], dy)
	return gorgonia.Nodes{dx, dt}, err
}

// crossEntropyDenseGrad is dx = (softmax(x)·Σ target - target)·dy.  logits, target [B, C], dy [B] → [B, C].
func crossEntropyDenseGrad(id uint64) *rowOp {
	return &rowOp{base{id, "crossEntropyDenseGrad", []hm.Type{matrix, matrix, vector, matrix}}, func(dx []float64, r row) {
		norm, mass := logSumExp(r.x), 0.0
		for _, t := range r.target {
			mass += t
		}
		for j, v := range r.x {
			dx[j] = (math.Exp(v-norm)*mass - r.target[j]) * r.dy
		}
	}}
}

// crossEntropyTargetGrad is dtarget = -log softmax(x)·dy.  logits [B, C], dy [B] → [B, C].
func crossEntropyTargetGrad(id uint64) *rowOp {
	return &rowOp{base{id, "crossEntropyTargetGrad", []hm.Type{matrix, vector, matrix}}, func(dt []float64, r row) {
		norm := logSumExp(r.x)
		for j, v := range r.x {
			dt[j] = (norm - v) * r.dy
		}
	}}
}

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
