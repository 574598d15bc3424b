package frontend

import (
	"io"
	"log"
	"os"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// unaries are Gorgonia's functions of one operand, on values for which they are defined.
func unaries() (recipes []recipe) {
	type fn = func(*gorgonia.Node) (*gorgonia.Node, error)
	for name, f := range map[string]fn{
		"abs": gorgonia.Abs, "sign": gorgonia.Sign, "ceil": gorgonia.Ceil, "floor": gorgonia.Floor, "sin": gorgonia.Sin,
		"cos": gorgonia.Cos, "exp": gorgonia.Exp, "neg": gorgonia.Neg, "square": gorgonia.Square, "cube": gorgonia.Cube,
		"tanh": gorgonia.Tanh, "sigmoid": gorgonia.Sigmoid, "expm1": gorgonia.Expm1, "softplus": gorgonia.Softplus,
		"relu": gorgonia.Rectify, "mish": gorgonia.Mish,
	} {
		recipes = append(recipes, recipe{name: name, build: func(d *draft) *gorgonia.Node { return d.must(f(d.in(d.dim(), d.dim()))) }},
			recipe{name: name + " of a scalar", build: func(d *draft) *gorgonia.Node { return d.must(f(d.in())) }})
	}
	for name, f := range map[string]fn{"log": gorgonia.Log, "log2": gorgonia.Log2, "sqrt": gorgonia.Sqrt, "inverse": gorgonia.Inverse,
		"inverse square root": gorgonia.InverseSqrt, "log1p": gorgonia.Log1p} {
		recipes = append(recipes, recipe{name: name, build: func(d *draft) *gorgonia.Node {
			return d.must(f(d.of(d.positive, d.dim(), d.dim(), d.dim())))
		}})
	}
	return recipes
}

// binaries are Gorgonia's elementwise functions of two operands, with and without scalars.
func binaries() (recipes []recipe) {
	type fn = func(a, b *gorgonia.Node) (*gorgonia.Node, error)
	compare := func(f func(a, b *gorgonia.Node, same bool) (*gorgonia.Node, error)) fn {
		return func(a, b *gorgonia.Node) (*gorgonia.Node, error) { return f(a, b, true) }
	}
	for name, f := range map[string]fn{
		"add": gorgonia.Add, "sub": gorgonia.Sub, "product": gorgonia.HadamardProd, "quotient": gorgonia.HadamardDiv, "power": gorgonia.Pow,
		"less": compare(gorgonia.Lt), "greater": compare(gorgonia.Gt), "less or equal": compare(gorgonia.Lte),
		"greater or equal": compare(gorgonia.Gte), "equal": compare(gorgonia.Eq), "unequal": compare(gorgonia.Ne),
	} {
		recipes = append(recipes,
			recipe{name: name, build: func(d *draft) *gorgonia.Node {
				dims := []int{d.dim(), d.dim()}
				return d.must(f(d.of(d.positive, dims...), d.of(d.positive, dims...)))
			}},
			recipe{name: name + " with a scalar", build: func(d *draft) *gorgonia.Node {
				return d.must(f(d.of(d.positive, d.dim(), d.wide()), d.of(d.positive)))
			}},
			recipe{name: name + " of a scalar and a tensor", build: func(d *draft) *gorgonia.Node {
				return d.must(f(d.of(d.positive), d.of(d.positive, d.wide())))
			}},
			recipe{name: name + " of scalars", build: func(d *draft) *gorgonia.Node {
				return d.must(f(d.of(d.positive), d.of(d.positive)))
			}},
			recipe{name: name + " with a constant", build: func(d *draft) *gorgonia.Node {
				return d.must(f(d.of(d.positive, d.dim(), d.wide()), gorgonia.NewConstant(d.scalar(1.75))))
			}},
			recipe{name: name + " with a constant tensor", build: func(d *draft) *gorgonia.Node {
				r, c := d.wide(), d.wide()
				k := gorgonia.NewConstant(d.tensor(d.positive, r, c), gorgonia.WithName("k"))
				return d.must(f(d.of(d.positive, r, c), k))
			}})
	}
	return recipes
}

func broadcasts() (recipes []recipe) {
	type fn = func(a, b *gorgonia.Node, left, right []byte) (*gorgonia.Node, error)
	for name, f := range map[string]fn{"add": gorgonia.BroadcastAdd, "sub": gorgonia.BroadcastSub,
		"product": gorgonia.BroadcastHadamardProd, "quotient": gorgonia.BroadcastHadamardDiv} {
		recipes = append(recipes,
			recipe{name: "broadcast " + name + " of a row", build: func(d *draft) *gorgonia.Node {
				r, c := d.wide(), d.dim()
				return d.must(f(d.in(r, c), d.of(d.positive, c), nil, []byte{0}))
			}},
			recipe{name: "broadcast " + name + " of a column", build: func(d *draft) *gorgonia.Node {
				r, c := d.dim(), d.wide()
				return d.must(f(d.in(r, c), d.of(d.positive, r), nil, []byte{1}))
			}},
			recipe{name: "broadcast " + name + " of a column on the left", build: func(d *draft) *gorgonia.Node {
				r, c := d.wide(), d.wide()
				return d.must(f(d.in(r, 1), d.of(d.positive, r, c), []byte{1}, nil))
			}},
			recipe{name: "broadcast " + name + " of both", build: func(d *draft) *gorgonia.Node {
				r, c := d.wide(), d.wide()
				return d.must(f(d.in(r, 1), d.of(d.positive, 1, c), []byte{1}, []byte{0}))
			}},
			recipe{name: "broadcast " + name + " of two axes", build: func(d *draft) *gorgonia.Node {
				b, c, h, w := d.wide(), d.wide(), d.wide(), d.wide()
				return d.must(f(d.in(b, c, h, w), d.of(d.positive, 1, c, 1, 1), nil, []byte{0, 2, 3}))
			}})
	}
	return recipes
}

func reductions() (recipes []recipe) {
	type fn = func(a *gorgonia.Node, along ...int) (*gorgonia.Node, error)
	for name, f := range map[string]fn{"sum": gorgonia.Sum, "mean": gorgonia.Mean, "max": gorgonia.Max} {
		op := kernels.ByName(name)
		recipes = append(recipes,
			recipe{name: name + " of all", op: op, build: func(d *draft) *gorgonia.Node { return d.must(f(d.in(d.wide(), d.wide(), d.dim()))) }},
			recipe{name: name + " of a vector", op: op, build: func(d *draft) *gorgonia.Node { return d.must(f(d.in(d.wide()))) }},
			recipe{name: name + " along 0", op: op, build: func(d *draft) *gorgonia.Node { return d.must(f(d.in(d.wide(), d.wide()), 0)) }},
			recipe{name: name + " along 1", op: op, build: func(d *draft) *gorgonia.Node { return d.must(f(d.in(d.wide(), d.wide()), 1)) }},
			recipe{name: name + " along 1 of 3", op: op, build: func(d *draft) *gorgonia.Node {
				return d.must(f(d.in(d.wide(), d.wide(), d.wide()), 1))
			}})
	}
	for p := 1; p <= 3; p++ {
		recipes = append(recipes, recipe{name: "norm", build: func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.Norm(d.of(d.positive, d.wide(), d.wide()), 1, p))
		}})
	}
	return recipes
}

func products() []recipe {
	mm := kernels.MatMul
	return []recipe{
		{"matmul", func(d *draft) *gorgonia.Node {
			k := d.dim()
			return d.must(gorgonia.Mul(d.in(d.wide(), k), d.in(k, d.wide())))
		}, mm},
		{"matrix and vector", func(d *draft) *gorgonia.Node {
			k := d.wide()
			return d.must(gorgonia.Mul(d.in(d.wide(), k), d.in(k)))
		}, mm},
		{"vector and matrix", func(d *draft) *gorgonia.Node {
			k := d.wide()
			return d.must(gorgonia.Mul(d.in(k), d.in(k, d.wide())))
		}, mm},
		{"vectors", func(d *draft) *gorgonia.Node {
			k := d.wide()
			return d.must(gorgonia.Mul(d.in(k), d.in(k)))
		}, mm},
		{"outer product", func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.OuterProd(d.in(d.wide()), d.in(d.wide())))
		}, mm},
		{"batched matmul", func(d *draft) *gorgonia.Node {
			b, k := d.wide(), d.wide()
			return d.must(gorgonia.BatchedMatMul(d.in(b, d.wide(), k), d.in(b, k, d.wide())))
		}, mm},
		{"batched matmul, left transposed", func(d *draft) *gorgonia.Node {
			b, k := d.wide(), d.wide()
			return d.must(gorgonia.BatchedMatMul(d.in(b, k, d.wide()), d.in(b, k, d.wide()), true))
		}, mm},
		{"batched matmul, right transposed", func(d *draft) *gorgonia.Node {
			b, k := d.wide(), d.wide()
			return d.must(gorgonia.BatchedMatMul(d.in(b, d.wide(), k), d.in(b, d.wide(), k), false, true))
		}, mm},
		{"tensordot over the last and the first", func(d *draft) *gorgonia.Node {
			k := d.wide()
			return d.must(gorgonia.Tensordot([]int{2}, []int{0}, d.in(d.wide(), d.wide(), k), d.in(k, d.wide())))
		}, mm},
		{"tensordot over the middle", func(d *draft) *gorgonia.Node {
			k := d.wide()
			return d.must(gorgonia.Tensordot([]int{1}, []int{1}, d.in(d.wide(), k, d.wide()), d.in(d.wide(), k)))
		}, mm},
		{"tensordot over two axes", func(d *draft) *gorgonia.Node {
			k, l := d.wide(), d.wide()
			return d.must(gorgonia.Tensordot([]int{0, 2}, []int{1, 0}, d.in(k, d.wide(), l), d.in(l, k, d.wide())))
		}, mm},
		{"dense layer", func(d *draft) *gorgonia.Node {
			b, i, o := d.wide(), d.wide(), d.wide()
			xw := d.must(gorgonia.Mul(d.in(b, i), d.in(i, o)))
			return d.must(gorgonia.Rectify(d.must(gorgonia.BroadcastAdd(xw, d.in(o), nil, []byte{0}))))
		}, kernels.ReLU},
	}
}

func shapes() []recipe {
	return []recipe{
		{"reshape", func(d *draft) *gorgonia.Node {
			a, b, c := d.dim(), d.dim(), d.dim()
			return d.must(gorgonia.Reshape(d.in(a, b, c), tensor.Shape{c, a * b}))
		}, nil},
		{"transpose", func(d *draft) *gorgonia.Node { return d.must(gorgonia.Transpose(d.in(d.wide(), d.wide()))) }, kernels.Transpose},
		{"transpose of 4", func(d *draft) *gorgonia.Node {
			perms := [][]int{{0, 3, 1, 2}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1}, {0, 2, 3, 1}}
			return d.must(gorgonia.Transpose(d.in(d.wide(), d.wide(), d.wide(), d.wide()), perms[d.r.IntN(len(perms))]...))
		}, kernels.Transpose},
		{"slice of rows", func(d *draft) *gorgonia.Node {
			n := d.wide() + 1
			a := d.r.IntN(n - 1)
			return d.must(gorgonia.Slice(d.in(n, d.wide()), gorgonia.S(a, a+1+d.r.IntN(n-a))))
		}, nil},
		{"slice of columns", func(d *draft) *gorgonia.Node {
			n := d.wide() + 1
			a := d.r.IntN(n - 1)
			return d.must(gorgonia.Slice(d.in(d.wide(), n), nil, gorgonia.S(a, a+1+d.r.IntN(n-a))))
		}, nil},
		{"one row", func(d *draft) *gorgonia.Node {
			n := d.wide()
			return d.must(gorgonia.Slice(d.in(n, d.wide(), d.wide()), gorgonia.S(d.r.IntN(n))))
		}, kernels.Slice},
		{"one element", func(d *draft) *gorgonia.Node {
			n, m := d.wide(), d.wide()
			return d.must(gorgonia.Slice(d.in(n, m), gorgonia.S(d.r.IntN(n)), gorgonia.S(d.r.IntN(m))))
		}, kernels.Slice},
		{"slice with a step", func(d *draft) *gorgonia.Node {
			n := 2 * (1 + d.wide())
			return d.must(gorgonia.Slice(d.in(n, d.wide()), gorgonia.S(0, n, 2)))
		}, kernels.Slice},
		{"concat of rows", func(d *draft) *gorgonia.Node {
			c := d.wide()
			return d.must(gorgonia.Concat(0, d.in(d.wide(), c), d.in(d.wide(), c), d.in(d.wide(), c)))
		}, kernels.Concat},
		{"concat of columns", func(d *draft) *gorgonia.Node {
			r := d.wide()
			return d.must(gorgonia.Concat(1, d.in(r, d.wide()), d.in(r, d.wide())))
		}, kernels.Concat},
		{"repeat of rows", func(d *draft) *gorgonia.Node {
			r, c := d.wide(), d.wide()
			_, y, err := gorgonia.Broadcast(d.in(r, c), d.in(r, c), gorgonia.NewBroadcastPattern(nil, []byte{0}))
			return d.must(y, err)
		}, kernels.Broadcast},
		{"repeat of columns", func(d *draft) *gorgonia.Node {
			r, c := d.wide(), d.wide()
			_, y, err := gorgonia.Broadcast(d.in(r, c), d.in(r, c), gorgonia.NewBroadcastPattern(nil, []byte{1}))
			return d.must(y, err)
		}, kernels.Broadcast},
		{"repeat of a column", func(d *draft) *gorgonia.Node {
			r, c := d.wide(), d.wide()
			_, y, err := gorgonia.Broadcast(d.in(r, c), d.in(r), gorgonia.NewBroadcastPattern(nil, []byte{1}))
			return d.must(y, err)
		}, kernels.Broadcast},
		{"global average pooling", func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.GlobalAveragePool2D(d.in(d.dim(), d.dim(), d.wide(), d.wide())))
		}, kernels.Mean},
	}
}

func losses() []recipe {
	soft := func(d *draft) (logp, y *gorgonia.Node) {
		r, c := d.wide(), d.wide()
		return d.must(gorgonia.LogSoftMax(d.in(r, c))), d.of(d.positive, r, c)
	}
	return []recipe{
		{"softmax", func(d *draft) *gorgonia.Node { return d.must(gorgonia.SoftMax(d.in(d.wide(), d.wide()))) }, kernels.Softmax},
		{"softmax along 0", func(d *draft) *gorgonia.Node { return d.must(gorgonia.SoftMax(d.in(d.wide(), d.wide()), 0)) }, kernels.Softmax},
		{"softmax of 3 along 1", func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.SoftMax(d.in(d.wide(), d.wide(), d.wide()), 1))
		}, kernels.Softmax},
		{"softmax of a vector", func(d *draft) *gorgonia.Node { return d.must(gorgonia.SoftMax(d.in(d.wide()))) }, kernels.Softmax},
		{"softmax of a column", func(d *draft) *gorgonia.Node { return d.must(gorgonia.SoftMax(d.in(d.wide(), 1))) }, kernels.Softmax},
		{"log softmax", func(d *draft) *gorgonia.Node { return d.must(gorgonia.LogSoftMax(d.in(d.wide(), d.wide()))) }, kernels.LogSoftmax},
		{"log of softmax", func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.Log(d.must(gorgonia.SoftMax(d.in(d.wide(), d.wide())))))
		}, kernels.LogSoftmax},
		{"leaky relu", func(d *draft) *gorgonia.Node { return d.must(gorgonia.LeakyRelu(d.in(d.dim(), d.dim()), 0.1)) }, kernels.LeakyReLU},
		{"leaky relu with a negative slope", func(d *draft) *gorgonia.Node {
			return d.must(gorgonia.LeakyRelu(d.in(d.dim(), d.dim()), -0.5))
		}, kernels.Less},
		{"-Σ log p ⊙ y", func(d *draft) *gorgonia.Node {
			p, y := soft(d)
			return d.must(gorgonia.Neg(d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(p, y))))))
		}, kernels.CrossEntropyDense},
		{"Σ y ⊙ log p", func(d *draft) *gorgonia.Node {
			p, y := soft(d)
			return d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(y, p))))
		}, kernels.CrossEntropyDense},
		{"-mean log p ⊙ y", func(d *draft) *gorgonia.Node {
			p, y := soft(d)
			return d.must(gorgonia.Neg(d.must(gorgonia.Mean(d.must(gorgonia.HadamardProd(p, y))))))
		}, kernels.CrossEntropyDense},
		{"mean log p ⊙ y", func(d *draft) *gorgonia.Node {
			p, y := soft(d)
			return d.must(gorgonia.Mean(d.must(gorgonia.HadamardProd(p, y))))
		}, kernels.CrossEntropyDense},
		{"mean of Σ log p ⊙ y along rows", func(d *draft) *gorgonia.Node {
			p, y := soft(d)
			rows := d.must(gorgonia.Neg(d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(p, y)), 1))))
			return d.must(gorgonia.Mean(rows))
		}, kernels.CrossEntropyDense},
		{"entropy, whose target has a gradient", func(d *draft) *gorgonia.Node {
			x := d.in(d.wide(), d.wide())
			p := d.must(gorgonia.LogSoftMax(x))
			return d.must(gorgonia.Neg(d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(p, d.must(gorgonia.Exp(p))))))))
		}, kernels.CrossEntropyDense},
		{"mean squared error", func(d *draft) *gorgonia.Node {
			r, c := d.wide(), d.dim()
			return d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(d.in(r, c), d.in(r, c)))))))
		}, kernels.Mean},
		{"binary cross entropy", func(d *draft) *gorgonia.Node {
			n := d.wide()
			p := d.must(gorgonia.Sigmoid(d.in(n)))
			return d.must(gorgonia.Mean(d.must(gorgonia.BinaryXent(p, d.of(d.r.Float64, n)))))
		}, kernels.Mean},
	}
}

// recipes are the graphs that are compared with Gorgonia's results, except those that fall back.
func recipes() [][]recipe {
	return [][]recipe{unaries(), binaries(), broadcasts(), reductions(), products(), shapes(), losses(), gradients(), fromLayers(), rows(), images(), imageGradients()}
}

func TestLoweredGraphsComputeTheSameAsGorgonia(t *testing.T) {
	log.SetOutput(io.Discard) // Gorgonia's group normalization prints its gradient
	defer log.SetOutput(os.Stderr)
	for _, some := range recipes() {
		runRecipes(t, some)
	}
}
