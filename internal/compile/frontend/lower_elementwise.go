package frontend

import (
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Elementwise ops, and the patterns that end in one.
//
//	elemUnaryOp                    →  the operation with its key
//	elemBinOp                      →  the operation with its key, on operands that broadcast
//	maxBetween, minBetween         →  maximum, minimum
//	x ⊙ (x ≥ 0)                    →  relu
//	x ⊙ (x ≥ 0) + x ⊙ (x < 0) ⊙ s  →  leaky_relu
//	Σ x ÷ n                        →  mean
//	-Σ p ⊙ y, or -Σ p ⊙ y ÷ n      →  cross_entropy_dense, see lower_softmax.go

// Keys of the elementwise ops in patterns.
const (
	opAdd = "gorgonia.elemBinOp:+"
	opMul = "gorgonia.elemBinOp:⊙"
	opDiv = "gorgonia.elemBinOp:÷"
	opGe  = "gorgonia.elemBinOp:>="
	opGt  = "gorgonia.elemBinOp:>"
	opLt  = "gorgonia.elemBinOp:<"
	opNeg = "gorgonia.elemUnaryOp:neg"
)

// isOp reports whether n is the result of the op with that key.
func isOp(n *gorgonia.Node, key string) bool { return n.Op() != nil && opKey(n.Op()) == key }

// lowerUnary lowers an elementwise op of one operand; -Σ log p ⊙ y and its mean become a cross
// entropy.
func lowerUnary(r *reader, n *gorgonia.Node) (*rule, error) {
	if !isOp(n, opNeg) {
		return lowerDirect(r, n)
	}
	x := children(n)[0]
	if ce, ok := r.matchCrossEntropy(x); ok {
		return ce.rule(r, 1), nil
	}
	if isOp(x, opDiv) { // a mean
		in := children(x)
		ce, ok := r.matchCrossEntropy(in[0])
		count, known := r.evalScalar(in[1])
		if ok && known {
			return ce.rule(r, count), nil
		}
	}
	return lowerDirect(r, n)
}

// lowerBinary lowers an elementwise op of two operands, and the patterns that end in one. Gorgonia
// repeats an operand to the shape of the other; an instruction broadcasts it, without a copy.
func lowerBinary(r *reader, n *gorgonia.Node) (*rule, error) {
	key, in := opKey(n.Op()), children(n)
	ta, err := r.storageType(in[0])
	if err != nil {
		return nil, err
	}
	if !ta.Float() {
		return lowerIntegers(r, n)
	}
	var found *rule
	switch key {
	case opMul:
		found = r.matchReLU(in[0], in[1])
	case opAdd:
		if found = r.matchLeakyReLU(in[0], in[1]); found == nil {
			found = r.matchAffineBatchNorm(in[0], in[1])
		}
	case opDiv:
		found = r.matchMean(in[0], in[1])
	}
	if found != nil {
		return found, nil
	}
	op := kernels.ByGorgonia(key)
	if tb, err := r.storageType(in[1]); op == nil || err != nil || ta != tb {
		return nil, err
	}
	return r.broadcastRule(n, op, nil, in[0], in[1]), nil
}

// broadcastRule returns the rule of n that applies an operation to two nodes, which Gorgonia may
// have repeated.
func (r *reader) broadcastRule(n *gorgonia.Node, op *kernels.Op, attrs any, left, right *gorgonia.Node) *rule {
	a, b := unrepeat(left), unrepeat(right)
	out := shapeOf(n)
	return &rule{in: gorgonia.Nodes{a.node, b.node}, build: func(v []kernels.Value) (kernels.Value, error) {
		x, y := r.alignTo(v[0], a.shape, out), r.alignTo(v[1], b.shape, out)
		z := r.Apply(op, attrs, x, y)
		// The graph repeats both operands along the same axis, and unrepeat has removed both
		// repeats: repeat the result.
		if r.Spec(z).Shape.Elems() < out.Elems() {
			z = r.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: out}, z)
		}
		return z, nil
	}}
}

// lowerBetween lowers the larger or the smaller of two elements.
func lowerBetween(r *reader, n *gorgonia.Node) (*rule, error) {
	if t, err := r.storageType(n); err != nil || !t.Float() {
		return lowerIntegers(r, n)
	}
	return lowerDirect(r, n)
}

// broadcastOperand is a node that Gorgonia repeats, and the shape in which its value broadcasts to
// the repeated one.
type broadcastOperand struct {
	node  *gorgonia.Node
	shape kernels.Shape
}

// unrepeat follows repeats of dimensions of size 1 from n back to the node that is repeated, and
// past a reshape of that node: then the node is the one before the reshape, the shape the one after
// it.
//
//	repeat along 0 (reshape [1, C] b)   becomes   b, to be broadcast as [1, C]
func unrepeat(n *gorgonia.Node) broadcastOperand {
	o := broadcastOperand{n, shapeOf(n)}
	for isOp(o.node, "*gorgonia.repeatOp") {
		x := children(o.node)[0]
		along, err := fields{o.node.Op()}.Int("along")
		if err != nil {
			return o
		}
		// x is repeated along a dimension of size 1, so that 1 broadcasts to the repeated size.
		shape := padded(shapeOf(x), along)
		if len(shape) != len(o.shape) || shape[along] != 1 {
			return o
		}
		o = broadcastOperand{x, slices.Clone(o.shape)}
		o.shape[along] = 1
	}
	// gorgonia.Broadcast… reshapes an operand before it repeats it. The shape is in o already.
	if isOp(o.node, "gorgonia.reshapeOp") && !o.shape.Equal(shapeOf(n)) {
		if x := children(o.node)[0]; shapeOf(x).Elems() == o.shape.Elems() {
			o.node = x
		}
	}
	return o
}

// padded appends dimensions of size 1 to a shape, so that it has the given axis, as repeating does.
func padded(s kernels.Shape, axis int) kernels.Shape {
	for len(s) <= axis {
		s = append(s, 1)
	}
	return s
}

// alignTo returns v, reshaped if necessary, in a shape that broadcasts to out. shape is the wanted
// one; leading dimensions of size 1 may be missing or added, as they change nothing.
//
//	v [5], shape [1, 5], out [4, 5]   ─►   v
//	v [4], shape [4, 1], out [4, 5]   ─►   reshape v to [4, 1]
func (r *reader) alignTo(v kernels.Value, shape, out kernels.Shape) kernels.Value {
	if shape.Elems() == out.Elems() { // nothing broadcasts: only dimensions of size 1 may be in other positions than in out
		shape = out
	}
	short := shape
	for len(short) > 0 && short[0] == 1 {
		short = short[1:]
	}
	// Broadcasting aligns trailing dimensions: leading ones of size 1 may be missing or present.
	for have := r.Spec(v).Shape; len(have) >= len(short) && len(have) <= len(out); have = have[1:] {
		if have.Equal(short) {
			return v
		}
		if len(have) == 0 || have[0] != 1 {
			break
		}
	}
	if shape.Elems() == 1 { // a scalar broadcasts to any shape
		shape = nil
	}
	return r.reshape(v, append(kernels.Shape{}, shape...))
}

// isZero reports whether n is the constant 0.
func (r *reader) isZero(n *gorgonia.Node) bool {
	x, ok := r.evalScalar(n)
	return ok && x == 0
}

// comparesWithZero reports whether n compares x with 0 by one of the ops.
func (r *reader) comparesWithZero(n, x *gorgonia.Node, ops ...string) bool {
	if n.Op() == nil || !slices.Contains(ops, opKey(n.Op())) {
		return false
	}
	in := children(n)
	return in[0] == x && r.isZero(in[1])
}

// matchReLU recognises x ⊙ (x ≥ 0), which gorgonia.Rectify builds, and x ⊙ (x > 0).
func (r *reader) matchReLU(a, b *gorgonia.Node) *rule {
	switch {
	case r.comparesWithZero(b, a, opGe, opGt):
		return r.applyRule(kernels.ReLU, nil, a)
	case r.comparesWithZero(a, b, opGe, opGt):
		return r.applyRule(kernels.ReLU, nil, b)
	}
	return nil
}

// matchLeakyReLU recognises x ⊙ (x ≥ 0) + x ⊙ (x < 0) ⊙ slope, which gorgonia.LeakyRelu builds. It
// does not match a negative slope: the gradient reads the sign of x from the result.
func (r *reader) matchLeakyReLU(a, b *gorgonia.Node) *rule {
	if !isOp(a, opMul) || !isOp(b, opMul) {
		return nil
	}
	// a = x ⊙ (x ≥ 0), b = (x ⊙ (x < 0)) ⊙ slope
	pos, scaled := children(a), children(b)
	x := pos[0]
	slope, ok := r.evalScalar(scaled[1])
	if !ok || slope < 0 || !isOp(scaled[0], opMul) || !r.comparesWithZero(pos[1], x, opGe, opGt) {
		return nil
	}
	if neg := children(scaled[0]); neg[0] != x || !r.comparesWithZero(neg[1], x, opLt) {
		return nil
	}
	return r.applyRule(kernels.LeakyReLU, kernels.LeakyReLUAttrs{Slope: slope}, x)
}

// matchMean recognises Σ x ÷ n, where n is the number of summed elements, which gorgonia.Mean
// builds.
func (r *reader) matchMean(a, b *gorgonia.Node) *rule {
	count, ok := r.evalScalar(b)
	if !ok || !isOp(a, "gorgonia.sumOp") {
		return nil
	}
	if ce, ok := r.matchCrossEntropy(a); ok {
		return ce.rule(r, -count)
	}
	x := children(a)[0]
	axes, err := axesOf(a)
	if err != nil {
		return nil
	}
	n, shape := 1, shapeOf(x)
	for _, axis := range axes {
		n *= shape[axis]
	}
	if float64(n) != count {
		return nil
	}
	return r.applyRule(kernels.Mean, kernels.ReduceAttrs{Axes: axes}, x)
}
