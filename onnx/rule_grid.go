package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Sampling of images at places that the model computes.
var gridRules = map[string][]rule{
	"GridSample": {{since: 16, apply: gridSample}},
	"AffineGrid": {{since: 20, apply: affineGrid}},
}

// A grid samples images of any number of dimensions. Places are counted in pixels.
type grid struct {
	*call
	mode, padding string
	corners       bool            // -1 and 1 are the centres of the corner pixels, not their edges
	size          []int           // of the image
	rows          kernels.Value   // the pixels of all images as rows [N·pixels, C]
	first         kernels.Value   // the first row of the image of each place, [places]
	at            []kernels.Value // a coordinate of each place, [places], for each dimension
}

// gridSample takes pixels, or means of their neighbours, at places between -1 and 1.
//
//	x [N, C, H, W], grid [N, oh, ow, 2] → y [N, C, oh, ow]
//
// The last axis of the grid begins with the last dimension of the image.
func gridSample(c *call) []*value {
	s, places := c.shape(0), c.shape(1)
	n := len(s) - 2
	if n < 1 || len(places) != len(s) || places[0] != s[0] || places[n+1] != n || c.must(0).typ != c.must(1).typ {
		mismatch("places %v of images %v", places, s)
	}
	g := &grid{call: c, mode: c.attrText("mode", "linear"), padding: c.attrText("padding_mode", "zeros"), corners: c.attrBool("align_corners", false), size: s[2:]}
	mode := map[string]string{"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}[g.mode]
	if g.mode = mode; mode == "" || mode == "cubic" && n != 2 || !slices.Contains([]string{"zeros", "border", "reflection"}, g.padding) {
		refuse("mode %q with padding_mode %q over %d dimensions", c.attrText("mode", "linear"), g.padding, n)
	}
	x := c.float(0)
	perm := []int{0}
	for i := range n {
		perm = append(perm, 2+i)
	}
	pixels, each := g.shape(0)[2:].Elems(), places[1:n+1].Elems()
	g.rows = c.reshape(c.transpose(x, append(perm, 1)), kernels.Shape{s[0] * pixels, s[1]})
	first := make([]int, s[0]*each)
	for i := range first {
		first[i] = i / each * pixels
	}
	g.first = c.indices(first)
	flat := c.reshape(c.float(1), kernels.Shape{s[0] * each, n})
	for i := range n {
		p := c.reshape(c.slice(flat, 1, n-1-i, n-i), kernels.Shape{s[0] * each})
		g.at = append(g.at, g.padded(g.inPixels(p, i), i))
	}
	y := c.reshape(g.sample(), append(append(kernels.Shape{s[0]}, places[1:n+1]...), s[1]))
	back := []int{0, n + 1}
	for i := range n {
		back = append(back, 1+i)
	}
	return c.one(c.transpose(y, back))
}

// inPixels converts a coordinate from -1 … 1.
func (g *grid) inPixels(p kernels.Value, i int) kernels.Value {
	d := float64(g.size[i])
	if g.corners {
		return g.affine(p, (d-1)/2, (d-1)/2)
	}
	return g.affine(p, d/2, (d-1)/2)
}

// padded moves a coordinate into the image, unless zeros are around it.
func (g *grid) padded(p kernels.Value, i int) kernels.Value {
	if g.mode == "nearest" {
		p = g.round(p)
	}
	if g.mode == "cubic" || g.padding == "zeros" { // each pixel is moved
		return p
	}
	return g.inside(p, i)
}

// inside moves a coordinate, or the index of a pixel, into the image: to the border, or reflected
// there.
func (g *grid) inside(p kernels.Value, i int) kernels.Value {
	last := float64(g.size[i] - 1)
	if g.padding == "reflection" {
		low, span := -0.5, last+1
		if g.corners {
			low, span = 0, last
		}
		if span == 0 {
			return g.affine(p, 0, 0)
		}
		// Distances from low, times that it was crossed, and the rest, from one end or the other.
		d := g.of(kernels.Abs, g.affine(p, 1, -low))
		times := g.of(kernels.Floor, g.affine(d, 1/span, 0))
		rest := g.two(kernels.Sub, d, g.affine(times, span, 0))
		odd := g.two(kernels.Sub, times, g.affine(g.of(kernels.Floor, g.affine(times, 0.5, 0)), 2, 0))
		p = g.affine(g.Apply(kernels.Where, nil, odd, g.affine(rest, -1, span), rest), 1, low)
	}
	return g.clamp(p, 0, last)
}

// sample returns the rows of all places.
func (g *grid) sample() kernels.Value {
	if g.mode == "nearest" {
		return g.take(g.at)
	}
	reach := []int{0, 1}
	if g.mode == "cubic" {
		reach = []int{-1, 0, 1, 2}
	}
	base := make([]kernels.Value, len(g.at))
	weights := make([][]kernels.Value, len(g.at))
	for i, p := range g.at {
		base[i] = g.of(kernels.Floor, p)
		weights[i] = g.weights(g.two(kernels.Sub, p, base[i]))
	}
	sum, pick := kernels.None, make([]int, len(g.at))
	taps := slices.Repeat(kernels.Shape{len(reach)}, len(g.at))
	for tap := range taps.Elems() {
		unravel(pick, tap, taps)
		at, w := make([]kernels.Value, len(base)), kernels.None
		for i, k := range pick {
			at[i] = g.affine(base[i], 1, float64(reach[k]))
			if w == kernels.None {
				w = weights[i][k]
			} else {
				w = g.mul(w, weights[i][k])
			}
		}
		sum = g.sum(sum, g.mul(g.take(at), g.reshape(w, kernels.Shape{g.Spec(w).Shape[0], 1})))
	}
	return sum
}

// weights returns the weights of the pixels around a place, f after one of them.
func (g *grid) weights(f kernels.Value) []kernels.Value {
	back := g.affine(f, -1, 1)
	if g.mode == "linear" {
		return []kernels.Value{back, f}
	}
	const a = -0.75
	near := func(x kernels.Value) kernels.Value { // ((a+2)·x - (a+3))·x² + 1
		return g.affine(g.mul(g.affine(x, a+2, -a-3), g.of(kernels.Square, x)), 1, 1)
	}
	far := func(x kernels.Value) kernels.Value { // ((a·x - 5a)·x + 8a)·x - 4a
		return g.affine(g.mul(g.affine(g.mul(g.affine(x, a, -5*a), x), 1, 8*a), x), 1, -4*a)
	}
	return []kernels.Value{far(g.affine(f, 1, 1)), near(f), near(back), far(g.affine(back, 1, 1))}
}

// take returns the rows of pixels, whose indices are whole floats; zeros outside the image.
func (g *grid) take(at []kernels.Value) kernels.Value {
	index, valid, step := g.first, kernels.None, 1
	for i := len(at) - 1; i >= 0; i-- {
		p := at[i]
		if g.padding == "zeros" {
			in := g.mul(g.two(kernels.GreaterEqual, p, g.scalar(p, 0)), g.two(kernels.LessEqual, p, g.scalar(p, float64(g.size[i]-1))))
			if valid != kernels.None {
				in = g.mul(in, valid)
			}
			valid, p = in, g.clamp(p, 0, float64(g.size[i]-1))
		} else {
			p = g.inside(p, i)
		}
		index = g.index(kernels.IntegerAdd, index, g.index(kernels.IntegerMul, g.of(kernels.Truncate, p), g.indices([]int{step})))
		step *= g.size[i]
	}
	y := g.Apply(kernels.Gather, nil, g.rows, index)
	if valid == kernels.None {
		return y
	}
	mask := g.reshape(valid, kernels.Shape{g.Spec(valid).Shape[0], 1})
	return g.Apply(kernels.Where, nil, mask, y, g.scalar(y, 0))
}

// affineGrid makes the places of gridSample: the pixels of an image of a size, after a linear map.
//
//	theta [N, 2, 3], size (N, C, H, W) → grid [N, H, W, 2]
func affineGrid(c *call) []*value {
	s, size := c.shape(0), c.ints(1, "the size")
	n := len(size) - 2
	if n < 2 || n > 3 || len(s) != 3 || s[0] != size[0] || s[1] != n || s[2] != n+1 || slices.Min(size) < 1 {
		mismatch("a map %v to images of %v", s, size)
	}
	pixels := kernels.Shape(size[2:])
	if pixels.Elems() > c.b.limit/(n+1) {
		refuse("an image of %v: see Options.FoldElements", pixels)
	}
	data, at := make([]float64, 0, pixels.Elems()*(n+1)), make([]int, n)
	for i := range pixels.Elems() {
		unravel(at, i, pixels)
		place := make([]float64, n+1)
		place[n] = 1
		for k := range at { // the last dimension comes first
			d, p := float64(pixels[k]), float64(at[k])
			if place[n-1-k] = (2*p+1)/d - 1; c.attrBool("align_corners", false) {
				place[n-1-k] = 2*p/max(d-1, 1) - 1
			}
		}
		data = append(data, place...)
	}
	theta := c.float(0)
	base := c.literal(c.Spec(theta).Type, kernels.Shape{1, pixels.Elems(), n + 1}, data)
	y := c.matmul(c.expand(base, kernels.Shape{s[0], pixels.Elems(), n + 1}), c.transpose(theta, []int{0, 2, 1}))
	return c.one(c.reshape(y, append(append(kernels.Shape{s[0]}, pixels...), n)))
}
