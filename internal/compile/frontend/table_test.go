package frontend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// gradients are graphs with ops that only gorgonia.Grad makes.
func gradients() []recipe {
	of := func(y func(d *graphtest.Draft, x *gorgonia.Node) *gorgonia.Node) func(d *graphtest.Draft) *gorgonia.Node {
		return func(d *graphtest.Draft) *gorgonia.Node {
			x := d.In(3+d.Dim(), d.Wide())
			cost := d.Must(gorgonia.Sum(d.Must(gorgonia.Square(y(d, x)))))
			dx, err := gorgonia.Grad(cost, x)
			if err != nil {
				return d.Must(nil, err)
			}
			return dx[0]
		}
	}
	return []recipe{
		{"gradient of a softmax", of(func(d *graphtest.Draft, x *gorgonia.Node) *gorgonia.Node { return d.Must(gorgonia.SoftMax(x)) }), kernels.SoftmaxGrad},
		{"gradient of a softmax along 0", of(func(d *graphtest.Draft, x *gorgonia.Node) *gorgonia.Node { return d.Must(gorgonia.SoftMax(x, 0)) }), kernels.SoftmaxGrad},
		{"gradient of a selection of rows", of(func(d *graphtest.Draft, x *gorgonia.Node) *gorgonia.Node {
			return d.Must(gorgonia.ByIndices(x, d.Ints(x.Shape()[0], d.Wide()), 0))
		}), kernels.Scatter},
		{"gradient of a slice of rows", of(func(d *graphtest.Draft, x *gorgonia.Node) *gorgonia.Node {
			return d.Must(gorgonia.Slice(x, gorgonia.S(1, 3)))
		}), kernels.Unslice},
		{"gradient of a slice of columns", of(func(d *graphtest.Draft, x *gorgonia.Node) *gorgonia.Node {
			return d.Must(gorgonia.Slice(x, nil, gorgonia.S(0, x.Shape()[1]-1)))
		}), kernels.Unslice},
	}
}

// classified returns logits, and target classes as indices and as a distribution. Some rows have
// two largest logits.
func classified(d *graphtest.Draft) (net *layers.Net, logits, labels, target *gorgonia.Node) {
	net = layers.New(d.Graph)
	net.Type = d.Type
	rows, classes := d.Wide(), d.Wide()
	half := func() float64 { return float64(d.Rand.IntN(9))/2 - 2 }
	return net, d.Of(half, rows, classes), d.Ints(classes, rows), d.Of(d.Positive, rows, classes)
}

// fromLayers are graphs with the ops that package layers adds. Each has its own Do, which the tape
// machine runs.
func fromLayers() []recipe {
	return []recipe{
		{"the inner identity", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.Exp(d.Must(gorgonia.ApplyOp(gorgonia.Iop{}, d.Must(gorgonia.Tanh(d.In(d.Dim(), d.Wide())))))))
		}, kernels.Tanh},
		{"layers: leaky relu", func(d *graphtest.Draft) *gorgonia.Node {
			net := layers.New(d.Graph)
			return d.Must(layers.LeakyReLU(0.1)(net, d.In(d.Dim(), d.Wide()), "leaky"), net.Err())
		}, kernels.LeakyReLU},
		{"layers: erf", func(d *graphtest.Draft) *gorgonia.Node {
			net := layers.New(d.Graph)
			return d.Must(layers.Erf(net, d.In(d.Dim(), d.Wide()), "erf"), net.Err())
		}, kernels.Erf},
		{"layers: constant", func(d *graphtest.Draft) *gorgonia.Node {
			net := layers.New(d.Graph)
			net.Type = d.Type
			rows, columns := d.Dim(), d.Wide()
			c := net.Constant(d.Tensor(d.Normal, rows, columns), "")
			return d.Must(net.Concat(gorgonia.Nodes{d.In(2, columns), c}, "", 0), net.Err())
		}, kernels.Concat},
		{"layers: cross entropy", func(d *graphtest.Draft) *gorgonia.Node {
			net, logits, labels, _ := classified(d)
			return d.Must(net.CrossEntropy(logits, labels, "rows"), net.Err())
		}, kernels.CrossEntropy},
		{"layers: cross entropy of a distribution", func(d *graphtest.Draft) *gorgonia.Node {
			net, logits, _, target := classified(d)
			return d.Must(net.CrossEntropyOneHot(logits, target, "rows"), net.Err())
		}, kernels.CrossEntropyDense},
		{"layers: correct", func(d *graphtest.Draft) *gorgonia.Node {
			net, logits, labels, _ := classified(d)
			return d.Must(net.Correct(logits, labels, "correct"), net.Err())
		}, kernels.Correct},
		{"layers: correct of a distribution", func(d *graphtest.Draft) *gorgonia.Node {
			net, logits, _, target := classified(d)
			return d.Must(net.CorrectOneHot(logits, target, "correct"), net.Err())
		}, kernels.CorrectDense},
	}
}

// elsewhere are ops that no recipe can compare with a tape machine, and the test that checks them.
var elsewhere = map[string]string{
	"gorgonia.atOp":       "Gorgonia's own result has all elements: TestElementsAtCoordinatesAreSelected",
	"gorgonia.readOp":     "has no value: TestAReadNodeComputesItsOperand",
	"*gorgonia.dropoutOp": "draws: TestDropoutDropsInTrainingAndItsGradientFollowsTheMask",

	"*gorgonia.dropoutDiffOp": "is wrong in Gorgonia: TestTheGradientNodeOfADropoutFollowsItsMask",
	"*gorgonia.ctcLossOp":     "is wrong in Gorgonia: TestWhatGorgoniaComputesWronglyIsRight",
	"*gorgonia.sparsemaxOp":   "is wrong in Gorgonia: TestWhatGorgoniaComputesWronglyIsRight",
}

// TestEveryLoweredOpIsComparedWithGorgonia fails for an op in lowerings, or of an operation,
// without a recipe.
func TestEveryLoweredOpIsComparedWithGorgonia(t *testing.T) {
	seen := make(map[string]bool)
	differentiable, others := fallbacks()
	for _, some := range append(recipes(), differentiable, others) {
		for _, c := range some {
			for s := range uint64(6) {
				for _, key := range keysOf(c, seed.Value()*1000+s) {
					seen[key], seen[strings.Split(key, ":")[0]] = true, true
				}
			}
		}
	}
	var want []string
	for key := range lowerings() {
		want = append(want, key)
	}
	for _, op := range kernels.All() {
		want = append(want, op.Gorgonia...)
	}
	for _, key := range want {
		if why := elsewhere[key]; seen[key] == (why != "") {
			t.Errorf("%s: in a recipe: %v, checked elsewhere: %q; want one of them", key, seen[key], why)
		}
	}
	for key := range elsewhere {
		if !slices.Contains(want, key) {
			t.Errorf("%s is checked elsewhere but is not lowered", key)
		}
	}
}

// keysOf returns the keys of all ops of a recipe's graph; none where Gorgonia refuses its shapes.
func keysOf(c recipe, s uint64) (keys []string) {
	d := graphtest.New(rand.New(rand.NewPCG(s, 7)), tensor.Float64)
	defer func() {
		if p := recover(); p != nil && p != any(d) {
			panic(p)
		}
	}()
	for _, n := range c.build(d).Graph().AllNodes() {
		if key := opKeyOf(n); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestAReadNodeComputesItsOperand(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	y := d.Must(gorgonia.Tanh(d.In(3, 4)))
	var into gorgonia.Value
	read := gorgonia.Read(y, &into)
	if key := fmt.Sprintf("%T", read.Op()); key != "gorgonia.readOp" {
		t.Fatalf("gorgonia.Read made a %s", key)
	}
	r, err := readGraph(training, read)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	want, err := graphtest.Tape(y)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.floats(r.values[read]); !graphtest.Near(got, want[0], 1e-15) || !graphtest.Near(graphtest.Numbers(into), want[0], 0) {
		t.Errorf("seed %d: got %v, Gorgonia reads %v", seed.Value(), got, want[0])
	}
}
