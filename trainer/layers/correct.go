package layers

import "github.com/chewxy/hm"

// correct is 1 where the largest logit is at the label, else 0.  logits [B, C], labels [B] → [B].
type correct struct{ rowOp }

func newCorrect(id uint64) *correct {
	return &correct{rowOp{base{id, "correct", []hm.Type{matrix, labels, vector}}, func(y []float64, r row) {
		if argmax(r.x) == r.label {
			y[0] = 1
		}
	}}}
}

// correctDense is 1 where the largest logit is where the target's largest element is, else 0.  logits, target [B, C] → [B].
type correctDense struct{ rowOp }

func newCorrectDense(id uint64) *correctDense {
	return &correctDense{rowOp{base{id, "correctDense", []hm.Type{matrix, matrix, vector}}, func(y []float64, r row) {
		if argmax(r.x) == argmax(r.target) {
			y[0] = 1
		}
	}}}
}

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
