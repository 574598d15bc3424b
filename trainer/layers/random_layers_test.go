package layers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Layers in random graphs, among them those that are nodes of Gorgonia's.

func init() {
	for _, f := range []function{
		{"named relu", "ReLU", named(layers.ReLU), func(x float64) float64 { return max(x, 0) }, nil},
		{"named leaky relu", "LeakyReLU(0.25)", named(layers.LeakyReLU(0.25)), func(x float64) float64 { return max(x, 0.25*x) }, nil},
		{"named sigmoid", "Sigmoid", named(layers.Sigmoid), func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, nil},
		{"named tanh", "Tanh", named(layers.Tanh), math.Tanh, nil},
	} {
		f.code = "layers." + f.code + `(net, %s, "a name")`
		randomOps[f.name] = functionOp(f)
	}
	kinks["named relu"], kinks["named leaky relu"] = []float64{0}, []float64{0}
	randomOps["dense"] = denseOp()
	randomOps["layer norm"] = layerNormOp()
	randomOps["max pool"] = poolOp("MaxPool", (*layers.Net).MaxPool, slices.Max[[]float64])
	randomOps["avg pool"] = poolOp("AvgPool", (*layers.Net).AvgPool, meanOf)
}

// nextName returns a name that no node of the graph of x has.
func nextName(x *gorgonia.Node) string { return fmt.Sprintf("n%d", len(x.Graph().AllNodes())) }

// named is an activation that gets a new name. Some with names are nodes of Gorgonia.
func named(act layers.Activation) layers.Activation {
	return func(n *layers.Net, x *gorgonia.Node, _ string) *gorgonia.Node { return act(n, x, nextName(x)) }
}

// weights is an Init: element k is weight(k).
type weights struct{}

func (weights) Fill(_ *rand.Rand, _ []int, at int, dst []float64) {
	for i := range dst {
		dst[i] = weight(at + i)
	}
}

// denseOp is a fully connected layer: Ints is the number of its outputs.
func denseOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.pick(func(a array) bool { return len(a.shape) == 2 }, func() []int { return []int{1 + g.IntN(4), 1 + g.IntN(4)} })
			return statement{In: []int{x}, Ints: []int{1 + g.IntN(4)}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			n.Weights = weights{}
			return n.Dense(in[0], nextName(in[0]), s.Ints[0], nil)
		},
		value: func(s statement, in []array) array {
			w := newArray([]int{in[0].shape[1], s.Ints[0]})
			for k := range w.x {
				w.x[k] = weight(k)
			}
			return product(in[0], w)
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Dense(%s, "a name", %d, nil)`, in[0], s.Ints[0])
		},
	}
}

// layerNormOp normalizes the last axis.
func layerNormOp() randomOp {
	variance := func(x []float64) float64 {
		m, sum := meanOf(x), 0.0
		for _, v := range x {
			sum += (v - m) * (v - m)
		}
		return sum / float64(len(x))
	}
	return randomOp{
		draw: func(g *grower) (statement, bool) { return statement{In: []int{g.rank(2)}}, true },
		build: func(n *layers.Net, _ statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.LayerNorm(in[0], nextName(in[0]))
		},
		value: func(_ statement, in []array) array {
			return in[0].along(len(in[0].shape)-1, func(x []float64) []float64 {
				m, deviation := meanOf(x), math.Sqrt(variance(x)+1e-5)
				for i := range x {
					x[i] = (x[i] - m) / deviation
				}
				return x
			})
		},
		code: func(_ statement, in []string) string { return fmt.Sprintf(`net.LayerNorm(%s, "a name")`, in[0]) },
		smooth: func(_ statement, in []array) bool {
			last := len(in[0].shape) - 1
			return in[0].shape[last] == 1 || in[0].reduce([]int{last}, false, variance).least() > 4*margin
		},
	}
}

// poolOp is f of the windows of images: Ints are the window and the stride, both square.
func poolOp(code string, op func(n *layers.Net, x *gorgonia.Node, name string, p layers.Pool) *gorgonia.Node, f func(x []float64) float64) randomOp {
	pool := func(s statement) layers.Pool {
		return layers.Pool{Kernel: layers.Square(s.Ints[0]), Stride: layers.Square(s.Ints[1])}
	}
	windows := func(s statement, a array, f func(x []float64) float64) array {
		kernel, stride := s.Ints[0], s.Ints[1]
		h, w := a.shape[2], a.shape[3]
		y := newArray([]int{a.shape[0], a.shape[1], (h-kernel)/stride + 1, (w-kernel)/stride + 1})
		eachIndex(y.shape, func(i int, at []int) {
			var x []float64
			for k := range kernel * kernel {
				x = append(x, a.get([]int{at[0], at[1], at[2]*stride + k/kernel, at[3]*stride + k%kernel}))
			}
			y.x[i] = f(x)
		})
		return y
	}
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.pick(func(a array) bool { return len(a.shape) == 4 }, func() []int {
				return []int{1 + g.IntN(2), 1 + g.IntN(2), 2 + g.IntN(3), 2 + g.IntN(3)}
			})
			kernel := 1 + g.IntN(min(g.all[x].shape[2], g.all[x].shape[3]))
			return statement{In: []int{x}, Ints: []int{kernel, 1 + g.IntN(2)}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return op(n, in[0], nextName(in[0]), pool(s))
		},
		value: func(s statement, in []array) array { return windows(s, in[0], f) },
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.%s(%s, "a name", %#v)`, code, in[0], pool(s))
		},
		smooth: func(s statement, in []array) bool {
			return code != "MaxPool" || windows(s, in[0], apart).least() >= margin
		},
	}
}
