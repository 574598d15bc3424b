package frontend

import (
	"fmt"

	"gorgonia.org/gorgonia"

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
		"*layers.constantOp":            lowerConstant,
		"gorgonia.sizeOp":               lowerSize,
		"gorgonia.elemBinOp":            lowerBinary,
		"gorgonia.elemUnaryOp":          lowerUnary,
		"gorgonia.linAlgBinOp":          lowerLinAlg,
		"gorgonia.tensordotOp":          lowerTensordot,
		"*gorgonia.repeatOp":            lowerRepeat,
		"gorgonia.sumOp":                lowerSum,
		"*gorgonia.maxOp":               lowerMax,
		"*gorgonia.softmaxOp":           lowerSoftmax,
		"*gorgonia.softmaxDiffOp":       lowerSoftmaxDiff,
		"*gorgonia.sparsemaxOp":         lowerSparsemax,
		"*gorgonia.ctcLossOp":           lowerCTC,
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
		"gorgonia.maxBetween":           lowerBetween,
		"gorgonia.minBetween":           lowerBetween,
		"gorgonia.im2colOp":             lowerIm2Col,
		"gorgonia.col2imOp":             lowerCol2Im,
		"*gorgonia.upsampleOp":          lowerUpsample,
		"*gorgonia.upsampleDiffOp":      lowerUpsampleDiff,
		"*gorgonia.byIndicesOp":         lowerByIndices,
		"*gorgonia.byIndicesOpDiffOp":   lowerByIndicesDiff,
		"*gorgonia.dtConvOp":            lowerConvert,
	}
}

// refused are ops that Gorgonia computes wrongly and that have no kernel here, and the advice that
// their error gives.
var refused = map[string]string{
	"*gorgonia.avgPoolOp": "Gorgonia's average pooling divides by the width of its input: " +
		"use AvgPool of package layers, or GlobalAveragePool2D",
	"*frontend.gradOp":          "a gradient of vm.Grad has a value in a machine of package vm only",
	"*gorgonia.avgPoolDiffOp":   "Gorgonia's gradient of average pooling is wrong",
	"*gorgonia.sparsemaxDiffOp": "Gorgonia's gradient of sparsemax is wrong: read the gradient of an input",
	"*gorgonia.ctcLossDiffOp":   "Gorgonia's gradient of a CTC loss is wrong: read the gradient of an input",
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
	// Before the table: arithmetic on constants needs no instruction of its own.
	if x, ok := r.evalScalar(n); ok {
		return r.constantRule(n, x)
	}
	if f, ok := n.Op().(interface{ Failure() error }); ok {
		return nil, f.Failure()
	}
	if c, ok := n.Op().(composedOp); ok {
		return lowerComposed(r, n, c), nil
	}
	if k, ok := n.Op().(kernelOp); ok {
		return lowerKernel(r, n, k)
	}
	l := r.lowerings[key]
	if l == nil { // an op without an entry: an operation computes it as it is, or it falls back
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

// lowerGlobalAverage lowers global average pooling, [B, C, H, W] → [B, C, 1, 1], to a mean.
func lowerGlobalAverage(r *reader, n *gorgonia.Node) (*rule, error) {
	return r.applyRule(kernels.Mean, kernels.ReduceAttrs{Axes: []int{2, 3}, Keep: true}, children(n)[0]), nil
}
