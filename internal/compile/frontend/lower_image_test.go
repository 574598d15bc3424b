package frontend

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// rows select rows by index.
func rows() []recipe {
	return []recipe{
		{"rows by index", func(d *draft) *gorgonia.Node {
			n := d.wide()
			return d.must(gorgonia.ByIndices(d.in(n, d.wide()), d.ints(n, d.wide()), 0))
		}, kernels.Gather},
		{"rows by a constant index", func(d *draft) *gorgonia.Node {
			at := gorgonia.NewConstant(tensor.New(tensor.WithShape(3), tensor.WithBacking([]int{2, 0, 2})), gorgonia.WithName("at"))
			return d.must(gorgonia.ByIndices(d.in(3, d.wide()), at, 0))
		}, kernels.Gather},
	}
}

// images are operations on [B, C, H, W].
func images() []recipe {
	conv := func(name string, kh, kw int, pad, stride, dilation []int) recipe {
		return recipe{name, func(d *draft) *gorgonia.Node {
			c := d.dim()
			x, w := d.in(d.dim(), c, 5+d.dim(), 6+d.dim()), d.in(d.dim(), c, kh, kw)
			return d.must(gorgonia.Conv2d(x, w, tensor.Shape{kh, kw}, pad, stride, dilation))
		}, kernels.Conv}
	}
	pool := func(name string, kh, kw int, pad, stride []int) recipe {
		return recipe{name, func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.MaxPool2D(d.in(d.dim(), d.dim(), 4+d.dim(), 5), tensor.Shape{kh, kw}, pad, stride))
		}, kernels.MaxPool}
	}
	return []recipe{
		conv("convolution", 3, 3, []int{1, 1}, []int{1, 1}, []int{1, 1}),
		conv("convolution of single pixels", 1, 1, []int{0, 0}, []int{1, 1}, []int{1, 1}),
		conv("convolution, oblong", 3, 2, []int{1, 0}, []int{1, 1}, []int{1, 1}),
		conv("convolution with strides", 3, 3, []int{0, 1}, []int{2, 1}, []int{1, 1}),
		conv("convolution, dilated", 2, 3, []int{1, 2}, []int{1, 2}, []int{3, 2}),
		{"convolution in one dimension", func(d *draft) *gorgonia.Node {
			c := d.dim()
			return d.must(gorgonia.Conv1d(d.in(d.dim(), c, 1, 9), d.in(d.dim(), c, 1, 3), 3, 1, 1, 1))
		}, kernels.Conv},
		pool("max pooling", 2, 2, []int{0, 0}, []int{2, 1}),
		pool("max pooling with padding", 3, 3, []int{1, 1}, []int{1, 1}),
		pool("max pooling with padding for each side", 3, 2, []int{1, 1, 1, 1}, []int{2, 2}),
		{"max pooling in one dimension", func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.MaxPool1D(d.in(d.dim(), d.dim(), 1, 6), 2, 0, 2))
		}, kernels.MaxPool},
		{"batch normalization", func(d *draft) *gorgonia.Node {
			b, c := d.wide(), d.wide()
			y, _, _, _, err := gorgonia.BatchNorm(d.in(b, c, 3, 2), d.of(d.positive, 1, c, 1, 1), d.in(1, c, 1, 1), 0.1, 1e-3)
			return d.must(y, err)
		}, kernels.BatchNorm},
		{"batch normalization of vectors", func(d *draft) *gorgonia.Node {
			b, c := 3+d.wide(), d.wide()
			y, _, _, _, err := gorgonia.BatchNorm(d.in(b, c), d.of(d.positive, b, c), d.in(b, c), 0.1, 1e-3)
			return d.must(y, err)
		}, kernels.BatchNorm},
		{"group normalization", func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.GroupNorm(d.in(d.dim(), 4, 3, 2), d.of(d.positive, 1, 4, 1, 1), d.in(1, 4, 1, 1), 2, 4, 1e-3))
		}, kernels.GroupNorm},
	}
}

// imageGradients are nodes that Gorgonia makes for the gradients of images.
func imageGradients() (recipes []recipe) {
	for name, op := range map[string]*kernels.Op{"max pooling": kernels.MaxPoolGrad, "batch normalization": kernels.BatchNormGrad,
		"group normalization": kernels.GroupNormGrad} {
		for _, c := range images() {
			if c.name != name {
				continue
			}
			recipes = append(recipes, recipe{"gradient of " + name, func(d *draft) *gorgonia.Node {
				y := c.build(d)
				w := d.in(y.Shape()...)
				dx, err := gorgonia.Grad(d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(y, w)))), d.inputs[0])
				if err != nil {
					return d.must(nil, err)
				}
				return dx[0]
			}, op})
		}
	}
	return recipes
}

// Where padding differs from side to side, Gorgonia's windows start by the padding of the opposite
// side.
func TestEachSideHasItsOwnPadding(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	x := d.of(func() float64 { return 1 }, 1, 1, 2, 2)
	for i, v := range []float64{1, 2, 3, 4} {
		x.Value().Data().([]float64)[i] = v
	}
	y := d.must(gorgonia.MaxPool2D(x, tensor.Shape{2, 2}, []int{1, 0, 0, 1}, []int{1, 1})) // a row above, a column on the right
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.floats(r.values[y]), []float64{2, 2, 4, 4}; !near(got, want, 0) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A kernel shape with as many elements as the filter, but of another form, is no convolution.
func TestAnIm2ColOfAnotherShapeFallsBack(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	y := d.must(gorgonia.Conv2d(d.in(2, 1, 5, 6), d.in(3, 1, 2, 3), tensor.Shape{3, 2}, []int{0, 0}, []int{1, 1}, []int{1, 1}))
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	if r.count(kernels.Conv) != 0 || r.count(kernels.Host) != 1 {
		t.Errorf("got\n%v, want an im2col", r.Program)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	want, err := tape(y)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.floats(r.values[y]); !near(got, want[0], 1e-9) {
		t.Errorf("seed %d: got %v, Gorgonia computes %v", seed.Value(), got, want[0])
	}
}
