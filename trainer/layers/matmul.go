package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Transposed selects factors of [Net.MatMul] whose last two axes are exchanged before the product.
type Transposed struct{ A, B bool }

// MatMul adds the product of matrices in the last two axes of a and b. Leading axes broadcast as in
// NumPy.
//
//	a (…, M, K), b (…, K, N)  →  (…, M, N)
//
// A vector a is one row, and a vector b one column; that axis is missing in the result. A factor that
// is repeated along a leading axis takes memory for its copies, except a matrix b without leading axes:
// then all rows of a are one product.
func (n *Net) MatMul(a, b *gorgonia.Node, name string, t Transposed) *gorgonia.Node {
	layer := operation("matmul", name, a)
	if !n.floats(layer, a, b) {
		return nil
	}
	as, bs := a.Shape(), b.Shape()
	switch {
	case len(as) == 0 || len(bs) == 0:
		n.fail(fmt.Errorf("%s: a scalar is no matrix: use Mul: %w", layer, ErrShape))
		return nil
	case len(as) == 1 && t.A || len(bs) == 1 && t.B:
		n.fail(fmt.Errorf("%s: a vector cannot be transposed: inputs are %s and %s: %w", layer, shapeString(as), shapeString(bs), ErrShape))
		return nil
	}
	p := productOf(as, bs, t)
	if p.k != p.k2 {
		n.fail(fmt.Errorf("%s: %s and %s (transposed: %v, %v) do not multiply: %d columns, %d rows: %w",
			layer, shapeString(as), shapeString(bs), t.A, t.B, p.k, p.k2, ErrShape))
		return nil
	}
	if _, err := broadcast(p.leadA, p.leadB); err != nil {
		n.fail(fmt.Errorf("%s: the leading axes of %s and %s: %w", layer, shapeString(as), shapeString(bs), err))
		return nil
	}
	return n.compose("matmul", name, func(g kernels.Graph, x []kernels.Value) kernels.Value {
		c := calc{g}
		return productOf(c.Spec(x[0]).Shape, c.Spec(x[1]).Shape, t).compute(c, x[0], x[1])
	}, a, b)
}

// product is a product of matrices.
type product struct {
	Transposed
	leadA, leadB kernels.Shape // leading dimensions
	m, k, k2, n  int           // a is [m, k], b is [k2, n] after transposing
	row, column  bool          // a, b is a vector
}

// productOf returns the product of operands of these shapes, which are not scalars.
func productOf(a, b []int, t Transposed) product {
	p := product{Transposed: t, row: len(a) == 1, column: len(b) == 1}
	if p.row {
		a = []int{1, a[0]}
	}
	if p.column {
		b = []int{b[0], 1}
	}
	ra, rb := len(a)-2, len(b)-2
	p.leadA, p.leadB = append(p.leadA, a[:ra]...), append(p.leadB, b[:rb]...)
	p.m, p.k, p.k2, p.n = a[ra], a[ra+1], b[rb], b[rb+1]
	if t.A {
		p.m, p.k = p.k, p.m
	}
	if t.B {
		p.k2, p.n = p.n, p.k2
	}
	return p
}

// compute is the product of a and b.
func (p product) compute(c calc, a, b kernels.Value) kernels.Value {
	lead, err := broadcast(p.leadA, p.leadB)
	if err != nil {
		panic(err)
	}
	var y kernels.Value
	if p.leadB.Elems() == 1 { // one product of all rows of a
		if p.A && p.leadA.Elems() > 1 {
			a = c.transpose(a, exchanged(len(p.leadA)+2))
			p.A = false
		}
		a, b = c.reshape(a, matrix(p.leadA.Elems()*p.m, p.k, p.A)), c.reshape(b, matrix(p.k, p.n, p.B))
		y = c.Apply(kernels.MatMul, kernels.MatMulAttrs{TransA: p.A, TransB: p.B}, a, b)
	} else {
		a, b = c.spread(a, p.leadA, lead, matrix(p.m, p.k, p.A)), c.spread(b, p.leadB, lead, matrix(p.k, p.n, p.B))
		y = c.Apply(kernels.MatMul, kernels.MatMulAttrs{TransA: p.A, TransB: p.B}, a, b)
	}
	out := slices.Clone(lead)
	if !p.row {
		out = append(out, p.m)
	}
	if !p.column {
		out = append(out, p.n)
	}
	return c.reshape(y, out)
}

// matrix returns the shape of a matrix in memory.
func matrix(rows, columns int, transposed bool) kernels.Shape {
	if transposed {
		rows, columns = columns, rows
	}
	return kernels.Shape{rows, columns}
}

// exchanged returns 0, 1, …, rank-1 with the last two exchanged.
func exchanged(rank int) []int {
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	perm[rank-2], perm[rank-1] = rank-1, rank-2
	return perm
}

// spread repeats the matrices of x, of leading dimensions from, to the leading dimensions to.
func (c calc) spread(x kernels.Value, from, to, matrix kernels.Shape) kernels.Value {
	x = c.reshape(x, slices.Concat(from, matrix))
	whole := slices.Concat(to, matrix)
	if from.Elems() == to.Elems() {
		return c.reshape(x, whole)
	}
	return c.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: whole}, x)
}
