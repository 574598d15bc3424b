package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Convolutions of volumes, [B, C, D, H, W]: the sum of convolutions of images over the depth of the
// kernel.

// volume are the attributes of such a convolution, a number for each dimension: depth, height,
// width.
type volume struct {
	kernel, stride, dilation, lo, hi [3]int
	groups                           int
}

// volume reads the attributes.
func (c *call) volume() volume {
	w := c.shape(1)
	if len(w) != 5 {
		mismatch("weights %v for %v", w, c.shape(0))
	}
	positive := func(name string) [3]int {
		l := c.sizesOf(name, 1, 3, 1)
		if slices.Min(l) < 1 {
			badAttribute("%s is %v", name, l)
		}
		return [3]int(l)
	}
	if mode := c.attrText("auto_pad", "NOTSET"); mode != "NOTSET" && mode != "" || c.n.Attribute("output_shape") != nil {
		refuse("auto_pad or output_shape of three dimensions")
	}
	pads := c.sizesOf("pads", 2, 3, 0)
	v := volume{kernel: [3]int(w[2:]), stride: positive("strides"), dilation: positive("dilations"),
		lo: [3]int(pads[:3]), hi: [3]int(pads[3:]), groups: c.attrInt("group", 1)}
	for i := range 3 {
		if int64(v.kernel[i])*int64(v.dilation[i]) > math.MaxInt32 {
			badAttribute("kernel %v and dilations %v are too large", v.kernel, v.dilation)
		}
	}
	return v
}

// weightsAt returns the weights of a depth as those of images.
func (c *call) weightsAt(weights kernels.Value, depth int) kernels.Value {
	s := c.Spec(weights).Shape
	return c.reshape(c.slice(weights, 2, depth, depth+1), kernels.Shape{s[0], s[1], s[3], s[4]})
}

// layers returns a volume [B, C, D, H, W] as images [B·D, C, H, W], and stacked the reverse.
func (c *call) layers(x kernels.Value) kernels.Value {
	s := c.Spec(x).Shape
	return c.reshape(c.transpose(x, []int{0, 2, 1, 3, 4}), kernels.Shape{s[0] * s[2], s[1], s[3], s[4]})
}

func (c *call) stacked(x kernels.Value, batch int) kernels.Value {
	s := c.Spec(x).Shape
	return c.transpose(c.reshape(x, kernels.Shape{batch, s[0] / batch, s[1], s[2], s[3]}), []int{0, 2, 1, 3, 4})
}

// convVolume is a convolution of volumes.
func convVolume(c *call) []*value {
	x, weights, v := c.float(0), c.weight(1), c.volume()
	x = c.padConstant(x, append([]int{0, 0}, v.lo[:]...), append([]int{0, 0}, v.hi[:]...), 0)
	s := c.Spec(x).Shape
	room := s[2] - v.dilation[0]*(v.kernel[0]-1) - 1
	if room < 0 {
		mismatch("a kernel of %v does not fit into %v with padding", v.kernel, s)
	}
	a := kernels.ConvAttrs{Stride: [2]int(v.stride[1:]), Dilation: [2]int(v.dilation[1:]), Groups: v.groups}
	sum := kernels.None
	for k := range v.kernel[0] {
		part := whole(s)
		part.Start[2], part.Step[2] = k*v.dilation[0], v.stride[0]
		part.End[2] = part.Start[2] + room/v.stride[0]*v.stride[0] + 1
		sum = c.sum(sum, c.Apply(kernels.Conv, a, c.layers(c.Apply(kernels.Slice, part, x)), c.weightsAt(weights, k)))
	}
	return c.one(c.biased(c.stacked(sum, s[0])))
}

// convTransposeVolume is the gradient of a convolution of volumes by its input. The whole result is
// computed, and cut.
func convTransposeVolume(c *call) []*value {
	x, weights, v, s := c.float(0), c.weight(1), c.volume(), c.shape(0)
	extra := c.attrInts("output_padding")
	if extra == nil {
		extra = []int{0, 0, 0}
	}
	var full [3]int
	lo, hi := make([]int, 5), make([]int, 5)
	for i := range 3 {
		full[i] = (s[2+i]-1)*v.stride[i] + v.dilation[i]*(v.kernel[i]-1) + 1
		if len(extra) != 3 || extra[i] < 0 || full[i]+extra[i]-v.lo[i]-v.hi[i] < 1 || full[i]+extra[i] > math.MaxInt32 {
			badAttribute("output_padding %v of a result of %v", extra, full)
		}
		lo[2+i], hi[2+i] = -v.lo[i], extra[i]-v.hi[i]
	}
	a := kernels.ConvGradAttrs{Stride: [2]int(v.stride[1:]), Dilation: [2]int(v.dilation[1:]), Groups: v.groups, Size: [2]int(full[1:])}
	sum := kernels.None
	for k := range v.kernel[0] {
		y := c.stacked(c.Apply(kernels.ConvGradInput, a, c.weightsAt(weights, k), c.layers(x)), s[0])
		at := whole(c.Spec(y).Shape)
		to := slices.Clone(c.Spec(y).Shape)
		to[2], at.Start[2], at.Step[2] = full[0], k*v.dilation[0], v.stride[0]
		sum = c.sum(sum, c.Apply(kernels.Unslice, kernels.UnsliceAttrs{Shape: to, Start: at.Start, Step: at.Step}, y))
	}
	return c.one(c.biased(c.padConstant(sum, lo, hi, 0)))
}

// biased adds operand 2, a number for each channel, if there is one.
func (c *call) biased(y kernels.Value) kernels.Value {
	if c.arg(2) == nil {
		return y
	}
	s := c.Spec(y).Shape
	if !c.shape(2).Equal(s[1:2]) {
		mismatch("a bias of %v for %v", c.shape(2), s)
	}
	return c.plus(y, c.reshape(c.weight(2), kernels.Shape{s[1], 1, 1, 1}))
}
