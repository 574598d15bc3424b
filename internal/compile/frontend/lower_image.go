package frontend

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Operations on images.
//
//	im2colOp, linAlgBinOp, transposeOp  as Conv1d and Conv2d build them  →  conv
//	transposeOp                         otherwise                        →  transpose
//	im2colOp, col2imOp                  otherwise                        →  im2col, col2im
//	maxPoolOp                                                            →  maxPool
//	upsampleOp                                                           →  broadcast
//	upsampleDiffOp                                                       →  sum
//	GroupNormOp                                                          →  groupNorm with scale 1 and shift 0

// lowerTranspose lowers a transpose. A convolution of Gorgonia's ends in one.
func lowerTranspose(r *reader, n *gorgonia.Node) (*rule, error) {
	if found, err := r.matchConv(n); found != nil || err != nil {
		return found, err
	}
	return lowerDirect(r, n)
}

// matchConv recognises a convolution as gorgonia.Conv2d and Conv1d build it, where x is [B, C, H,
// W] and w is [O, C, KH, KW]:
//
//	transpose 0312 (reshape [B, OH, OW, O] (matmul (reshape (im2col x), (reshape [O, C·KH·KW] w)ᵀ)))
func (r *reader) matchConv(n *gorgonia.Node) (*rule, error) {
	perm, err := fields{n.Op()}.Ints("pattern")
	if err != nil || !slices.Equal(perm, []int{0, 3, 1, 2}) {
		return nil, err
	}
	// From the transpose back to x and w. Each step that does not fit ends the match.
	product := unwrap(children(n)[0], "gorgonia.reshapeOp")
	if product == nil || !isOp(product, "gorgonia.linAlgBinOp") {
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
	patches, w := unwrap(in[0], "gorgonia.reshapeOp"), unwrap(in[1], "gorgonia.reshapeOp")
	if kind != matMul || attrs != any(kernels.MatMulAttrs{TransB: true}) || w == nil ||
		patches == nil || !isOp(patches, "gorgonia.im2colOp") {
		return nil, nil
	}
	x := children(patches)[0]
	a, kernel, err := im2colOf(patches)
	if err != nil {
		return nil, err
	}
	// The kernel's height and width are not in the shapes of the products: im2col has them.
	if want := (kernels.Shape{in[1].Shape()[0], x.Shape()[1], kernel[0], kernel[1]}); !shapeOf(w).Equal(want) {
		return nil, nil
	}
	return r.applyRule(kernels.Conv, a, x, w), nil
}

// unwrap returns the operand of n where the op of n has that key, else nil.
func unwrap(n *gorgonia.Node, key string) *gorgonia.Node {
	if !isOp(n, key) {
		return nil
	}
	return children(n)[0]
}

// im2colOf returns the attributes of the convolution that an im2col prepares, and the height and
// width of its kernel.
func im2colOf(n *gorgonia.Node) (a kernels.ConvAttrs, kernel [2]int, err error) {
	a.Groups = 1
	err = readInts(fields{n.Op()}, map[string]*int{
		"h": &kernel[0], "w": &kernel[1], "padH": &a.Pad[0], "padW": &a.Pad[1], "strideH": &a.Stride[0], "strideW": &a.Stride[1],
		"dilationH": &a.Dilation[0], "dilationW": &a.Dilation[1],
	})
	return a, kernel, err
}

// lowerIm2Col lowers an im2col that is not part of a convolution.
func lowerIm2Col(r *reader, n *gorgonia.Node) (*rule, error) {
	a, kernel, err := im2colOf(n)
	if err != nil {
		return nil, err
	}
	return r.applyRule(kernels.Im2Col, kernels.Im2ColAttrs{Kernel: kernel, Stride: a.Stride, Dilation: a.Dilation, Pad: a.Pad}, children(n)[0]), nil
}

// lowerCol2Im lowers the gradient of an im2col.
func lowerCol2Im(r *reader, n *gorgonia.Node) (*rule, error) {
	a, kernel, err := im2colOf(n)
	if err != nil {
		return nil, err
	}
	s, dy := shapeOf(n), children(n)[0]
	if len(s) != 4 {
		return nil, fmt.Errorf("computes %v, want [B, C, H, W]: %w", s, kernels.ErrShape)
	}
	attrs := kernels.Col2ImAttrs{Size: [2]int{s[2], s[3]},
		Im2ColAttrs: kernels.Im2ColAttrs{Kernel: kernel, Stride: a.Stride, Dilation: a.Dilation, Pad: a.Pad}}
	return r.applyRule(kernels.Col2Im, attrs, dy), nil
}

// readInts reads integer fields, by name, into variables.
func readInts(f fields, into map[string]*int) (err error) {
	for name, at := range into {
		if *at, err = f.Int(name); err != nil {
			return err
		}
	}
	return nil
}

// lowerMaxPool lowers max pooling.
func lowerMaxPool(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := maxPoolOf(n)
	if err != nil {
		return nil, err
	}
	found := r.applyRule(kernels.MaxPool, a, children(n)[0])
	if a.Pad == a.PadEnd {
		return found, nil
	}
	apply := found.build
	found.build = func(v []kernels.Value) (kernels.Value, error) {
		r.Mark = padMark
		return apply(v)
	}
	return found, nil
}

// padMark marks max poolings whose results differ from those of Gorgonia's own code in a plan.
const padMark = "each side has its own padding; a tape machine pads the top as the bottom, and the left as the right"

// maxPoolOf returns the attributes of max pooling, or of its gradient. Each side has its own padding
// here. Gorgonia's own code pads the top as much as the bottom, and the left as much as the right,
// whatever the node says.
func maxPoolOf(n *gorgonia.Node) (a kernels.PoolAttrs, err error) {
	err = readInts(fields{n.Op()}, map[string]*int{
		"h": &a.Kernel[0], "w": &a.Kernel[1], "strideH": &a.Stride[0], "strideW": &a.Stride[1],
		"padNorth": &a.Pad[0], "padWest": &a.Pad[1], "padSouth": &a.PadEnd[0], "padEast": &a.PadEnd[1],
	})
	return a, err
}

// lowerUpsample lowers nearest-neighbour upsampling by s: each pixel is broadcast to s rows and s
// columns.
//
//	[B, C, H, W] → [B, C, H, 1, W, 1] → [B, C, H, s, W, s] → [B, C, H·s, W·s]
func lowerUpsample(r *reader, n *gorgonia.Node) (*rule, error) {
	x := children(n)[0]
	pixels, blocks, err := upsampledShapes(x, n.Op())
	if err != nil {
		return nil, err
	}
	return &rule{in: gorgonia.Nodes{x}, build: func(v []kernels.Value) (kernels.Value, error) {
		return r.Apply(kernels.Broadcast, kernels.BroadcastAttrs{Shape: blocks}, r.reshape(v[0], pixels)), nil
	}}, nil
}

// lowerUpsampleDiff lowers the gradient of upsampling, which sums the s·s pixels of each block.
// Operands: x, y and dy; the first two are not needed.
func lowerUpsampleDiff(r *reader, n *gorgonia.Node) (*rule, error) {
	in := children(n)
	_, blocks, err := upsampledShapes(in[0], n.Op())
	if err != nil {
		return nil, err
	}
	return &rule{in: in[2:], build: func(v []kernels.Value) (kernels.Value, error) {
		return r.Apply(kernels.Sum, kernels.ReduceAttrs{Axes: []int{3, 5}}, r.reshape(v[0], blocks)), nil
	}}, nil
}

// upsampledShapes returns the shapes in which an upsampling of x broadcasts: [B, C, H, 1, W, 1] and
// [B, C, H, s, W, s].
func upsampledShapes(x *gorgonia.Node, op gorgonia.Op) (pixels, blocks kernels.Shape, err error) {
	s, err := fields{op}.Int("stride") // s - 1
	if err != nil {
		return nil, nil, err
	}
	d := shapeOf(x)
	if len(d) != 4 {
		return nil, nil, fmt.Errorf("upsamples %v, want [B, C, H, W]: %w", d, kernels.ErrShape)
	}
	return kernels.Shape{d[0], d[1], d[2], 1, d[3], 1}, kernels.Shape{d[0], d[1], d[2], s + 1, d[3], s + 1}, nil
}

// lowerGroupNorm lowers Gorgonia's group normalization, which has neither scale nor shift: they
// become constants 1 and 0.
func lowerGroupNorm(r *reader, n *gorgonia.Node) (*rule, error) {
	a, err := groupNormOf(n)
	if err != nil {
		return nil, err
	}
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		return r.Apply(kernels.GroupNorm, a, v[0], r.channelConst(v[0], 1), r.channelConst(v[0], 0)), nil
	}}, nil
}

// groupNormOf returns the attributes of group normalization, or of its gradient.
func groupNormOf(n *gorgonia.Node) (a kernels.GroupNormAttrs, err error) {
	f := fields{n.Op()}
	if a.Groups, err = f.Int("numGroups"); err != nil {
		return a, err
	}
	a.Eps, err = f.Float("epsilon")
	return a, err
}

// channelConst returns a constant [C], filled with c, for x [B, C, ...].
func (r *reader) channelConst(x kernels.Value, c float64) kernels.Value {
	spec := r.Spec(x)
	if len(spec.Shape) < 2 {
		panic(ir.BuildError{Err: fmt.Errorf("normalizes %v, want [B, C, ...]: %w", spec, kernels.ErrShape)})
	}
	return r.fill(spec.Type, spec.Shape[1:2], c)
}
