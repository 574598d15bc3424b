package frontend

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Operations on integers. A field may be stored in fewer or more bytes than its node in the graph has:
// operands are widened, and results have the type of the graph.
//
//	elemBinOp +, -, ⊙, comparisons  →  integer
//	          ÷, ^                  →  check_index, integer: a division by 0 is an error
//	maxBetween, minBetween          →  integer
//	sumOp, maxOp                    →  integer_reduce
//	dtConvOp                        →  integer, decode, or truncate

// integerFunc is an operation that computes a function of integers, with operands exchanged or not.
type integerFunc struct {
	f       kernels.IntegerFunc
	swapped bool
}

// integerFuncs returns the functions of integers by the keys of Gorgonia's ops.
func integerFuncs() map[string]integerFunc {
	return map[string]integerFunc{
		opAdd:                   {f: kernels.IntegerAdd},
		"gorgonia.elemBinOp:-":  {f: kernels.IntegerSub},
		opMul:                   {f: kernels.IntegerMul},
		opDiv:                   {f: kernels.IntegerDiv},
		"gorgonia.elemBinOp:^":  {f: kernels.IntegerPow},
		opLt:                    {f: kernels.IntegerLess},
		"gorgonia.elemBinOp:<=": {f: kernels.IntegerLessEqual},
		opGt:                    {f: kernels.IntegerLess, swapped: true},
		opGe:                    {f: kernels.IntegerLessEqual, swapped: true},
		"gorgonia.elemBinOp:==": {f: kernels.IntegerEqual},
		"gorgonia.elemBinOp:!=": {f: kernels.IntegerNotEqual},
		"gorgonia.maxBetween":   {f: kernels.IntegerMax},
		"gorgonia.minBetween":   {f: kernels.IntegerMin},
	}
}

// lowerIntegers lowers an elementwise op of two integer operands.
func lowerIntegers(r *reader, n *gorgonia.Node) (*rule, error) {
	to, err := r.storageType(n)
	f, ok := integerFuncs()[opKey(n.Op())]
	if err != nil || !ok {
		return nil, err
	}
	in := children(n)
	a, b := in[0], in[1]
	if f.swapped {
		a, b = b, a
	}
	found := r.broadcastRule(n, kernels.Integer, kernels.IntegerAttrs{Func: f.f, To: to}, a, b)
	if f.f == kernels.IntegerDiv && !r.always(found.in[1], func(x float64) bool { return x != 0 }) ||
		f.f == kernels.IntegerPow && !r.always(found.in[1], func(x float64) bool { return x >= 0 }) {
		r.checkDivision(n, found, f.f)
	}
	return found, nil
}

// always reports whether n is a constant whose elements all hold.
func (r *reader) always(n *gorgonia.Node, holds func(x float64) bool) bool {
	if x, ok := r.evalScalar(n); ok {
		return holds(x)
	}
	if n.Op() == nil || valueOf(n.Op()) == nil {
		return false
	}
	t, err := typeOf(n)
	v := valueOf(n.Op())
	xs := make([]float64, v.Shape().TotalSize())
	data := make([]byte, int64(len(xs))*t.Size())
	if err != nil || store(data, t, v) != nil {
		return false
	}
	kernels.Load(xs, t, data)
	return !slices.ContainsFunc(xs, func(x float64) bool { return !holds(x) })
}

// checkDivision adds to the rule of n, a quotient or a power of integers, the check that nothing is
// divided by 0. The result is 0 where it is, and the status word gets a code for n.
func (r *reader) checkDivision(n *gorgonia.Node, found *rule, f kernels.IntegerFunc) {
	build := found.build
	found.build = func(v []kernels.Value) (kernels.Value, error) {
		holds := func(f kernels.IntegerFunc, a, b kernels.Value) kernels.Value {
			return r.Apply(kernels.Integer, kernels.IntegerAttrs{Func: f, To: arena.Uint8}, a, b)
		}
		zero := r.fill(arena.Int32, nil, 0)
		bad := holds(kernels.IntegerEqual, v[1], zero)
		x := ir.Indices{Node: n.Name(), Rows: 1, Divides: true}
		if f == kernels.IntegerPow { // 0 to the power of -1 is 1/0
			base, exponent := r.alignTo(v[0], shapeOf(found.in[0]), shapeOf(n)), r.alignTo(v[1], shapeOf(found.in[1]), shapeOf(n))
			bad = holds(kernels.IntegerMul, holds(kernels.IntegerEqual, base, zero), holds(kernels.IntegerLess, exponent, zero))
		} else if field := r.fieldOf(found.in[1]); field != "" {
			x.Field, x.Each = field, max(1, r.Spec(bad).Shape.Elems()/max(1, r.Batch))
		}
		if err := r.checkIndex(r.flat(bad), x); err != nil {
			return kernels.None, err
		}
		return build(v)
	}
}

// lowerIntegerReduce lowers a sum or a maximum of integers along axes.
func lowerIntegerReduce(r *reader, n *gorgonia.Node, f kernels.IntegerFunc) (*rule, error) {
	to, err := r.storageType(n)
	if err != nil {
		return nil, err
	}
	axes, err := axesOf(n)
	if err != nil {
		return nil, err
	}
	a := kernels.IntegerReduceAttrs{Func: f, ReduceAttrs: kernels.ReduceAttrs{Axes: axes}, To: to}
	return r.applyRule(kernels.IntegerReduce, a, children(n)[0]), nil
}

// lowerConvert lowers a conversion from or to integers. Those between floats are refused, as Gorgonia
// does not run them either. A float beyond int64 becomes its smallest or largest number, NaN 0.
func lowerConvert(r *reader, n *gorgonia.Node) (*rule, error) {
	x := children(n)[0]
	from, err := typeOf(x)
	if err != nil {
		return nil, err
	}
	to, err := typeOf(n)
	switch {
	case err != nil:
		return nil, err
	case from.Float() && to.Float():
		return nil, fmt.Errorf("conversion from %v to %v: %w", from, to, kernels.ErrUnsupported)
	case to.Float():
		return r.applyRule(kernels.Decode, kernels.DecodeAttrs{To: to, Scale: 1}, x), nil
	}
	return &rule{in: gorgonia.Nodes{x}, build: func(v []kernels.Value) (kernels.Value, error) {
		if from.Float() {
			return r.asInteger(r.Apply(kernels.Truncate, nil, v[0]), to), nil
		}
		return r.asInteger(v[0], to), nil
	}}, nil
}

// asInteger returns integers v in type t.
func (r *reader) asInteger(v kernels.Value, t arena.DType) kernels.Value {
	if r.Spec(v).Type == t {
		return v
	}
	return r.Apply(kernels.Integer, kernels.IntegerAttrs{Func: kernels.IntegerConvert, To: t}, v)
}

// alike returns operands v of an op that needs integers of one type: where they are stored in several,
// all have the type of n.
func (r *reader) alike(n *gorgonia.Node, v []kernels.Value) []kernels.Value {
	t, err := typeOf(n)
	if err != nil || t.Float() {
		return v
	}
	stored := make(map[arena.DType]bool)
	for _, x := range v {
		if x := r.Spec(x).Type; !x.Float() {
			stored[x] = true
		}
	}
	if len(stored) < 2 {
		return v
	}
	out := make([]kernels.Value, len(v))
	for i, x := range v {
		if out[i] = x; !r.Spec(x).Type.Float() {
			out[i] = r.asInteger(x, t)
		}
	}
	return out
}
