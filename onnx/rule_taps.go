package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Pools of any number of dimensions, with dilations or indices: a window has a few taps, and each
// tap of all windows is a slice of the image.
//
//	windows of 2, stride 2     a b c d e f
//	tap 0                      a   c   e
//	tap 1                        b   d   f
//	maximum of both            b   d   f    where b > a, …

var tapRules = map[string][]rule{
	"LpPool":    {{since: 2, apply: lpPool}},
	"MaxUnpool": {{since: 9, apply: maxUnpool}},
}

// mostTaps limits the elements of a window.
const mostTaps = 1 << 10

// taps are the windows of a pool, a number for each dimension of the image.
type taps struct {
	size, kernel, stride, dilation, lo, hi, out []int
	beyond                                      []int // elements that the last window has after the padding
}

// taps reads the attributes of a pool.
func (c *call) taps() taps {
	s := c.shape(0)
	n := len(s) - 2
	if n < 1 {
		mismatch("%v has no pixels", s)
	}
	t := taps{size: s[2:], kernel: c.sizesOf("kernel_shape", 1, n, 0), stride: c.sizesOf("strides", 1, n, 1), dilation: c.sizesOf("dilations", 1, n, 1)}
	pads := c.sizesOf("pads", 2, n, 0)
	t.lo, t.hi, t.out, t.beyond = pads[:n:n], pads[n:], make([]int, n), make([]int, n)
	count := 1
	for i := range n {
		if count *= max(t.kernel[i], 1); t.kernel[i] < 1 || t.stride[i] < 1 || t.dilation[i] < 1 || count > mostTaps || t.dilation[i]*t.kernel[i] > math.MaxInt32 {
			badAttribute("kernel %v, strides %v, dilations %v: all must be 1 or more, and the kernel have at most %d elements", t.kernel, t.stride, t.dilation, mostTaps)
		}
		span := t.dilation[i]*(t.kernel[i]-1) + 1
		t.lo[i], t.hi[i] = c.padding(t.size[i], span, t.stride[i], t.lo[i], t.hi[i])
		if t.size[i]+t.lo[i]+t.hi[i] < span {
			mismatch("a window of %d does not fit into %d with padding", span, t.size[i])
		}
		t.out[i], t.beyond[i] = windowsIn(t.size[i], span, t.stride[i], t.lo[i], t.hi[i], c.attrBool("ceil_mode", false))
	}
	return t
}

// eachTap calls f with each tap of the padded image: x [B, C, …] → tap [B, C, out…].
func (c *call) eachTap(x kernels.Value, t taps, fill float64, f func(at []int, tap kernels.Value)) {
	n := len(t.size)
	lo, hi := append([]int{0, 0}, t.lo...), make([]int, n+2)
	for i := range n {
		hi[2+i] = (t.out[i]-1)*t.stride[i] + t.dilation[i]*(t.kernel[i]-1) + 1 - t.size[i] - t.lo[i]
	}
	x = c.padConstant(x, lo, hi, fill)
	at := make([]int, n)
	for i := range kernels.Shape(t.kernel).Elems() {
		unravel(at, i, t.kernel)
		a := whole(c.Spec(x).Shape)
		for i := range n {
			a.Start[2+i] = at[i] * t.dilation[i]
			a.End[2+i], a.Step[2+i] = a.Start[2+i]+(t.out[i]-1)*t.stride[i]+1, t.stride[i]
		}
		f(at, c.Apply(kernels.Slice, a, x))
	}
}

// sumTaps is the sum of each window.
func (c *call) sumTaps(x kernels.Value, t taps) kernels.Value {
	sum := kernels.None
	c.eachTap(x, t, 0, func(_ []int, tap kernels.Value) { sum = c.sum(sum, tap) })
	return sum
}

// maxTaps is a maximum pool, with the index of each maximum in the flat image, of all images and
// channels.
func (c *call) maxTaps(x kernels.Value, t taps) []*value {
	s, typ := c.shape(0), c.must(0).typ
	indexed := len(c.n.Outputs) > 1 && c.n.Outputs[1] != ""
	best, index := kernels.None, kernels.None
	c.eachTap(x, t, math.Inf(-1), func(at []int, tap kernels.Value) {
		place := kernels.None
		if indexed {
			place = c.tapPlaces(t, at)
		}
		if best == kernels.None {
			best, index = tap, place
			return
		}
		if indexed {
			index = c.Apply(kernels.Where, nil, c.two(kernels.Greater, tap, best), place, index)
		}
		best = c.two(kernels.Maximum, best, tap)
	})
	out := []*value{c.out(best, typ)}
	if indexed {
		planes, pixels := s[0]*s[1], s[2:].Elems()
		first := make([]float64, planes)
		for i := range first {
			first[i] = float64(i * pixels)
		}
		base := c.literal(arena.Int64, append(kernels.Shape{s[0], s[1]}, slices.Repeat(kernels.Shape{1}, len(s)-2)...), first)
		out = append(out, c.out(c.index(kernels.IntegerAdd, index, base), proto.Int64))
	}
	return out
}

// tapPlaces returns the index in its image of a tap of each window, [1, 1, out…].
func (c *call) tapPlaces(t taps, at []int) kernels.Value {
	columns := c.attrBool("storage_order", false) // the first dimension is the fastest
	shape := kernels.Shape(append([]int{1, 1}, t.out...))
	data, pixel := make([]float64, shape.Elems()), make([]int, len(t.size))
	for i := range data {
		unravel(pixel, i, t.out)
		for k := range pixel {
			pixel[k] = pixel[k]*t.stride[k] - t.lo[k] + at[k]*t.dilation[k]
		}
		index := 0
		for k := range t.size {
			if columns {
				index = index*t.size[len(t.size)-1-k] + pixel[len(t.size)-1-k]
			} else {
				index = index*t.size[k] + pixel[k]
			}
		}
		data[i] = float64(index)
	}
	return c.literal(arena.Int64, shape, data)
}

// meanTaps is an average pool. Padding counts with count_include_pad, but not what the last window
// has beyond it.
func (c *call) meanTaps(x kernels.Value, t taps) kernels.Value {
	sum := c.sumTaps(x, t)
	counts := c.scalar(x, 1)
	for i := range t.size {
		from, to := 0, t.size[i]
		if c.attrBool("count_include_pad", false) {
			from, to = -t.lo[i], t.size[i]+t.hi[i]
		}
		data := make([]float64, t.out[i])
		for o := range data {
			for k := range t.kernel[i] {
				if p := o*t.stride[i] - t.lo[i] + k*t.dilation[i]; p >= from && p < to {
					data[o]++
				}
			}
			data[o] = max(data[o], 1)
		}
		counts = c.mul(counts, c.literal(c.Spec(x).Type, line(len(t.size)+2, 2+i, t.out[i]), data))
	}
	return c.two(kernels.Div, sum, counts)
}

// lpPool is the norm of each window.
func lpPool(c *call) []*value {
	x, p := c.float(0), c.attrInt("p", 2)
	if a := c.n.Attribute("p"); a != nil && a.Type == proto.AttrFloat || p < 1 {
		refuse("a norm with p of %d, or a fraction", p)
	}
	size := c.of(kernels.Abs, x)
	power := size
	if p > 1 {
		power = c.two(kernels.Pow, size, c.scalar(x, float64(p)))
	}
	sum := c.sumTaps(power, c.taps())
	if p > 1 {
		sum = c.two(kernels.Pow, sum, c.scalar(x, 1/float64(p)))
	}
	return c.one(sum)
}

// maxUnpool writes elements to the places that a maximum pool has found, which the model computes.
func maxUnpool(c *call) []*value {
	s := c.shape(0)
	if c.arg(2) != nil || !c.shape(1).Equal(s) || len(s) < 3 {
		refuse("an output_shape, or indices %v for %v", c.shape(1), s)
	}
	n := len(s) - 2
	kernel, stride, pads := c.sizesOf("kernel_shape", 1, n, 0), c.sizesOf("strides", 1, n, 1), c.sizesOf("pads", 2, n, 0)
	out := kernels.Shape{s[0], s[1]}
	for i := range n {
		if kernel[i] < 1 || stride[i] < 1 {
			badAttribute("kernel_shape %v, strides %v: all must be 1 or more", kernel, stride)
		}
		out = append(out, (s[2+i]-1)*stride[i]+kernel[i]-pads[i]-pads[n+i])
		if out[2+i] < 1 {
			badAttribute("the result is %v", out)
		}
	}
	ensure(kernels.Spec{Type: arena.Float32, Shape: out}.Check())
	rows := c.reshape(c.float(0), kernels.Shape{s.Elems(), 1})
	y := c.Apply(kernels.Scatter, kernels.ScatterAttrs{Rows: out.Elems()}, c.integers(1), rows)
	return c.one(c.reshape(y, out))
}
