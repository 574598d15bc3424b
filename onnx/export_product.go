package onnx

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// gemm recognises a·b + bias of matrices.
func (e *exporter) gemm(in *exportInstr) (string, bool) {
	product, bias := e.maker(in.a.In[0], kernels.MatMul), in.a.In[1]
	if product == nil {
		product, bias = e.maker(in.a.In[1], kernels.MatMul), in.a.In[0]
	}
	if product == nil || !exportable(product) {
		return "", false
	}
	out, c := e.a.Spec(in.a.Out[0]).Shape, e.a.Spec(bias).Shape
	rows := len(c) == 1 || len(c) == 2 && c[0] == 1 // anything else may be a sum of two products
	if len(out) != 2 || !out.Equal(e.a.Spec(product.Out[0]).Shape) || !rows || c[len(c)-1] != out[1] || !e.stored(bias) {
		return "", false
	}
	x := append(e.operands(product.In), e.value(bias))
	return e.node("Gemm", x, exportTransposes(product)...), true
}

// exportable reports whether a product is nothing but that.
func exportable(in *ir.Instr) bool {
	a := in.Attrs.(kernels.MatMulAttrs)
	return !a.Bias && !a.Add && a.Act == nil && a.Rows == [2]int{} && a.ComputeType == 0
}

// exportTransposes returns the attributes of a Gemm.
func exportTransposes(in *ir.Instr) (attrs []proto.Attribute) {
	a := in.Attrs.(kernels.MatMulAttrs)
	if a.TransA {
		attrs = append(attrs, intAttr("transA", 1))
	}
	if a.TransB {
		attrs = append(attrs, intAttr("transB", 1))
	}
	return attrs
}

// exportMatMul translates act(a·b + bias), or sum + a·b.
func exportMatMul(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.MatMulAttrs)
	if a.Rows != [2]int{} || a.ComputeType != 0 {
		return "", errors.New("products of some rows, and of rounded factors, are not exported: clear Rows and ComputeType")
	}
	x, rank := e.operands(in.a.In), len(e.spec(in, 0).Shape)
	if rank == 2 && (a.TransA || a.TransB || a.Bias || a.Add) {
		return e.activated(e.node("Gemm", x, exportTransposes(in.a)...), a.Act, a.ActAttrs), in.same()
	}
	for i, transposed := range [2]bool{a.TransA, a.TransB} {
		if transposed {
			perm := make([]int, rank)
			for k := range perm {
				perm[k] = k
			}
			perm[rank-2], perm[rank-1] = rank-1, rank-2
			x[i] = e.node("Transpose", x[i:i+1], intsAttr("perm", perm...))
		}
	}
	y := e.node("MatMul", x[:2])
	if a.Bias || a.Add {
		y = e.node("Add", []string{y, x[2]})
	}
	return e.activated(y, a.Act, a.ActAttrs), in.same()
}

// activated returns act(x), or x without an act.
func (e *exporter) activated(x string, act *kernels.Op, attrs any) string {
	switch act {
	case kernels.ReLU:
		return e.node("Relu", []string{x})
	case kernels.LeakyReLU:
		return e.node("LeakyRelu", []string{x}, floatAttr("alpha", attrs.(kernels.LeakyReLUAttrs).Slope))
	case kernels.Sigmoid:
		return e.node("Sigmoid", []string{x})
	case kernels.Tanh:
		return e.node("Tanh", []string{x})
	}
	return x
}

// exportWindow returns the attributes that convolutions share.
func exportWindow(kernel kernels.Shape, stride, pad, dilation [2]int, groups int) []proto.Attribute {
	return []proto.Attribute{
		intsAttr("kernel_shape", kernel...), intsAttr("strides", stride[:]...), intsAttr("pads", pad[0], pad[1], pad[0], pad[1]),
		intsAttr("dilations", dilation[:]...), intAttr("group", groups),
	}
}

func exportConv(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.ConvAttrs)
	if a.Norm || a.ComputeType != 0 {
		return "", errors.New("convolutions with a normalization inside, and of rounded factors, are not exported: clear Norm and ComputeType")
	}
	y := e.node("Conv", e.operands(in.a.In), exportWindow(e.spec(in, 1).Shape[2:], a.Stride, a.Pad, a.Dilation, a.Groups)...)
	return e.activated(y, a.Act, a.ActAttrs), in.same()
}

// exportConvTranspose translates the gradient of a convolution by its input, w and dy: a transposed
// convolution of dy.
func exportConvTranspose(e *exporter, in *exportInstr) (string, error) {
	a := in.a.Attrs.(kernels.ConvGradAttrs)
	if a.ComputeType != 0 {
		return "", errors.New("convolutions of rounded factors are not exported: clear ComputeType")
	}
	w, dy := e.spec(in, 0).Shape, e.spec(in, 1).Shape
	rest, err := exportRest(a.Size, dy[2:], w[2:], a.Stride, a.Pad, a.Dilation)
	if err != nil {
		return "", err
	}
	attrs := append(exportWindow(w[2:], a.Stride, a.Pad, a.Dilation, a.Groups), intsAttr("output_padding", rest[:]...))
	return e.node("ConvTranspose", []string{e.value(in.a.In[1]), e.value(in.a.In[0])}, attrs...), in.same()
}

// exportRest returns the rows and columns of an image that no window reaches: the output padding.
func exportRest(size [2]int, windows, kernel kernels.Shape, stride, pad, dilation [2]int) (rest [2]int, err error) {
	for i := range rest {
		rest[i] = size[i] - (stride[i]*(windows[i]-1) + dilation[i]*(kernel[i]-1) + 1 - 2*pad[i])
		if rest[i] < 0 || rest[i] >= max(stride[i], dilation[i]) {
			return rest, fmt.Errorf("%d pixels are in no window, and ONNX has room for less than the stride or dilation", rest[i])
		}
	}
	return rest, nil
}

// oneHot returns the weights [C·KH·KW, 1, KH, KW] of a convolution in C groups that copies each
// pixel of a window to a channel.
func (e *exporter) oneHot(s kernels.Spec, channels int, kernel [2]int) string {
	taps := kernel[0] * kernel[1]
	xs := make([]float64, channels*taps*taps)
	for i := range channels * taps {
		xs[i*taps+i%taps] = 1
	}
	return e.elements(kernels.Spec{Type: s.Type, Shape: kernels.Shape{channels * taps, 1, kernel[0], kernel[1]}}, xs)
}

// exportIm2Col translates the copy of windows to rows: a convolution with one channel for each
// pixel of a window, and a transposition.
func exportIm2Col(e *exporter, in *exportInstr) (string, error) {
	a, x := in.a.Attrs.(kernels.Im2ColAttrs), e.spec(in, 0)
	attrs := exportWindow(a.Kernel[:], a.Stride, a.Pad, a.Dilation, x.Shape[1])
	y := e.node("Conv", []string{e.value(in.a.In[0]), e.oneHot(x, x.Shape[1], a.Kernel)}, attrs...)
	return e.node("Transpose", []string{y}, intsAttr("perm", 0, 2, 3, 1)), in.same()
}

func exportCol2Im(e *exporter, in *exportInstr) (string, error) {
	a, dy := in.a.Attrs.(kernels.Col2ImAttrs), e.spec(in, 0)
	channels := e.a.Spec(in.a.Out[0]).Shape[1]
	rest, err := exportRest(a.Size, dy.Shape[1:3], a.Kernel[:], a.Stride, a.Pad, a.Dilation)
	if err != nil {
		return "", err
	}
	planes := e.node("Transpose", []string{e.value(in.a.In[0])}, intsAttr("perm", 0, 3, 1, 2))
	attrs := append(exportWindow(a.Kernel[:], a.Stride, a.Pad, a.Dilation, channels), intsAttr("output_padding", rest[:]...))
	return e.node("ConvTranspose", []string{planes, e.oneHot(dy, channels, a.Kernel)}, attrs...), in.same()
}

// exportPool returns the attributes that pools share.
func exportPool(a kernels.PoolAttrs) []proto.Attribute {
	return []proto.Attribute{
		intsAttr("kernel_shape", a.Kernel[:]...), intsAttr("strides", a.Stride[:]...),
		intsAttr("pads", a.Pad[0], a.Pad[1], a.PadEnd[0], a.PadEnd[1]),
	}
}

func exportMaxPool(e *exporter, in *exportInstr) (string, error) {
	return e.node("MaxPool", e.operands(in.a.In), exportPool(in.a.Attrs.(kernels.PoolAttrs))...), in.same()
}

// exportAvgPool uses GlobalAveragePool for a window of the whole image.
func exportAvgPool(e *exporter, in *exportInstr) (string, error) {
	a, s := in.a.Attrs.(kernels.PoolAttrs), e.spec(in, 0).Shape
	if a.Kernel == [2]int{s[2], s[3]} && a.Pad == [2]int{} && a.PadEnd == [2]int{} {
		return e.node("GlobalAveragePool", e.operands(in.a.In)), in.same()
	}
	attrs := exportPool(a)
	if a.CountPad {
		attrs = append(attrs, intAttr("count_include_pad", 1))
	}
	return e.node("AveragePool", e.operands(in.a.In), attrs...), in.same()
}
