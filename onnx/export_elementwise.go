package onnx

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// exportAdd recognises batch normalization, and a product with a bias.
func exportAdd(e *exporter, in *exportInstr) (string, error) {
	if name, ok := e.batchNormalization(in); ok {
		return name, nil
	}
	if name, ok := e.gemm(in); ok {
		return name, nil
	}
	return e.node("Add", e.operands(in.a.In)), nil
}

// batchNormalization recognises (x - mean)·(gamma / √(variance + ε)) + beta, which the compiler
// makes of a batch normalization that uses its running statistics.
func (e *exporter) batchNormalization(in *exportInstr) (string, bool) {
	rank := len(e.a.Spec(in.a.Out[0]).Shape)
	product := e.maker(in.a.In[0], kernels.Mul)
	if product == nil || rank < 2 {
		return "", false
	}
	centred := e.maker(product.In[0], kernels.Sub)
	beta, ok1 := e.channels(in.a.In[1], rank)
	scale, ok2 := e.channels(product.In[1], rank)
	if centred == nil || !ok1 || !ok2 || len(e.a.Spec(centred.In[0]).Shape) != rank {
		return "", false
	}
	mean, ok := e.channels(centred.In[1], rank)
	ratio := e.maker(scale, kernels.Div)
	if !ok || ratio == nil {
		return "", false
	}
	root := e.maker(ratio.In[1], kernels.Sqrt)
	if root == nil {
		return "", false
	}
	shifted := e.maker(root.In[0], kernels.Affine)
	if shifted == nil || shifted.Attrs.(kernels.AffineAttrs).Scale != 1 {
		return "", false
	}
	gamma, variance, x := ratio.In[0], shifted.In[0], centred.In[0]
	c := kernels.Shape{e.a.Spec(x).Shape[1]}
	for _, v := range []kernels.Value{gamma, beta, mean, variance} {
		if !e.a.Spec(v).Shape.Equal(c) {
			return "", false
		}
	}
	eps := shifted.Attrs.(kernels.AffineAttrs).Shift
	return e.node("BatchNormalization", e.operands([]kernels.Value{x, gamma, beta, mean, variance}), floatAttr("epsilon", eps)), true
}

func exportSquare(e *exporter, in *exportInstr) (string, error) {
	x := e.value(in.a.In[0])
	return e.node("Mul", []string{x, x}), nil
}

func exportCube(e *exporter, in *exportInstr) (string, error) {
	x := e.value(in.a.In[0])
	return e.node("Mul", []string{e.node("Mul", []string{x, x}), x}), nil
}

func exportInverseSqrt(e *exporter, in *exportInstr) (string, error) {
	return e.node("Reciprocal", []string{e.node("Sqrt", e.operands(in.a.In))}), nil
}

func exportLog2(e *exporter, in *exportInstr) (string, error) {
	return e.node("Mul", []string{e.node("Log", e.operands(in.a.In)), e.scalar(e.spec(in, 0).Type, 1/math.Ln2)}), nil
}

// exportLog1p and exportExpm1 compute in float64: next to 0, a float32 loses the result.
func exportLog1p(e *exporter, in *exportInstr) (string, error) {
	x := e.cast(e.value(in.a.In[0]), arena.Float64)
	y := e.node("Log", []string{e.scaled(x, arena.Float64, 1, 1)})
	return e.cast(y, e.spec(in, 0).Type), nil
}

func exportExpm1(e *exporter, in *exportInstr) (string, error) {
	y := e.node("Exp", []string{e.cast(e.value(in.a.In[0]), arena.Float64)})
	return e.cast(e.scaled(y, arena.Float64, 1, -1), e.spec(in, 0).Type), nil
}

func exportAffine(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.AffineAttrs)
	return e.scaled(e.value(in.a.In[0]), e.spec(in, 0).Type, a.Scale, a.Shift), in.same()
}

func exportLeakyReLU(e *exporter, in *exportInstr) (string, error) {
	return e.activated(e.value(in.a.In[0]), kernels.LeakyReLU, in.a.Attrs), in.same()
}

// exportWhere uses the bool of a comparison where there is one.
func exportWhere(e *exporter, in *exportInstr) (string, error) {
	x := e.operands(in.a.In)
	cond := e.bools[in.a.In[0]]
	if cond == "" {
		cond = e.node("Cast", x[:1], intAttr("to", int(proto.Bool)))
	}
	return e.node("Where", []string{cond, x[1], x[2]}), nil
}

func exportDecode(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.DecodeAttrs)
	return e.scaled(e.as(in.a.In[0], a.To), a.To, a.Scale, a.Shift), in.same()
}

func exportTruncate(e *exporter, in *exportInstr) (string, error) {
	return e.cast(e.value(in.a.In[0]), arena.Int64), nil
}

// exportInteger computes in int64, as the operation does.
func exportInteger(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.IntegerAttrs)
	if a.Func == kernels.IntegerConvert {
		return e.cast(e.value(in.a.In[0]), a.To), in.same()
	}
	var x []string
	for _, v := range in.a.In {
		x = append(x, e.as(v, arena.Int64))
	}
	op, is := "", arena.Int64
	switch a.Func {
	case kernels.IntegerAdd:
		op = "Add"
	case kernels.IntegerSub:
		op = "Sub"
	case kernels.IntegerMul:
		op = "Mul"
	case kernels.IntegerMax:
		op = "Max"
	case kernels.IntegerMin:
		op = "Min"
	case kernels.IntegerLess:
		op, is = "Less", 0
	case kernels.IntegerLessEqual:
		op, is = "LessOrEqual", 0
	case kernels.IntegerEqual, kernels.IntegerNotEqual:
		op, is = "Equal", 0
	case kernels.IntegerDiv:
		return e.convert(e.quotient(x[0], x[1]), arena.Int64, a.To), in.same()
	default:
		return "", fmt.Errorf("ONNX has no %v of integers that wraps around", a.Func)
	}
	y := e.node(op, x)
	if a.Func == kernels.IntegerNotEqual {
		y = e.node("Not", []string{y})
	}
	return e.convert(y, is, a.To), in.same()
}

// quotient is a/b of int64, 0 where b is 0: a runtime may fail there.
func (e *exporter) quotient(a, b string) string {
	zero := e.node("Equal", []string{b, e.scalar(arena.Int64, 0)})
	y := e.node("Div", []string{a, e.node("Where", []string{zero, e.scalar(arena.Int64, 1), b})})
	return e.node("Where", []string{zero, e.scalar(arena.Int64, 0), y})
}

// exportIntegerReduce computes in int64, as the operation does.
func exportIntegerReduce(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.IntegerReduceAttrs)
	op := "ReduceSum"
	if a.Func == kernels.IntegerMax {
		op = "ReduceMax"
	}
	y := e.reduced(op, e.as(in.a.In[0], arena.Int64), a.ReduceAttrs)
	return e.convert(y, arena.Int64, a.To), in.same()
}
