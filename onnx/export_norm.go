package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

func exportLayerNorm(e *exporter, in *exportInstr) (string, error) {
	eps := in.a.Attrs.(kernels.LayerNormAttrs).Eps
	return e.node("LayerNormalization", e.operands(in.a.In), intAttr("axis", -1), floatAttr("epsilon", eps)), in.same()
}

// exportGroupNorm translates into InstanceNormalization of the groups, scale and shift: before
// opset 21, GroupNormalization has one scale a group.
func exportGroupNorm(e *exporter, in *exportInstr) (string, error) {
	a, x := in.a.Attrs.(kernels.GroupNormAttrs), e.spec(in, 0)
	eps, ops := floatAttr("epsilon", a.Eps), e.operands(in.a.In)
	dims, err := e.dims(in.a.In[0])
	if err != nil {
		return "", err
	}
	rank, channels := len(x.Shape), x.Shape[1]
	if a.Groups == channels && rank > 2 {
		return e.node("InstanceNormalization", ops, eps), in.same()
	}
	grouped, err := e.reshape(ops[0], []exportDim{dims[0], {plus: a.Groups}, {plus: x.Shape[1:].Elems() / a.Groups}})
	if err != nil {
		return "", err
	}
	each := kernels.Spec{Type: x.Type, Shape: kernels.Shape{a.Groups}}
	y := e.node("InstanceNormalization", []string{grouped, e.filled(each, 1), e.filled(each, 0)}, eps)
	if y, err = e.reshape(y, dims); err != nil {
		return "", err
	}
	per := slices.Repeat([]exportDim{{plus: 1}}, rank-1)
	per[0].plus = channels
	for k, op := range []string{"Mul", "Add"} {
		v, err := e.reshape(ops[1+k], per)
		if err != nil {
			return "", err
		}
		y = e.node(op, []string{y, v})
	}
	return y, in.same()
}

// exportCumSum translates the running sum.
func exportCumSum(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.CumSumAttrs)
	axis := e.scalar(arena.Int64, float64(a.Axis))
	return e.node("CumSum", []string{e.value(in.a.In[0]), axis}, boolAttr("reverse", a.Reverse)), in.same()
}

func exportTopK(e *exporter, in *exportInstr) (string, error) {
	a, ab := in.a.Attrs.(kernels.TopKAttrs), in.b.Attrs.(kernels.TopKAttrs)
	d, err := e.dimOf(a.K, ab.K)
	if err != nil {
		return "", err
	}
	k, err := e.vector([]exportDim{d})
	if err != nil {
		return "", err
	}
	// One node for both results.
	values := e.node("TopK", []string{e.value(in.a.In[0]), k}, intAttr("axis", a.Axis))
	index := e.fresh(values + "/index")
	last := &e.graph.Nodes[len(e.graph.Nodes)-1]
	last.Outputs = append(last.Outputs, index)
	e.names[in.a.Out[0]], e.names[in.a.Out[1]] = values, index
	return e.names[in.a.Out[in.out]], nil
}

// Losses of rows, which a model may have among its outputs.

func exportCrossEntropy(e *exporter, in *exportInstr) (string, error) {
	x := []string{e.value(in.a.In[0]), e.integers(in.a.In[1])}
	return e.node("SoftmaxCrossEntropyLoss", x, textAttr("reduction", "none")), nil
}

func exportCrossEntropyDense(e *exporter, in *exportInstr) (string, error) {
	x := e.operands(in.a.In)
	log := e.node("LogSoftmax", x[:1], intAttr("axis", 1))
	sum := e.node("ReduceSum", []string{e.node("Mul", []string{log, x[1]}), e.int64s(1)}, intAttr("keepdims", 0))
	return e.node("Neg", []string{sum}), nil
}

// largest returns the place of the largest element of each row.
func (e *exporter) largest(x string) string {
	return e.node("ArgMax", []string{x}, intAttr("axis", 1), intAttr("keepdims", 0))
}

func exportCorrect(e *exporter, in *exportInstr) (string, error) {
	labels := e.as(in.a.In[1], arena.Int64)
	holds := e.node("Equal", []string{e.largest(e.value(in.a.In[0])), labels})
	return e.cast(holds, e.a.Spec(in.a.Out[0]).Type), nil
}

func exportCorrectDense(e *exporter, in *exportInstr) (string, error) {
	holds := e.node("Equal", []string{e.largest(e.value(in.a.In[0])), e.largest(e.value(in.a.In[1]))})
	return e.cast(holds, e.a.Spec(in.a.Out[0]).Type), nil
}
