package kernels

import (
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// MatMulAttrs are the attributes of MatMul.
type MatMulAttrs struct {
	TransA, TransB bool // a is [K, M], b is [N, K]
	Bias           bool // a third operand is added to every row
	Act            *Op  // nil, ReLU, LeakyReLU, Sigmoid or Tanh
	ActAttrs       any  // attributes of Act
	Add            bool // the product is added to a third operand; excludes Bias and Act
	// Rows limits the result to its rows Rows[0] to Rows[1]-1. Zero: all rows. These rows have the
	// same bits as in the whole product if Rows[0] is a multiple of 16, and Rows[1] is a multiple
	// of 16 or the number of all rows.
	Rows [2]int
	// ComputeType is the type that the factors a and b are rounded to, to the nearest, ties to
	// even: BFloat16 or Float16; sums are float32. 0 or Float32: the factors are not rounded. A
	// factor may be stored in the type that it is rounded to.
	ComputeType arena.DType
}

// MatMul multiplies matrices.
//
//	a [M, K], b [K, N] (, bias [N], or sum like y) → y [M, N], or [Rows[1]-Rows[0], N]
//
// y = act(a·b + bias) with Bias, or sum + a·b with Add. Rows limits the result to some of its rows.
// Operands of rank 3 and more have equal leading dimensions; their matrices are multiplied one by
// one. With Bias and Act the result has the same bits as MatMul, Add and the activation one after
// another. With Add it need not: devices may begin their sums with the third operand.
var MatMul = Register(&Op{
	Name:     "matmul",
	Gorgonia: []string{"gorgonia.linAlgBinOp"},
	Decode: func(f Fields) (any, error) {
		a, err := f.Bool("transA")
		if err != nil {
			return nil, err
		}
		b, err := f.Bool("transB")
		return MatMulAttrs{TransA: a, TransB: b}, err
	},
	Infer:      inferMatMul,
	Ref:        refMatMul,
	InPlace:    []int8{2},
	Overwrites: func(attrs any) bool { return attrs.(MatMulAttrs).Add },
	Cost: func(attrs any, in, out []Spec) int64 {
		s := in[0].Shape
		k := s[len(s)-1]
		if attrs.(MatMulAttrs).TransA {
			k = s[len(s)-2]
		}
		return 2 * int64(k) * int64(out[0].Shape.Elems())
	},
	Cases: matMulCases,
})

func init() { MatMul.Grad = gradMatMul }

func inferMatMul(attrs any, in []Spec) ([]Spec, error) {
	t, err := attrsOf[MatMulAttrs]("matmul", attrs)
	if err != nil {
		return nil, err
	}
	operands := 2
	if t.Bias || t.Add {
		operands = 3
	}
	if t.Add && (t.Bias || t.Act != nil) {
		return nil, attrError("matmul", "a product that is added to a sum has neither a bias nor an activation")
	}
	typ, err := productType("matmul", in, operands, t.ComputeType)
	if err != nil {
		return nil, err
	}
	a, b := in[0].Shape, in[1].Shape
	r := len(a) - 2
	if r < 0 || len(b) != len(a) || !a[:r].Equal(b[:r]) {
		return nil, shapeError("matmul", "%v and %v are not matrices with equal leading dimensions", a, b)
	}
	m, k, k2, n := a[r], a[r+1], b[r], b[r+1]
	if t.TransA {
		m, k = k, m
	}
	if t.TransB {
		k2, n = n, k2
	}
	if k != k2 {
		return nil, shapeError("matmul", "%v and %v do not multiply (transposed: %v, %v): %d against %d", a, b,
			t.TransA, t.TransB, k, k2)
	}
	if t.Bias && !in[2].Shape.Equal(Shape{n}) {
		return nil, shapeError("matmul", "bias %v must be (%d)", in[2].Shape, n)
	}
	if t.Rows != [2]int{} {
		if t.Rows[0] < 0 || t.Rows[0] >= t.Rows[1] || t.Rows[1] > m {
			return nil, shapeError("matmul", "rows %d to %d are not some of the %d of the product", t.Rows[0], t.Rows[1], m)
		}
		m = t.Rows[1] - t.Rows[0]
	}
	out := Spec{typ, append(slices.Clone(a[:r]), m, n)}
	if t.Add && !in[2].Shape.Equal(out.Shape) {
		return nil, shapeError("matmul", "sum %v must be %v", in[2].Shape, out.Shape)
	}
	return []Spec{out}, checkAct("matmul", t.Act, t.ActAttrs, out)
}

// checkAct returns an error unless act can be the activation of a product with result out.
func checkAct(op string, act *Op, attrs any, out Spec) error {
	switch act {
	case nil:
		return noAttrs(op, attrs)
	case ReLU, LeakyReLU, Sigmoid, Tanh:
		_, err := act.Infer(attrs, []Spec{out})
		return err
	}
	return attrError(op, "cannot end with %s", act.Name)
}

func refMatMul(attrs any, in, out []Tensor) {
	t := attrs.(MatMulAttrs)
	in, y := roundFactors(t.ComputeType, in), out[0]
	r := len(y.Shape) - 2
	m, n := y.Shape[r], y.Shape[r+1]
	all, k := in[0].Shape[r], in[0].Shape[r+1]
	if t.TransA {
		all, k = k, all
	}
	am, ak, bk, bn := k, 1, n, 1 // strides
	if t.TransA {
		am, ak = 1, all
	}
	if t.TransB {
		bk, bn = 1, k
	}
	for batch := range y.Shape[:r].Elems() {
		a, b := in[0].Data[batch*all*k+t.Rows[0]*am:], in[1].Data[batch*k*n:]
		for i := range m {
			for j := range n {
				sum := 0.0
				for l := range k {
					sum += a[i*am+l*ak] * b[l*bk+j*bn]
				}
				y.Data[(batch*m+i)*n+j] = Round(y.Type, sum)
			}
		}
	}
	for i, v := range y.Data {
		switch {
		case t.Bias:
			v = Round(y.Type, v+in[2].Data[i%n])
		case t.Add:
			v = Round(y.Type, v+in[2].Data[i])
		}
		if t.Act != nil {
			v = t.Act.Elem(t.ActAttrs, v, 0)
		}
		y.Data[i] = v
	}
}

// gradMatMul computes da = dz·bᵀ and db = aᵀ·dz for y = act(z). For a transposed operand both sides
// are transposed; with Rows, a is sliced to these rows.
func gradMatMul(g Graph, n Node, dy []Value) []Value {
	t := n.Attrs.(MatMulAttrs)
	a, b, dz := n.In[0], n.In[1], dy[0]
	whole := g.Spec(a).Shape
	cut := fullRange(whole)
	if t.Rows != [2]int{} {
		axis := len(whole) - 2
		if t.TransA {
			axis++
		}
		cut.Start[axis], cut.End[axis] = t.Rows[0], t.Rows[1]
		a = g.Apply(Slice, cut, a)
	}
	if t.Act != nil {
		dz = t.Act.Grad(g, Node{Op: t.Act, Attrs: t.ActAttrs, In: []Value{None}, Out: n.Out}, dy)[0]
	}
	product := func(a, b Value, transA, transB bool) Value {
		return g.Apply(MatMul, MatMulAttrs{TransA: transA, TransB: transB, ComputeType: t.ComputeType}, a, b)
	}
	var da, db Value
	if t.TransA {
		da = product(b, dz, t.TransB, true)
	} else {
		da = product(dz, b, false, !t.TransB)
	}
	if t.TransB {
		db = product(dz, a, true, t.TransA)
	} else {
		db = product(a, dz, !t.TransA, false)
	}
	if t.Rows != [2]int{} {
		da = g.Apply(Unslice, UnsliceAttrs{whole, cut.Start, cut.Step}, da)
	}
	switch {
	case t.Bias:
		return []Value{da, db, sumTo(g, dz, g.Spec(n.In[2]).Shape)}
	case t.Add:
		return []Value{da, db, dz}
	}
	return []Value{da, db}
}

func matMulCases(r *rand.Rand, float arena.DType) Case {
	m, k, n := randomDim(r), randomDim(r), randomDim(r)
	switch r.IntN(6) {
	case 0:
		m, k, n = 1+r.IntN(150), 1+r.IntN(300), 1+r.IntN(40)
	case 1:
		m, k, n = 1+r.IntN(20), 1+r.IntN(40), 1+r.IntN(300)
	}
	t := MatMulAttrs{TransA: r.IntN(2) == 0, TransB: r.IntN(2) == 0, Bias: r.IntN(2) == 0}
	t.Act = []*Op{nil, nil, ReLU, LeakyReLU, Sigmoid, Tanh}[r.IntN(6)]
	if t.Act == LeakyReLU {
		t.ActAttrs = LeakyReLUAttrs{0.1}
	}
	if r.IntN(5) == 0 {
		t = MatMulAttrs{TransA: t.TransA, TransB: t.TransB, Add: true}
	}
	t.ComputeType = randomFactors(r, float)
	if m > 0 && r.IntN(3) == 0 {
		first := r.IntN(m)
		t.Rows = [2]int{first, first + 1 + r.IntN(m-first)}
	}
	var lead Shape
	if r.IntN(4) == 0 {
		lead = Shape{1 + r.IntN(4), 1 + r.IntN(2)}[r.IntN(2):]
	}
	a, b := append(slices.Clone(lead), m, k), append(slices.Clone(lead), k, n)
	if t.TransA {
		a = append(slices.Clone(lead), k, m)
	}
	if t.TransB {
		b = append(slices.Clone(lead), n, k)
	}
	c := Case{Attrs: t, In: []Spec{{randomStored(r, float, t.ComputeType), a}, {randomStored(r, float, t.ComputeType), b}}, Tolerance: sumTolerance(k)}
	switch {
	case t.Bias:
		c.In = append(c.In, Spec{float, Shape{n}})
	case t.Add:
		if t.Rows != [2]int{} {
			m = t.Rows[1] - t.Rows[0]
		}
		c.In = append(c.In, Spec{float, append(slices.Clone(lead), m, n)})
	}
	return c
}
