package frontend

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// lowering returns the rule of a node whose op has a certain type. nil, nil: it has none for this
// node, which then falls back.
type lowering func(r *reader, n *gorgonia.Node) (*rule, error)

// lowerings returns the lowering of each Go type of op that needs one. An op that an operation
// computes as it is needs none: kernels.ByGorgonia finds the operation.
func lowerings() map[string]lowering {
	return map[string]lowering{
		"gorgonia.readOp":               lowerIdentity,
		"gorgonia.Iop":                  lowerIdentity,
		"gorgonia.constantScalar":       lowerConstant,
		"gorgonia.constantTensor":       lowerConstant,
		"gorgonia.sizeOp":               lowerSize,
		"gorgonia.elemBinOp":            lowerBinary,
		"gorgonia.elemUnaryOp":          lowerUnary,
		"gorgonia.linAlgBinOp":          lowerLinAlg,
		"gorgonia.tensordotOp":          lowerTensordot,
		"*gorgonia.repeatOp":            lowerRepeat,
		"gorgonia.sumOp":                lowerSum,
		"*gorgonia.maxOp":               lowerReduce,
		"*gorgonia.softmaxOp":           lowerSoftmax,
		"*gorgonia.softmaxDiffOp":       lowerSoftmaxDiff,
		"gorgonia.reshapeOp":            lowerIdentity,
		"*gorgonia.sliceOp":             lowerSlice,
		"gorgonia.sliceIncrOp":          lowerSliceIncr,
		"gorgonia.atOp":                 lowerAt,
		"gorgonia.concatOp":             lowerConcat,
		"*gorgonia.globalAveragePoolOp": lowerGlobalAverage,
		"*gorgonia.dropoutOp":           lowerDropout,
		"*gorgonia.dropoutDiffOp":       lowerDropoutDiff,
		"*gorgonia.maxPoolOp":           lowerMaxPool,
		"*gorgonia.maxPoolDiffOp":       lowerMaxPoolDiff,
		"*gorgonia.BatchNormOp":         lowerBatchNorm,
		"*gorgonia.batchnormDiffOp":     lowerBatchNormDiff,
		"*gorgonia.GroupNormOp":         lowerGroupNorm,
		"*gorgonia.groupNormDiffOp":     lowerGroupNormDiff,
		"gorgonia.transposeOp":          lowerTranspose,
		"*gorgonia.byIndicesOp":         lowerByIndices,
		"*gorgonia.dtConvOp":            lowerConvert,
	}
}

// refused are ops that Gorgonia computes wrongly and that have no kernel here, and the advice that
// their error gives.
var refused = map[string]string{
	"*gorgonia.avgPoolOp": "Gorgonia's average pooling divides by the width of its input: " +
		"use AvgPool of package layers, or GlobalAveragePool2D",
	"*gorgonia.avgPoolDiffOp": "Gorgonia's gradient of average pooling is wrong",
}

// lowerOp returns the rule of a node with an op.
func (r *reader) lowerOp(n *gorgonia.Node) (*rule, error) {
	key := fmt.Sprintf("%T", n.Op())
	if n.Type() == nil && key != "gorgonia.readOp" {
		return nil, fmt.Errorf("a statement has no value: %w", kernels.ErrUnsupported)
	}
	if why := refused[key]; why != "" {
		return nil, fmt.Errorf("%s: %w", why, kernels.ErrUnsupported)
	}
	if x, ok := r.evalScalar(n); ok {
		return r.constantRule(n, x)
	}
	if k, ok := n.Op().(kernelOp); ok {
		return lowerKernel(r, n, k)
	}
	l := r.lowerings[key]
	if l == nil {
		l = lowerDirect
	}
	found, err := l(r, n)
	if found != nil || err != nil {
		return found, err
	}
	return r.fallback(n)
}

// lowerDirect lowers an op that an operation computes as it is.
func lowerDirect(r *reader, n *gorgonia.Node) (*rule, error) {
	op := kernels.ByGorgonia(opKey(n.Op()))
	if op == nil {
		return nil, nil
	}
	var attrs any
	if op.Decode != nil {
		var err error
		if attrs, err = op.Decode(fields{n.Op()}); err != nil {
			return nil, err
		}
	}
	return r.applyRule(op, attrs, children(n)...), nil
}

// applyRule returns the rule that applies an operation to nodes.
func (r *reader) applyRule(op *kernels.Op, attrs any, in ...*gorgonia.Node) *rule {
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) { return r.Apply(op, attrs, v...), nil }}
}

// identity returns the rule of a node that has the elements of n.
func identity(n *gorgonia.Node) *rule {
	return &rule{in: gorgonia.Nodes{n}, build: func(v []kernels.Value) (kernels.Value, error) { return v[0], nil }}
}

// lowerIdentity lowers an op whose result has the elements of its operand: a read, a reshape.
func lowerIdentity(_ *reader, n *gorgonia.Node) (*rule, error) { return identity(children(n)[0]), nil }

// scalarConst is a scalar that may be constant.
type scalarConst struct {
	x  float64
	ok bool // it is constant
}

// evalScalar returns the value of a scalar that does not depend on data: a constant, a size, or
// arithmetic on these. Arithmetic is rounded to the type of n after each operation, as a device
// does it.
func (r *reader) evalScalar(n *gorgonia.Node) (float64, bool) {
	c, done := r.scalars[n]
	if !done {
		c = r.evaluate(n)
		r.scalars[n] = c
	}
	return c.x, c.ok
}

// evaluate computes evalScalar's result.
func (r *reader) evaluate(n *gorgonia.Node) (c scalarConst) {
	if n.Op() == nil || n.Type() == nil || len(n.Shape()) > 0 {
		return c
	}
	t, err := typeOf(n)
	if err != nil {
		return c
	}
	if v := valueOf(n.Op()); v != nil {
		return scalarOf(v)
	}
	switch op := opKey(n.Op()); op {
	case "gorgonia.sizeOp":
		axis, err := fields{n.Op()}.Int("axis")
		shape := children(n)[0].Shape()
		if err != nil || axis >= len(shape) && len(shape) > 0 {
			return c
		}
		if c = (scalarConst{1, true}); len(shape) > 0 {
			c.x = float64(shape[axis])
		}
	case "gorgonia.elemBinOp:+", "gorgonia.elemBinOp:-", "gorgonia.elemBinOp:⊙", "gorgonia.elemBinOp:÷":
		in := children(n)
		a, okA := r.evalScalar(in[0])
		b, okB := r.evalScalar(in[1])
		if !okA || !okB || !t.Float() {
			return c
		}
		c = scalarConst{arithmetic(op, a, b), true}
	default:
		return c
	}
	c.x = kernels.Round(t, c.x)
	return c
}

// arithmetic returns a op b, before rounding.
func arithmetic(op string, a, b float64) float64 {
	switch op {
	case "gorgonia.elemBinOp:+":
		return a + b
	case "gorgonia.elemBinOp:-":
		return a - b
	case "gorgonia.elemBinOp:⊙":
		return a * b
	}
	return a / b
}

// scalarOf returns the element of a scalar; it is not constant where a float64 cannot hold it.
func scalarOf(v gorgonia.Value) scalarConst {
	switch x := v.Data().(type) {
	case float64:
		return scalarConst{x, true}
	case float32:
		return scalarConst{float64(x), true}
	case int:
		return scalarConst{float64(x), int(float64(x)) == x}
	case int64:
		return scalarConst{float64(x), int64(float64(x)) == x}
	case int32:
		return scalarConst{float64(x), true}
	case uint8:
		return scalarConst{float64(x), true}
	}
	return scalarConst{}
}

// constantRule returns the rule of a scalar that is the constant x.
func (r *reader) constantRule(n *gorgonia.Node, x float64) (*rule, error) {
	t, err := typeOf(n)
	if err != nil {
		return nil, err
	}
	return &rule{build: func([]kernels.Value) (kernels.Value, error) { return r.fill(t, shapeOf(n), x), nil }}, nil
}

// lowerConstant lowers a constant tensor: a home with its data, or a fill, which needs no home,
// where all elements are equal.
func lowerConstant(r *reader, n *gorgonia.Node) (*rule, error) {
	t, err := typeOf(n)
	if err != nil {
		return nil, err
	}
	spec := kernels.Spec{Type: t, Shape: shapeOf(n)}
	data := make([]byte, spec.Bytes())
	if err := store(data, t, valueOf(n.Op())); err != nil {
		return nil, err
	}
	xs := make([]float64, spec.Shape.Elems())
	kernels.Load(xs, t, data)
	uniform := len(xs) > 0 && t != arena.Int64 && !slices.ContainsFunc(xs, func(x float64) bool {
		return math.Float64bits(x) != math.Float64bits(xs[0])
	})
	return &rule{build: func([]kernels.Value) (kernels.Value, error) {
		if uniform {
			return r.fill(t, spec.Shape, xs[0]), nil
		}
		return r.constant(n, spec, data)
	}}, nil
}

// lowerSize is called for sizes that evalScalar does not know: those along an axis that the operand
// lacks.
func lowerSize(_ *reader, n *gorgonia.Node) (*rule, error) {
	return nil, fmt.Errorf("the size of %q along an axis that it does not have: %w", children(n)[0].Name(), kernels.ErrShape)
}

// lowerGlobalAverage lowers global average pooling, [B, C, H, W] → [B, C, 1, 1], to a mean.
func lowerGlobalAverage(r *reader, n *gorgonia.Node) (*rule, error) {
	return r.applyRule(kernels.Mean, kernels.ReduceAttrs{Axes: []int{2, 3}, Keep: true}, children(n)[0]), nil
}

// lowerConvert lowers a conversion of integers to floats to a decode. Conversions to integers fall
// back; those between floats are refused, as Gorgonia does not run them either.
func lowerConvert(r *reader, n *gorgonia.Node) (*rule, error) {
	x := children(n)[0]
	from, err := typeOf(x)
	if err != nil {
		return nil, err
	}
	to, err := typeOf(n)
	switch {
	case err != nil || !to.Float():
		return nil, err
	case from.Float():
		return nil, fmt.Errorf("from %v to %v: %w", from, to, kernels.ErrUnsupported)
	}
	return r.applyRule(kernels.Decode, kernels.DecodeAttrs{To: to, Scale: 1}, x), nil
}
