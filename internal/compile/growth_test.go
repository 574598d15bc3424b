package compile

import (
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// growths are the operations of random graphs.
func growths() []growth {
	return slices.Concat(unaryGrowths(), binaryGrowths(), productGrowths(), shapeGrowths(), imageGrowths())
}

func unaryGrowths() (ops []growth) {
	type fn = func(*gorgonia.Node) (*gorgonia.Node, error)
	add := func(name string, wrong bool, limit float64, bound func(float64) float64, f fn) {
		ops = append(ops, growth{name, wrong, func(g *grower) *gorgonia.Node {
			x := g.any(limit)
			return g.use(bound(g.bound[x]), x, g.Must(f(x)))
		}})
	}
	one := func(float64) float64 { return 1 }
	same := func(b float64) float64 { return b }
	add("tanh", false, 30, one, gorgonia.Tanh)
	add("sigmoid", false, 30, one, gorgonia.Sigmoid)
	add("relu", false, 30, same, gorgonia.Rectify)
	add("leaky relu", false, 30, same, func(x *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.LeakyRelu(x, 0.1) })
	add("neg", false, 30, same, gorgonia.Neg)
	add("abs", false, 30, same, gorgonia.Abs)
	add("square", false, 3, func(b float64) float64 { return b * b }, gorgonia.Square)
	add("cube", false, 2, func(b float64) float64 { return b * b * b }, gorgonia.Cube)
	add("exp", false, 1.5, func(float64) float64 { return 4.5 }, gorgonia.Exp)
	add("softplus", false, 10, func(b float64) float64 { return b + 1 }, gorgonia.Softplus)
	add("sin", false, 10, one, gorgonia.Sin)
	add("cos", false, 10, one, gorgonia.Cos)
	positive := func(name string, wrong bool, f fn) {
		ops = append(ops, growth{name, wrong, func(g *grower) *gorgonia.Node {
			x := g.any(1)
			y := g.Must(gorgonia.Exp(x)) // from 0.36 to 2.8
			return g.use(3, x, g.Must(f(y)))
		}})
	}
	positive("log", false, gorgonia.Log)
	positive("sqrt", false, gorgonia.Sqrt)
	positive("inverse", false, gorgonia.Inverse)
	positive("log1p", false, gorgonia.Log1p)
	positive("log2", true, gorgonia.Log2)
	positive("inverse square root", true, gorgonia.InverseSqrt)
	return ops
}

func binaryGrowths() (ops []growth) {
	type fn = func(a, b *gorgonia.Node) (*gorgonia.Node, error)
	type wide = func(a, b *gorgonia.Node, left, right []byte) (*gorgonia.Node, error)
	sum := func(a, b float64) float64 { return a + b }
	prod := func(a, b float64) float64 { return a * b }
	for _, op := range []struct {
		name  string
		limit float64
		bound func(a, b float64) float64
		f     fn
		wide  wide
	}{
		{"add", 15, sum, gorgonia.Add, gorgonia.BroadcastAdd},
		{"sub", 15, sum, gorgonia.Sub, gorgonia.BroadcastSub},
		{"product", 5, prod, gorgonia.HadamardProd, gorgonia.BroadcastHadamardProd},
	} {
		pair := func(g *grower, b *gorgonia.Node, a *gorgonia.Node, y *gorgonia.Node) *gorgonia.Node {
			return g.join(op.bound(g.bound[a], g.bound[b]), a, b, y)
		}
		ops = append(ops,
			growth{op.name, false, func(g *grower) *gorgonia.Node {
				a := g.any(op.limit)
				b := g.tame(g.shaped(a.Shape()...), op.limit)
				return pair(g, b, a, g.Must(op.f(a, b)))
			}},
			growth{op.name + " with a scalar", false, func(g *grower) *gorgonia.Node {
				a, b := g.any(op.limit), g.tame(g.dims(0), op.limit)
				return pair(g, b, a, g.Must(op.f(a, b)))
			}},
			growth{op.name + " of a scalar", false, func(g *grower) *gorgonia.Node {
				a, b := g.any(op.limit), g.tame(g.dims(0), op.limit)
				return pair(g, b, a, g.Must(op.f(b, a)))
			}},
			growth{op.name + " with a constant", false, func(g *grower) *gorgonia.Node {
				a := g.any(op.limit)
				return g.use(op.bound(g.bound[a], 1.75), a, g.Must(op.f(a, gorgonia.NewConstant(g.Scalar(1.75)))))
			}},
			growth{op.name + " of a constant", false, func(g *grower) *gorgonia.Node {
				a := g.any(op.limit)
				return g.use(op.bound(g.bound[a], 1), a, g.Must(op.f(gorgonia.NewConstant(g.Scalar(1)), a)))
			}},
			growth{"broadcast " + op.name + " of a row", false, func(g *grower) *gorgonia.Node {
				a := g.tame(g.dims(2), op.limit)
				b := g.tame(g.shaped(a.Shape()[1]), op.limit)
				return pair(g, b, a, g.Must(op.wide(a, b, nil, []byte{0})))
			}},
			growth{"broadcast " + op.name + " of a column", false, func(g *grower) *gorgonia.Node {
				a := g.tame(g.dims(2), op.limit)
				b := g.tame(g.shaped(a.Shape()[0]), op.limit)
				return pair(g, b, a, g.Must(op.wide(a, b, nil, []byte{1})))
			}})
	}
	return append(ops,
		growth{"quotient", false, func(g *grower) *gorgonia.Node {
			a := g.any(10)
			b := g.tame(g.shaped(a.Shape()...), 1)
			return g.join(3*g.bound[a], a, b, g.Must(gorgonia.HadamardDiv(a, g.Must(gorgonia.Exp(b)))))
		}},
		growth{"where greater", false, func(g *grower) *gorgonia.Node {
			a := g.any(30)
			b := g.shaped(a.Shape()...)
			return g.use(g.bound[a], a, g.Must(gorgonia.HadamardProd(a, g.Must(gorgonia.Gt(a, b, true)))))
		}},
		growth{"repeated operand", false, func(g *grower) *gorgonia.Node {
			a := g.any(5)
			return g.use(g.bound[a]*g.bound[a], a, g.Must(gorgonia.HadamardProd(a, a)))
		}})
}

func productGrowths() []growth {
	inner := func(g *grower, k int, a, b, y *gorgonia.Node) *gorgonia.Node {
		return g.join(float64(k)*g.bound[a]*g.bound[b], a, b, y)
	}
	return []growth{
		{"matmul", false, func(g *grower) *gorgonia.Node {
			a := g.dims(2)
			k := a.Shape()[1]
			b := g.shaped(k, g.Wide())
			return inner(g, k, a, b, g.Must(gorgonia.Mul(a, b)))
		}},
		{"matmul of a transposed matrix", false, func(g *grower) *gorgonia.Node {
			a := g.dims(2)
			k := a.Shape()[0]
			b := g.shaped(k, g.Wide())
			return inner(g, k, a, b, g.Must(gorgonia.Mul(g.Must(gorgonia.Transpose(a)), b)))
		}},
		{"dense", false, func(g *grower) *gorgonia.Node {
			a := g.dims(2)
			k, n := a.Shape()[1], g.Wide()
			w, b := g.shaped(k, n), g.shaped(n)
			y := g.Must(gorgonia.BroadcastAdd(g.Must(gorgonia.Mul(a, w)), b, nil, []byte{0}))
			acts := []func(*gorgonia.Node) (*gorgonia.Node, error){gorgonia.Rectify, gorgonia.Sigmoid, gorgonia.Tanh}
			g.read[b] = true
			return inner(g, k, a, w, g.Must(acts[g.Rand.IntN(len(acts))](y)))
		}},
		{"matrix and vector", false, func(g *grower) *gorgonia.Node {
			a := g.dims(2)
			k := a.Shape()[1]
			b := g.shaped(k)
			return inner(g, k, a, b, g.Must(gorgonia.Mul(a, b)))
		}},
		{"vectors", false, func(g *grower) *gorgonia.Node {
			a := g.dims(1)
			k := a.Shape()[0]
			b := g.shaped(k)
			return inner(g, k, a, b, g.Must(gorgonia.Mul(a, b)))
		}},
		{"outer product", true, func(g *grower) *gorgonia.Node {
			a, b := g.dims(1), g.dims(1)
			return inner(g, 1, a, b, g.Must(gorgonia.OuterProd(a, b)))
		}},
		{"batched matmul", false, func(g *grower) *gorgonia.Node {
			a := g.dims(3)
			s := a.Shape()
			b := g.shaped(s[0], s[2], g.Wide())
			return inner(g, s[2], a, b, g.Must(gorgonia.BatchedMatMul(a, b)))
		}},
		{"batched matmul, right transposed", false, func(g *grower) *gorgonia.Node {
			a := g.dims(3)
			s := a.Shape()
			b := g.shaped(s[0], g.Wide(), s[2])
			return inner(g, s[2], a, b, g.Must(gorgonia.BatchedMatMul(a, b, false, true)))
		}},
		{"tensordot", false, func(g *grower) *gorgonia.Node {
			a := g.dims(3)
			k := a.Shape()[1]
			b := g.shaped(g.Wide(), k)
			return inner(g, k, a, b, g.Must(gorgonia.Tensordot([]int{1}, []int{1}, a, b)))
		}},
	}
}

func shapeGrowths() []growth {
	type reduction = func(a *gorgonia.Node, along ...int) (*gorgonia.Node, error)
	reduce := func(name string, f reduction, scale float64) growth {
		return growth{name, false, func(g *grower) *gorgonia.Node {
			x := g.pick(func(s tensor.Shape) bool { return len(s) > 0 }, func() []int { return g.shape(2) })
			x = g.tame(x, 30)
			if len(x.Shape()) > 1 && g.Rand.IntN(3) > 0 {
				return g.use(g.bound[x]*(1+scale*5), x, g.Must(f(x, g.Rand.IntN(len(x.Shape())))))
			}
			return g.use(g.bound[x]*(1+scale*125), x, g.Must(f(x)))
		}}
	}
	// Gorgonia's machine lets a reshaped value share memory with the one before, and then
	// overwrites that.
	return []growth{
		reduce("sum", gorgonia.Sum, 1), reduce("mean", gorgonia.Mean, 0), reduce("max", gorgonia.Max, 0),
		{"reshape", true, func(g *grower) *gorgonia.Node {
			x := g.pick(func(s tensor.Shape) bool { return len(s) > 0 }, func() []int { return g.shape(2) })
			s := slices.Clone([]int(x.Shape()))
			slices.Reverse(s)
			if len(s) > 1 && g.Rand.IntN(2) == 0 {
				s = append([]int{s[0] * s[1]}, s[2:]...)
			}
			return g.use(g.bound[x], x, g.Must(gorgonia.Reshape(x, s)))
		}},
		{"transpose", false, func(g *grower) *gorgonia.Node {
			x := g.dims(2 + g.Rand.IntN(2))
			return g.use(g.bound[x], x, g.Must(gorgonia.Transpose(x, g.Rand.Perm(len(x.Shape()))...)))
		}},
		{"slice", false, func(g *grower) *gorgonia.Node {
			x := g.dims(1 + g.Rand.IntN(3))
			cuts := make([]tensor.Slice, len(x.Shape()))
			axis := g.Rand.IntN(len(cuts))
			n := x.Shape()[axis]
			a := g.Rand.IntN(n)
			cuts[axis] = gorgonia.S(a, a+1+g.Rand.IntN(n-a))
			return g.use(g.bound[x], x, g.Must(gorgonia.Slice(x, cuts[:axis+1]...)))
		}},
		{"slice with a step", true, func(g *grower) *gorgonia.Node {
			x := g.dims(2) // where it does not come out even Gorgonia has a shape that is not that of its result
			return g.use(g.bound[x], x, g.Must(gorgonia.Slice(x, gorgonia.S(0, x.Shape()[0]&^1, 2))))
		}},
		{"concat", false, func(g *grower) *gorgonia.Node {
			a := g.dims(2)
			axis := g.Rand.IntN(2)
			s := slices.Clone([]int(a.Shape()))
			s[axis] = g.Wide()
			b := g.shaped(s...)
			return g.join(max(g.bound[a], g.bound[b]), a, b, g.Must(gorgonia.Concat(axis, a, b)))
		}},
		{"softmax", false, func(g *grower) *gorgonia.Node { return g.softmax(gorgonia.SoftMax, 1) }},
		{"log softmax", false, func(g *grower) *gorgonia.Node { return g.softmax(gorgonia.LogSoftMax, 70) }},
	}
}

// imageGrowths are operations on images, with the rectifiers that passes look for.
func imageGrowths() []growth {
	conv := func(g *grower, x *gorgonia.Node) *gorgonia.Node {
		c, k := x.Shape()[1], []int{1 + g.Rand.IntN(3), 1 + g.Rand.IntN(3)}
		pad, dilation := []int{g.Rand.IntN(2), g.Rand.IntN(2)}, []int{1, 1 + g.Rand.IntN(2)}
		for i := range k {
			if x.Shape()[2+i]+2*pad[i] <= dilation[i]*(k[i]-1) {
				return nil
			}
		}
		w := g.shaped(g.Wide(), c, k[0], k[1])
		y := g.Must(gorgonia.Conv2d(x, w, k, pad, []int{1 + g.Rand.IntN(2), 1}, dilation))
		return g.join(float64(c*k[0]*k[1])*g.bound[x]*g.bound[w], x, w, y)
	}
	rectified := func(g *grower, y *gorgonia.Node, bound float64) (*gorgonia.Node, float64) {
		switch g.Rand.IntN(3) {
		case 0:
			return g.Must(gorgonia.Rectify(y)), bound
		case 1:
			return g.Must(gorgonia.LeakyRelu(y, 0.1)), bound
		}
		return g.Must(gorgonia.Tanh(y)), 1
	}
	return []growth{
		{"convolution", false, func(g *grower) *gorgonia.Node { return conv(g, g.dims(4)) }},
		{"convolution with bias and activation", false, func(g *grower) *gorgonia.Node {
			y := conv(g, g.dims(4))
			if y == nil {
				return nil
			}
			b := g.shaped(1, y.Shape()[1], 1, 1)
			sum := g.Must(gorgonia.BroadcastAdd(y, b, nil, []byte{0, 2, 3}))
			z, bound := rectified(g, sum, g.bound[y]+g.bound[b])
			g.read[b] = true
			return g.use(bound, y, z)
		}},
		{"pooling of an activation", true, func(g *grower) *gorgonia.Node { // the tape machine's mask is another after a second run
			x := g.dims(4)
			y, bound := rectified(g, x, g.bound[x])
			k := []int{1 + g.Rand.IntN(2), 1 + g.Rand.IntN(2)}
			return g.use(bound, x, g.Must(gorgonia.MaxPool2D(y, k, []int{0, 0}, []int{1 + g.Rand.IntN(2), 1 + g.Rand.IntN(2)})))
		}},
		{"batch normalization and activation", true, func(g *grower) *gorgonia.Node { // the tape machine reads what its output held before
			x := g.dims(4)
			if x.Shape()[0] == 1 {
				return nil
			}
			c := x.Shape()[1]
			gamma, beta := g.param(1, c, 1, 1), g.param(1, c, 1, 1)
			y, _, _, _, err := gorgonia.BatchNorm(x, gamma, beta, 0.1, 0.1)
			z, bound := rectified(g, g.Must(y, err), 40)
			g.read[gamma], g.read[beta] = true, true
			return g.use(bound, x, z)
		}},
		{"dropout", true, func(g *grower) *gorgonia.Node { // its gradient is wrong
			x := g.any(30)
			return g.use(2*g.bound[x], x, g.Must(gorgonia.Dropout(x, 0.5)))
		}},
	}
}

func (g *grower) softmax(f func(*gorgonia.Node, ...int) (*gorgonia.Node, error), bound float64) *gorgonia.Node {
	x := g.dims(2 + g.Rand.IntN(2))
	if g.soft[x] {
		return nil
	}
	g.soft[x] = true
	return g.use(bound, x, g.Must(f(x, g.Rand.IntN(len(x.Shape())))))
}
