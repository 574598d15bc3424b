package cuda

import "github.com/evenkeel/evenkeel/kernels"

// fewChannels is the number of channels of a group's result from which products use tiles. With
// fewer, a tile of 64 would be nearly empty, and each result is computed by itself.
const fewChannels = 8

// convSize holds the dimensions of a convolution, for all three of its operations.
type convSize struct {
	batch, c, h, w, o, oh, ow, kh, kw int
	stride, pad, dilation             [2]int
	groups                            int
}

// args are the parameters WINDOW of conv.cu.
func (s convSize) args() []any {
	var a []any
	for _, v := range []int{s.batch, s.c, s.h, s.w, s.o, s.oh, s.ow, s.kh, s.kw, s.stride[0], s.stride[1], s.pad[0], s.pad[1],
		s.dilation[0], s.dilation[1], s.groups} {
		a = append(a, int32(v))
	}
	return a
}

// with appends the window to a kernel's own arguments.
func (s convSize) with(args ...any) []any { return append(args, s.args()...) }

// fits returns an error if kernels that count in 32 bits cannot compute it.
func (s convSize) fits() error {
	return fits(s.batch*s.h*s.w, s.batch*s.oh*s.ow, s.c*s.kh*s.kw, s.o*s.kh*s.kw,
		s.oh*s.stride[0]+s.kh*s.dilation[0]+s.pad[0], s.ow*s.stride[1]+s.kw*s.dilation[1]+s.pad[1])
}

func convSizeOf(x, w, y kernels.Shape) convSize {
	return convSize{batch: y[0], c: x[1], h: x[2], w: x[3], o: y[1], oh: y[2], ow: y[3], kh: w[2], kw: w[3]}
}

func (s convSize) windows(a kernels.ConvGradAttrs) convSize {
	s.stride, s.pad, s.dilation, s.groups = a.Stride, a.Pad, a.Dilation, a.Groups
	return s
}

// bindConv launches a forward pass.
func bindConv(b *binding) error {
	t := b.Attrs.(kernels.ConvAttrs)
	s := convSizeOf(b.In[0].Shape, b.In[1].Shape, b.Out[0].Shape)
	s.stride, s.pad, s.dilation, s.groups = t.Stride, t.Pad, t.Dilation, t.Groups
	results := int64(b.Out[0].Shape.Elems())
	if results == 0 {
		return nil
	}
	if err := s.fits(); err != nil {
		return err
	}
	act, slope := activation(t.Act, t.ActAttrs)
	var bias address
	if t.Bias {
		bias = b.in(2)
	}
	typ, to, rows := b.Out[0].Type, kernels.ComputeTypeOf(t), s.o/s.groups
	var mean, scale, shift address
	if at := t.NormAt(); t.Norm {
		mean, scale, shift = b.in(at), b.in(at+1), b.in(at+2)
	}
	args := append(b.factors(b.in(0), to != 0), bias, mean, scale, shift, b.out(0))
	if typ.Size() == 8 || rows < fewChannels {
		b.launch(half("conv", to), "conv_forward_direct_"+number(typ, to), strided(b.props, results, productThreads), line(productThreads), 0,
			s.with(append(args, act, slope)...)...)
		return nil
	}
	k := s.c / s.groups * s.kh * s.kw
	along := wide(b.in(1), b.In[1].Type, 4, k, k*rows, k)
	b.launch(half("conv", to), "conv_forward_"+number(typ, to), s.grid(b.props, rows, s.batch*s.oh*s.ow, 1), line(productThreads), 0,
		s.with(append(args, truth(along), act, slope)...)...)
	return nil
}

// grid is the tiles of a group, the groups and the splits.
func (s convSize) grid(p *properties, rows, cols, splits int) dim {
	return dim{tilesOf(rows, smallTile) * tilesOf(cols, smallTile), min(s.groups, p.gridY), splits}
}

// bindConvInput launches the gradient by the input.
func bindConvInput(b *binding) error {
	s := convSizeOf(b.Out[0].Shape, b.In[0].Shape, b.In[1].Shape).windows(b.Attrs.(kernels.ConvGradAttrs))
	results := int64(b.Out[0].Shape.Elems())
	if results == 0 {
		return nil
	}
	if err := s.fits(); err != nil {
		return err
	}
	typ, to, rows := b.Out[0].Type, kernels.ComputeTypeOf(b.Attrs), s.c/s.groups
	args := s.with(append(b.factors(b.in(0), to != 0), b.out(0))...)
	if typ.Size() == 8 || rows < fewChannels {
		b.launch(half("conv", to), "conv_input_direct_"+number(typ, to), strided(b.props, results, productThreads),
			line(productThreads), 0, args...)
		return nil
	}
	b.launch(half("conv", to), "conv_input_"+number(typ, to), s.grid(b.props, rows, s.batch*s.h*s.w, 1),
		line(productThreads), 0, args...)
	return nil
}

// weightSize is the gradient by the weights as a product for each group: rows, columns and steps.
func weightSize(attrs any, in, out []kernels.Spec) (s convSize, m, n, k int) {
	s = convSizeOf(in[0].Shape, out[0].Shape, in[1].Shape).windows(attrs.(kernels.ConvGradAttrs))
	return s, s.o / s.groups, s.c / s.groups * s.kh * s.kw, s.batch * s.oh * s.ow
}

// convWeightWork is the partial sums where pixels are split.
func convWeightWork(p *properties, attrs any, in, out []kernels.Spec) int64 {
	s, m, n, k := weightSize(attrs, in, out)
	if out[0].Type.Size() == 8 || m < fewChannels {
		return 0
	}
	return partialBytes(p, out[0].Type, m, n, k, s.groups)
}

// bindConvWeight launches the gradient by the weights.
func bindConvWeight(b *binding) error {
	s, m, n, k := weightSize(b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	results := int64(b.Out[0].Shape.Elems())
	if results == 0 {
		return nil
	}
	if err := s.fits(); err != nil {
		return err
	}
	typ, to := b.Out[0].Type, kernels.ComputeTypeOf(b.Attrs)
	args := append(b.factors(b.in(0), to != 0), b.out(0))
	if typ.Size() == 8 || m < fewChannels {
		b.launch(half("conv", to), "conv_weight_direct_"+number(typ, to), line(int(min(results, int64(16*max(b.props.processors, 1))))), line(32*min(productThreads/32, max(1, tilesOf(k, 32)))), 0,
			s.with(args...)...)
		return nil
	}
	plan := planProduct(b.props, m, n, k, s.groups)
	b.launch(half("conv", to), "conv_weight_"+number(typ, to), s.grid(b.props, m, n, plan.splits), line(productThreads), 0,
		s.with(append(args, b.work(), int32(plan.splits), int32(plan.perSplit))...)...)
	if plan.splits > 1 {
		b.launch("matmul", "matmul_end_f32", strided(b.props, results, productThreads), line(productThreads), 0,
			b.work(), address(0), int64(0), b.out(0), int64(s.o), int64(n), int32(plan.splits), actNone, 0.0)
	}
	return nil
}
