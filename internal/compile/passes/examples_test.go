package passes

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/kernels"
)

var foldExamples = []irtest.Example{
	{Name: "arithmetic of constants", Build: func(b *irtest.Builder) {
		sum := b.Apply(kernels.Mul, nil, b.Fill(2, 3), b.Fill(3, 3))
		b.Need(b.Apply(kernels.Add, nil, b.X(3), b.Apply(kernels.Neg, nil, sum)))
	}},
	{Name: "the exponent of a power's gradient, b less 1 unless it is 0", Build: func(b *irtest.Builder) {
		exponent := b.Fill(3)
		one := b.Apply(kernels.NotEqual, nil, exponent, b.Fill(0))
		b.Need(b.Apply(kernels.Pow, nil, b.X(3), b.Apply(kernels.Sub, nil, exponent, one)), b.Apply(kernels.Equal, nil, b.Fill(2), b.Fill(2)))
	}},
	{Name: "a scale and a shift round twice: they stay", Build: func(b *irtest.Builder) {
		b.Need(b.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 3, Shift: 0.1}, b.Fill(0.1, 3)))
	}},
	{Name: "tanh is not correctly rounded: it stays", Build: func(b *irtest.Builder) { b.Need(b.Apply(kernels.Tanh, nil, b.Fill(1, 3))) }},
}

var identityExamples = []irtest.Example{
	{Name: "products with 1 on either side, and a quotient", Build: func(b *irtest.Builder) {
		x := b.Apply(kernels.Tanh, nil, b.X(3))
		x = b.Apply(kernels.Mul, nil, b.Fill(1, 3), x)
		x = b.Apply(kernels.Div, nil, b.Apply(kernels.Mul, nil, x, b.Fill(1)), b.Fill(1))
		b.Need(x, b.Apply(kernels.Neg, nil, x))
	}},
	{Name: "1 / x, and a product with 2: they stay", Build: func(b *irtest.Builder) {
		x := b.Apply(kernels.Tanh, nil, b.X(3))
		b.Need(b.Apply(kernels.Div, nil, b.Fill(1), x), b.Apply(kernels.Mul, nil, x, b.Fill(2)))
	}},
	{Name: "a product that repeats its operand: it stays", Build: func(b *irtest.Builder) {
		b.Need(b.Apply(kernels.Mul, nil, b.Fill(1, 4, 3), b.Apply(kernels.Tanh, nil, b.X(3))))
	}},
	{Name: "copies of a weight that an update changes, or of its view: they stay", Build: func(b *irtest.Builder) {
		w := b.X(3)
		view := b.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{3, 1}}, w)
		b.Need(b.Apply(kernels.Mul, nil, w, b.Fill(1)), b.Apply(kernels.Mul, nil, view, b.Fill(1)))
	}},
}

var mergeExamples = []irtest.Example{
	{Name: "equal instructions, and those that are equal once these are one", Build: func(b *irtest.Builder) {
		x := b.X(3)
		square := func() kernels.Value { return b.Apply(kernels.Square, nil, b.Apply(kernels.Tanh, nil, x)) }
		b.Need(b.Apply(kernels.Add, nil, square(), square()))
	}},
	{Name: "other attributes", Build: func(b *irtest.Builder) {
		x := b.X(3, 4)
		sum := func(axis int) kernels.Value { return b.Apply(kernels.Sum, kernels.ReduceAttrs{Axes: []int{axis}}, x) }
		b.Need(sum(0), sum(1), sum(0))
	}},
	{Name: "0 and -0 differ", Build: func(b *irtest.Builder) {
		x := b.X(3)
		scaled := func(by float64) kernels.Value { return b.Apply(kernels.Affine, kernels.AffineAttrs{Scale: by}, x) }
		b.Need(scaled(0), scaled(math.Copysign(0, -1)))
	}},
	{Name: "checks have an effect", Build: func(b *irtest.Builder) {
		x, guard := b.X(3), b.HomeOf(ir.Guard, "guard", arena.Int32, 4)
		a := kernels.CheckFiniteAttrs{Code: 1}
		b.Need(b.Apply(kernels.CheckFinite, a, x, guard), b.Apply(kernels.CheckFinite, a, x, guard))
	}},
}

var pruneExamples = []irtest.Example{
	{Name: "what no root needs", Build: func(b *irtest.Builder) {
		x := b.X(3)
		b.Apply(kernels.Square, nil, b.Apply(kernels.Tanh, nil, x))
		b.Need(b.Apply(kernels.Neg, nil, x))
	}},
}

// scaled is x, scaled.
func scaled(b *irtest.Builder, x kernels.Value) kernels.Value {
	return b.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 0.2}, x)
}

var repeatExamples = []irtest.Example{
	{Name: "two readers of what is scaled", Build: func(b *irtest.Builder) {
		x := scaled(b, b.X(3))
		b.Need(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, x), b.Apply(kernels.Max, kernels.ReduceAttrs{}, x))
	}},
	{Name: "two readers of a constant", Build: func(b *irtest.Builder) {
		x := b.Fill(0.2, 3)
		b.Need(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, x), b.Apply(kernels.Max, kernels.ReduceAttrs{}, x))
	}},
	{Name: "two readers of a function of what is scaled", Build: func(b *irtest.Builder) {
		x := b.Apply(kernels.Tanh, nil, scaled(b, b.X(3)))
		b.Need(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, x), b.Apply(kernels.Max, kernels.ReduceAttrs{}, x))
	}},
	{Name: "a chain that is too long", Build: func(b *irtest.Builder) {
		x := scaled(b, b.X(3))
		for range 5 {
			x = b.Apply(kernels.Tanh, nil, x)
		}
		b.Need(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, x), b.Apply(kernels.Max, kernels.ReduceAttrs{}, x))
	}},
	{Name: "no constant", Build: func(b *irtest.Builder) {
		x := b.Apply(kernels.Tanh, nil, b.X(3))
		b.Need(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, x), b.Apply(kernels.Max, kernels.ReduceAttrs{}, x))
	}},
	{Name: "a needed value", Build: func(b *irtest.Builder) {
		x := scaled(b, b.X(3))
		b.Need(x, b.Apply(kernels.Max, kernels.ReduceAttrs{}, x))
	}},
}

// field is a decoded field of the batch.
func field(b *irtest.Builder, typ arena.DType) kernels.Value {
	return b.Apply(kernels.Decode, kernels.DecodeAttrs{To: arena.Float32, Scale: 1}, b.HomeOf(ir.Slot, "field", typ, 8, 4))
}

var redecodeExamples = []irtest.Example{
	{Name: "two readers of bytes", Build: func(b *irtest.Builder) {
		x := field(b, arena.Uint8)
		b.Need(b.Apply(kernels.Tanh, nil, x), b.Apply(kernels.Neg, nil, x))
	}},
	{Name: "one reader", Build: func(b *irtest.Builder) { b.Need(b.Apply(kernels.Tanh, nil, field(b, arena.Uint8))) }},
	{Name: "as large as stored", Build: func(b *irtest.Builder) {
		x := field(b, arena.Int32)
		b.Need(b.Apply(kernels.Tanh, nil, x), b.Apply(kernels.Neg, nil, x))
	}},
}

// pooled is max pooling of a ReLU with its gradient.
func pooled(b *irtest.Builder, grad *kernels.Op, attrs any, stride int) {
	y, dp := b.X(1, 2, 4, 4), b.X(1, 2, 4/stride-stride%2, 4/stride-stride%2)
	a := kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{stride, stride}}
	pool := b.Ops("pool", kernels.MaxPool, a, y)
	dy := b.Op("dpool", kernels.MaxPoolGrad, kernels.PoolGradAttrs{PoolAttrs: a, Size: [2]int{4, 4}}, pool[1], dp)
	b.Need(pool[0], b.Op("drelu", grad, attrs, y, dy))
}

var poolExamples = []irtest.Example{
	{Name: "ReLU", Build: func(b *irtest.Builder) { pooled(b, kernels.ReLUGrad, nil, 2) }},
	{Name: "ReLU under windows that overlap", Build: func(b *irtest.Builder) { pooled(b, kernels.ReLUGrad, nil, 1) }},
	{Name: "leaky ReLU", Build: func(b *irtest.Builder) { pooled(b, kernels.LeakyReLUGrad, kernels.LeakyReLUAttrs{Slope: 0.1}, 2) }},
	{Name: "leaky ReLU under windows that overlap: it stays", Build: func(b *irtest.Builder) { pooled(b, kernels.LeakyReLUGrad, kernels.LeakyReLUAttrs{Slope: 0.1}, 1) }},
}

// normalized is batch normalization with a ReLU and their gradients. The normalization's own result
// has another reader where read is set.
func normalized(b *irtest.Builder, read bool) {
	a := kernels.BatchNormAttrs{Eps: 1e-5, Momentum: 0.9}
	x, gamma, dz := b.X(8, 3), b.X(3), b.X(8, 3)
	norm := b.Ops("norm", kernels.BatchNorm, a, x, gamma, b.X(3))
	z := b.Op("relu", kernels.ReLU, nil, norm[0])
	dy := b.Op("drelu", kernels.ReLUGrad, nil, z, dz)
	b.Need(z)
	b.Need(b.Ops("dnorm", kernels.BatchNormGrad, a, x, gamma, b.X(3), norm[1], norm[2], dy)...)
	if read {
		b.Need(b.Op("reader", kernels.Neg, nil, norm[0]))
	}
}

var batchNormExamples = []irtest.Example{
	{Name: "a ReLU", Build: func(b *irtest.Builder) { normalized(b, false) }},
	{Name: "a result that something else reads: all stays", Build: func(b *irtest.Builder) { normalized(b, true) }},
}

// weightGrad is aᵀ·dz in the backward pass.
func weightGrad(b *irtest.Builder, label string) kernels.Value {
	b.Backward = true
	return b.Op(label, kernels.MatMul, kernels.MatMulAttrs{TransA: true}, b.X(8, 3), b.X(8, 5))
}

var sumExamples = []irtest.Example{
	{Name: "a gradient of steps before", Build: func(b *irtest.Builder) {
		before := b.HomeOf(ir.Gradients, "dw", arena.Float32, 3, 5)
		b.Need(b.Op("sum", kernels.Add, nil, before, weightGrad(b, "dw")))
	}},
	{Name: "two products: the later one accumulates", Build: func(b *irtest.Builder) {
		first, second := weightGrad(b, "first"), weightGrad(b, "second")
		b.Need(b.Op("sum", kernels.Add, nil, second, first))
	}},
	{Name: "an addend that is made later", Build: func(b *irtest.Builder) {
		product := weightGrad(b, "dw")
		b.Need(b.Op("sum", kernels.Add, nil, product, b.Op("later", kernels.Neg, nil, b.X(3, 5))))
	}},
	{Name: "a product with another reader: it stays", Build: func(b *irtest.Builder) {
		product := weightGrad(b, "dw")
		b.Need(product, b.Apply(kernels.Add, nil, b.X(3, 5), product))
	}},
}

// dense is tanh(x·w + b) with a bias of that shape.
func dense(b *irtest.Builder, bias ...int) kernels.Value {
	product := b.Op("xw", kernels.MatMul, kernels.MatMulAttrs{}, b.X(4, 3), b.X(3, 5))
	return b.Op("act", kernels.Tanh, nil, b.Op("sum", kernels.Add, nil, product, b.X(bias...)))
}

// normalizedConv is (y - mean)·scale + shift of a convolution y with a bias, with a scale of that shape.
func normalizedConv(b *irtest.Builder, scale ...int) kernels.Value {
	a := kernels.ConvAttrs{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
	y := b.Op("conv", kernels.Conv, a, b.X(1, 2, 4, 4), b.X(3, 2, 3, 3))
	y = b.Op("biased", kernels.Add, nil, y, b.X(3, 1, 1))
	y = b.Op("centred", kernels.Sub, nil, y, b.X(3, 1, 1))
	y = b.Op("scaled", kernels.Mul, nil, b.X(scale...), y)
	return b.Op("shifted", kernels.Add, nil, y, b.X(1, 3, 1, 1))
}

var fuseExamples = []irtest.Example{
	{Name: "a bias and an activation", Build: func(b *irtest.Builder) { b.Need(dense(b, 5)) }},
	{Name: "a bias of one row", Build: func(b *irtest.Builder) { b.Need(dense(b, 1, 5)) }},
	{Name: "a matrix is no bias", Build: func(b *irtest.Builder) { b.Need(dense(b, 4, 5)) }},
	{Name: "a convolution's bias", Build: func(b *irtest.Builder) {
		a := kernels.ConvAttrs{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
		y := b.Op("conv", kernels.Conv, a, b.X(1, 2, 4, 4), b.X(3, 2, 3, 3))
		b.Need(b.Op("relu", kernels.ReLU, nil, b.Op("sum", kernels.Add, nil, y, b.X(1, 3, 1, 1))))
	}},
	{Name: "a convolution's normalization", Build: func(b *irtest.Builder) {
		b.Need(b.Op("relu", kernels.ReLU, nil, normalizedConv(b, 3, 1, 1)))
	}},
	{Name: "one number for all channels normalizes none", Build: func(b *irtest.Builder) { b.Need(normalizedConv(b, 1)) }},
	{Name: "a normalization that something else reads", Build: func(b *irtest.Builder) {
		y := normalizedConv(b, 3, 1, 1)
		b.Need(y, b.Op("relu", kernels.ReLU, nil, y))
	}},
	{Name: "a product that something else reads", Build: func(b *irtest.Builder) {
		y := b.Op("xw", kernels.MatMul, kernels.MatMulAttrs{}, b.X(4, 3), b.X(3, 5))
		b.Need(y, b.Op("relu", kernels.ReLU, nil, y))
	}},
	{Name: "a product with two readers", Build: func(b *irtest.Builder) {
		y := b.Op("xw", kernels.MatMul, kernels.MatMulAttrs{}, b.X(4, 3), b.X(3, 5))
		b.Need(b.Op("tanh", kernels.Tanh, nil, y), b.Op("relu", kernels.ReLU, nil, y))
	}},
	{Name: "the second of two activations stays", Build: func(b *irtest.Builder) {
		b.Need(b.Op("relu", kernels.ReLU, nil, dense(b, 5)))
	}},
	{Name: "a product that accumulates has no epilogue", Build: func(b *irtest.Builder) {
		y := b.Op("xw", kernels.MatMul, kernels.MatMulAttrs{Add: true}, b.X(1, 3), b.X(3, 5), b.X(1, 5))
		b.Need(b.Op("sum", kernels.Add, nil, y, b.X(5)))
	}},
	{Name: "a chain with a constant", Build: func(b *irtest.Builder) {
		y := b.Op("product", kernels.Mul, nil, b.X(4, 5), b.X(5))
		y = b.Op("tanh", kernels.Tanh, nil, y)
		b.Need(b.Op("sum", kernels.Add, nil, y, b.Fill(2)))
	}},
	{Name: "other shapes do not join", Build: func(b *irtest.Builder) {
		b.Need(b.Op("sum", kernels.Add, nil, b.X(4, 5), b.Op("tanh", kernels.Tanh, nil, b.X(5))))
	}},
}

// reduced is a sum of squares.
func reduced(b *irtest.Builder, axes ...int) kernels.Value {
	square := b.Op("square", kernels.Square, nil, b.X(4, 5))
	return b.Op("sum", kernels.Sum, kernels.ReduceAttrs{Axes: axes}, square)
}

var reduceExamples = []irtest.Example{
	{Name: "an operation on its own", Build: func(b *irtest.Builder) { b.Need(reduced(b, 0)) }},
	{Name: "a chain", Build: func(b *irtest.Builder) {
		y := b.Apply(kernels.Tanh, nil, b.Apply(kernels.Sub, nil, b.X(4, 5), b.X(5)))
		b.Need(b.Apply(kernels.Mean, kernels.ReduceAttrs{}, y))
		Fuse(b.Program)
	}},
	{Name: "a reduction of one element", Build: func(b *irtest.Builder) {
		b.Need(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, b.Apply(kernels.Tanh, nil, b.X(1))))
	}},
	{Name: "a value with another reader", Build: func(b *irtest.Builder) {
		y := b.Apply(kernels.Tanh, nil, b.X(4, 5))
		b.Need(y, b.Apply(kernels.Sum, kernels.ReduceAttrs{}, y))
	}},
}

var half = Precision{Type: arena.BFloat16, Float32: []string{"exact"}}

var roundExamples = []irtest.Example{
	{Name: "products, not those of layers in float32", Build: func(b *irtest.Builder) {
		for _, b.Owner = range []string{"", "exact"} {
			b.Need(b.Apply(kernels.MatMul, kernels.MatMulAttrs{}, b.X(4, 3), b.X(3, 5)))
		}
	}},
}

// twoLayers are two dense layers and the gradients of their weights and of the first activation.
func twoLayers(b *irtest.Builder, last *kernels.Op) {
	a := kernels.WithComputeType(kernels.MatMulAttrs{}, half.Type).(kernels.MatMulAttrs)
	x, w1, w2, dz := b.X(8, 4), b.X(4, 6), b.X(6, 5), b.X(8, 5)
	h := b.Op("h", kernels.Tanh, nil, b.Op("xw", kernels.MatMul, a, x, w1))
	z := b.Op("z", last, nil, b.Op("hw", kernels.MatMul, a, h, w2))
	b.Backward = true
	dy := b.Op("dz", kernels.TanhGrad, nil, z, dz)
	ta, tb := a, a
	ta.TransA, tb.TransB = true, true
	dh := b.Op("dh", kernels.MatMul, tb, dy, w2)
	b.Need(z, b.Op("dw2", kernels.MatMul, ta, h, dy))
	b.Need(b.Op("dw1", kernels.MatMul, ta, x, b.Op("dxw", kernels.TanhGrad, nil, h, dh)))
}

var narrowExamples = []irtest.Example{
	{Name: "the first activation of two: products read 16 bits, other readers the decoded value", Build: func(b *irtest.Builder) { twoLayers(b, kernels.Tanh) }},
	{Name: "a single activation stays", Build: func(b *irtest.Builder) {
		h := b.Op("h", kernels.Tanh, nil, b.X(8, 4))
		b.Backward = true
		b.Need(b.Op("dh", kernels.TanhGrad, nil, h, b.X(8, 4)))
	}},
}

// update is a gradient that a product makes, its check and the update right after it.
func update(b *irtest.Builder, rows, cols int) {
	w := b.HomeOf(ir.Parameters, "w", arena.Float32, rows, cols)
	guard, controls := b.HomeOf(ir.Guard, "guard", arena.Int32, 4), b.HomeOf(ir.Slot, "controls", arena.Float64, kernels.Controls)
	b.Trained = append(b.Trained, "w")
	b.Backward = true
	dw := b.Op("dw", kernels.MatMul, kernels.MatMulAttrs{TransA: true}, b.X(8, rows), b.X(8, cols))
	guard = b.Op("check dw", kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.FirstGradient}, dw, guard)
	b.Need(b.Ops("update w", kernels.SGD, kernels.SGDAttrs{}, w, dw, guard, controls)...)
	b.Need(guard)
}

var slicesExamples = []irtest.Example{
	{Name: "rows for two slices", Build: func(b *irtest.Builder) { update(b, 256, 4) }},
	{Name: "too few rows", Build: func(b *irtest.Builder) { update(b, 255, 4) }},
}

var offloadExamples = []irtest.Example{
	{Name: "a weight that the forward pass reads and an update changes", Build: func(b *irtest.Builder) {
		w, x := b.HomeOf(ir.HostParameters, "w", arena.Float32, 3, 5), b.X(8, 3)
		guard, controls := b.HomeOf(ir.Guard, "guard", arena.Int32, 4), b.HomeOf(ir.Slot, "controls", arena.Float64, kernels.Controls)
		y := b.Op("xw", kernels.MatMul, kernels.MatMulAttrs{}, x, w)
		b.Backward = true
		dw := b.Op("dw", kernels.MatMul, kernels.MatMulAttrs{TransA: true}, x, y)
		b.Need(b.Ops("update w", kernels.SGD, kernels.SGDAttrs{}, w, dw, guard, controls)...)
	}},
	{Name: "no home in host memory", Build: func(b *irtest.Builder) { update(b, 3, 5) }},
}
