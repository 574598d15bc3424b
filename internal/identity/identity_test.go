package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/identity"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// must returns the node of a Gorgonia call.
func must(n *gorgonia.Node, err error) *gorgonia.Node { return gorgonia.Must(n, err) }

// input adds a float32 input.
func input(g *gorgonia.ExprGraph, name string, dims ...int) *gorgonia.Node {
	return gorgonia.NewTensor(g, tensor.Float32, len(dims), gorgonia.WithShape(dims...), gorgonia.WithName(name))
}

// constant returns n elements, which are their indices, except that element at is v.
func constant(n, at int, v float32) *gorgonia.Node {
	d := make([]float32, n)
	for i := range d {
		d[i] = float32(i)
	}
	d[at] = v
	return gorgonia.NewConstant(tensor.New(tensor.WithShape(n), tensor.WithBacking(d)))
}

func norm(x *gorgonia.Node, epsilon float64) *gorgonia.Node {
	g := x.Graph()
	gamma, beta := g.ByName("gamma"), g.ByName("beta")
	if gamma == nil {
		gamma, beta = gorgonia.Nodes{input(g, "gamma", 4, 3)}, gorgonia.Nodes{input(g, "beta", 4, 3)}
	}
	y, _, _, _, err := gorgonia.BatchNorm(x, gamma[0], beta[0], 0.9, epsilon)
	return must(y, err)
}

func pool(x *gorgonia.Node, padding ...int) *gorgonia.Node {
	return must(gorgonia.MaxPool2D(x, tensor.Shape{2, 2}, padding, []int{2, 2}))
}

func conv(x *gorgonia.Node, dilation int) *gorgonia.Node {
	w := x.Graph().ByName("w")
	if w == nil {
		w = gorgonia.Nodes{input(x.Graph(), "w", 1, 1, 2, 2)}
	}
	return must(gorgonia.Conv2d(x, w[0], tensor.Shape{2, 2}, []int{0, 0}, []int{3, 3}, []int{dilation, dilation}))
}

// pairs are pairs of nodes. merged says whether Gorgonia makes one of both although they differ.
var pairs = []struct {
	name   string
	merged bool
	build  func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node)
}{
	{"slices 256 apart", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 2, 512)
		return must(gorgonia.Slice(x, nil, gorgonia.S(0, 128))), must(gorgonia.Slice(x, nil, gorgonia.S(256, 384)))
	}},
	{"slices 128 apart", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 2, 512)
		return must(gorgonia.Slice(x, nil, gorgonia.S(0, 128))), must(gorgonia.Slice(x, nil, gorgonia.S(128, 256)))
	}},
	{"time steps 256 apart", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 2, 300, 2)
		return must(gorgonia.Slice(x, nil, gorgonia.S(0))), must(gorgonia.Slice(x, nil, gorgonia.S(256)))
	}},
	{"functions of time steps 256 apart", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 2, 300, 2)
		return must(gorgonia.Tanh(must(gorgonia.Slice(x, nil, gorgonia.S(0))))), must(gorgonia.Tanh(must(gorgonia.Slice(x, nil, gorgonia.S(256)))))
	}},
	{"slices of slices", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := must(gorgonia.Slice(input(g, "x", 2, 600), nil, gorgonia.S(1, 600)))
		return must(gorgonia.Slice(x, nil, gorgonia.S(3, 5))), must(gorgonia.Slice(x, nil, gorgonia.S(259, 261)))
	}},
	{"a slice that nothing reads", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 2, 512)
		a = must(gorgonia.Slice(x, nil, gorgonia.S(0, 128)))
		must(gorgonia.Slice(x, nil, gorgonia.S(256, 384)))
		return a, must(gorgonia.Exp(a))
	}},
	{"one slice twice", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 2, 512)
		return must(gorgonia.Slice(x, nil, gorgonia.S(0, 128))), must(gorgonia.Slice(x, nil, gorgonia.S(0, 128)))
	}},
	{"constants that print alike", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 64)
		return must(gorgonia.Add(x, constant(64, 30, 1000))), must(gorgonia.Add(x, constant(64, 30, 2000)))
	}},
	{"constants that print alike in a column", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		column := func(v float32) *gorgonia.Node {
			t := tensor.New(tensor.WithShape(64, 1), tensor.Of(tensor.Float32))
			t.Float32s()[30] = v
			return gorgonia.NewConstant(t)
		}
		x := input(g, "x", 64, 1)
		return must(gorgonia.Add(x, column(1))), must(gorgonia.Add(x, column(2)))
	}},
	{"constants that differ in a printed element", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 64)
		return must(gorgonia.Add(x, constant(64, 1, 1000))), must(gorgonia.Add(x, constant(64, 1, 2000)))
	}},
	{"one constant made twice", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 64)
		return must(gorgonia.Add(x, constant(64, 30, 1000))), must(gorgonia.Add(x, constant(64, 30, 1000)))
	}},
	{"softmax and its logarithm", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 4, 3)
		return must(gorgonia.SoftMax(x)), must(gorgonia.LogSoftMax(x))
	}},
	{"a softmax that Log rewrites", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		p := must(gorgonia.SoftMax(input(g, "x", 4, 3)))
		return p, must(gorgonia.Log(p))
	}},
	{"the logarithm of a softmax that nothing else reads", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		y := input(g, "y", 4, 3)
		return must(gorgonia.Log(must(gorgonia.HadamardProd(must(gorgonia.SoftMax(input(g, "x", 4, 3))), y)))), y
	}},
	{"a softmax of two readers", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		p := must(gorgonia.SoftMax(input(g, "x", 4, 3)))
		return p, must(gorgonia.Exp(p))
	}},
	{"two dropouts", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 4, 3)
		return must(gorgonia.Dropout(x, 0.2)), must(gorgonia.Dropout(x, 0.5))
	}},
	{"a dropout of two readers", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := must(gorgonia.Dropout(input(g, "x", 4, 3), 0.5))
		return x, must(gorgonia.Exp(x))
	}},
	{"batch norms with other epsilons", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 4, 3)
		return norm(x, 1e-3), norm(x, 1e-5)
	}},
	{"one batch norm twice", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 4, 3)
		return norm(x, 1e-3), norm(x, 1e-3)
	}},
	{"convolutions with other dilations", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 1, 1, 9, 9)
		return conv(x, 1), conv(x, 2)
	}},
	{"one convolution twice", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 1, 1, 9, 9)
		return conv(x, 2), conv(x, 2)
	}},
	{"poolings with other paddings", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 1, 1, 6, 6)
		return pool(x, 0, 0, 0, 0), pool(x, 0, 1, 0, 1)
	}},
	{"one pooling twice", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 1, 1, 6, 6)
		return pool(x, 0, 0), pool(x, 0, 0)
	}},
	{"inputs without names", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		return input(g, "", 4, 3), input(g, "", 4, 3)
	}},
	{"random nodes without names", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		return gorgonia.UniformRandomNode(g, tensor.Float32, 0, 1, 4, 3), gorgonia.GaussianRandomNode(g, tensor.Float32, 0, 1, 4, 3)
	}},
	{"random nodes with names", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		a = gorgonia.UniformRandomNode(g, tensor.Float32, 0, 1, 4, 3)
		gorgonia.WithName("a")(a)
		b = gorgonia.UniformRandomNode(g, tensor.Float32, 0, 1, 4, 3)
		gorgonia.WithName("b")(b)
		return a, b
	}},
	{"functions whose hashes are equal by chance", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		return must(gorgonia.Tanh(input(g, "x17632", 4, 3))), must(gorgonia.Tanh(input(g, "x53346", 4, 3)))
	}},
	{"functions of random nodes with names", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		noise := func(name string) *gorgonia.Node {
			n := gorgonia.UniformRandomNode(g, tensor.Float32, 0, 1, 4, 3)
			gorgonia.WithName(name)(n)
			return must(gorgonia.Exp(n))
		}
		return noise("a"), noise("b")
	}},
	{"functions of nodes whose hashes are equal by chance", true, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		a, b = must(gorgonia.Tanh(input(g, "x71035", 4, 3))), must(gorgonia.Sigmoid(input(g, "x4243", 4, 3)))
		return must(gorgonia.Exp(a)), must(gorgonia.Exp(b))
	}},
	{"functions twice", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		x := input(g, "x", 4, 3)
		f := func() *gorgonia.Node {
			y := must(gorgonia.Transpose(must(gorgonia.Tanh(must(gorgonia.Sum(x, 0))))))
			return must(gorgonia.Mul(y, gorgonia.NewConstant(float32(2))))
		}
		return f(), f()
	}},
	{"dropouts of package layers", false, func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node) {
		net := layers.New(g)
		x := net.Input("x", 4, 3)
		return net.Dropout(x, "a", 0.2), net.Dropout(x, "b", 0.5)
	}},
}

// build adds a pair and a node that reads both.
func build(pair func(g *gorgonia.ExprGraph) (a, b *gorgonia.Node)) identity.Build {
	return func(g *gorgonia.ExprGraph) (gorgonia.Nodes, error) {
		a, b := pair(g)
		return gorgonia.Nodes{must(gorgonia.Sum(must(gorgonia.Sub(a, b))))}, nil
	}
}

// Watch finds all nodes that were merged although they differ, and no others.
func TestNodesThatGorgoniaMergedAreFound(t *testing.T) {
	for _, c := range pairs {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			if _, err := build(c.build)(g); err != nil {
				t.Fatal(err)
			}
			found, err := identity.Watch(g, build(c.build))
			if err != nil {
				t.Fatal(err)
			}
			if (len(found) > 0) != c.merged || len(found) > 1 {
				t.Errorf("Watch found %v, want merged %v", found, c.merged)
			}
			if c.merged && !identity.Doubtful(g) && c.name != "functions whose hashes are equal by chance" {
				t.Errorf("the graph is not doubtful, but found %v", found)
			}
		})
	}
}

// A graph whose nodes have names made of ids gets the same names when it is watched.
func TestAWatchedGraphHasTheIDsOfTheFirst(t *testing.T) {
	names := func(g *gorgonia.ExprGraph) (all []string) {
		net := layers.New(g)
		h := net.Input("x", 4, 6)
		for range 3 {
			h = net.Dense(h, fmt.Sprintf("dense%d", len(all)), 6, layers.ReLU)
			twice := must(gorgonia.Add(must(gorgonia.Exp(h)), must(gorgonia.Exp(h))))
			h = must(gorgonia.HadamardProd(twice, gorgonia.NewConstant(float32(0.5))))
			all = append(all, twice.Name(), h.Name())
		}
		return all
	}
	var first, second []string
	g := gorgonia.NewGraph()
	first = names(g)
	found, err := identity.Watch(g, func(g *gorgonia.ExprGraph) (gorgonia.Nodes, error) {
		second = names(g)
		return nil, nil
	})
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if a, b := strings.Join(first, "\n"), strings.Join(second, "\n"); a != b {
		t.Errorf("names differ:\n%s\n\n%s", a, b)
	}
}

// What a machine marks: not every node that could be two, and nodes that Gorgonia kept apart although
// their hashes are equal.
func TestSuspects(t *testing.T) {
	for _, c := range []struct {
		name, cure string // empty: no suspect
		node       func(x *gorgonia.Node) *gorgonia.Node
	}{
		{"a slice of a short axis", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Slice(x, gorgonia.S(0, 2))) }},
		{"a slice of a long axis", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Slice(x, nil, gorgonia.S(0, 100))) }},
		{"two slices of a long axis", "net.Slice", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Add(must(gorgonia.Slice(x, nil, gorgonia.S(0, 100))), must(gorgonia.Slice(x, nil, gorgonia.S(256, 356)))))
		}},
		{"a slice of a long axis that is differentiated", "net.Slice", func(x *gorgonia.Node) *gorgonia.Node {
			return differentiated(must(gorgonia.Slice(x, nil, gorgonia.S(0, 100))), x)
		}},
		{"a softmax of two readers", "", func(x *gorgonia.Node) *gorgonia.Node {
			x = must(gorgonia.SoftMax(x))
			return must(gorgonia.Add(x, must(gorgonia.Exp(x))))
		}},
		{"a softmax and its logarithm", "net.Softmax", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Add(must(gorgonia.SoftMax(x)), must(gorgonia.LogSoftMax(x))))
		}},
		{"a logarithm and its softmax", "net.Softmax", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Add(must(gorgonia.LogSoftMax(x)), must(gorgonia.SoftMax(x))))
		}},
		{"a softmax that Log rewrites", "net.Softmax", func(x *gorgonia.Node) *gorgonia.Node {
			x = must(gorgonia.SoftMax(x))
			return must(gorgonia.Add(x, must(gorgonia.Log(x))))
		}},
		{"two softmaxes after the edges were looked up", "net.Softmax", func(x *gorgonia.Node) *gorgonia.Node {
			y := must(gorgonia.Add(must(gorgonia.SoftMax(x)), must(gorgonia.LogSoftMax(x))))
			x.Graph().To(x.ID())
			return y
		}},
		{"one softmax after the edges were looked up", "", func(x *gorgonia.Node) *gorgonia.Node {
			p := must(gorgonia.SoftMax(x))
			y := must(gorgonia.Add(p, must(gorgonia.Exp(p))))
			x.Graph().To(x.ID())
			return y
		}},
		{"a softmax of two readers that is differentiated", "net.Softmax", func(x *gorgonia.Node) *gorgonia.Node {
			p := must(gorgonia.SoftMax(x))
			return differentiated(must(gorgonia.Add(p, must(gorgonia.Exp(p)))), x)
		}},
		{"inputs with a name each", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Add(x, input(x.Graph(), "y", 4, 400))) }},
		{"an input without a name", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Exp(input(x.Graph(), "", 4, 3))) }},
		{"two inputs without names", "WithName", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Add(input(x.Graph(), "", 4, 3), input(x.Graph(), "", 4, 3)))
		}},
		{"a slice without room for another", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Slice(x, nil, gorgonia.S(0, 300))) }},
		{"a whole axis", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Slice(x, nil, nil)) }},
		{"a dropout", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Dropout(x, 0.5)) }},
		{"a dropout of two readers", "", func(x *gorgonia.Node) *gorgonia.Node {
			x = must(gorgonia.Dropout(x, 0.5))
			return must(gorgonia.Add(x, must(gorgonia.Exp(x))))
		}},
		{"two dropouts", "net.Dropout", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Add(must(gorgonia.Dropout(x, 0.5)), must(gorgonia.Dropout(x, 0.2))))
		}},
		{"a dropout before a ReLU", "", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Rectify(must(gorgonia.Dropout(x, 0.5))))
		}},
		{"a random node", "", func(x *gorgonia.Node) *gorgonia.Node {
			return gorgonia.UniformRandomNode(x.Graph(), tensor.Float32, 0, 1, 4)
		}},
		{"two random nodes", "WithName", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Add(gorgonia.UniformRandomNode(x.Graph(), tensor.Float32, 0, 1, 4), gorgonia.UniformRandomNode(x.Graph(), tensor.Float32, 0, 1, 4)))
		}},
		{"nodes of equal hashes", "rename", func(x *gorgonia.Node) *gorgonia.Node {
			g := x.Graph()
			return must(gorgonia.Add(must(gorgonia.Tanh(input(g, "x71035", 4, 3))), must(gorgonia.Sigmoid(input(g, "x4243", 4, 3)))))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			c.node(input(g, "x", 4, 400))
			found := identity.Suspects(g)
			if (len(found) > 0) != (c.cure != "") || len(found) > 0 && !strings.Contains(found[0].String(), c.cure) {
				t.Errorf("found %v, want %q", found, c.cure)
			}
		})
	}
}

// Where the function makes other nodes each time, all that were made twice are in doubt.
func TestAFunctionThatDoesNotRepeatLeavesSuspectsInDoubt(t *testing.T) {
	length := 511
	for start, want := range map[int]int{128: 0, 256: 1} {
		other := func(g *gorgonia.ExprGraph) (gorgonia.Nodes, error) {
			length++
			x := input(g, "x", length)
			return gorgonia.Nodes{must(gorgonia.Slice(x, gorgonia.S(0, 128))), must(gorgonia.Slice(x, gorgonia.S(start, start+128)))}, nil
		}
		g := gorgonia.NewGraph()
		if _, err := other(g); err != nil {
			t.Fatal(err)
		}
		if found, err := identity.Watch(g, other); err != nil || len(found) != want {
			t.Errorf("two slices, the second from %d: found %v, %v", start, found, err)
		}
	}
}

// differentiated differentiates the sum of y by x and returns y.
func differentiated(y, x *gorgonia.Node) *gorgonia.Node {
	if _, err := gorgonia.Grad(must(gorgonia.Sum(y)), x); err != nil {
		panic(err)
	}
	return y
}
