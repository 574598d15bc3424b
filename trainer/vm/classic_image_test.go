package vm_test

import (
	"math"
	"math/rand/v2"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// images builds networks of images [B, C, H, W] and collects their weights.
type images struct {
	*builder
	weights gorgonia.Nodes
}

// conv is a convolution with square kernels that keeps the size, divided by the stride.
func (m *images) conv(x *gorgonia.Node, name string, out, side, stride int) *gorgonia.Node {
	m.t.Helper()
	in := x.Shape()[1]
	k := m.weight(name, in*side*side, out, in, side, side)
	m.weights = append(m.weights, k)
	return m.must(gorgonia.Conv2d(x, k, tensor.Shape{side, side}, []int{side / 2, side / 2}, []int{stride, stride}, []int{1, 1}))
}

// norm is batch normalization with a scale and an offset for each channel.
func (m *images) norm(x *gorgonia.Node, name string) *gorgonia.Node {
	m.t.Helper()
	scale, offset := m.constant(name+"/scale", 1, 1, x.Shape()[1], 1, 1), m.constant(name+"/offset", 0, 1, x.Shape()[1], 1, 1)
	m.weights = append(m.weights, scale, offset)
	y, _, _, _, err := gorgonia.BatchNorm(x, scale, offset, 0.9, 1e-5)
	return m.must(y, err)
}

// pool is max pooling that halves the size.
func (m *images) pool(x *gorgonia.Node) *gorgonia.Node {
	m.t.Helper()
	return m.must(gorgonia.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
}

// dense flattens x, and adds a dense layer.
func (m *images) dense(x *gorgonia.Node, name string, out int) *gorgonia.Node {
	m.t.Helper()
	batch := x.Shape()[0]
	in := x.Shape().TotalSize() / batch
	w, c := m.weight(name+"/w", in, in, out), m.constant(name+"/c", 0, 1, out)
	m.weights = append(m.weights, w, c)
	return m.builder.dense(m.must(gorgonia.Reshape(x, tensor.Shape{batch, in})), w, c)
}

// feed binds images of waves, whose length tells one of the classes.
func (m *images) feed(x, y *gorgonia.Node, classes int) func(r *rand.Rand) {
	return func(r *rand.Rand) {
		s := x.Shape()
		class := make([]int, s[0])
		for i := range class {
			class[i] = i % classes
		}
		let(m.t, y, m.oneHot(class, classes))
		let(m.t, x, m.tensorOf(func(i int) float64 {
			column, image := i%s[3], i/(s[1]*s[2]*s[3])
			return math.Sin(float64(column*(1+class[image]))) + r.NormFloat64()/10
		}, s...))
	}
}

// convnet has two convolutions with rectifiers and max pooling, and two dense layers.
func convnet(d *builder, batch, side, width int) *classic {
	m := &images{builder: d}
	x, y := d.in("x", batch, 1, side, side), d.in("y", batch, 4)
	h := m.pool(d.must(gorgonia.Rectify(m.conv(x, "k0", width, 3, 1))))
	h = m.pool(d.must(gorgonia.Rectify(m.conv(h, "k1", 2*width, 3, 1))))
	h = d.must(gorgonia.Rectify(m.dense(h, "hidden", 8*width)))
	return d.whole(m.feed(x, y, 4), d.crossEntropy(m.dense(h, "out", 4), y), m.weights...)
}

// resNet has a block that keeps the shape, and one that halves the size and has a projection. The mean over
// pixels is Mean: the gradient of GlobalAveragePool2D panics in Gorgonia.
func resNet(d *builder, batch, side, width int) *classic {
	m := &images{builder: d}
	x, y := d.in("x", batch, 3, side, side), d.in("y", batch, 4)
	h := d.must(gorgonia.Rectify(m.norm(m.conv(x, "stem", width, 3, 1), "stem")))
	for i, name := range []string{"first", "second"} {
		skip, out := h, (1+i)*width
		if i > 0 {
			skip = m.norm(m.conv(h, name+"/skip", out, 1, 2), name+"/skip")
		}
		h = d.must(gorgonia.Rectify(m.norm(m.conv(h, name+"/a", out, 3, 1+i), name+"/a")))
		h = m.norm(m.conv(h, name+"/b", out, 3, 1), name+"/b")
		h = d.must(gorgonia.Rectify(d.must(gorgonia.Add(h, skip))))
	}
	s := h.Shape()
	mean := d.must(gorgonia.Mean(d.must(gorgonia.Reshape(h, tensor.Shape{s[0], s[1], s[2] * s[3]})), 2))
	return d.whole(m.feed(x, y, 4), d.crossEntropy(m.dense(mean, "out", 4), y), m.weights...)
}

// tinyYOLO has the layers of the detector: convolutions with batch normalization and leaky rectifiers, max
// pooling, and a second scale whose upsampled features join those of the first. It learns a map.
func tinyYOLO(d *builder, batch, side, width int) *classic {
	m := &images{builder: d}
	layer := func(x *gorgonia.Node, name string, out, kernel int) *gorgonia.Node {
		return d.must(gorgonia.LeakyRelu(m.norm(m.conv(x, name, out, kernel, 1), name), 0.1))
	}
	x, y := d.in("x", batch, 3, side, side), d.in("y", batch, 4, side/2, side/2)
	route := layer(m.pool(layer(x, "a", width, 3)), "b", 2*width, 3)
	deep := layer(layer(m.pool(route), "c", 4*width, 3), "d", 2*width, 1)
	both := d.must(gorgonia.Concat(1, d.must(gorgonia.Upsample2D(deep, 2)), route))
	out := m.conv(layer(both, "e", 2*width, 3), "out", 4, 1, 1)
	return d.whole(func(r *rand.Rand) {
		let(d.t, x, randomTensor(r, d.dt, x.Shape()...))
		let(d.t, y, d.tensorOf(func(i int) float64 { return 0.5 }, y.Shape()...))
	}, d.squares(out, y), m.weights...)
}
