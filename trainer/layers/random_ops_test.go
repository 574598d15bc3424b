package layers_test

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// margin is the distance that values of random graphs keep from kinks, jumps and poles.
const margin = 0.05

// randomOps holds the operations of random graphs, by name. init fills it: its functions refer to it.
var randomOps = map[string]randomOp{}

func init() {
	for _, f := range functions() {
		randomOps[f.name] = functionOp(f)
	}
	for _, f := range binaryFunctions() {
		randomOps[f.name] = binaryOp(f, f.name == "div", f.name == "pow")
	}
	for _, f := range comparisons() {
		op := binaryOp(f, false, false)
		op.flat = true
		randomOps[f.name] = op
	}
	for _, f := range reductions() {
		randomOps[f.name] = reductionOp(f)
	}
	randomOps["matmul"] = matMulOp()
	randomOps["einsum"] = einsumOp()
	randomOps["softmax"] = softmaxOp("Softmax", (*layers.Net).Softmax, softmax)
	randomOps["log softmax"] = softmaxOp("LogSoftmax", (*layers.Net).LogSoftmax, func(x []float64) []float64 { return logs(softmax(x)) })
}

// kinks are the numbers at which functions of one element are not smooth.
var kinks = map[string][]float64{
	"abs": {0}, "relu": {0}, "leaky relu": {0}, "elu": {0}, "hard swish": {-3, 3}, "clamp": {-1, 2}, "clamp from below": {0},
}

// functionOp is a function of each element. Those that are tested on positive numbers need them.
func functionOp(f function) randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			return statement{In: []int{g.any()}}, true
		},
		build: func(n *layers.Net, _ statement, in gorgonia.Nodes) *gorgonia.Node { return f.op(n, in[0], "") },
		value: func(_ statement, in []array) array { return in[0].each(f.f) },
		code:  func(_ statement, in []string) string { return fmt.Sprintf(f.code, in[0]) },
		smooth: func(_ statement, in []array) bool {
			return !slices.ContainsFunc(in[0].x, func(x float64) bool {
				return f.fill != nil && kinks[f.name] == nil && x < 4*margin ||
					slices.ContainsFunc(kinks[f.name], func(k float64) bool { return math.Abs(x-k) < margin })
			})
		},
	}
}

// comparisons lists the comparisons of package layers.
func comparisons() []binaryFunction {
	truth := func(f func(a, b float64) bool) func(a, b float64) float64 {
		return func(a, b float64) float64 {
			if f(a, b) {
				return 1
			}
			return 0
		}
	}
	return []binaryFunction{
		{"less", "Less", (*layers.Net).Less, truth(func(a, b float64) bool { return a < b })},
		{"less or equal", "LessEqual", (*layers.Net).LessEqual, truth(func(a, b float64) bool { return a <= b })},
		{"greater", "Greater", (*layers.Net).Greater, truth(func(a, b float64) bool { return a > b })},
		{"greater or equal", "GreaterEqual", (*layers.Net).GreaterEqual, truth(func(a, b float64) bool { return a >= b })},
	}
}

// binaryOp is a function of two operands that broadcast. A divisor is away from 0, a base above it, and
// operands of functions that choose differ.
func binaryOp(f binaryFunction, divides, powers bool) randomOp {
	chooses := !divides && !powers && !slices.Contains([]string{"add", "sub", "mul"}, f.name)
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			a := g.any()
			b := g.pick(func(b array) bool { _, ok := pairShape(g.all[a].shape, b.shape); return ok }, func() []int {
				s := slices.Clone(g.all[a].shape)
				for i := range s {
					if g.IntN(2) == 0 {
						s[i] = 1
					}
				}
				return append([]int{1 + g.IntN(2)}, s...)[g.IntN(2):]
			})
			if g.IntN(2) == 0 {
				a, b = b, a
			}
			return statement{In: []int{a, b}}, true
		},
		build: func(n *layers.Net, _ statement, in gorgonia.Nodes) *gorgonia.Node { return f.op(n, in[0], in[1], "") },
		value: func(_ statement, in []array) array { return pair(in[0], in[1], f.f) },
		code:  func(_ statement, in []string) string { return fmt.Sprintf(`net.%s(%s, %s, "")`, f.code, in[0], in[1]) },
		smooth: func(_ statement, in []array) bool {
			bad := pair(in[0], in[1], func(a, b float64) float64 {
				if divides && math.Abs(b) < 4*margin || powers && a < 4*margin || chooses && math.Abs(a-b) < margin {
					return 1
				}
				return 0
			})
			return bad.largest() == 0
		},
	}
}

// reductionOp is a reduction along axes: Ints are 1 to keep them, then the axes.
func reductionOp(f reduction) randomOp {
	axes := func(s statement, a array) (axes []int) {
		for d := range a.shape {
			if len(s.Ints) == 1 || slices.Contains(s.Ints[1:], d) || slices.Contains(s.Ints[1:], d-len(a.shape)) {
				axes = append(axes, d)
			}
		}
		return axes
	}
	reduce := func(s statement) layers.Reduce { return layers.Reduce{Axes: s.Ints[1:], Keep: s.Ints[0] == 1} }
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			s := statement{In: []int{g.any()}, Ints: []int{g.IntN(2)}}
			for d, dims := range g.all[s.In[0]].shape {
				if dims > 0 && g.IntN(2) == 0 {
					s.Ints = append(s.Ints, d-g.IntN(2)*len(g.all[s.In[0]].shape))
				}
			}
			return s, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return f.op(n, in[0], "", reduce(s))
		},
		value: func(s statement, in []array) array { return in[0].reduce(axes(s, in[0]), s.Ints[0] == 1, f.f) },
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.%s(%s, "", %#v)`, f.code, in[0], reduce(s))
		},
		smooth: func(s statement, in []array) bool {
			least := in[0].reduce(axes(s, in[0]), false, func(x []float64) float64 {
				switch f.name {
				case "max", "min":
					return apart(x)
				case "norm":
					return f.f(x) / 4
				}
				return 1
			})
			return !slices.ContainsFunc(least.x, func(x float64) bool { return x < margin })
		},
	}
}

// matMulOp is a product of matrices or vectors: Ints are 1 for each factor that is transposed.
func matMulOp() randomOp {
	transposed := func(s statement) layers.Transposed { return layers.Transposed{A: s.Ints[0] == 1, B: s.Ints[1] == 1} }
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			a := g.rank(1)
			s := statement{Ints: []int{g.IntN(2), g.IntN(2)}}
			as := g.all[a].shape
			k := as[len(as)-1]
			if len(as) == 1 {
				s.Ints[0] = 0
			} else if s.Ints[0] == 1 {
				k = as[len(as)-2]
			}
			lead := slices.Clone(as[:max(len(as)-2, 0)])
			for i := range lead {
				if g.IntN(3) == 0 {
					lead[i] = 1
				}
			}
			lead = lead[min(g.IntN(3), len(lead)):]
			matrix := []int{k, 1 + g.IntN(4)}
			if s.Ints[1] == 1 {
				slices.Reverse(matrix)
			}
			if g.IntN(6) == 0 {
				lead, matrix, s.Ints[1] = nil, []int{k}, 0
			}
			s.In = []int{a, g.shaped(append(lead, matrix...))}
			return s, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.MatMul(in[0], in[1], "", transposed(s))
		},
		value: matMulValue,
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.MatMul(%s, %s, "", %#v)`, in[0], in[1], transposed(s))
		},
	}
}

func matMulValue(s statement, in []array) array {
	a, b := in[0], in[1]
	row, column := len(a.shape) == 1, len(b.shape) == 1
	if row {
		a = array{[]int{1, a.shape[0]}, a.x}
	}
	if column {
		b = array{[]int{b.shape[0], 1}, b.x}
	}
	if s.Ints[0] == 1 {
		a = a.transposed()
	}
	if s.Ints[1] == 1 {
		b = b.transposed()
	}
	y := product(a, b)
	n := len(y.shape)
	if column {
		y.shape = y.shape[:n-1]
	}
	if row {
		y.shape = slices.Delete(y.shape, n-2, n-1)
	}
	return y
}

// einsumOp is a sum of products: Ints are the letters of the specification.
func einsumOp() randomOp {
	spec := func(s statement) (text string, in []string, out string) {
		for _, l := range s.Ints {
			text += string(rune(l))
		}
		left, out, _ := strings.Cut(text, "->")
		return text, strings.Split(left, ","), out
	}
	return randomOp{
		draw: drawEinsum,
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			text, _, _ := spec(s)
			return n.Einsum(text, "", in...)
		},
		value: func(s statement, in []array) array {
			_, letters, out := spec(s)
			var x [][]float64
			var shapes [][]int
			for _, a := range in {
				x, shapes = append(x, a.x), append(shapes, a.shape)
			}
			return array{productCase("", shapes, letters, out, nil).shape, einsum(x, shapes, letters, out)}
		},
		code: func(s statement, in []string) string {
			text, _, _ := spec(s)
			return fmt.Sprintf(`net.Einsum(%q, "", %s)`, text, strings.Join(in, ", "))
		},
	}
}

// drawEinsum draws a statement, with a second parameter that shares some letters.
func drawEinsum(g *grower) (statement, bool) {
	a := g.rank(1)
	var letters []rune
	size := map[rune]int{}
	for i, d := range g.all[a].shape {
		l := rune('a' + i)
		letters, size[l] = append(letters, l), d
	}
	s := statement{In: []int{a}}
	text := string(letters)
	if g.IntN(5) > 0 {
		var shape []int
		var other []rune
		for _, l := range append(slices.Clone(letters), 'x', 'y') {
			if size[l] == 0 {
				size[l] = 1 + g.IntN(3)
			}
			if g.IntN(2) == 0 {
				other = append(other, l)
			}
		}
		g.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		if len(other) == 0 {
			return s, false
		}
		for _, l := range other {
			shape = append(shape, size[l])
			if !slices.Contains(letters, l) {
				letters = append(letters, l)
			}
		}
		s.In, text = append(s.In, g.shaped(shape)), text+","+string(other)
	}
	g.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
	text += "->" + string(letters[:g.IntN(len(letters)+1)])
	for _, l := range text {
		s.Ints = append(s.Ints, int(l))
	}
	return s, true
}

// softmaxOp is a softmax: Ints is its axis.
func softmaxOp(code string, op func(n *layers.Net, x *gorgonia.Node, name string, axis ...int) *gorgonia.Node, f func(x []float64) []float64) randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.rank(1)
			dims := len(g.all[x].shape)
			return statement{In: []int{x}, Ints: []int{g.IntN(2*dims) - dims}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node { return op(n, in[0], "", s.Ints[0]) },
		value: func(s statement, in []array) array {
			return in[0].along((s.Ints[0]+len(in[0].shape))%len(in[0].shape), f)
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.%s(%s, "", %d)`, code, in[0], s.Ints[0])
		},
	}
}
