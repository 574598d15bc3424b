package compile

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// lowering finds the rule of a node with a certain type of op. nil, nil: there is none, and the node falls back.
type lowering func(r *reader, n *gorgonia.Node) (*rule, error)

// lowerings is keyed by the Go types of Gorgonia's ops. Ops that correspond one to one are found by kernels.ByGorgonia
// instead, from the keys in their own files.
var lowerings map[string]lowering

func init() { // refers to itself through the rules that recognise patterns
	lowerings = map[string]lowering{
		"gorgonia.readOp":               lowerSame,
		"gorgonia.Iop":                  lowerSame,
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
		"gorgonia.reshapeOp":            lowerSame,
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

// refused are ops that neither we nor Gorgonia compute rightly.
var refused = map[string]string{
	"*gorgonia.avgPoolOp":     "Gorgonia's average pooling divides by the width of its input: use AvgPool of package layers, or GlobalAveragePool2D",
	"*gorgonia.avgPoolDiffOp": "Gorgonia's gradient of average pooling is wrong",
}

// lower finds how the op of n is computed.
func (r *reader) lower(n *gorgonia.Node) (*rule, error) {
	key := fmt.Sprintf("%T", n.Op())
	if n.Type() == nil && key != "gorgonia.readOp" {
		return nil, fmt.Errorf("a statement has no value: %w", ErrUnsupported)
	}
	if why := refused[key]; why != "" {
		return nil, fmt.Errorf("%s: %w", why, ErrUnsupported)
	}
	if x, ok := r.known(n); ok {
		return r.constantRule(n, x)
	}
	if k, ok := n.Op().(kernelOp); ok {
		return lowerKernel(r, n, k)
	}
	l := lowerings[key]
	if l == nil {
		l = (*reader).direct
	}
	found, err := l(r, n)
	if found != nil || err != nil {
		return found, err
	}
	return r.fallback(n)
}

// direct is the rule of an op that corresponds to one of ours.
func (r *reader) direct(n *gorgonia.Node) (*rule, error) {
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
	return r.use(op, attrs, children(n)...), nil
}

// use is the rule of one op on the values of nodes.
func (r *reader) use(op *kernels.Op, attrs any, in ...*gorgonia.Node) *rule {
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) { return r.Apply(op, attrs, v...), nil }}
}

// same is the rule of a node that is another one, but for its shape.
func same(n *gorgonia.Node) *rule {
	return &rule{in: gorgonia.Nodes{n}, build: func(v []kernels.Value) (kernels.Value, error) { return v[0], nil }}
}

func lowerSame(r *reader, n *gorgonia.Node) (*rule, error) { return same(children(n)[0]), nil }

// constant is a scalar that is known when the graph is read.
type constant struct {
	x  float64
	ok bool
}

// known returns the value of a scalar that does not depend on data: a constant, a size, or arithmetic on such. Arithmetic is
// rounded to the type of n after each operation, as it would be when run.
func (r *reader) known(n *gorgonia.Node) (float64, bool) {
	if c, ok := r.scalar[n]; ok {
		return c.x, c.ok
	}
	c := r.evaluate(n)
	r.scalar[n] = c
	return c.x, c.ok
}

func (r *reader) evaluate(n *gorgonia.Node) (c constant) {
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
		if c = (constant{1, true}); len(shape) > 0 {
			c.x = float64(shape[axis])
		}
	case "gorgonia.elemBinOp:+", "gorgonia.elemBinOp:-", "gorgonia.elemBinOp:⊙", "gorgonia.elemBinOp:÷":
		in := children(n)
		a, okA := r.known(in[0])
		b, okB := r.known(in[1])
		if !okA || !okB || !t.Float() {
			return c
		}
		c = constant{arithmetic(op, a, b), true}
	default:
		return c
	}
	c.x = kernels.Round(t, c.x)
	return c
}

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

// scalarOf returns the one element of v.
func scalarOf(v gorgonia.Value) constant {
	switch x := v.Data().(type) {
	case float64:
		return constant{x, true}
	case float32:
		return constant{float64(x), true}
	case int:
		return constant{float64(x), int(float64(x)) == x}
	case int64:
		return constant{float64(x), int64(float64(x)) == x}
	case int32:
		return constant{float64(x), true}
	case uint8:
		return constant{float64(x), true}
	}
	return constant{}
}

// constantRule is the rule of a known scalar.
func (r *reader) constantRule(n *gorgonia.Node, x float64) (*rule, error) {
	t, err := typeOf(n)
	if err != nil {
		return nil, err
	}
	return &rule{build: func([]kernels.Value) (kernels.Value, error) { return r.fill(t, shapeOf(n), x), nil }}, nil
}

// lowerConstant gives a tensor a place, or fills it where all elements are equal: then no bytes outlive the step.
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

// lowerSize is reached only where the size cannot be known.
func lowerSize(r *reader, n *gorgonia.Node) (*rule, error) {
	return nil, fmt.Errorf("the size of %q along an axis that it does not have: %w", children(n)[0].Name(), kernels.ErrShape)
}

// lowerGlobalAverage reads [B, C, H, W] → [B, C, 1, 1] as a mean.
func lowerGlobalAverage(r *reader, n *gorgonia.Node) (*rule, error) {
	return r.use(kernels.Mean, kernels.ReduceAttrs{Axes: []int{2, 3}, Keep: true}, children(n)[0]), nil
}

// lowerConvert reads conversions of integers to floats. Those between floats do not run in Gorgonia either; those
// to integers fall back.
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
		return nil, fmt.Errorf("from %v to %v: %w", from, to, ErrUnsupported)
	}
	return r.use(kernels.Decode, kernels.DecodeAttrs{To: to, Scale: 1}, x), nil
}
