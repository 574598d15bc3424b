package onnx

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Resizing of images. Along each axis every interpolation is a matrix with a few elements a column,
// except to the nearest pixel, which selects.
var resizeRules = map[string][]rule{
	"Resize": {{since: 10, apply: resize10}, {since: 11, apply: resize}},
	"Upsample": {{since: 7, apply: func(c *call) []*value {
		a := c.n.Attribute("scales")
		if a == nil || len(a.Floats) != len(c.shape(0)) {
			badAttribute("scales do not fit %v", c.shape(0))
		}
		scales := make([]float64, len(a.Floats))
		for i, x := range a.Floats {
			scales[i] = float64(x)
		}
		return c.resize(scales, nil, "asymmetric", "floor")
	}}, {since: 9, apply: resize10}},
}

// resize10 has scales in operand 1.
func resize10(c *call) []*value {
	return c.resize(c.constant(1, "the scales"), nil, "asymmetric", "floor")
}

// resize has scales in operand 2 or sizes in operand 3.
func resize(c *call) []*value {
	given := func(i int) bool { return c.arg(i) != nil && c.arg(i).shape.Elems() > 0 }
	coordinates, nearest := c.attrText("coordinate_transformation_mode", "half_pixel"), c.attrText("nearest_mode", "round_prefer_floor")
	switch {
	case given(3):
		return c.resize(nil, c.ints(3, "the sizes"), coordinates, nearest)
	case given(2):
		return c.resize(c.constant(2, "the scales"), nil, coordinates, nearest)
	}
	badAttribute("neither scales nor sizes")
	return nil
}

// resize resizes the axes that are listed, or all, by scales or to sizes.
func (c *call) resize(scales []float64, sizes []int, coordinates, nearest string) []*value {
	s, which := c.shape(0), c.attrInts("axes")
	which = orAll(which, len(s))
	if max(len(scales), len(sizes)) != len(which) {
		badAttribute("%d scales or sizes for %d axes", max(len(scales), len(sizes)), len(which))
	}
	axes(which, len(s))
	x, policy := c.float(0), c.attrText("keep_aspect_ratio_policy", "stretch")
	if sizes != nil && policy != "stretch" {
		scales, sizes = c.keepAspect(policy, which, sizes), nil
	} else {
		policy = ""
	}
	for i, k := range which {
		k = axis(k, len(s))
		r := resampling{mode: c.attrText("mode", "nearest"), coordinates: coordinates, nearest: nearest, from: s[k]}
		r.cubic, r.inside = c.attrFloat("cubic_coeff_a", -0.75), c.attrBool("exclude_outside", false)
		r.antialias = c.attrBool("antialias", false)
		if coordinates == "tf_crop_and_resize" {
			r.roi = c.region(i, len(which))
		}
		if sizes != nil {
			r.to = sizes[i]
			r.scale = float64(r.to) / float64(r.from)
		} else {
			r.scale = scales[i]
			r.to = int(math.Floor(min(r.scale*float64(r.from), math.MaxInt32)))
			if policy != "" {
				r.to = int(math.Floor(min(r.scale*float64(r.from)+0.5, math.MaxInt32)))
			}
		}
		if !(r.scale > 0) || r.to < 1 || r.to > math.MaxInt32 {
			badAttribute("dimension %d becomes %d, by a scale of %v", r.from, r.to, r.scale)
		}
		if r.to != r.from || r.scale != 1 || coordinates == "tf_crop_and_resize" {
			x = c.outside(c.resample(x, k, r), k, r)
		}
	}
	return c.one(x)
}

// A resampling of an axis.
type resampling struct {
	mode, coordinates, nearest string
	from, to                   int
	scale                      float64
	cubic                      float64    // coefficient of the cubic
	inside                     bool       // pixels outside have no weight
	roi                        [2]float64 // of tf_crop_and_resize: the part of the operand, in [0, 1]
	antialias                  bool       // a smaller result is the mean of more pixels
}

// at returns the place of pixel i of the result in the operand. It computes in float32, as
// onnxruntime and PyTorch do: at some scales the nearest pixel depends on that.
func (r resampling) at(i int) float64 {
	x, scale, from := float32(i), float32(r.scale), float32(r.from)
	switch r.coordinates {
	case "half_pixel":
	case "pytorch_half_pixel":
		if r.to == 1 {
			return 0
		}
	case "align_corners":
		if r.to == 1 {
			return 0
		}
		return float64(x) * float64(r.from-1) / (r.scale*float64(r.from) - 1)
	case "asymmetric":
		return float64(x / scale)
	case "tf_crop_and_resize":
		last := float64(r.from - 1)
		if r.to == 1 {
			return (r.roi[0] + r.roi[1]) / 2 * last
		}
		return r.roi[0]*last + float64(x)*(r.roi[1]-r.roi[0])*last/float64(r.to-1)
	case "half_pixel_symmetric":
		offset := from / 2 * (1 - float32(r.to)/(scale*from))
		return float64(offset + (x+0.5)/scale - 0.5)
	default:
		refuse("coordinate_transformation_mode %q", r.coordinates)
	}
	return float64((x+0.5)/scale - 0.5)
}

// resample resizes an axis.
func (c *call) resample(x kernels.Value, axis int, r resampling) kernels.Value {
	if r.mode == "nearest" {
		index := make([]int, r.to)
		for i := range index {
			index[i] = min(max(int(r.round(r.at(i))), 0), r.from-1)
		}
		return c.repeatOrPick(x, axis, index)
	}
	if r.from > c.b.limit/r.to {
		refuse("a matrix of %d by %d: see Options.FoldElements", r.from, r.to)
	}
	m := make([]float64, r.from*r.to)
	for i := range r.to {
		at := r.at(i)
		first, weights := math.Floor(at), r.weights(at-math.Floor(at))
		first -= float64(len(weights)/2 - 1)
		if r.antialias && r.scale < 1 {
			first, weights = r.wideWeights(at)
		}
		sum := 0.0
		for k, w := range weights {
			p := first + float64(k)
			if r.inside && (p < 0 || p > float64(r.from-1)) {
				weights[k] = 0
				continue
			}
			sum += w
		}
		for k, w := range weights {
			if r.inside && sum != 0 {
				w /= sum
			}
			p := int(min(max(first+float64(k), 0), float64(r.from-1)))
			m[p*r.to+i] += w
		}
	}
	return c.along(x, axis, c.literal(c.Spec(x).Type, kernels.Shape{r.from, r.to}, m))
}

// weights returns the weights of the pixels around a place, f after one of them.
func (r resampling) weights(f float64) []float64 {
	switch r.mode {
	case "linear":
		return []float64{1 - f, f}
	case "cubic":
		return []float64{r.far(f + 1), r.near(f), r.near(1 - f), r.far(2 - f)}
	}
	refuse("mode %q", r.mode)
	return nil
}

// near and far are the cubic weights of pixels at a distance of up to 1, and of 1 to 2.
func (r resampling) near(d float64) float64 {
	a := r.cubic
	return ((a+2)*d-(a+3))*d*d + 1
}

func (r resampling) far(d float64) float64 {
	a := r.cubic
	return ((a*d-5*a)*d+8*a)*d - 4*a
}

// round returns the nearest pixel.
func (r resampling) round(x float64) float64 {
	switch r.nearest {
	case "round_prefer_floor":
		return math.Ceil(x - 0.5)
	case "round_prefer_ceil":
		return math.Floor(x + 0.5)
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	}
	refuse("nearest_mode %q", r.nearest)
	return 0
}

// repeatOrPick selects indices along an axis. Indices that are each repeated as often need no
// table.
func (c *call) repeatOrPick(x kernels.Value, axis int, index []int) kernels.Value {
	s := c.Spec(x).Shape
	times := len(index) / s[axis]
	if times == 0 || times*s[axis] != len(index) || slices.ContainsFunc(index, func(p int) bool { return p < 0 }) {
		return c.pick(x, axis, index)
	}
	for i, p := range index {
		if p != i/times {
			return c.pick(x, axis, index)
		}
	}
	many, to := slices.Insert(slices.Clone(s), axis+1, times), slices.Clone(s)
	to[axis] *= times
	return c.reshape(c.expand(c.reshape(x, slices.Insert(slices.Clone(s), axis+1, 1)), many), to)
}

// along multiplies the lines of x along an axis by m [from, to].
func (c *call) along(x kernels.Value, axis int, m kernels.Value) kernels.Value {
	s := c.Spec(x).Shape
	last := len(s) - 1
	perm := upTo(len(s))
	perm[axis], perm[last] = last, axis // its own inverse
	return c.transpose(c.matmul(c.transpose(x, perm), m), perm)
}

// wideWeights returns the weights of all pixels whose distance, times the scale, the interpolation
// reaches, and the first of them.
func (r resampling) wideWeights(at float64) (first float64, weights []float64) {
	reach := 1.0
	kernel := func(d float64) float64 { return 1 - d }
	switch r.mode {
	case "linear":
	case "cubic":
		reach = 2
		kernel = func(d float64) float64 {
			if d <= 1 {
				return r.near(d)
			}
			return r.far(d)
		}
	default:
		refuse("mode %q", r.mode)
	}
	first = math.Ceil(at - reach/r.scale)
	sum := 0.0
	for p := first; p <= at+reach/r.scale; p++ {
		w := kernel(r.scale * math.Abs(p-at))
		weights = append(weights, w)
		sum += w
	}
	for i := range weights {
		weights[i] /= sum
	}
	return first, weights
}

// keepAspect returns one scale for all axes, with which none is larger than its size, or none is
// smaller.
func (c *call) keepAspect(policy string, which, sizes []int) []float64 {
	s := c.shape(0)
	scale := 0.0
	for i, k := range which {
		r := float64(sizes[i]) / float64(s[axis(k, len(s))])
		switch {
		case i == 0 || policy == "not_larger" && r < scale || policy == "not_smaller" && r > scale:
			scale = r
		case policy != "not_larger" && policy != "not_smaller":
			refuse("keep_aspect_ratio_policy %q", policy)
		}
	}
	return slices.Repeat([]float64{scale}, len(which))
}

// region returns the part of axis i of n that operand 1 selects.
func (c *call) region(i, n int) [2]float64 {
	roi := c.constant(1, "the region")
	if len(roi) != 2*n {
		badAttribute("a region of %d numbers for %d axes", len(roi), n)
	}
	return [2]float64{finite("the region", roi[i]), finite("the region", roi[n+i])}
}

// outside fills the places of the result that are outside the operand, where the coordinates allow
// any.
func (c *call) outside(x kernels.Value, axis int, r resampling) kernels.Value {
	if r.coordinates != "tf_crop_and_resize" {
		return x
	}
	out, any := make([]float64, r.to), false
	for i := range out {
		if at := r.at(i); at < 0 || at > float64(r.from-1) {
			out[i], any = 1, true
		}
	}
	if !any {
		return x
	}
	mask := c.literal(c.Spec(x).Type, line(len(c.Spec(x).Shape), axis, r.to), out)
	return c.Apply(kernels.Where, nil, mask, c.scalar(x, c.attrFloat("extrapolation_value", 0)), x)
}
