package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Convolutions and pooling of one and two dimensions. One dimension is an image of height 1.
var windowRules = map[string][]rule{
	"Conv":          always(conv),
	"ConvTranspose": always(convTranspose),
	"MaxPool":       always(pool(kernels.MaxPool)),
	"AveragePool":   always(pool(kernels.AvgPool)),
}

// A window is what convolutions and pools have in common.
type window struct {
	flat                     bool // one dimension
	size                     [2]int
	kernel, stride, dilation [2]int
	lo, hi                   [2]int // padding before and after
}

// sizesOf returns an attribute with each numbers, from 0 on, for each of n dimensions. Default: all
// are def.
func (c *call) sizesOf(name string, each, n, def int) []int {
	list := c.attrInts(name)
	if list == nil {
		return slices.Repeat([]int{def}, each*n)
	}
	if len(list) != each*n {
		badAttribute("%s has %d numbers for %d dimensions", name, len(list), n)
	}
	if slices.ContainsFunc(list, func(x int) bool { return x < 0 || x > math.MaxInt32 }) {
		badAttribute("%s is %v", name, list)
	}
	return list
}

// pair returns an attribute with a number for each dimension of an image. The height of a flat one
// has def.
func (c *call) pair(name string, def int, flat bool) [2]int {
	if flat {
		return [2]int{def, c.sizesOf(name, 1, 1, def)[0]}
	}
	return [2]int(c.sizesOf(name, 1, 2, def))
}

// window reads the attributes. The kernel is that of weights, or of an attribute if there are none.
func (c *call) window(weights kernels.Shape) window {
	s := c.shape(0)
	if len(s) != 3 && len(s) != 4 {
		refuse("%d dimensions: windows of one and two are known", len(s)-2)
	}
	w := window{flat: len(s) == 3}
	w.size = [2]int{1, s[len(s)-1]}
	if !w.flat {
		w.size[0] = s[2]
	}
	w.stride, w.dilation = c.pair("strides", 1, w.flat), c.pair("dilations", 1, w.flat)
	if weights != nil {
		if len(weights) != len(s) {
			mismatch("weights %v for %v", weights, s)
		}
		w.kernel = [2]int{1, weights[len(s)-1]}
		if !w.flat {
			w.kernel[0] = weights[2]
		}
	} else {
		w.kernel = c.pair("kernel_shape", 0, w.flat)
	}
	if w.flat {
		w.kernel[0], w.stride[0], w.dilation[0] = 1, 1, 1
	}
	for i := range 2 {
		if w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 {
			badAttribute("kernel %v, strides %v, dilations %v: all must be 1 or more", w.kernel, w.stride, w.dilation)
		}
		if int64(w.kernel[i])*int64(w.dilation[i]) > math.MaxInt32 {
			badAttribute("kernel %v and dilations %v are too large", w.kernel, w.dilation)
		}
	}
	c.readPads(&w)
	return w
}

// readPads reads the widths of padding, in the order of all starts, then all ends.
func (c *call) readPads(w *window) {
	if w.flat {
		list := c.sizesOf("pads", 2, 1, 0)
		w.lo[1], w.hi[1] = list[0], list[1]
		return
	}
	list := c.sizesOf("pads", 2, 2, 0)
	w.lo, w.hi = [2]int(list[:2]), [2]int(list[2:])
}

// autoPad sets the padding.
func (c *call) autoPad(w *window) {
	for i := range 2 {
		w.lo[i], w.hi[i] = c.padding(w.size[i], w.dilation[i]*(w.kernel[i]-1)+1, w.stride[i], w.lo[i], w.hi[i])
	}
}

// padding returns the padding along a dimension: lo and hi, or by auto_pad none, or that by which
// the result has a size of size/stride, rounded up. Windows that leave pixels between them on both
// ends of the image are refused: runtimes place them otherwise than the exporters that have such
// models.
func (c *call) padding(size, span, stride, lo, hi int) (before, after int) {
	mode := c.attrText("auto_pad", "NOTSET")
	switch mode {
	case "NOTSET", "":
		return lo, hi
	case "VALID":
		return 0, 0
	case "SAME_UPPER", "SAME_LOWER":
	default:
		badAttribute("auto_pad %q", mode)
	}
	p := ((size+stride-1)/stride-1)*stride + span - size
	if p < -1 {
		refuse("auto_pad of windows of %d, %d apart, over %d pixels: give pads", span, stride, size)
	}
	p = max(0, p)
	if mode == "SAME_LOWER" {
		return p - p/2, p / 2
	}
	return p / 2, p - p/2
}

// windowsIn returns the number of windows along a dimension of size elements with padding, and how
// many elements the last one has after the padding: with ceil, windows may begin in the image, or
// in the padding before it, and end there. There must be room for one.
func windowsIn(size, span, stride, lo, hi int, ceil bool) (count, beyond int) {
	room := size + lo + hi - span
	count = room/stride + 1
	if ceil && room%stride > 0 && count*stride < size+lo {
		count++
	}
	return count, max(0, (count-1)*stride-room)
}

// image returns x as an image [B, C, H, W], and weights likewise.
func (c *call) image(x kernels.Value, w window) kernels.Value {
	s := c.Spec(x).Shape
	if w.flat {
		return c.reshape(x, kernels.Shape{s[0], s[1], 1, s[2]})
	}
	return x
}

// unflat returns an image in the dimensions of the operand.
func (c *call) unflat(y kernels.Value, w window) kernels.Value {
	s := c.Spec(y).Shape
	if w.flat {
		return c.reshape(y, kernels.Shape{s[0], s[1], s[3]})
	}
	return y
}

func conv(c *call) []*value {
	if len(c.shape(0)) == 5 {
		return convVolume(c)
	}
	x, weights := c.float(0), c.weight(1)
	w := c.window(c.shape(1))
	c.autoPad(&w)
	x, weights = c.image(x, w), c.image(weights, w)
	if w.lo != w.hi {
		x = c.padConstant(x, []int{0, 0, w.lo[0], w.lo[1]}, []int{0, 0, w.hi[0], w.hi[1]}, 0)
		w.lo = [2]int{}
	}
	a := kernels.ConvAttrs{Stride: w.stride, Dilation: w.dilation, Pad: w.lo, Groups: c.attrInt("group", 1)}
	in := []kernels.Value{x, weights}
	if c.arg(2) != nil {
		a.Bias = true
		in = append(in, c.weight(2))
	}
	return c.one(c.unflat(c.Apply(kernels.Conv, a, in...), w))
}

// convTranspose is the gradient of a convolution by its input.
func convTranspose(c *call) []*value {
	if len(c.shape(0)) == 5 {
		return convTransposeVolume(c)
	}
	x, weights := c.float(0), c.weight(1)
	w := c.window(c.shape(1))
	groups, extra := c.attrInt("group", 1), c.pair("output_padding", 0, w.flat)
	if groups < 1 {
		badAttribute("%d groups", groups)
	}
	var out [2]int
	for i := range 2 {
		out[i] = (w.size[i]-1)*w.stride[i] + extra[i] + (w.kernel[i]-1)*w.dilation[i] + 1 - w.lo[i] - w.hi[i]
	}
	c.outputShape(&w, extra, &out)
	if w.flat {
		out[0] = 1
	}
	if out[0] < 1 || out[1] < 1 || out[0] > math.MaxInt32 || out[1] > math.MaxInt32 {
		badAttribute("the result is %d by %d", out[0], out[1])
	}
	a := kernels.ConvGradAttrs{Stride: w.stride, Dilation: w.dilation, Pad: w.lo, Groups: groups, Size: out}
	y := c.transposed(x, weights, w, a)
	if c.arg(2) != nil {
		y = c.plus(y, c.reshape(c.weight(2), kernels.Shape{c.Spec(y).Shape[1], 1, 1}))
	}
	return c.one(c.unflat(y, w))
}

// transposed applies the gradient of a convolution. If the padding at the end, or the extra rows,
// make the windows of that convolution other ones than x has, the whole result is computed and cut.
func (c *call) transposed(x, weights kernels.Value, w window, a kernels.ConvGradAttrs) kernels.Value {
	x, weights = c.image(x, w), c.image(weights, w)
	fits := true
	for i := range 2 {
		room := a.Size[i] + 2*a.Pad[i] - w.dilation[i]*(w.kernel[i]-1) - 1
		fits = fits && room >= 0 && room/w.stride[i]+1 == w.size[i]
	}
	if fits {
		return c.Apply(kernels.ConvGradInput, a, weights, x)
	}
	size := a.Size
	for i := range 2 {
		a.Size[i] = (w.size[i]-1)*w.stride[i] + (w.kernel[i]-1)*w.dilation[i] + 1
	}
	full := a
	full.Pad = [2]int{}
	y := c.Apply(kernels.ConvGradInput, full, weights, x)
	lo := []int{0, 0, -w.lo[0], -w.lo[1]}
	hi := []int{0, 0, size[0] + w.lo[0] - a.Size[0], size[1] + w.lo[1] - a.Size[1]}
	return c.padConstant(y, lo, hi, 0)
}

// outputShape sets the padding of a transposed convolution from the shape of its result.
func (c *call) outputShape(w *window, extra [2]int, out *[2]int) {
	mode, shape := c.attrText("auto_pad", "NOTSET"), c.attrInts("output_shape")
	same := mode == "SAME_UPPER" || mode == "SAME_LOWER"
	if shape == nil && !same {
		return
	}
	want := [2]int{w.size[0] * w.stride[0], w.size[1] * w.stride[1]}
	if shape != nil {
		want = c.pair("output_shape", 1, w.flat)
	}
	for i := range 2 {
		if w.flat && i == 0 {
			continue
		}
		total := (w.size[i]-1)*w.stride[i] + extra[i] + (w.kernel[i]-1)*w.dilation[i] + 1 - want[i]
		if total < 0 && same {
			refuse("auto_pad of windows of %d, %d apart: give pads", (w.kernel[i]-1)*w.dilation[i]+1, w.stride[i])
		}
		total = max(0, total)
		w.lo[i], w.hi[i] = total/2, total-total/2
		if mode == "SAME_LOWER" || !same {
			w.lo[i], w.hi[i] = total-total/2, total/2
		}
		out[i] = want[i]
	}
}

// needsTaps reports whether no kernel computes the pool.
func (c *call) needsTaps(op *kernels.Op) bool {
	if len(c.shape(0)) != 3 && len(c.shape(0)) != 4 || len(c.n.Outputs) > 1 && c.n.Outputs[1] != "" {
		return true
	}
	if slices.ContainsFunc(c.attrInts("dilations"), func(d int) bool { return d != 1 }) {
		return true
	}
	return op == kernels.AvgPool && c.attrBool("count_include_pad", false) && slices.Max(append(c.taps().beyond, 0)) > 0
}

// pool is a pool of windows. With ceil_mode windows may begin in the image and end beyond its
// padding.
func pool(op *kernels.Op) ruleFunc {
	return func(c *call) []*value {
		x := c.float(0)
		if c.needsTaps(op) {
			if op == kernels.MaxPool {
				return c.maxTaps(x, c.taps())
			}
			return c.one(c.meanTaps(x, c.taps()))
		}
		w := c.window(nil)
		c.autoPad(&w)
		count := c.attrBool("count_include_pad", false)
		for i := range 2 {
			if w.size[i]+w.lo[i]+w.hi[i] >= w.kernel[i] { // the kernel refuses others
				_, beyond := windowsIn(w.size[i], w.kernel[i], w.stride[i], w.lo[i], w.hi[i], c.attrBool("ceil_mode", false))
				w.hi[i] += beyond
			}
		}
		a := kernels.PoolAttrs{Kernel: w.kernel, Stride: w.stride, Pad: w.lo, PadEnd: w.hi, CountPad: count && op == kernels.AvgPool}
		return c.one(c.unflat(c.ApplyAll(op, a, c.image(x, w))[0], w))
	}
}
