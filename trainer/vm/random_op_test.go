package vm_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
)

// randomOp is an operation of random graphs. pick chooses its operands, nil if there are none.
type randomOp struct {
	pick  func(g *randomGrower) (in, args []int)
	build func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node
}

// plainOps build what some of randomOps build, of operations that a tape machine computes rightly.
var plainOps = map[string]func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node{
	"batch norm": plainBatchNorm,
	"dropout":    func(_ *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node { return in[0] },
}

func randomOpNames() []string { return slices.Sorted(maps.Keys(randomOps)) }

// randomOps are Gorgonia's functions that a tape machine computes and differentiates rightly.
var randomOps = map[string]randomOp{}

func init() {
	maps.Copy(randomOps, randomFunctions())
	maps.Copy(randomOps, randomPairs())
	maps.Copy(randomOps, randomProducts())
	maps.Copy(randomOps, randomShapes())
	maps.Copy(randomOps, randomNorms())
	maps.Copy(randomOps, randomIntegers())
}

// An operation that Gorgonia always refuses would be tested nowhere.
func TestEveryOperationOfRandomGraphsGrows(t *testing.T) {
	for _, name := range randomOpNames() {
		g, grown := &randomGrower{Rand: random(t), eval: name == "dropout"}, false
		for try := 0; try < 50 && !grown; try++ {
			in, args := randomOps[name].pick(g)
			grown = in != nil && g.add(statement{Op: name, In: in, Args: args})
		}
		if !grown {
			t.Errorf("%s never grows", name)
		}
	}
}

func anyShape(tensor.Shape) bool { return true }

// randomFunctions are functions of one tensor. Those that grow fast, or need positive operands, have a
// tanh or an exp before them.
func randomFunctions() map[string]randomOp {
	ops := map[string]randomOp{}
	type fn = func(*gorgonia.Node) (*gorgonia.Node, error)
	add := func(name string, fs ...fn) {
		ops[name] = randomOp{
			func(g *randomGrower) (in, args []int) { return []int{g.any(anyShape, g.wide(), g.wide())}, nil },
			func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
				y := in[0]
				for _, f := range fs {
					y = d.Must(f(y))
				}
				return y
			},
		}
	}
	add("tanh", gorgonia.Tanh)
	add("sigmoid", gorgonia.Sigmoid)
	add("relu", gorgonia.Rectify)
	add("leaky relu", func(x *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.LeakyRelu(x, 0.1) })
	add("neg", gorgonia.Neg)
	add("abs", gorgonia.Abs)
	add("sin", gorgonia.Sin)
	add("cos", gorgonia.Cos)
	add("square", gorgonia.Tanh, gorgonia.Square)
	add("cube", gorgonia.Tanh, gorgonia.Cube)
	add("exp", gorgonia.Tanh, gorgonia.Exp)
	add("softplus", gorgonia.Tanh, gorgonia.Softplus)
	add("log", gorgonia.Tanh, gorgonia.Exp, gorgonia.Cos, gorgonia.Exp, gorgonia.Log)
	add("log1p", gorgonia.Sigmoid, gorgonia.Log1p)
	add("sqrt", gorgonia.Tanh, gorgonia.Exp, gorgonia.Sqrt)
	add("inverse", gorgonia.Tanh, gorgonia.Exp, gorgonia.Inverse)
	return ops
}

// randomPairs combine two tensors element by element.
func randomPairs() map[string]randomOp {
	type fn = func(a, b *gorgonia.Node) (*gorgonia.Node, error)
	type wide = func(a, b *gorgonia.Node, left, right []byte) (*gorgonia.Node, error)
	ops := map[string]randomOp{}
	for name, f := range map[string]fn{"max between": gorgonia.MaxBetween, "min between": gorgonia.MinBetween} {
		ops[name] = randomOp{func(g *randomGrower) (in, args []int) {
			a := g.any(func(s tensor.Shape) bool { return len(s) > 0 }, g.wide(), g.wide())
			return []int{a, g.shaped(g.shapes[a]...)}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node { return d.Must(f(in[0], in[1])) }}
	}
	for name, f := range map[string]fn{"add": gorgonia.Add, "sub": gorgonia.Sub, "product": gorgonia.HadamardProd,
		"quotient": func(a, b *gorgonia.Node) (*gorgonia.Node, error) {
			return gorgonia.HadamardDiv(a, gorgonia.Must(gorgonia.Exp(gorgonia.Must(gorgonia.Tanh(b)))))
		}} {
		build := func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node { return d.Must(f(in[0], in[1])) }
		ops[name] = randomOp{func(g *randomGrower) (in, args []int) {
			a := g.any(anyShape, g.wide(), g.wide())
			return []int{a, g.shaped(g.shapes[a]...)}, nil
		}, build}
		ops[name+" with a scalar"] = randomOp{func(g *randomGrower) (in, args []int) {
			return []int{g.any(anyShape, g.wide(), g.wide()), g.shaped()}, nil
		}, build}
		if name == "quotient" { // Gorgonia does not build a function of a constant
			continue
		}
		ops[name+" with a constant"] = randomOp{func(g *randomGrower) (in, args []int) {
			return []int{g.any(anyShape, g.wide(), g.wide())}, []int{1 + g.IntN(3)}
		}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(f(in[0], gorgonia.NewConstant(d.Scalar(float64(args[0])))))
		}}
	}
	for name, f := range map[string]wide{"broadcast add": gorgonia.BroadcastAdd, "broadcast sub": gorgonia.BroadcastSub, "broadcast product": gorgonia.BroadcastHadamardProd} {
		ops[name] = randomOp{func(g *randomGrower) (in, args []int) {
			a, axis := g.rank(2), g.IntN(2)
			return []int{a, g.shaped(g.shapes[a][1-axis])}, []int{axis}
		}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(f(in[0], in[1], nil, []byte{byte(args[0])}))
		}}
	}
	ops["where greater"] = randomOp{ops["add"].pick, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
		return d.Must(gorgonia.HadamardProd(in[0], d.Must(gorgonia.Gt(in[0], in[1], true))))
	}}
	return ops
}

func randomProducts() map[string]randomOp {
	return map[string]randomOp{
		"matmul": {func(g *randomGrower) (in, args []int) {
			a := g.rank(2)
			return []int{a, g.shaped(g.shapes[a][1], g.wide())}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			return d.Must(gorgonia.Mul(in[0], in[1]))
		}},
		"matmul, left transposed": {func(g *randomGrower) (in, args []int) {
			a := g.rank(2)
			return []int{a, g.shaped(g.shapes[a][0], g.wide())}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			return d.Must(gorgonia.Mul(d.Must(gorgonia.Transpose(in[0])), in[1]))
		}},
		"matrix and vector": {func(g *randomGrower) (in, args []int) {
			a := g.rank(2)
			return []int{a, g.shaped(g.shapes[a][1])}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			return d.Must(gorgonia.Mul(in[0], in[1]))
		}},
		"vectors": {func(g *randomGrower) (in, args []int) {
			a := g.rank(1)
			return []int{a, g.shaped(g.shapes[a]...)}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			return d.Must(gorgonia.Mul(in[0], in[1]))
		}},
		"outer product": {func(g *randomGrower) (in, args []int) { // of two lengths Gorgonia's gradient fails
			a := g.rank(1)
			return []int{a, g.shaped(g.shapes[a]...)}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			return d.Must(gorgonia.OuterProd(in[0], in[1]))
		}},
		"batched matmul": {func(g *randomGrower) (in, args []int) {
			a := g.rank(3)
			s := g.shapes[a]
			return []int{a, g.shaped(s[0], s[2], g.wide())}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			return d.Must(gorgonia.BatchedMatMul(in[0], in[1]))
		}},
		"tensordot": {func(g *randomGrower) (in, args []int) {
			a := g.rank(3)
			return []int{a, g.shaped(g.wide(), g.shapes[a][1])}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			return d.Must(gorgonia.Tensordot([]int{1}, []int{1}, in[0], in[1]))
		}},
		"convolution": {func(g *randomGrower) (in, args []int) {
			x := g.rank(4)
			if min(g.shapes[x][2], g.shapes[x][3]) < 2 { // where no kernel fits, Gorgonia makes up a result
				return nil, nil
			}
			return []int{x, g.shaped(g.wide(), g.shapes[x][1], 2, 2)}, []int{g.IntN(2), 1 + g.IntN(2)}
		}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(gorgonia.Conv2d(in[0], in[1], tensor.Shape{2, 2}, []int{args[0], args[0]}, []int{args[1], args[1]}, []int{1, 1}))
		}},
	}
}

// randomShapes has no reshape: on a tape machine its result shares memory with its operand, which is then
// overwritten while it is still read. See TestReshapedValuesAreNotOverwritten.
func randomShapes() map[string]randomOp {
	type reduction = func(a *gorgonia.Node, along ...int) (*gorgonia.Node, error)
	ops := map[string]randomOp{}
	wide := func(s tensor.Shape) bool { return len(s) > 0 }
	for name, f := range map[string]reduction{"sum": gorgonia.Sum, "mean": gorgonia.Mean, "max": gorgonia.Max} {
		ops[name] = randomOp{func(g *randomGrower) (in, args []int) {
			x := g.any(wide, g.wide(), g.wide())
			if g.IntN(3) > 0 { // Gorgonia is wrong along a third axis that is not the last one
				args = []int{[]int{0, min(1, len(g.shapes[x])-1), len(g.shapes[x]) - 1}[g.IntN(3)]}
			}
			return []int{x}, args
		}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(f(in[0], args...))
		}}
	}
	for name, f := range map[string]reduction{"softmax": gorgonia.SoftMax, "log softmax": gorgonia.LogSoftMax} {
		ops[name] = randomOp{func(g *randomGrower) (in, args []int) {
			x := g.rank(2 + g.IntN(2))
			if g.soft[x] {
				return nil, nil
			}
			if g.soft == nil {
				g.soft = map[int]bool{}
			}
			g.soft[x] = true
			return []int{x}, []int{g.IntN(len(g.shapes[x]))}
		}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(f(in[0], args...))
		}}
	}
	ops["transpose"] = randomOp{func(g *randomGrower) (in, args []int) {
		x := g.rank(2 + g.IntN(2))
		return []int{x}, g.Perm(len(g.shapes[x]))
	}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
		return d.Must(gorgonia.Transpose(in[0], args...))
	}}
	ops["by indices"] = randomOp{func(g *randomGrower) (in, args []int) {
		x, axis := g.rank(1+g.IntN(3)), 0 // along others Gorgonia's gradient panics on another goroutine
		args = []int{axis}
		for range 1 + g.IntN(4) {
			args = append(args, g.IntN(g.shapes[x][axis]))
		}
		return []int{x}, args
	}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
		index := gorgonia.NewVector(d.Graph, tensor.Int, gorgonia.WithShape(len(args)-1), gorgonia.WithName(fmt.Sprintf("index %d", len(d.Graph.AllNodes()))),
			gorgonia.WithValue(tensor.New(tensor.WithBacking(slices.Clone(args[1:])))))
		return d.Must(gorgonia.ByIndices(in[0], index, args[0]))
	}}
	ops["slice"] = randomOp{func(g *randomGrower) (in, args []int) {
		x := g.rank(1 + g.IntN(3))
		axis := g.IntN(len(g.shapes[x]))
		n := g.shapes[x][axis]
		a := g.IntN(n)
		return []int{x}, []int{axis, a, a + 1 + g.IntN(n-a)}
	}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
		cuts := make([]tensor.Slice, args[0]+1)
		cuts[args[0]] = gorgonia.S(args[1], args[2])
		return d.Must(gorgonia.Slice(in[0], cuts...))
	}}
	ops["at"] = randomOp{func(g *randomGrower) (in, args []int) {
		x := g.rank(1 + g.IntN(3))
		axis := g.IntN(len(g.shapes[x]))
		return []int{x}, []int{axis, g.IntN(g.shapes[x][axis])}
	}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
		cuts := make([]tensor.Slice, args[0]+1)
		cuts[args[0]] = gorgonia.S(args[1])
		return d.Must(gorgonia.Slice(in[0], cuts...))
	}}
	ops["max pool"] = randomOp{func(g *randomGrower) (in, args []int) { return []int{g.rank(4)}, []int{1 + g.IntN(2), 1 + g.IntN(2)} },
		func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(gorgonia.MaxPool2D(in[0], tensor.Shape{2, args[0]}, []int{0, 0}, []int{args[1], 1}))
		}}
	ops["concat"] = randomOp{func(g *randomGrower) (in, args []int) {
		a, axis := g.rank(2), g.IntN(2)
		s := g.shapes[a].Clone()
		s[axis] = g.wide()
		return []int{a, g.shaped(s...)}, []int{axis}
	}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
		return d.Must(gorgonia.Concat(args[0], in...))
	}}
	ops["upsample"] = randomOp{func(g *randomGrower) (in, args []int) { return []int{g.rank(4)}, []int{1 + g.IntN(2)} },
		func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(gorgonia.Upsample2D(in[0], args[0]))
		}}
	return ops
}
