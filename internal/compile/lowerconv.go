package compile

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// lowerTranspose reads a transpose, and the convolution that one of Gorgonia's ends in.
func lowerTranspose(r *reader, n *gorgonia.Node) (*rule, error) {
	if found, err := r.convolution(n); found != nil || err != nil {
		return found, err
	}
	return r.direct(n)
}

// convolution recognises what gorgonia.Conv2d and Conv1d build, where x is [B, C, H, W] and w is [O, C, KH, KW]:
//
//	transpose 0312 (reshape [B, OH, OW, O] (matmul (reshape (im2col x), reshape [O, C·KH·KW] w)ᵀ))
//
// An im2col that is used otherwise falls back.
func (r *reader) convolution(n *gorgonia.Node) (*rule, error) {
	perm, err := fields{n.Op()}.Ints("pattern")
	if err != nil || !slices.Equal(perm, []int{0, 3, 1, 2}) {
		return nil, err
	}
	product := behind(children(n)[0], "gorgonia.reshapeOp")
	if product == nil || !is(product, "gorgonia.linAlgBinOp") {
		return nil, nil
	}
	kind, err := fields{product.Op()}.Int("āBinaryOperator")
	if err != nil {
		return nil, err
	}
	attrs, err := kernels.MatMul.Decode(fields{product.Op()})
	if err != nil {
		return nil, err
	}
	in := children(product)
	patches, w := behind(in[0], "gorgonia.reshapeOp"), behind(in[1], "gorgonia.reshapeOp")
	if kind != matMul || attrs != any(kernels.MatMulAttrs{TransB: true}) || patches == nil || w == nil || !is(patches, "gorgonia.im2colOp") {
		return nil, nil
	}
	x := children(patches)[0]
	a, kernel, err := im2colOf(patches)
	if err != nil {
		return nil, err
	}
	if want := (kernels.Shape{in[1].Shape()[0], x.Shape()[1], kernel[0], kernel[1]}); !shapeOf(w).Equal(want) {
		return nil, nil
	}
	return r.use(kernels.Conv, a, x, w), nil
}

// behind returns the operand of n where n is the result of the op with that key, else nil.
func behind(n *gorgonia.Node, key string) *gorgonia.Node {
	if !is(n, key) {
		return nil
	}
	return children(n)[0]
}

// im2colOf returns the convolution that an im2col prepares, and its kernel's height and width.
func im2colOf(n *gorgonia.Node) (a kernels.ConvAttrs, kernel [2]int, err error) {
	a.Groups = 1
	err = pairs(fields{n.Op()}, map[string]*int{
		"h": &kernel[0], "w": &kernel[1], "padH": &a.Pad[0], "padW": &a.Pad[1], "strideH": &a.Stride[0], "strideW": &a.Stride[1],
		"dilationH": &a.Dilation[0], "dilationW": &a.Dilation[1],
	})
	return a, kernel, err
}

// pairs reads integer fields.
func pairs(f fields, into map[string]*int) (err error) {
	for name, at := range into {
		if *at, err = f.Int(name); err != nil {
			return err
		}
	}
	return nil
}

// lowerMaxPool reads max pooling.
func lowerMaxPool(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := maxPoolOf(n)
	if err != nil {
		return nil, err
	}
	return r.use(kernels.MaxPool, a, children(n)[0]), nil
}

// maxPoolOf returns the attributes of max pooling, or of its gradient. Where padding is given for all four sides, Gorgonia puts that of
// the bottom and the right at the top and the left; ours is where the names say.
func maxPoolOf(n *gorgonia.Node) (a kernels.PoolAttrs, err error) {
	err = pairs(fields{n.Op()}, map[string]*int{
		"h": &a.Kernel[0], "w": &a.Kernel[1], "strideH": &a.Stride[0], "strideW": &a.Stride[1],
		"padNorth": &a.Pad[0], "padWest": &a.Pad[1], "padSouth": &a.PadEnd[0], "padEast": &a.PadEnd[1],
	})
	return a, err
}

// lowerGroupNorm reads Gorgonia's group normalization, which has neither scale nor shift.
func lowerGroupNorm(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := groupNormOf(n)
	if err != nil {
		return nil, err
	}
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		return r.Apply(kernels.GroupNorm, a, v[0], r.channels(v[0], 1), r.channels(v[0], 0)), nil
	}}, nil
}

func groupNormOf(n *gorgonia.Node) (a kernels.GroupNormAttrs, err error) {
	f := fields{n.Op()}
	if a.Groups, err = f.Int("numGroups"); err != nil {
		return a, err
	}
	a.Eps, err = f.Float("epsilon")
	return a, err
}

// channels returns a constant for each channel of x [B, C, ...].
func (r *reader) channels(x kernels.Value, c float64) kernels.Value {
	spec := r.Spec(x)
	if len(spec.Shape) < 2 {
		panic(ir.BuildError{Err: fmt.Errorf("normalizes %v: %w", spec, kernels.ErrShape)})
	}
	return r.fill(spec.Type, spec.Shape[1:2], c)
}
