package frontend

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Operations on integers. A field may be stored in fewer or more bytes than its node in the graph has:
// operands are widened, and results have the type of the graph.
//
//	elemBinOp +, -, ⊙, comparisons  →  integer
//	          ÷, ^                  →  a fallback: Gorgonia's error for a division by 0
//	maxBetween, minBetween          →  integer
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
	return r.broadcastRule(n, kernels.Integer, kernels.IntegerAttrs{Func: f.f, To: to}, a, b), nil
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
