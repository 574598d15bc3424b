package compile

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Keys of the elementwise ops that patterns are made of.
const (
	opAdd = "gorgonia.elemBinOp:+"
	opMul = "gorgonia.elemBinOp:⊙"
	opDiv = "gorgonia.elemBinOp:÷"
	opGe  = "gorgonia.elemBinOp:>="
	opGt  = "gorgonia.elemBinOp:>"
	opLt  = "gorgonia.elemBinOp:<"
	opNeg = "gorgonia.elemUnaryOp:neg"
)

// is reports whether n is the result of the op with that key.
func is(n *gorgonia.Node, key string) bool { return n.Op() != nil && opKey(n.Op()) == key }

// lowerUnary reads the patterns that end in an elementwise op of one operand: -Σ log p ⊙ y.
func lowerUnary(r *reader, n *gorgonia.Node) (*rule, error) {
	if !is(n, opNeg) {
		return r.direct(n)
	}
	x := children(n)[0]
	if ce, ok := r.crossEntropy(x); ok {
		return ce.rule(r, 1), nil
	}
	if is(x, opDiv) { // a mean
		in := children(x)
		ce, ok := r.crossEntropy(in[0])
		count, known := r.known(in[1])
		if ok && known {
			return ce.rule(r, count), nil
		}
	}
	return r.direct(n)
}

// lowerBinary reads an elementwise op of two operands, and the patterns that end in one. Where Gorgonia repeats an operand to
// the shape of the other, ours broadcasts it.
func lowerBinary(r *reader, n *gorgonia.Node) (*rule, error) {
	key, in := opKey(n.Op()), children(n)
	var found *rule
	switch key {
	case opMul:
		found = r.relu(in[0], in[1])
	case opAdd:
		if found = r.leakyRelu(in[0], in[1]); found == nil {
			found = r.affineNorm(in[0], in[1])
		}
	case opDiv:
		found = r.mean(in[0], in[1])
	}
	if found != nil {
		return found, nil
	}
	op := kernels.ByGorgonia(key)
	ta, err := r.storage(in[0])
	if err != nil {
		return nil, err
	}
	tb, err := r.storage(in[1])
	if err != nil {
		return nil, err
	}
	if op == nil || !ta.Float() || ta != tb {
		return nil, nil // arithmetic on integers falls back
	}
	a, b := spread(in[0]), spread(in[1])
	out := shapeOf(n)
	return &rule{in: gorgonia.Nodes{a.node, b.node}, build: func(v []kernels.Value) (kernels.Value, error) {
		x, y := r.align(v[0], a.shape, out), r.align(v[1], b.shape, out)
		v2 := r.Apply(op, nil, x, y)
		if r.Spec(v2).Shape.Elems() < out.Elems() { // both were repeated along one axis
			v2 = r.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: out}, v2)
		}
		return v2, nil
	}}, nil
}

// operand is a node, and the shape in which its value broadcasts to what a chain of repeats makes of it.
type operand struct {
	node  *gorgonia.Node
	shape kernels.Shape
}

// spread follows repeats of dimensions of size 1 down from n, and a reshape that only put such dimensions there.
func spread(n *gorgonia.Node) operand {
	o := operand{n, shapeOf(n)}
	for is(o.node, "*gorgonia.repeatOp") {
		x := children(o.node)[0]
		along, err := fields{o.node.Op()}.Int("along")
		if err != nil {
			return o
		}
		shape := padded(shapeOf(x), along)
		if len(shape) != len(o.shape) || shape[along] != 1 {
			return o
		}
		o = operand{x, slices.Clone(o.shape)}
		o.shape[along] = 1
	}
	if is(o.node, "gorgonia.reshapeOp") && !o.shape.Equal(shapeOf(n)) {
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

// align gives v the shape in which it broadcasts to out: as it is where its dimensions are those of shape but for leading ones.
func (r *reader) align(v kernels.Value, shape, out kernels.Shape) kernels.Value {
	if shape.Elems() == out.Elems() {
		shape = out
	}
	short := shape
	for len(short) > 0 && short[0] == 1 {
		short = short[1:]
	}
	for have := r.Spec(v).Shape; len(have) >= len(short) && len(have) <= len(out); have = have[1:] {
		if have.Equal(short) {
			return v
		}
		if len(have) == 0 || have[0] != 1 {
			break
		}
	}
	if shape.Elems() == 1 {
		shape = nil
	}
	return r.reshape(v, append(kernels.Shape{}, shape...))
}

// zero reports whether n is the constant 0.
func (r *reader) zero(n *gorgonia.Node) bool {
	x, ok := r.known(n)
	return ok && x == 0
}

// compares reports whether n is x compared with 0 by one of the ops.
func (r *reader) compares(n, x *gorgonia.Node, ops ...string) bool {
	if n.Op() == nil || !slices.Contains(ops, opKey(n.Op())) {
		return false
	}
	in := children(n)
	return in[0] == x && r.zero(in[1])
}

// relu recognises x ⊙ (x ≥ 0), which is what gorgonia.Rectify builds, and x ⊙ (x > 0).
func (r *reader) relu(a, b *gorgonia.Node) *rule {
	switch {
	case r.compares(b, a, opGe, opGt):
		return r.use(kernels.Relu, nil, a)
	case r.compares(a, b, opGe, opGt):
		return r.use(kernels.Relu, nil, b)
	}
	return nil
}

// leakyRelu recognises x ⊙ (x ≥ 0) + x ⊙ (x < 0) ⊙ slope, which is what gorgonia.LeakyRelu builds. A negative slope
// stays as it is: the sign of the result would not tell that of x.
func (r *reader) leakyRelu(a, b *gorgonia.Node) *rule {
	if !is(a, opMul) || !is(b, opMul) {
		return nil
	}
	pos, scaled := children(a), children(b)
	x := pos[0]
	slope, ok := r.known(scaled[1])
	if !ok || slope < 0 || !is(scaled[0], opMul) || !r.compares(pos[1], x, opGe, opGt) {
		return nil
	}
	if neg := children(scaled[0]); neg[0] != x || !r.compares(neg[1], x, opLt) {
		return nil
	}
	return r.use(kernels.LeakyRelu, kernels.LeakyReluAttrs{Slope: slope}, x)
}

// mean recognises Σ x ÷ n where n is the number of the elements that are added, which is what gorgonia.Mean builds.
func (r *reader) mean(a, b *gorgonia.Node) *rule {
	count, ok := r.known(b)
	if !ok || !is(a, "gorgonia.sumOp") {
		return nil
	}
	if ce, ok := r.crossEntropy(a); ok {
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
	return r.use(kernels.Mean, kernels.ReduceAttrs{Axes: axes}, x)
}

// entropy is Σ log softmax(logits) ⊙ target over rows, or over all.
type entropy struct {
	logits, target *gorgonia.Node
	all            bool
}

// crossEntropy recognises the sum of logarithms of class probabilities, weighted by a target of the same shape. Its
// stable form never takes the logarithm of 0.
func (r *reader) crossEntropy(n *gorgonia.Node) (e entropy, ok bool) {
	if !is(n, "gorgonia.sumOp") {
		return e, false
	}
	axes, err := axesOf(n)
	prod := children(n)[0]
	if err != nil || !is(prod, opMul) || len(prod.Shape()) != 2 {
		return e, false
	}
	switch {
	case axes == nil || slices.Equal(axes, []int{0, 1}):
		e.all = true
	case !slices.Equal(axes, []int{1}):
		return e, false
	}
	in := children(prod)
	for i, p := range in {
		if !is(p, "*gorgonia.softmaxOp") || !shapeOf(p).Equal(shapeOf(in[1-i])) {
			continue
		}
		axis, log, err := softmaxOf(p)
		if err == nil && log && axis == 1 {
			e.logits, e.target = children(p)[0], in[1-i]
			return e, e.logits.Dtype() == e.target.Dtype()
		}
	}
	return e, false
}

// rule computes -Σ log softmax(logits) ⊙ target ÷ count.
func (e entropy) rule(r *reader, count float64) *rule {
	return &rule{in: gorgonia.Nodes{e.logits, e.target}, build: func(v []kernels.Value) (kernels.Value, error) {
		sum := r.Apply(kernels.CrossEntropyDense, nil, v...)
		if e.all {
			sum = r.Apply(kernels.Sum, kernels.ReduceAttrs{}, sum)
		}
		switch count {
		case 1:
			return sum, nil
		case -1:
			return r.Apply(kernels.Neg, nil, sum), nil
		}
		return r.Apply(kernels.Div, nil, sum, r.fill(r.Spec(sum).Type, kernels.Shape{}, count)), nil
	}}
}

// softmaxOf returns the axis of a softmax and whether it is the logarithm. By default it is the last one, but Gorgonia
// takes a column for a vector.
func softmaxOf(n *gorgonia.Node) (axis int, log bool, err error) {
	f, shape := fields{n.Op()}, children(n)[0].Shape()
	if log, err = f.Bool("isLog"); err != nil {
		return 0, false, err
	}
	if axis, err = f.Int("axis"); err != nil {
		return 0, false, err
	}
	if axis == -1 {
		axis = len(shape) - 1
		if shape.IsColVec() {
			axis = 0
		}
	}
	if axis < 0 || axis >= len(shape) {
		return 0, false, fmt.Errorf("axis %d of %v: %w", axis, shape, kernels.ErrShape)
	}
	return axis, log, nil
}

func lowerSoftmax(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, log, err := softmaxOf(n)
	if err != nil {
		return nil, err
	}
	op := kernels.Softmax
	if log {
		op = kernels.LogSoftmax
	}
	return r.use(op, kernels.SoftmaxAttrs{Axis: axis}, children(n)[0]), nil
}

// lowerSoftmaxDiff reads the gradient of a softmax, of its operand, result and the result's gradient.
func lowerSoftmaxDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, log, err := softmaxOf(n)
	if err != nil {
		return nil, err
	}
	op := kernels.SoftmaxGrad
	if log {
		op = kernels.LogSoftmaxGrad
	}
	return r.use(op, kernels.SoftmaxAttrs{Axis: axis}, children(n)[1:]...), nil
}
