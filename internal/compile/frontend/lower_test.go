package frontend

import (
	"io"
	"log"
	"os"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
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
		recipes = append(recipes, recipe{name: name, build: func(d *graphtest.Draft) *gorgonia.Node { return d.Must(f(d.In(d.Dim(), d.Dim()))) }},
			recipe{name: name + " of a scalar", build: func(d *graphtest.Draft) *gorgonia.Node { return d.Must(f(d.In())) }})
	}
	for name, f := range map[string]fn{"log": gorgonia.Log, "log2": gorgonia.Log2, "sqrt": gorgonia.Sqrt, "inverse": gorgonia.Inverse,
		"inverse square root": gorgonia.InverseSqrt, "log1p": gorgonia.Log1p} {
		recipes = append(recipes, recipe{name: name, build: func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(f(d.Of(d.Positive, d.Dim(), d.Dim(), d.Dim())))
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
			recipe{name: name, build: func(d *graphtest.Draft) *gorgonia.Node {
				dims := []int{d.Dim(), d.Dim()}
				return d.Must(f(d.Of(d.Positive, dims...), d.Of(d.Positive, dims...)))
			}},
			recipe{name: name + " with a scalar", build: func(d *graphtest.Draft) *gorgonia.Node {
				return d.Must(f(d.Of(d.Positive, d.Dim(), d.Wide()), d.Of(d.Positive)))
			}},
			recipe{name: name + " of a scalar and a tensor", build: func(d *graphtest.Draft) *gorgonia.Node {
				return d.Must(f(d.Of(d.Positive), d.Of(d.Positive, d.Wide())))
			}},
			recipe{name: name + " of scalars", build: func(d *graphtest.Draft) *gorgonia.Node {
				return d.Must(f(d.Of(d.Positive), d.Of(d.Positive)))
			}},
			recipe{name: name + " with a constant", build: func(d *graphtest.Draft) *gorgonia.Node {
				return d.Must(f(d.Of(d.Positive, d.Dim(), d.Wide()), gorgonia.NewConstant(d.Scalar(1.75))))
			}},
			recipe{name: name + " with a constant tensor", build: func(d *graphtest.Draft) *gorgonia.Node {
				r, c := d.Wide(), d.Wide()
				k := gorgonia.NewConstant(d.Tensor(d.Positive, r, c), gorgonia.WithName("k"))
				return d.Must(f(d.Of(d.Positive, r, c), k))
			}})
	}
	// Gorgonia runs these on tensors of one shape only.
	between := func(name string, f fn, op *kernels.Op) recipe {
		return recipe{name, func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Wide()
			return d.Must(f(d.In(r, c), d.In(r, c)))
		}, op}
	}
	recipes = append(recipes, between("larger", gorgonia.MaxBetween, kernels.Maximum), between("smaller", gorgonia.MinBetween, kernels.Minimum))
	return recipes
}

func broadcasts() (recipes []recipe) {
	type fn = func(a, b *gorgonia.Node, left, right []byte) (*gorgonia.Node, error)
	for name, f := range map[string]fn{"add": gorgonia.BroadcastAdd, "sub": gorgonia.BroadcastSub,
		"product": gorgonia.BroadcastHadamardProd, "quotient": gorgonia.BroadcastHadamardDiv} {
		recipes = append(recipes,
			recipe{name: "broadcast " + name + " of a row", build: func(d *graphtest.Draft) *gorgonia.Node {
				r, c := d.Wide(), d.Dim()
				return d.Must(f(d.In(r, c), d.Of(d.Positive, c), nil, []byte{0}))
			}},
			recipe{name: "broadcast " + name + " of a column", build: func(d *graphtest.Draft) *gorgonia.Node {
				r, c := d.Dim(), d.Wide()
				return d.Must(f(d.In(r, c), d.Of(d.Positive, r), nil, []byte{1}))
			}},
			recipe{name: "broadcast " + name + " of a column on the left", build: func(d *graphtest.Draft) *gorgonia.Node {
				r, c := d.Wide(), d.Wide()
				return d.Must(f(d.In(r, 1), d.Of(d.Positive, r, c), []byte{1}, nil))
			}},
			recipe{name: "broadcast " + name + " of both", build: func(d *graphtest.Draft) *gorgonia.Node {
				r, c := d.Wide(), d.Wide()
				return d.Must(f(d.In(r, 1), d.Of(d.Positive, 1, c), []byte{1}, []byte{0}))
			}},
			recipe{name: "broadcast " + name + " of two axes", build: func(d *graphtest.Draft) *gorgonia.Node {
				b, c, h, w := d.Wide(), d.Wide(), d.Wide(), d.Wide()
				return d.Must(f(d.In(b, c, h, w), d.Of(d.Positive, 1, c, 1, 1), nil, []byte{0, 2, 3}))
			}})
	}
	return recipes
}

func reductions() (recipes []recipe) {
	type fn = func(a *gorgonia.Node, along ...int) (*gorgonia.Node, error)
	for name, f := range map[string]fn{"sum": gorgonia.Sum, "mean": gorgonia.Mean, "max": gorgonia.Max} {
		op := kernels.ByName(name)
		recipes = append(recipes,
			recipe{name: name + " of all", op: op, build: func(d *graphtest.Draft) *gorgonia.Node { return d.Must(f(d.In(d.Wide(), d.Wide(), d.Dim()))) }},
			recipe{name: name + " of a vector", op: op, build: func(d *graphtest.Draft) *gorgonia.Node { return d.Must(f(d.In(d.Wide()))) }},
			recipe{name: name + " along 0", op: op, build: func(d *graphtest.Draft) *gorgonia.Node { return d.Must(f(d.In(d.Wide(), d.Wide()), 0)) }},
			recipe{name: name + " along 1", op: op, build: func(d *graphtest.Draft) *gorgonia.Node { return d.Must(f(d.In(d.Wide(), d.Wide()), 1)) }},
			recipe{name: name + " along 1 of 3", op: op, build: func(d *graphtest.Draft) *gorgonia.Node {
				return d.Must(f(d.In(d.Wide(), d.Wide(), d.Wide()), 1))
			}})
	}
	for p := 1; p <= 3; p++ {
		recipes = append(recipes, recipe{name: "norm", build: func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.Norm(d.Of(d.Positive, d.Wide(), d.Wide()), 1, p))
		}})
	}
	return recipes
}

func products() []recipe {
	mm := kernels.MatMul
	return []recipe{
		{"matmul", func(d *graphtest.Draft) *gorgonia.Node {
			k := d.Dim()
			return d.Must(gorgonia.Mul(d.In(d.Wide(), k), d.In(k, d.Wide())))
		}, mm},
		{"matrix and vector", func(d *graphtest.Draft) *gorgonia.Node {
			k := d.Wide()
			return d.Must(gorgonia.Mul(d.In(d.Wide(), k), d.In(k)))
		}, mm},
		{"vector and matrix", func(d *graphtest.Draft) *gorgonia.Node {
			k := d.Wide()
			return d.Must(gorgonia.Mul(d.In(k), d.In(k, d.Wide())))
		}, mm},
		{"vectors", func(d *graphtest.Draft) *gorgonia.Node {
			k := d.Wide()
			return d.Must(gorgonia.Mul(d.In(k), d.In(k)))
		}, mm},
		{"outer product", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.OuterProd(d.In(d.Wide()), d.In(d.Wide())))
		}, mm},
		{"batched matmul", func(d *graphtest.Draft) *gorgonia.Node {
			b, k := d.Wide(), d.Wide()
			return d.Must(gorgonia.BatchedMatMul(d.In(b, d.Wide(), k), d.In(b, k, d.Wide())))
		}, mm},
		{"batched matmul, left transposed", func(d *graphtest.Draft) *gorgonia.Node {
			b, k := d.Wide(), d.Wide()
			return d.Must(gorgonia.BatchedMatMul(d.In(b, k, d.Wide()), d.In(b, k, d.Wide()), true))
		}, mm},
		{"batched matmul, right transposed", func(d *graphtest.Draft) *gorgonia.Node {
			b, k := d.Wide(), d.Wide()
			return d.Must(gorgonia.BatchedMatMul(d.In(b, d.Wide(), k), d.In(b, d.Wide(), k), false, true))
		}, mm},
		{"tensordot over the last and the first", func(d *graphtest.Draft) *gorgonia.Node {
			k := d.Wide()
			return d.Must(gorgonia.Tensordot([]int{2}, []int{0}, d.In(d.Wide(), d.Wide(), k), d.In(k, d.Wide())))
		}, mm},
		{"tensordot over the middle", func(d *graphtest.Draft) *gorgonia.Node {
			k := d.Wide()
			return d.Must(gorgonia.Tensordot([]int{1}, []int{1}, d.In(d.Wide(), k, d.Wide()), d.In(d.Wide(), k)))
		}, mm},
		{"tensordot over two axes", func(d *graphtest.Draft) *gorgonia.Node {
			k, l := d.Wide(), d.Wide()
			return d.Must(gorgonia.Tensordot([]int{0, 2}, []int{1, 0}, d.In(k, d.Wide(), l), d.In(l, k, d.Wide())))
		}, mm},
		{"dense layer", func(d *graphtest.Draft) *gorgonia.Node {
			b, i, o := d.Wide(), d.Wide(), d.Wide()
			xw := d.Must(gorgonia.Mul(d.In(b, i), d.In(i, o)))
			return d.Must(gorgonia.Rectify(d.Must(gorgonia.BroadcastAdd(xw, d.In(o), nil, []byte{0}))))
		}, kernels.ReLU},
	}
}

func shapes() []recipe {
	return []recipe{
		{"reshape", func(d *graphtest.Draft) *gorgonia.Node {
			a, b, c := d.Dim(), d.Dim(), d.Dim()
			return d.Must(gorgonia.Reshape(d.In(a, b, c), tensor.Shape{c, a * b}))
		}, nil},
		{"transpose", func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.Transpose(d.In(d.Wide(), d.Wide()))) }, kernels.Transpose},
		{"transpose of 4", func(d *graphtest.Draft) *gorgonia.Node {
			perms := [][]int{{0, 3, 1, 2}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1}, {0, 2, 3, 1}}
			return d.Must(gorgonia.Transpose(d.In(d.Wide(), d.Wide(), d.Wide(), d.Wide()), perms[d.Rand.IntN(len(perms))]...))
		}, kernels.Transpose},
		{"slice of rows", func(d *graphtest.Draft) *gorgonia.Node {
			n := d.Wide() + 1
			a := d.Rand.IntN(n - 1)
			return d.Must(gorgonia.Slice(d.In(n, d.Wide()), gorgonia.S(a, a+1+d.Rand.IntN(n-a))))
		}, nil},
		{"slice of columns", func(d *graphtest.Draft) *gorgonia.Node {
			n := d.Wide() + 1
			a := d.Rand.IntN(n - 1)
			return d.Must(gorgonia.Slice(d.In(d.Wide(), n), nil, gorgonia.S(a, a+1+d.Rand.IntN(n-a))))
		}, nil},
		{"one row", func(d *graphtest.Draft) *gorgonia.Node {
			n := d.Wide()
			return d.Must(gorgonia.Slice(d.In(n, d.Wide(), d.Wide()), gorgonia.S(d.Rand.IntN(n))))
		}, kernels.Slice},
		{"one element", func(d *graphtest.Draft) *gorgonia.Node {
			n, m := d.Wide(), d.Wide()
			return d.Must(gorgonia.Slice(d.In(n, m), gorgonia.S(d.Rand.IntN(n)), gorgonia.S(d.Rand.IntN(m))))
		}, kernels.Slice},
		{"slice with a step", func(d *graphtest.Draft) *gorgonia.Node {
			n := 2 * (1 + d.Wide())
			return d.Must(gorgonia.Slice(d.In(n, d.Wide()), gorgonia.S(0, n, 2)))
		}, kernels.Slice},
		{"concat of rows", func(d *graphtest.Draft) *gorgonia.Node {
			c := d.Wide()
			return d.Must(gorgonia.Concat(0, d.In(d.Wide(), c), d.In(d.Wide(), c), d.In(d.Wide(), c)))
		}, kernels.Concat},
		{"concat of columns", func(d *graphtest.Draft) *gorgonia.Node {
			r := d.Wide()
			return d.Must(gorgonia.Concat(1, d.In(r, d.Wide()), d.In(r, d.Wide())))
		}, kernels.Concat},
		{"repeat of rows", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Wide()
			_, y, err := gorgonia.Broadcast(d.In(r, c), d.In(r, c), gorgonia.NewBroadcastPattern(nil, []byte{0}))
			return d.Must(y, err)
		}, kernels.Broadcast},
		{"repeat of columns", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Wide()
			_, y, err := gorgonia.Broadcast(d.In(r, c), d.In(r, c), gorgonia.NewBroadcastPattern(nil, []byte{1}))
			return d.Must(y, err)
		}, kernels.Broadcast},
		{"repeat of a column", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Wide()
			_, y, err := gorgonia.Broadcast(d.In(r, c), d.In(r), gorgonia.NewBroadcastPattern(nil, []byte{1}))
			return d.Must(y, err)
		}, kernels.Broadcast},
		{"global average pooling", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.GlobalAveragePool2D(d.In(d.Dim(), d.Dim(), d.Wide(), d.Wide())))
		}, kernels.Mean},
	}
}

func losses() []recipe {
	soft := func(d *graphtest.Draft) (logp, y *gorgonia.Node) {
		r, c := d.Wide(), d.Wide()
		return d.Must(gorgonia.LogSoftMax(d.In(r, c))), d.Of(d.Positive, r, c)
	}
	return []recipe{
		{"softmax", func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.SoftMax(d.In(d.Wide(), d.Wide()))) }, kernels.Softmax},
		{"softmax along 0", func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.SoftMax(d.In(d.Wide(), d.Wide()), 0)) }, kernels.Softmax},
		{"softmax of 3 along 1", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.SoftMax(d.In(d.Wide(), d.Wide(), d.Wide()), 1))
		}, kernels.Softmax},
		{"softmax of a vector", func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.SoftMax(d.In(d.Wide()))) }, kernels.Softmax},
		{"softmax of a column", func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.SoftMax(d.In(d.Wide(), 1))) }, kernels.Softmax},
		{"log softmax", func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.LogSoftMax(d.In(d.Wide(), d.Wide()))) }, kernels.LogSoftmax},
		{"log of softmax", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.Log(d.Must(gorgonia.SoftMax(d.In(d.Wide(), d.Wide())))))
		}, kernels.LogSoftmax},
		{"leaky relu", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.LeakyRelu(d.In(d.Dim(), d.Dim()), 0.1))
		}, kernels.LeakyReLU},
		{"leaky relu with a negative slope", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.LeakyRelu(d.In(d.Dim(), d.Dim()), -0.5))
		}, kernels.Less},
		{"-Σ log p ⊙ y", func(d *graphtest.Draft) *gorgonia.Node {
			p, y := soft(d)
			return d.Must(gorgonia.Neg(d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(p, y))))))
		}, kernels.CrossEntropyDense},
		{"Σ y ⊙ log p", func(d *graphtest.Draft) *gorgonia.Node {
			p, y := soft(d)
			return d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(y, p))))
		}, kernels.CrossEntropyDense},
		{"-mean log p ⊙ y", func(d *graphtest.Draft) *gorgonia.Node {
			p, y := soft(d)
			return d.Must(gorgonia.Neg(d.Must(gorgonia.Mean(d.Must(gorgonia.HadamardProd(p, y))))))
		}, kernels.CrossEntropyDense},
		{"mean log p ⊙ y", func(d *graphtest.Draft) *gorgonia.Node {
			p, y := soft(d)
			return d.Must(gorgonia.Mean(d.Must(gorgonia.HadamardProd(p, y))))
		}, kernels.CrossEntropyDense},
		{"mean of Σ log p ⊙ y along rows", func(d *graphtest.Draft) *gorgonia.Node {
			p, y := soft(d)
			rows := d.Must(gorgonia.Neg(d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(p, y)), 1))))
			return d.Must(gorgonia.Mean(rows))
		}, kernels.CrossEntropyDense},
		{"entropy, whose target has a gradient", func(d *graphtest.Draft) *gorgonia.Node {
			x := d.In(d.Wide(), d.Wide())
			p := d.Must(gorgonia.LogSoftMax(x))
			return d.Must(gorgonia.Neg(d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(p, d.Must(gorgonia.Exp(p))))))))
		}, kernels.CrossEntropyDense},
		{"mean squared error", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Dim()
			return d.Must(gorgonia.Mean(d.Must(gorgonia.Square(d.Must(gorgonia.Sub(d.In(r, c), d.In(r, c)))))))
		}, kernels.Mean},
		{"binary cross entropy", func(d *graphtest.Draft) *gorgonia.Node {
			n := d.Wide()
			p := d.Must(gorgonia.Sigmoid(d.In(n)))
			return d.Must(gorgonia.Mean(d.Must(gorgonia.BinaryXent(p, d.Of(d.Rand.Float64, n)))))
		}, kernels.Mean},
	}
}

// recipes are the graphs that are compared with Gorgonia's results, except those that fall back.
func recipes() [][]recipe {
	return [][]recipe{unaries(), binaries(), broadcasts(), reductions(), products(), shapes(), losses(), gradients(), fromLayers(), rows(), images(), imageGradients(), integers()}
}

func TestLoweredGraphsComputeTheSameAsGorgonia(t *testing.T) {
	log.SetOutput(io.Discard) // Gorgonia's group normalization prints its gradient
	defer log.SetOutput(os.Stderr)
	for _, some := range recipes() {
		runRecipes(t, some)
	}
}
