package onnx

import (
	"errors"
	"reflect"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// exportInstr is an instruction at both batch sizes, and which of its results is wanted.
type exportInstr struct {
	a, b *ir.Instr
	out  int
}

// exportRule translates an instruction, and returns the name of its result. The error says why ONNX
// cannot hold it.
type exportRule func(e *exporter, in *exportInstr) (string, error)

// exportRules has a rule for each operation of a forward pass that ONNX can hold. Filled by init,
// since the rules translate their operands by the same table.
var exportRules map[*kernels.Op]exportRule

func init() {
	exportRules = map[*kernels.Op]exportRule{
		kernels.Add: exportAdd, kernels.Sub: exportPlain("Sub"), kernels.Mul: exportPlain("Mul"), kernels.Div: exportPlain("Div"), kernels.Pow: exportPlain("Pow"),
		kernels.Maximum: exportPlain("Max"), kernels.Minimum: exportPlain("Min"),
		kernels.Less: exportCompare("Less", false), kernels.LessEqual: exportCompare("LessOrEqual", false),
		kernels.Greater: exportCompare("Greater", false), kernels.GreaterEqual: exportCompare("GreaterOrEqual", false),
		kernels.Equal: exportCompare("Equal", false), kernels.NotEqual: exportCompare("Equal", true),

		kernels.Neg: exportPlain("Neg"), kernels.Abs: exportPlain("Abs"), kernels.Sign: exportPlain("Sign"), kernels.Exp: exportPlain("Exp"), kernels.Log: exportPlain("Log"),
		kernels.Sqrt: exportPlain("Sqrt"), kernels.Inverse: exportPlain("Reciprocal"), kernels.Sin: exportPlain("Sin"), kernels.Cos: exportPlain("Cos"),
		kernels.Erf: exportPlain("Erf"), kernels.Ceil: exportPlain("Ceil"), kernels.Floor: exportPlain("Floor"), kernels.ReLU: exportPlain("Relu"),
		kernels.Sigmoid: exportPlain("Sigmoid"), kernels.Tanh: exportPlain("Tanh"), kernels.Softplus: exportPlain("Softplus"),
		kernels.Square: exportSquare, kernels.Cube: exportCube, kernels.InverseSqrt: exportInverseSqrt, kernels.Log2: exportLog2,
		kernels.Log1p: exportLog1p, kernels.Expm1: exportExpm1, kernels.Affine: exportAffine, kernels.LeakyReLU: exportLeakyReLU,

		kernels.MatMul: exportMatMul, kernels.Conv: exportConv, kernels.ConvGradInput: exportConvTranspose,
		kernels.Im2Col: exportIm2Col, kernels.Col2Im: exportCol2Im, kernels.MaxPool: exportMaxPool, kernels.AvgPool: exportAvgPool,
		kernels.LayerNorm: exportLayerNorm, kernels.GroupNorm: exportGroupNorm,
		kernels.Softmax: exportAlongAxis("Softmax"), kernels.LogSoftmax: exportAlongAxis("LogSoftmax"), kernels.CumSum: exportCumSum,
		kernels.Sum: exportReduction("ReduceSum"), kernels.Mean: exportReduction("ReduceMean"), kernels.Max: exportReduction("ReduceMax"), kernels.TopK: exportTopK,

		kernels.Reshape: exportReshape, kernels.Transpose: exportTranspose, kernels.Broadcast: exportBroadcast, kernels.Concat: exportConcat,
		kernels.Slice: exportSlice, kernels.Unslice: exportUnslice, kernels.Fill: exportFill, kernels.Gather: exportGather,
		kernels.Scatter: exportScatter, kernels.Where: exportWhere, kernels.Decode: exportDecode, kernels.Truncate: exportTruncate,
		kernels.Integer: exportInteger, kernels.IntegerReduce: exportIntegerReduce,
		kernels.CrossEntropy: exportCrossEntropy, kernels.CrossEntropyDense: exportCrossEntropyDense,
		kernels.Correct: exportCorrect, kernels.CorrectDense: exportCorrectDense,
	}
}

// same returns an error unless the attributes are the same for both batch sizes.
func (in *exportInstr) same() error {
	if !reflect.DeepEqual(in.a.Attrs, in.b.Attrs) {
		return errors.New("it depends on the number of rows, which a mean over the batch does: set ExportOptions.Batch to export for one number")
	}
	return nil
}

// spec returns the spec of operand i.
func (e *exporter) spec(in *exportInstr, i int) kernels.Spec { return e.a.Spec(in.a.In[i]) }

// exportPlain is the rule of an operation that ONNX has as it is.
func exportPlain(op string) exportRule {
	return func(e *exporter, in *exportInstr) (string, error) { return e.node(op, e.operands(in.a.In)), in.same() }
}

// exportCompare is the rule of a comparison, whose result is a float here and a bool in ONNX.
func exportCompare(op string, not bool) exportRule {
	return func(e *exporter, in *exportInstr) (string, error) {
		holds := e.node(op, e.operands(in.a.In))
		if not {
			holds = e.node("Not", []string{holds})
		}
		e.bools[in.a.Out[0]] = holds
		return e.cast(holds, e.a.Spec(in.a.Out[0]).Type), nil
	}
}

// cast converts x to a type.
func (e *exporter) cast(x string, t arena.DType) string {
	return e.node("Cast", []string{x}, intAttr("to", int(exportType(t))))
}

// convert converts x from one type to another.
func (e *exporter) convert(x string, from, to arena.DType) string {
	if from == to {
		return x
	}
	return e.cast(x, to)
}

// as returns operand v as a type.
func (e *exporter) as(v kernels.Value, t arena.DType) string {
	return e.convert(e.value(v), e.a.Spec(v).Type, t)
}

// integers returns operand v as int64 or int32, which indices must be.
func (e *exporter) integers(v kernels.Value) string {
	if e.a.Spec(v).Type == arena.Int32 {
		return e.value(v)
	}
	return e.as(v, arena.Int64)
}

// scaled returns scale·x + shift.
func (e *exporter) scaled(x string, t arena.DType, scale, shift float64) string {
	if scale != 1 {
		x = e.node("Mul", []string{x, e.scalar(t, scale)})
	}
	if shift != 0 {
		x = e.node("Add", []string{x, e.scalar(t, shift)})
	}
	return x
}

// exportAlongAxis is the rule of a softmax.
func exportAlongAxis(op string) exportRule {
	return func(e *exporter, in *exportInstr) (string, error) {
		a := in.a.Attrs.(kernels.SoftmaxAttrs)
		return e.node(op, e.operands(in.a.In), intAttr("axis", a.Axis)), in.same()
	}
}

// exportReduction is the rule of a reduction.
func exportReduction(op string) exportRule {
	return func(e *exporter, in *exportInstr) (string, error) {
		return e.reduced(op, e.value(in.a.In[0]), in.a.Attrs.(kernels.ReduceAttrs)), in.same()
	}
}

// reduced returns a reduction of x.
func (e *exporter) reduced(op, x string, a kernels.ReduceAttrs) string {
	operands := []string{x}
	if len(a.Axes) > 0 {
		operands = append(operands, e.int64s(a.Axes...))
	}
	return e.node(op, operands, boolAttr("keepdims", a.Keep))
}

// maker returns the instruction that makes v, if it is op and v has no other reader; else nil.
func (e *exporter) maker(v kernels.Value, op *kernels.Op) *ir.Instr {
	if e.makers[v] < 0 || e.uses[v] != 1 || e.names[v] != "" {
		return nil
	}
	if in := &e.a.Instrs[e.makers[v]]; in.Op == op {
		return in
	}
	return nil
}

// channels returns the vector [C] that v, [C, 1, ...], is a reshape of, if it can be broadcast
// along axis 1 of a tensor of that rank.
func (e *exporter) channels(v kernels.Value, rank int) (kernels.Value, bool) {
	if in := e.maker(v, kernels.Reshape); in != nil {
		s := e.a.Spec(v).Shape
		ones := len(s) == rank-1 && !slices.ContainsFunc(s[1:], func(d int) bool { return d != 1 })
		return in.In[0], ones && len(e.a.Spec(in.In[0]).Shape) == 1
	}
	return v, rank == 2 && len(e.a.Spec(v).Shape) == 1
}
