package frontend

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Products of matrices and vectors.
//
//	linAlgBinOp  →  matmul; vectors become matrices of one row or column
//	tensordotOp  →  matmul of operands that are transposed and reshaped to matrices

// Kinds of linAlgBinOp, from Gorgonia's operatorLinAlg.go.
const (
	matMul = iota
	matVec
	vecDot
	outer
	batchedMatMul
)

// lowerLinAlg lowers a product of matrices or vectors to one matmul; a vector is reshaped to a
// matrix of one row or column.
func lowerLinAlg(r *reader, n *gorgonia.Node) (*rule, error) {
	f := fields{n.Op()}
	kind, err := f.Int("āBinaryOperator")
	if err != nil {
		return nil, err
	}
	decoded, err := kernels.MatMul.Decode(f)
	if err != nil {
		return nil, err
	}
	in, attrs := children(n), decoded.(kernels.MatMulAttrs)
	a, b := shapeOf(in[0]), shapeOf(in[1]) // shapes that the operands are reshaped to
	switch kind {
	case matMul, batchedMatMul:
	case matVec: // [M, K] × [K, 1]; Gorgonia's flag of the vector has no meaning
		b, attrs.TransB = kernels.Shape{b.Elems(), 1}, false
	case vecDot: // [1, K] × [K, 1]
		a, b, attrs = kernels.Shape{1, a.Elems()}, kernels.Shape{b.Elems(), 1}, kernels.MatMulAttrs{}
	case outer: // [M, 1] × [1, N]
		a, b, attrs = kernels.Shape{a.Elems(), 1}, kernels.Shape{1, b.Elems()}, kernels.MatMulAttrs{}
	default:
		return nil, fmt.Errorf("unknown kind of product %d: %w", kind, errVersion)
	}
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
		return r.Apply(kernels.MatMul, attrs, r.reshape(v[0], a), r.reshape(v[1], b)), nil
	}}, nil
}

// lowerTensordot lowers a contraction to a matmul of two matrices [free, summed]: rows for the axes
// that stay, columns for the axes that are summed over.
func lowerTensordot(r *reader, n *gorgonia.Node) (*rule, error) {
	f := fields{n.Op()}
	aAxes, err := f.Ints("aAxes")
	if err != nil {
		return nil, err
	}
	bAxes, err := f.Ints("bAxes")
	if err != nil {
		return nil, err
	}
	in := children(n)
	a, err := matrixFormOf(shapeOf(in[0]), aAxes)
	if err != nil {
		return nil, err
	}
	b, err := matrixFormOf(shapeOf(in[1]), bAxes)
	if err != nil {
		return nil, err
	}
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
		// x is [free, summed] and y too, so that the product is x·yᵀ.
		x, transX := r.matrix(v[0], a)
		y, transY := r.matrix(v[1], b)
		return r.Apply(kernels.MatMul, kernels.MatMulAttrs{TransA: transX, TransB: !transY}, x, y), nil
	}}, nil
}

// matrixForm is the way in which a tensor becomes a matrix [free, summed]. For a tensor [2, 3, 4]
// that is summed over axis 1:
//
//	perm 0 2 1, free 2·4, summed 3, freeAxes 2
type matrixForm struct {
	perm         []int // free axes in their order, then the summed ones
	free, summed int   // rows and columns
	freeAxes     int   // number of free axes
}

// matrixFormOf returns the form of a tensor of that shape, summed over axes.
func matrixFormOf(shape kernels.Shape, axes []int) (c matrixForm, err error) {
	c.free, c.summed = 1, 1
	for i, d := range shape {
		if !slices.Contains(axes, i) {
			c.perm = append(c.perm, i)
			c.free *= d
		}
	}
	c.freeAxes = len(c.perm)
	for _, i := range axes {
		if i < 0 || i >= len(shape) {
			return c, fmt.Errorf("axis %d of %v: %w", i, shape, kernels.ErrShape)
		}
		c.perm = append(c.perm, i)
		c.summed *= shape[i]
	}
	return c, nil
}

// matrix returns v as [free, summed], or as [summed, free] and true where that needs no copy.
func (r *reader) matrix(v kernels.Value, c matrixForm) (m kernels.Value, transposed bool) {
	if slices.IsSorted(c.perm) { // the free axes come first
		return r.reshape(v, kernels.Shape{c.free, c.summed}), false
	}
	// The summed axes come first: the same bytes are the transposed matrix.
	if other := slices.Concat(c.perm[c.freeAxes:], c.perm[:c.freeAxes]); slices.IsSorted(other) {
		return r.reshape(v, kernels.Shape{c.summed, c.free}), true
	}
	v = r.Apply(kernels.Transpose, kernels.TransposeAttrs{Perm: c.perm}, v)
	return r.reshape(v, kernels.Shape{c.free, c.summed}), false
}
