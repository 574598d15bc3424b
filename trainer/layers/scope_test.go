package layers_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// namesOf returns the names of parameters.
func namesOf(params []layers.Param) (names []string) {
	for _, p := range params {
		names = append(names, p.Node.Name())
	}
	return names
}

func TestScopesPrefixAllNamesAndTheirNetHasAllOfThem(t *testing.T) {
	n := layers.New(gorgonia.NewGraph())
	a := n.Scope("a")
	b := a.Scope("b")
	x, y := n.Input("x", 2, 3), b.Input("x", 2, 3)
	b.BatchNorm(b.Dense(y, "d", 4, layers.Tanh), "n", nil)
	a.Dense(x, "d", 4, nil)
	n.Scope("a/b").Dense(x, "other", 1, nil)
	if n.Err() != nil {
		t.Fatal(n.Err())
	}
	all := []string{"a/b/d/w", "a/b/d/b", "a/b/n/gamma", "a/b/n/beta", "a/d/w", "a/d/b", "a/b/other/w", "a/b/other/b"}
	inB := []string{"a/b/d/w", "a/b/d/b", "a/b/n/gamma", "a/b/n/beta", "a/b/other/w", "a/b/other/b"}
	for _, c := range []struct {
		name       string
		of         *layers.Net
		params     []string
		statistics []string
		inputs     int
	}{
		{"net", n, all, []string{"a/b/n/mean", "a/b/n/variance"}, 2},
		{"a", a, all, []string{"a/b/n/mean", "a/b/n/variance"}, 1},
		{"b", b, inB, []string{"a/b/n/mean", "a/b/n/variance"}, 1},
		{"an empty scope", n.Scope("c"), nil, nil, 0},
	} {
		if got := namesOf(c.of.Params()); !slices.Equal(got, c.params) {
			t.Errorf("%s: parameters %q, want %q", c.name, got, c.params)
		}
		if got := namesOf(c.of.Statistics()); !slices.Equal(got, c.statistics) {
			t.Errorf("%s: statistics %q", c.name, got)
		}
		if got := c.of.Inputs(); len(got) != c.inputs {
			t.Errorf("%s: inputs %v", c.name, got)
		}
	}
	for _, name := range []string{"a/b/d/xw", "a/b/d/out", "a/b/d/act", "a/b/n/out", "a/b/x"} {
		if len(n.Inputs()[0].Graph().ByName(name)) != 1 {
			t.Errorf("there is no node %q", name)
		}
	}
	// The model of a scope has all inputs and parameters: its loss may read them.
	m, err := n.Scope("head").Classifier(x, b.Dense(y, "logits", 3, nil))
	if err != nil || len(m.Inputs) != 3 || m.Inputs[2].Name() != "head/y" || len(m.Params) != len(all)+2 || m.Loss.Name() != "head/loss" {
		t.Errorf("got %v, inputs %v, %q, loss %v", err, m.Inputs, namesOf(m.Params), m.Loss)
	}
}

func TestASharedLayerHasOneParameterForAllItsUses(t *testing.T) {
	n := layers.New(gorgonia.NewGraph())
	x, y := n.Input("x", 2, 3), n.Input("y", 2, 3)
	first := n.Shared("s").Scope("deep").Dense(x, "d", 4, layers.Tanh)
	again := n.Shared("s/deep").Dense(x, "d", 4, layers.Tanh) // of the same operands: its activation is a node of its own
	second := n.Scope("s").Shared("deep").Dense(y, "d", 4, layers.Tanh)
	third := n.Shared("s").Scope("deep").Dense(n.Neg(x, ""), "d", 4, layers.Sigmoid)
	if n.Err() != nil {
		t.Fatal(n.Err())
	}
	if got := namesOf(n.Params()); !slices.Equal(got, []string{"s/deep/d/w", "s/deep/d/b"}) {
		t.Errorf("parameters %q", got)
	}
	for i, c := range []struct {
		node *gorgonia.Node
		want string
	}{{first, "s/deep/d/act"}, {again, "s/deep/d/act 2"}, {second, "s/deep/d/act 3"}, {third, "s/deep/d/act 4"}} {
		if c.node.Name() != c.want {
			t.Errorf("use %d is called %q, want %q", i, c.node.Name(), c.want)
		}
	}
	if n.Parameter("s/deep/d/w") != n.Params()[0].Node || n.Scope("s").Parameter("deep/d/b") != n.Params()[1].Node {
		t.Error("Parameter returns another node")
	}
	a, b := n.Shared("s").Scalar("weight", 2), n.Shared("s").Scalar("weight", 3)
	if p := n.Params()[2]; a != b || a == nil || !p.Frozen || p.Init != (layers.Constant{Value: 2}) {
		t.Errorf("scalars %v and %v, %+v", a, b, p)
	}
	// Parts of a model of another float type.
	c := n.Scope("c")
	c.Type = tensor.Float64
	if d := c.Scalar("weight", 1); d.Dtype() != tensor.Float64 || d.Dims() != 0 {
		t.Errorf("%v %v", d.Dtype(), d.Shape())
	}
	if err := n.Values(1); err != nil || a.Value().Data() != float32(2) {
		t.Errorf("value %v, %v", a.Value(), err)
	}
}

// Uses of one dropout drop other elements.
func TestASharedDropoutDropsOtherElementsInEachUse(t *testing.T) {
	n := layers.New(gorgonia.NewGraph())
	s := n.Shared("s")
	x := n.Param("x", layers.Ones{}, 4, 64)
	a, b := s.Dropout(x, "d", 0.5), s.Dropout(x, "d", 0.5)
	c := n.Scope("t").Dropout(x, "d", 0.5)
	var values [3]gorgonia.Value
	for i, y := range []*gorgonia.Node{a, b, c} {
		gorgonia.Read(y, &values[i])
	}
	if n.Err() != nil {
		t.Fatal(n.Err())
	}
	if err := n.Values(1); err != nil {
		t.Fatal(err)
	}
	run(t, a.Graph())
	for i := range values {
		if fmt.Sprint(values[i].Data()) == fmt.Sprint(values[(i+1)%3].Data()) {
			t.Errorf("dropouts %d and %d are equal", i, (i+1)%3)
		}
	}
}

func TestMistakesWithScopesNameThem(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(n *layers.Net)
		is    error
		want  []string
	}{
		{"no name", func(n *layers.Net) { n.Scope("").Dense(image(n), "d", 1, nil) }, layers.ErrName, []string{`scope ""`}},
		{"a slash at the end", func(n *layers.Net) { n.Scope("a/") }, layers.ErrName, []string{`scope "a/"`}},
		{"two slashes", func(n *layers.Net) { n.Shared("a//b") }, layers.ErrName, []string{`shared scope "a//b"`}},
		{"an error in a scope", func(n *layers.Net) { n.Scope("a").Scope("b").Dense(n.Input("x", 2, 3), "d", 0, nil) }, layers.ErrShape, []string{`scope "a/b"`, `dense "d"`}},
		{"a name used again without Shared", func(n *layers.Net) {
			x := n.Input("x", 2, 3)
			n.Scope("a").Dense(x, "d", 2, nil)
			n.Scope("a").Dense(x, "d", 2, nil)
		}, layers.ErrName, []string{`"d/w"`}},
		{"another shape", func(n *layers.Net) {
			s := n.Shared("s")
			s.Dense(n.Input("x", 2, 3), "d", 4, nil)
			s.Dense(n.Input("y", 2, 5), "d", 4, nil)
		}, layers.ErrShape, []string{`scope "s"`, `"d/w"`, "(3, 4)", "(5, 4)"}},
		{"another type", func(n *layers.Net) {
			s := n.Shared("s")
			s.Param("w", layers.Zeros{}, 3)
			s.Type = tensor.Float64
			s.Param("w", layers.Zeros{}, 3)
		}, layers.ErrShape, []string{`"w"`, "float32", "float64"}},
		{"a vector as a scalar", func(n *layers.Net) {
			n.Shared("s").Param("w", layers.Zeros{}, 3)
			n.Shared("s").Scalar("w", 1)
		}, layers.ErrShape, []string{`"w"`, "(3)", "()"}},
		{"a statistic as a parameter", func(n *layers.Net) {
			n.Shared("s").Statistic("w", layers.Zeros{}, 3)
			n.Shared("s").Param("w", layers.Zeros{}, 3)
		}, layers.ErrName, []string{`parameter "w"`}},
		{"an input twice", func(n *layers.Net) { n.Shared("s").Input("x", 3); n.Shared("s").Input("x", 3) }, layers.ErrName, []string{`input "x"`}},
		{"no such parameter", func(n *layers.Net) {
			n.Scope("a").Dense(n.Input("x", 2, 3), "d", 1, nil)
			n.Scope("a").Parameter("d/v")
		}, layers.ErrName, []string{`scope "a"`, `"d/v"`, `["d/w" "d/b"]`}},
		{"a scalar that is no number", func(n *layers.Net) { n.Scalar("s", math.Inf(1)) }, layers.ErrInit, []string{`scalar "s"`, "+Inf"}},
		{"a parameter of no dimensions", func(n *layers.Net) { n.Param("s", layers.Zeros{}) }, layers.ErrShape, []string{`parameter "s"`, "1 dimension"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.build, c.is, c.want...) })
	}
	var n layers.Net
	if n.Scope("a").Params() != nil || n.Err() == nil || (&layers.Net{}).Statistics() != nil {
		t.Error("a net without a graph has no error")
	}
}
