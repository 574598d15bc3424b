package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// A call is a node that a rule imports: its operands and attributes, and the program that it is
// added to. In a program that is folding, all types are stored as float64.
type call struct {
	*program
	b     *inference
	n     *proto.Node
	in    []*value // nil: left out
	nodes map[*value]kernels.Value
}

// arg returns operand i, or nil if it is left out.
func (c *call) arg(i int) *value {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

// must returns operand i.
func (c *call) must(i int) *value {
	v := c.arg(i)
	if v == nil {
		badAttribute("operand %d is missing", i)
	}
	return v
}

// shape returns the shape of operand i.
func (c *call) shape(i int) kernels.Shape { return c.must(i).shape }

// A role says what an initializer of floats becomes as an operand.
type role int

const (
	mask   role = iota // a constant
	data               // a parameter, if it has more than one element or a name of its own
	weight             // a parameter
)

// node returns operand i as a value of the program.
func (c *call) node(i int) kernels.Value { return c.nodeOf(c.must(i), data) }

// plain is node for an operand that is no parameter, such as a mask.
func (c *call) plain(i int) kernels.Value { return c.nodeOf(c.must(i), mask) }

// float is node for an operand that must be of floats.
func (c *call) float(i int) kernels.Value { return c.floatOf(i, data) }

// weight is float for the weights of a layer, its bias, or its scale.
func (c *call) weight(i int) kernels.Value { return c.floatOf(i, weight) }

func (c *call) floatOf(i int, r role) kernels.Value {
	v := c.must(i)
	if !c.folding && !v.typ.IsFloat() {
		refuse("operand %d is of type %v: only floats are computed in", i, v.typ)
	}
	return c.nodeOf(v, r)
}

func (c *call) nodeOf(v *value, r role) kernels.Value {
	if v.con == nil {
		return v.at
	}
	if at, ok := c.nodes[v]; ok {
		return at
	}
	var at kernels.Value
	switch {
	case c.folding:
		at = c.leaf(leaf{kind: constantLeaf, data: v.elements(c.b.limit)}, kernels.Spec{Type: arena.Float64, Shape: v.shape})
	case r > mask && c.b.isParameter(v, r):
		at = c.b.parameter(c, v.con.init)
	default:
		at = c.literal(storage(v.typ), v.shape, v.elements(c.b.limit))
	}
	c.nodes[v] = at
	return at
}

// literal adds a constant.
func (c *call) literal(t arena.DType, shape kernels.Shape, data []float64) kernels.Value {
	if c.folding && t.Float() {
		t = arena.Float64
	}
	return c.leaf(leaf{kind: constantLeaf, data: data}, kernels.Spec{Type: t, Shape: shape})
}

// scalar adds a number of x's type.
func (c *call) scalar(x kernels.Value, value float64) kernels.Value {
	return c.literal(c.Spec(x).Type, kernels.Shape{}, []float64{value})
}

// indices adds a vector of indices.
func (c *call) indices(index []int) kernels.Value {
	data := make([]float64, len(index))
	for i, x := range index {
		data[i] = float64(x)
	}
	return c.literal(arena.Int64, kernels.Shape{len(index)}, data)
}

// numbered is 0, 1, … along an axis of a value of a rank, whose other dimensions are 1.
func (c *call) numbered(rank, axis, size int) kernels.Value {
	return c.reshape(c.indices(upTo(size)), line(rank, axis, size))
}

// constant returns the elements of operand i, which must be known at import. what names it in
// errors.
func (c *call) constant(i int, what string) []float64 {
	v := c.must(i)
	if v.con == nil {
		refuse("%s is computed by the model, must be known at import", what)
	}
	return v.elements(c.b.limit)
}

// ints returns the elements of operand i, integers that must be known at import.
func (c *call) ints(i int, what string) []int {
	data := c.constant(i, what)
	if c.must(i).typ.IsFloat() {
		badAttribute("%s is of type %v, must be of integers", what, c.must(i).typ)
	}
	out := make([]int, len(data))
	for k, x := range data {
		out[k] = toInt(x)
	}
	return out
}

// number returns operand i, a single number known at import.
func (c *call) number(i int, what string) float64 {
	data := c.constant(i, what)
	if len(data) != 1 {
		badAttribute("%s has %d elements, must have 1", what, len(data))
	}
	return data[0]
}

// attrInt returns an attribute, or def if the node lacks it.
func (c *call) attrInt(name string, def int) int {
	if a := c.n.Attribute(name); a != nil {
		return int(a.I)
	}
	return def
}

func (c *call) attrBool(name string, def bool) bool {
	if a := c.n.Attribute(name); a != nil {
		return a.I != 0
	}
	return def
}

func (c *call) attrFloat(name string, def float64) float64 {
	if a := c.n.Attribute(name); a != nil {
		return float64(a.F)
	}
	return def
}

func (c *call) attrText(name, def string) string {
	if a := c.n.Attribute(name); a != nil {
		return string(a.S)
	}
	return def
}

// attrInts returns a list, or nil if the node lacks it.
func (c *call) attrInts(name string) []int {
	a := c.n.Attribute(name)
	if a == nil {
		return nil
	}
	out := make([]int, len(a.Ints))
	for i, x := range a.Ints {
		out[i] = int(x)
	}
	return out
}

// upTo returns 0, 1, … n-1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// line returns a shape of a rank whose dimensions are 1, except that of an axis.
func line(rank, axis, size int) kernels.Shape {
	s := slices.Repeat(kernels.Shape{1}, rank)
	s[axis] = size
	return s
}

// unravel sets at to the place of element i of a value of a shape.
func unravel(at []int, i int, s kernels.Shape) {
	for k := len(s) - 1; k >= 0; k-- {
		at[k] = i % s[k]
		i /= s[k]
	}
}

// axis returns an axis of a value of a rank as 0, 1, …; it may count from the end.
func axis(a, rank int) int {
	if a < -rank || a >= rank {
		badAttribute("axis %d of %d dimensions", a, rank)
	}
	if a < 0 {
		a += rank
	}
	return a
}

// out returns a result of the node.
func (c *call) out(v kernels.Value, typ proto.DataType) *value {
	return &value{typ: typ, shape: c.Spec(v).Shape, at: v}
}

// one returns the only result, of the type of the first operand.
func (c *call) one(v kernels.Value) []*value { return []*value{c.out(v, c.must(0).typ)} }

// finite refuses an attribute that is no number.
func finite(name string, x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		badAttribute("%s is %v", name, x)
	}
	return x
}

// Operations that rules are written with.

func (c *call) of(op *kernels.Op, x kernels.Value) kernels.Value     { return c.Apply(op, nil, x) }
func (c *call) two(op *kernels.Op, a, b kernels.Value) kernels.Value { return c.Apply(op, nil, a, b) }
func (c *call) mul(a, b kernels.Value) kernels.Value                 { return c.two(kernels.Mul, a, b) }
func (c *call) plus(a, b kernels.Value) kernels.Value                { return c.two(kernels.Add, a, b) }

// sum is a + b, of which either may be None: 0.
func (c *call) sum(a, b kernels.Value) kernels.Value {
	switch {
	case a == kernels.None:
		return b
	case b == kernels.None:
		return a
	}
	return c.plus(a, b)
}

// affine is scale·x + shift.
func (c *call) affine(x kernels.Value, scale, shift float64) kernels.Value {
	return c.Apply(kernels.Affine, kernels.AffineAttrs{Scale: finite("a factor", scale), Shift: finite("a term", shift)}, x)
}

// as is x in a type of floats.
func (c *call) as(x kernels.Value, t arena.DType) kernels.Value {
	if c.Spec(x).Type == t {
		return x
	}
	return c.Apply(kernels.Decode, kernels.DecodeAttrs{To: t, Scale: 1}, x)
}

// clamp is x, at least low and at most high.
func (c *call) clamp(x kernels.Value, low, high float64) kernels.Value {
	if !math.IsInf(low, -1) {
		x = c.two(kernels.Maximum, x, c.scalar(x, low))
	}
	if !math.IsInf(high, 1) {
		x = c.two(kernels.Minimum, x, c.scalar(x, high))
	}
	return x
}

// reshape is x in another shape.
func (c *call) reshape(x kernels.Value, shape kernels.Shape) kernels.Value {
	if c.Spec(x).Shape.Equal(shape) {
		return x
	}
	from := c.Spec(x)
	if err := (kernels.Spec{Type: from.Type, Shape: shape}).Check(); err != nil || from.Shape.Elems() != shape.Elems() {
		mismatch("%v does not fit %v", from.Shape, shape)
	}
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: append(kernels.Shape{}, shape...)}, x)
}

// transpose is x with its axes in the order of perm.
func (c *call) transpose(x kernels.Value, perm []int) kernels.Value {
	for i, p := range perm {
		if i != p {
			return c.Apply(kernels.Transpose, kernels.TransposeAttrs{Perm: perm}, x)
		}
	}
	return x
}

// expand is x broadcast to a shape.
func (c *call) expand(x kernels.Value, shape kernels.Shape) kernels.Value {
	if c.Spec(x).Shape.Equal(shape) {
		return x
	}
	return c.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: shape}, x)
}

// slice is x from start to end along an axis.
func (c *call) slice(x kernels.Value, axis, start, end int) kernels.Value {
	a := whole(c.Spec(x).Shape)
	if start == 0 && end == a.End[axis] {
		return x
	}
	a.Start[axis], a.End[axis] = start, end
	return c.Apply(kernels.Slice, a, x)
}

// whole selects all of a shape.
func whole(s kernels.Shape) (a kernels.SliceAttrs) {
	for _, d := range s {
		a.Start, a.End, a.Step = append(a.Start, 0), append(a.End, d), append(a.Step, 1)
	}
	return a
}

// concat joins values along an axis.
func (c *call) concat(axis int, xs ...kernels.Value) kernels.Value {
	if len(xs) == 1 {
		return xs[0]
	}
	return c.Apply(kernels.Concat, kernels.ConcatAttrs{Axis: axis}, xs...)
}

// pick selects indices, in the range of the axis, along an axis.
func (c *call) pick(x kernels.Value, axis int, index []int) kernels.Value {
	s := c.Spec(x).Shape
	n := len(index)
	if n > 0 && isRange(index) && index[0] >= 0 && index[n-1] < s[axis] {
		return c.slice(x, axis, index[0], index[n-1]+1)
	}
	return c.gather(x, axis, c.indices(index))
}

func isRange(index []int) bool {
	for i, x := range index {
		if x != index[0]+i {
			return false
		}
	}
	return true
}

// gather selects by a vector of indices along an axis.
func (c *call) gather(x kernels.Value, axis int, index kernels.Value) kernels.Value {
	s := c.Spec(x).Shape
	if axis == 0 {
		return c.Apply(kernels.Gather, nil, x, index)
	}
	outer, inner := s[:axis].Elems(), s[axis+1:].Elems()
	y := c.transpose(c.reshape(x, kernels.Shape{outer, s[axis], inner}), []int{1, 0, 2})
	y = c.transpose(c.Apply(kernels.Gather, nil, y, index), []int{1, 0, 2})
	to := append(kernels.Shape{}, s...)
	to[axis] = c.Spec(index).Shape[0]
	return c.reshape(y, to)
}
