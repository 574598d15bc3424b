package layers

import (
	"fmt"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// kernel is an operation of package kernels as a node of a Gorgonia graph. The compiler uses the
// operation itself; Gorgonia's own machines run its reference implementation in float64.
type kernel struct {
	base
	op     *kernels.Op
	attrs  any
	output int           // the output of op that is the value of the node
	types  []arena.DType // types of the operands
	of     tensor.Dtype  // type of the value's elements
}

// Kernel returns the operation, its attributes, and the number of the output that is the node's
// value. The operands are the children of the node.
func (k *kernel) Kernel() (op *kernels.Op, attrs any, output int) { return k.op, k.attrs, k.output }

// kernel returns the op of a node with the given children, whose value is an output of op with a
// number of dimensions and a type. It does not check shapes.
func (n *Net) kernel(op *kernels.Op, attrs any, output, dims int, of tensor.Dtype, children ...*gorgonia.Node) kernel {
	k := kernel{base: base{id: n.id(len(children)), name: op.Name}, op: op, attrs: attrs, output: output, of: of}
	for _, c := range children {
		k.types = append(k.types, storage[c.Dtype()])
		k.signature = append(k.signature, c.Type())
	}
	k.signature = append(k.signature, typeOf(dims, of))
	return k
}

// typeOf returns the Gorgonia type of a node with dims dimensions.
func typeOf(dims int, of tensor.Dtype) hm.Type {
	if dims == 0 {
		return of
	}
	return gorgonia.TensorType{Dims: dims, Of: of}
}

// apply adds a node called name that computes op. If the shapes do not fit, it records the error of
// op.Infer.
func (n *Net) apply(layer, name string, op *kernels.Op, attrs any, children ...*gorgonia.Node) *gorgonia.Node {
	y := n.node(layer, op, attrs, 0, children...)
	return n.keep(layer, name, y, nil)
}

// node adds a node without a name that computes an output of op, or records an error, that of op.Infer
// if the shapes do not fit.
func (n *Net) node(layer string, op *kernels.Op, attrs any, output int, children ...*gorgonia.Node) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	in := make([]kernels.Spec, len(children))
	for i, c := range children {
		in[i] = kernels.Spec{Type: storage[c.Dtype()], Shape: kernels.Shape(c.Shape())}
	}
	out, err := op.Infer(attrs, in)
	if err == nil && output >= len(out) {
		err = fmt.Errorf("output %d of %d: %w", output, len(out), ErrNode)
	}
	if err == nil {
		err = out[output].Check()
	}
	if err != nil {
		n.fail(fmt.Errorf("%s over input %s: %w", layer, shapeString(children[0].Shape()), err))
		return nil
	}
	y := out[output]
	k := n.kernel(op, attrs, output, len(y.Shape), elementType(y.Type, children), children...)
	node, err := gorgonia.ApplyOp(&k, children...)
	if err != nil {
		n.fail(fmt.Errorf("%s: %w: %w", layer, err, ErrNode))
		return nil
	}
	return node
}

// elementType returns Gorgonia's type of elements that are stored as t: that of a node of the list
// if one is stored so.
func elementType(t arena.DType, like []*gorgonia.Node) tensor.Dtype {
	for _, x := range like {
		if storage[x.Dtype()] == t {
			return x.Dtype()
		}
	}
	switch t {
	case arena.Float32:
		return tensor.Float32
	case arena.Float64:
		return tensor.Float64
	case arena.Int32:
		return tensor.Int32
	case arena.Uint8:
		return tensor.Uint8
	}
	return tensor.Int
}

// storage maps Gorgonia's types of elements to storage types.
var storage = map[tensor.Dtype]arena.DType{
	tensor.Float32: arena.Float32, tensor.Float64: arena.Float64,
	tensor.Int: arena.Int64, tensor.Int64: arena.Int64, tensor.Int32: arena.Int32, tensor.Uint8: arena.Uint8,
}

// InferShape returns the shape of the operation's result.
func (k *kernel) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	specs, err := k.specs(in)
	if err != nil {
		return nil, err
	}
	out, err := k.op.Infer(k.attrs, specs)
	if err != nil {
		return nil, err
	}
	return tensor.Shape(out[k.output].Shape), nil
}

// specs returns the specs of operands of the given shapes.
func (k *kernel) specs(in []gorgonia.DimSizer) ([]kernels.Spec, error) {
	if len(in) != len(k.types) {
		return nil, fmt.Errorf("%v: %d operands, needs %d: %w", k, len(in), len(k.types), ErrShape)
	}
	specs := make([]kernels.Spec, len(in))
	for i, d := range in {
		s, ok := d.(tensor.Shape)
		if !ok {
			return nil, fmt.Errorf("%v: operand is %T, not a shape: %w", k, d, ErrShape)
		}
		specs[i] = kernels.Spec{Type: k.types[i], Shape: kernels.Shape(s)}
	}
	return specs, nil
}

// operands returns the values of the operands in float64.
func (k *kernel) operands(in []gorgonia.Value) ([]kernels.Tensor, error) {
	if len(in) < len(k.types) {
		return nil, fmt.Errorf("%v: %d operands, needs %d: %w", k, len(in), len(k.types), ErrShape)
	}
	x := make([]kernels.Tensor, len(k.types))
	for i, t := range k.types {
		d, err := numbers(in[i], t)
		if err != nil {
			return nil, fmt.Errorf("%v: operand %d: %w", k, i, err)
		}
		x[i] = kernels.Tensor{Spec: kernels.Spec{Type: t, Shape: kernels.Shape(in[i].Shape())}, Data: d}
	}
	return x, nil
}

// numbers returns the elements of v in float64, or an error unless their storage type is t.
func numbers(v gorgonia.Value, t arena.DType) ([]float64, error) {
	if got, ok := storage[v.Dtype()]; !ok || got != t {
		return nil, fmt.Errorf("type %s, must be %v: %w", typeString(v.Dtype()), t, ErrShape)
	}
	if t.Float() {
		return floats(v)
	}
	i, err := ints(v)
	out := make([]float64, len(i))
	for j, x := range i {
		out[j] = float64(x)
	}
	return out, err
}

// Do runs the reference implementation.
func (k *kernel) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if err := k.check(in); err != nil {
		return nil, err
	}
	x, err := k.operands(in)
	if err != nil {
		return nil, err
	}
	for i, t := range x {
		if at := slices.IndexFunc(t.Data, beyond); at >= 0 && !t.Type.Float() && !storage[k.of].Float() {
			return nil, fmt.Errorf("%v: element %d of operand %d is about %v: Gorgonia's machines compute layers in float64, "+
				"which holds integers below 2^53: use package trainer or trainer/vm: %w", k, at, i, t.Data[at], ErrShape)
		}
	}
	y, err := kernels.Eval(k.op, k.attrs, x)
	if err != nil {
		return nil, err
	}
	return result(k.of, y[k.output].Data, y[k.output].Shape...), nil
}

// beyond reports whether x may be an integer that a float64 does not hold.
func beyond(x float64) bool { return x >= 1<<53 || x <= -1<<53 }

// DiffWRT reports a gradient for each float operand, if the operation has a gradient and the value
// of the node is of a float type.
func (k *kernel) DiffWRT(int) []bool {
	d := make([]bool, len(k.types))
	for i, t := range k.types {
		d[i] = k.op.Grad != nil && t.Float() && storage[k.of].Float()
	}
	return d
}

// SymDiff adds a node for the gradient of each operand that has one.
func (k *kernel) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	return k.gradients(in, dy, k.DiffWRT(len(in)), func(x []kernels.Tensor, dy kernels.Tensor, wrt int) ([]float64, error) {
		return k.gradient(x, dy, wrt)
	})
}

// gradients adds a node computed by f for each operand that wanted selects.
func (k *kernel) gradients(in gorgonia.Nodes, dy *gorgonia.Node, wanted []bool, f gradient) (gorgonia.Nodes, error) {
	out := make(gorgonia.Nodes, len(in))
	for i := range in {
		if !wanted[i] {
			continue
		}
		op := &kernelGrad{kernel: k, wrt: i, f: f}
		op.base = base{k.id + 1 + uint32(i), fmt.Sprintf("%sGrad%d", k.name, i), slices.Concat(k.signature[:len(in)], []hm.Type{dy.Type(), in[i].Type()})}
		var err error
		if out[i], err = gorgonia.ApplyOp(op, append(slices.Clone(in), dy)...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gradient computes the gradient of operand wrt from the operands and the gradient dy of the
// result.
type gradient func(x []kernels.Tensor, dy kernels.Tensor, wrt int) ([]float64, error)

// gradient evaluates the gradient rule of the operation.
func (k *kernel) gradient(x []kernels.Tensor, dy kernels.Tensor, wrt int) (d []float64, err error) {
	defer func() { // kernels.Graph panics with an error if specs do not fit
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: gradient: %v: %w", k, p, ErrShape)
		}
	}()
	g := &kernels.Eager{}
	in := make([]kernels.Value, len(x))
	for i, t := range x {
		in[i] = g.Input(t)
	}
	node := g.Node(k.op, k.attrs, in...)
	douts := make([]kernels.Value, len(node.Out))
	for i := range douts {
		douts[i] = kernels.None
	}
	dy.Shape = g.Spec(node.Out[k.output]).Shape // Gorgonia does not distinguish a vector from a matrix of one column
	douts[k.output] = g.Input(dy)
	v := k.op.Grad(g, node, douts)[wrt]
	if v == kernels.None {
		return make([]float64, len(x[wrt].Data)), nil
	}
	return g.Tensor(v).Data, nil
}

// kernelGrad is the gradient of one operand of a kernel.  (operands, dy) → gradient of operand wrt,
// with its shape.
type kernelGrad struct {
	base
	kernel *kernel
	wrt    int
	f      gradient
}

// InferShape returns the shape of the operand.
func (k *kernelGrad) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, ok := in[k.wrt].(tensor.Shape)
	if !ok {
		return nil, fmt.Errorf("%v: operand is %T, not a shape: %w", k, in[k.wrt], ErrShape)
	}
	return s.Clone(), nil
}

// Do computes the gradient.
func (k *kernelGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if err := k.check(in); err != nil {
		return nil, err
	}
	x, err := k.kernel.operands(in)
	if err != nil {
		return nil, err
	}
	last := in[len(in)-1]
	dy := kernels.Tensor{Spec: kernels.Spec{Type: storage[last.Dtype()], Shape: kernels.Shape(last.Shape())}}
	if dy.Data, err = floats(last); err != nil {
		return nil, fmt.Errorf("%v: %w", k, err)
	}
	d, err := k.f(x, dy, k.wrt)
	if err != nil {
		return nil, err
	}
	// d may be dy itself, and Gorgonia adds up gradients in place.
	return result(in[k.wrt].Dtype(), slices.Clone(d), in[k.wrt].Shape()...), nil
}
