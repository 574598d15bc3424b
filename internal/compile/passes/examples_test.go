package passes

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

var foldExamples = []example{
	{"arithmetic of constants", func(b *builder) {
		sum := b.Apply(kernels.Mul, nil, b.fill(2, 3), b.fill(3, 3))
		b.root(b.Apply(kernels.Add, nil, b.x(3), b.Apply(kernels.Neg, nil, sum)))
	}},
	{"a scale and a shift round twice: they stay", func(b *builder) {
		b.root(b.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 3, Shift: 0.1}, b.fill(0.1, 3)))
	}},
	{"tanh is not correctly rounded: it stays", func(b *builder) { b.root(b.Apply(kernels.Tanh, nil, b.fill(1, 3))) }},
}

var mergeExamples = []example{
	{"equal instructions, and those that are equal once these are one", func(b *builder) {
		x := b.x(3)
		square := func() kernels.Value { return b.Apply(kernels.Square, nil, b.Apply(kernels.Tanh, nil, x)) }
		b.root(b.Apply(kernels.Add, nil, square(), square()))
	}},
	{"other attributes", func(b *builder) {
		x := b.x(3, 4)
		sum := func(axis int) kernels.Value { return b.Apply(kernels.Sum, kernels.ReduceAttrs{Axes: []int{axis}}, x) }
		b.root(sum(0), sum(1), sum(0))
	}},
	{"checks have an effect", func(b *builder) {
		x, guard := b.x(3), b.homeOf(ir.Guard, "guard", arena.Int32, 4)
		a := kernels.CheckFiniteAttrs{Code: 1}
		b.root(b.Apply(kernels.CheckFinite, a, x, b.Apply(kernels.CheckFinite, a, x, guard)))
	}},
}

var pruneExamples = []example{
	{"what no root needs", func(b *builder) {
		x := b.x(3)
		b.Apply(kernels.Square, nil, b.Apply(kernels.Tanh, nil, x))
		b.root(b.Apply(kernels.Neg, nil, x))
	}},
}

// field is a decoded field of the batch.
func (b *builder) field(typ arena.DType) kernels.Value {
	return b.Apply(kernels.Decode, kernels.DecodeAttrs{To: arena.Float32, Scale: 1}, b.homeOf(ir.Slot, "field", typ, 8, 4))
}

var redecodeExamples = []example{
	{"two readers of bytes", func(b *builder) {
		x := b.field(arena.Uint8)
		b.root(b.Apply(kernels.Tanh, nil, x), b.Apply(kernels.Neg, nil, x))
	}},
	{"one reader", func(b *builder) { b.root(b.Apply(kernels.Tanh, nil, b.field(arena.Uint8))) }},
	{"as large as stored", func(b *builder) {
		x := b.field(arena.Int32)
		b.root(b.Apply(kernels.Tanh, nil, x), b.Apply(kernels.Neg, nil, x))
	}},
}

// pooled is max pooling of a ReLU with its gradient.
func (b *builder) pooled(grad *kernels.Op, attrs any, stride int) {
	y, dp := b.x(1, 2, 4, 4), b.x(1, 2, 4/stride-stride%2, 4/stride-stride%2)
	a := kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{stride, stride}}
	pool := b.ops("pool", kernels.MaxPool, a, y)
	dy := b.op("dpool", kernels.MaxPoolGrad, kernels.PoolGradAttrs{PoolAttrs: a, Size: [2]int{4, 4}}, pool[1], dp)
	b.root(pool[0], b.op("drelu", grad, attrs, y, dy))
}

var poolExamples = []example{
	{"ReLU", func(b *builder) { b.pooled(kernels.ReluGrad, nil, 2) }},
	{"ReLU under windows that overlap", func(b *builder) { b.pooled(kernels.ReluGrad, nil, 1) }},
	{"leaky ReLU", func(b *builder) { b.pooled(kernels.LeakyReluGrad, kernels.LeakyReluAttrs{Slope: 0.1}, 2) }},
	{"leaky ReLU under windows that overlap: it stays", func(b *builder) { b.pooled(kernels.LeakyReluGrad, kernels.LeakyReluAttrs{Slope: 0.1}, 1) }},
}

// normalized is batch normalization with a ReLU and their gradients. The normalization's own result has another reader where read is set.
func (b *builder) normalized(read bool) {
	a := kernels.BatchNormAttrs{Eps: 1e-5, Momentum: 0.9}
	x, gamma, dz := b.x(8, 3), b.x(3), b.x(8, 3)
	norm := b.ops("norm", kernels.BatchNorm, a, x, gamma, b.x(3))
	z := b.op("relu", kernels.Relu, nil, norm[0])
	dy := b.op("drelu", kernels.ReluGrad, nil, z, dz)
	b.root(z)
	b.root(b.ops("dnorm", kernels.BatchNormGrad, a, x, gamma, b.x(3), norm[1], norm[2], dy)...)
	if read {
		b.root(b.op("reader", kernels.Neg, nil, norm[0]))
	}
}

var batchNormExamples = []example{
	{"a ReLU", func(b *builder) { b.normalized(false) }},
	{"a result that something else reads: all stays", func(b *builder) { b.normalized(true) }},
}

// weightGrad is aᵀ·dz in the backward pass.
func (b *builder) weightGrad(label string) kernels.Value {
	b.Backward = true
	return b.op(label, kernels.MatMul, kernels.MatMulAttrs{TransA: true}, b.x(8, 3), b.x(8, 5))
}

var sumExamples = []example{
	{"a gradient of steps before", func(b *builder) {
		before := b.home(ir.Gradients, "dw", 3, 5)
		b.root(b.op("sum", kernels.Add, nil, before, b.weightGrad("dw")))
	}},
	{"two products: the later one accumulates", func(b *builder) {
		first, second := b.weightGrad("first"), b.weightGrad("second")
		b.root(b.op("sum", kernels.Add, nil, second, first))
	}},
	{"an addend that is made later", func(b *builder) {
		product := b.weightGrad("dw")
		b.root(b.op("sum", kernels.Add, nil, product, b.op("later", kernels.Neg, nil, b.x(3, 5))))
	}},
	{"a product with another reader: it stays", func(b *builder) {
		product := b.weightGrad("dw")
		b.root(product, b.Apply(kernels.Add, nil, b.x(3, 5), product))
	}},
}

// dense is tanh(x·w + b) with a bias of that shape.
func (b *builder) dense(bias ...int) kernels.Value {
	product := b.op("xw", kernels.MatMul, kernels.MatMulAttrs{}, b.x(4, 3), b.x(3, 5))
	return b.op("act", kernels.Tanh, nil, b.op("sum", kernels.Add, nil, product, b.x(bias...)))
}

var fuseExamples = []example{
	{"a bias and an activation", func(b *builder) { b.root(b.dense(5)) }},
	{"a bias of one row", func(b *builder) { b.root(b.dense(1, 5)) }},
	{"a matrix is no bias", func(b *builder) { b.root(b.dense(4, 5)) }},
	{"a convolution's bias", func(b *builder) {
		a := kernels.ConvAttrs{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
		y := b.op("conv", kernels.Conv, a, b.x(1, 2, 4, 4), b.x(3, 2, 3, 3))
		b.root(b.op("relu", kernels.Relu, nil, b.op("sum", kernels.Add, nil, y, b.x(1, 3, 1, 1))))
	}},
	{"a product that something else reads", func(b *builder) {
		y := b.op("xw", kernels.MatMul, kernels.MatMulAttrs{}, b.x(4, 3), b.x(3, 5))
		b.root(y, b.op("relu", kernels.Relu, nil, y))
	}},
	{"a product that accumulates has no epilogue", func(b *builder) {
		y := b.op("xw", kernels.MatMul, kernels.MatMulAttrs{Add: true}, b.x(1, 3), b.x(3, 5), b.x(1, 5))
		b.root(b.op("sum", kernels.Add, nil, y, b.x(5)))
	}},
	{"a chain with a constant", func(b *builder) {
		y := b.op("product", kernels.Mul, nil, b.x(4, 5), b.x(5))
		y = b.op("tanh", kernels.Tanh, nil, y)
		b.root(b.op("sum", kernels.Add, nil, y, b.fill(2)))
	}},
	{"other shapes do not join", func(b *builder) {
		b.root(b.op("sum", kernels.Add, nil, b.x(4, 5), b.op("tanh", kernels.Tanh, nil, b.x(5))))
	}},
}

// reduced is a sum of squares.
func (b *builder) reduced(axes ...int) kernels.Value {
	square := b.op("square", kernels.Square, nil, b.x(4, 5))
	return b.op("sum", kernels.Sum, kernels.ReduceAttrs{Axes: axes}, square)
}

var reduceExamples = []example{
	{"an operation on its own", func(b *builder) { b.root(b.reduced(0)) }},
	{"a chain", func(b *builder) {
		y := b.Apply(kernels.Tanh, nil, b.Apply(kernels.Sub, nil, b.x(4, 5), b.x(5)))
		b.root(b.Apply(kernels.Mean, kernels.ReduceAttrs{}, y))
		Fuse(b.Program)
	}},
	{"a reduction of one element", func(b *builder) {
		b.root(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, b.Apply(kernels.Tanh, nil, b.x(1))))
	}},
	{"a value with another reader", func(b *builder) {
		y := b.Apply(kernels.Tanh, nil, b.x(4, 5))
		b.root(y, b.Apply(kernels.Sum, kernels.ReduceAttrs{}, y))
	}},
}

var half = Precision{Type: arena.Bfloat16, Float32: []string{"exact"}}

var roundExamples = []example{
	{"products, not those of layers in float32", func(b *builder) {
		for _, b.Owner = range []string{"", "exact"} {
			b.root(b.Apply(kernels.MatMul, kernels.MatMulAttrs{}, b.x(4, 3), b.x(3, 5)))
		}
	}},
}

// twoLayers are two dense layers and the gradients of their weights and of the first activation.
func (b *builder) twoLayers(last *kernels.Op) {
	a := kernels.WithOperands(kernels.MatMulAttrs{}, half.Type).(kernels.MatMulAttrs)
	x, w1, w2, dz := b.x(8, 4), b.x(4, 6), b.x(6, 5), b.x(8, 5)
	h := b.op("h", kernels.Tanh, nil, b.op("xw", kernels.MatMul, a, x, w1))
	z := b.op("z", last, nil, b.op("hw", kernels.MatMul, a, h, w2))
	b.Backward = true
	dy := b.op("dz", kernels.TanhGrad, nil, z, dz)
	ta, tb := a, a
	ta.TransA, tb.TransB = true, true
	dh := b.op("dh", kernels.MatMul, tb, dy, w2)
	b.root(z, b.op("dw2", kernels.MatMul, ta, h, dy))
	b.root(b.op("dw1", kernels.MatMul, ta, x, b.op("dxw", kernels.TanhGrad, nil, h, dh)))
}

var narrowExamples = []example{
	{"the first activation of two: products read 16 bits, other readers the decoded value", func(b *builder) { b.twoLayers(kernels.Tanh) }},
	{"a single activation stays", func(b *builder) {
		h := b.op("h", kernels.Tanh, nil, b.x(8, 4))
		b.Backward = true
		b.root(b.op("dh", kernels.TanhGrad, nil, h, b.x(8, 4)))
	}},
}

// update is a gradient that a product makes, its check and the update right after it.
func (b *builder) update(rows, cols int) {
	w := b.home(ir.Parameters, "w", rows, cols)
	guard, controls := b.homeOf(ir.Guard, "guard", arena.Int32, 4), b.homeOf(ir.Slot, "controls", arena.Float64, kernels.Controls)
	b.Trained = append(b.Trained, "w")
	b.Backward = true
	dw := b.op("dw", kernels.MatMul, kernels.MatMulAttrs{TransA: true}, b.x(8, rows), b.x(8, cols))
	guard = b.op("check dw", kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.FirstGradient}, dw, guard)
	b.root(b.ops("update w", kernels.Sgd, kernels.SgdAttrs{}, w, dw, guard, controls)...)
	b.root(guard)
}

var slicesExamples = []example{
	{"rows for two slices", func(b *builder) { b.update(256, 4) }},
	{"too few rows", func(b *builder) { b.update(255, 4) }},
}

var offloadExamples = []example{
	{"a weight that the forward pass reads and an update changes", func(b *builder) {
		w, x := b.home(ir.HostParameters, "w", 3, 5), b.x(8, 3)
		guard, controls := b.homeOf(ir.Guard, "guard", arena.Int32, 4), b.homeOf(ir.Slot, "controls", arena.Float64, kernels.Controls)
		y := b.op("xw", kernels.MatMul, kernels.MatMulAttrs{}, x, w)
		b.Backward = true
		dw := b.op("dw", kernels.MatMul, kernels.MatMulAttrs{TransA: true}, x, y)
		b.root(b.ops("update w", kernels.Sgd, kernels.SgdAttrs{}, w, dw, guard, controls)...)
	}},
	{"no home in host memory", func(b *builder) { b.update(3, 5) }},
}
