package frontend

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// rows select by index. Gorgonia's own selection along a middle axis is wrong, and so is its gradient
// along any but the first: see TestElementsAreSelectedAlongEachAxis in trainer/vm.
func rows() []recipe {
	return []recipe{
		{"rows by index", func(d *graphtest.Draft) *gorgonia.Node {
			n := d.Wide()
			return d.Must(gorgonia.ByIndices(d.In(n, d.Wide()), d.Ints(n, d.Wide()), 0))
		}, kernels.Gather},
		{"rows by a constant index", func(d *graphtest.Draft) *gorgonia.Node {
			at := gorgonia.NewConstant(tensor.New(tensor.WithShape(3), tensor.WithBacking([]int{2, 0, 2})), gorgonia.WithName("at"))
			return d.Must(gorgonia.ByIndices(d.In(3, d.Wide()), at, 0))
		}, kernels.Gather},
		{"columns by index", func(d *graphtest.Draft) *gorgonia.Node {
			n := d.Wide()
			return d.Must(gorgonia.ByIndices(d.In(d.Wide(), n), d.Ints(n, d.Wide()), 1))
		}, kernels.Gather},
		{"columns of integers by index", func(d *graphtest.Draft) *gorgonia.Node {
			n := d.Wide()
			return d.Must(gorgonia.ByIndices(d.Ints(9, d.Wide(), n), d.Ints(n, d.Wide()), 1))
		}, kernels.Gather},
	}
}

// images are operations on [B, C, H, W].
func images() []recipe {
	conv := func(name string, kh, kw int, pad, stride, dilation []int) recipe {
		return recipe{name, func(d *graphtest.Draft) *gorgonia.Node {
			c := d.Dim()
			x, w := d.In(d.Dim(), c, 5+d.Dim(), 6+d.Dim()), d.In(d.Dim(), c, kh, kw)
			return d.Must(gorgonia.Conv2d(x, w, tensor.Shape{kh, kw}, pad, stride, dilation))
		}, kernels.Conv}
	}
	pool := func(name string, kh, kw int, pad, stride []int) recipe {
		return recipe{name, func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.MaxPool2D(d.In(d.Dim(), d.Dim(), 4+d.Dim(), 5), tensor.Shape{kh, kw}, pad, stride))
		}, kernels.MaxPool}
	}
	return []recipe{
		conv("convolution", 3, 3, []int{1, 1}, []int{1, 1}, []int{1, 1}),
		conv("convolution of single pixels", 1, 1, []int{0, 0}, []int{1, 1}, []int{1, 1}),
		conv("convolution, oblong", 3, 2, []int{1, 0}, []int{1, 1}, []int{1, 1}),
		conv("convolution with strides", 3, 3, []int{0, 1}, []int{2, 1}, []int{1, 1}),
		conv("convolution, dilated", 2, 3, []int{1, 2}, []int{1, 2}, []int{3, 2}),
		{"convolution in one dimension", func(d *graphtest.Draft) *gorgonia.Node {
			c := d.Dim()
			return d.Must(gorgonia.Conv1d(d.In(d.Dim(), c, 1, 9), d.In(d.Dim(), c, 1, 3), 3, 1, 1, 1))
		}, kernels.Conv},
		{"im2col", func(d *graphtest.Draft) *gorgonia.Node {
			pair := func(least, n int) tensor.Shape { return tensor.Shape{least + d.Rand.IntN(n), least + d.Rand.IntN(n)} }
			return d.Must(gorgonia.Im2Col(d.In(d.Dim(), d.Dim(), 4+d.Dim(), 4+d.Dim()), pair(1, 3), pair(0, 3), pair(1, 2), pair(1, 2)))
		}, kernels.Im2Col},
		{"upsampling", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.Upsample2D(d.In(d.Dim(), d.Dim(), d.Wide(), d.Wide()), 1+d.Dim()))
		}, nil},
		{"upsampling of integers", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.Upsample2D(d.Ints(9, d.Dim(), d.Dim(), d.Wide(), d.Wide()), 2))
		}, kernels.Broadcast},
		pool("max pooling", 2, 2, []int{0, 0}, []int{2, 1}),
		pool("max pooling with padding", 3, 3, []int{1, 1}, []int{1, 1}),
		pool("max pooling with padding for each side", 3, 2, []int{1, 1, 1, 1}, []int{2, 2}),
		{"max pooling in one dimension", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.MaxPool1D(d.In(d.Dim(), d.Dim(), 1, 6), 2, 0, 2))
		}, kernels.MaxPool},
		{"batch normalization", func(d *graphtest.Draft) *gorgonia.Node {
			b, c := d.Wide(), d.Wide()
			y, _, _, _, err := gorgonia.BatchNorm(d.In(b, c, 3, 2), d.Of(d.Positive, 1, c, 1, 1), d.In(1, c, 1, 1), 0.1, 1e-3)
			return d.Must(y, err)
		}, kernels.BatchNorm},
		{"batch normalization of vectors", func(d *graphtest.Draft) *gorgonia.Node {
			b, c := 3+d.Wide(), d.Wide()
			y, _, _, _, err := gorgonia.BatchNorm(d.In(b, c), d.Of(d.Positive, b, c), d.In(b, c), 0.1, 1e-3)
			return d.Must(y, err)
		}, kernels.BatchNorm},
		{"group normalization", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.GroupNorm(d.In(d.Dim(), 4, 3, 2), d.Of(d.Positive, 1, 4, 1, 1), d.In(1, 4, 1, 1), 2, 4, 1e-3))
		}, kernels.GroupNorm},
	}
}

// imageGradients are nodes that Gorgonia makes for the gradients of images.
func imageGradients() (recipes []recipe) {
	for name, op := range map[string]*kernels.Op{"upsampling": kernels.Sum, "im2col": kernels.Col2Im, "max pooling": kernels.MaxPoolGrad, "batch normalization": kernels.BatchNormGrad,
		"group normalization": kernels.GroupNormGrad} {
		for _, c := range images() {
			if c.name != name {
				continue
			}
			recipes = append(recipes, recipe{"gradient of " + name, func(d *graphtest.Draft) *gorgonia.Node {
				y := c.build(d)
				w := d.In(y.Shape()...)
				dx, err := gorgonia.Grad(d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(y, w)))), d.Inputs[0])
				if err != nil {
					return d.Must(nil, err)
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
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	x := d.Of(func() float64 { return 1 }, 1, 1, 2, 2)
	for i, v := range []float64{1, 2, 3, 4} {
		x.Value().Data().([]float64)[i] = v
	}
	y := d.Must(gorgonia.MaxPool2D(x, tensor.Shape{2, 2}, []int{1, 0, 0, 1}, []int{1, 1})) // a row above, a column on the right
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.floats(r.values[y]), []float64{2, 2, 4, 4}; !graphtest.Near(got, want, 0) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A kernel shape with as many elements as the filter, but of another form, is no convolution.
func TestAnIm2ColOfAnotherShapeIsNoConvolution(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	y := d.Must(gorgonia.Conv2d(d.In(2, 1, 5, 6), d.In(3, 1, 2, 3), tensor.Shape{3, 2}, []int{0, 0}, []int{1, 1}, []int{1, 1}))
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	if r.count(kernels.Conv) != 0 || r.count(kernels.Im2Col) != 1 {
		t.Errorf("got\n%v, want an im2col", r.Program)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	want, err := graphtest.Tape(y)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.floats(r.values[y]); !graphtest.Near(got, want[0], 1e-9) {
		t.Errorf("seed %d: got %v, Gorgonia computes %v", seed.Value(), got, want[0])
	}
}
