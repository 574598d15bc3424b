package layers

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"
)

// Scope returns a net that adds to the same graph under the prefix "name/": the layer "dense" of
// Scope("encoder") has the parameter "encoder/dense/w". All names that are given to the scope get
// the prefix, those of inputs too; operations without a name have none to prefix. Scopes nest: a
// scope's own scopes, and Scope("encoder/block"), begin with its prefix.
//
// The net has all that its scopes add, and their first error. Type and Weights are those of the net
// now. A name that is empty, or begins or ends with "/", is an error that wraps [ErrName].
//
// Options that list layers, such as Frozen of a trainer, accept the name of a scope for all in it.
func (n *Net) Scope(name string) *Net { return n.scope("scope", name, n.shares) }

// Shared returns a [Net.Scope] in which a name may be used again: a layer of a name that was used
// before has the same parameters and running statistics, so that one layer reads several inputs.
// The branches of a siamese net and the steps of a recurrent one are such layers.
//
//	enc := net.Shared("enc")
//	a := enc.Dense(x, "dense", 8, layers.Tanh)
//	b := enc.Dense(y, "dense", 8, layers.Tanh) // the same enc/dense/w and enc/dense/b
//
// The gradient of a parameter is the sum over all its uses, and each use updates running statistics
// once. A parameter keeps its first Init; a second use of another shape or type is an error that
// wraps [ErrShape] and has both. The later nodes of a name are called by it and a number, as
// "enc/dense/out 2"; dropout of a later node drops other elements. Inputs are not shared.
func (n *Net) Shared(name string) *Net { return n.scope("shared scope", name, true) }

// scope returns a net of longer names.
func (n *Net) scope(what, name string, shares bool) *Net {
	if n.usable() && slices.Contains(strings.Split(name, "/"), "") {
		n.fail(fmt.Errorf("%s %q: a name must not be empty, nor begin or end with a slash: %w", what, name, ErrName))
	}
	return &Net{Type: n.Type, Weights: n.Weights, content: n.content, prefix: n.prefix + name + "/", shares: shares}
}

// Parameter returns the parameter or running statistic called name that the net, or the scope, has
// added. Used again, it ties weights: the table of an embedding is the output projection, too, if
// it is transposed, and its gradient is the sum of both uses.
//
//	h := net.Embedding(words, "words", vocabulary, 64)
//	…
//	logits := net.MatMul(h, net.Parameter("words/table"), "logits", layers.Transposed{B: true})
//
// An unknown name is an error that wraps [ErrName].
func (n *Net) Parameter(name string) *gorgonia.Node {
	if !n.usable() {
		return nil
	}
	for _, list := range [][]Param{n.params, n.statistics} {
		if p := find(list, n.prefix+name); p != nil {
			return p.Node
		}
	}
	var names []string
	for _, p := range slices.Concat(n.Params(), n.Statistics()) {
		names = append(names, strings.TrimPrefix(p.Node.Name(), n.prefix))
	}
	n.fail(fmt.Errorf("parameter %q has not been added before: there are %q: %w", name, names, ErrName))
	return nil
}

// scalar is the kind of leaf that may have no dimensions.
const scalar = "scalar"

// Scalar adds a parameter of one number, of no dimensions, that training leaves as it is: the
// program writes it between steps, through the Write of the trainer's parameter, and the next step
// reads it. The weight of a loss is one that changes while a model trains. value is its first
// value.
//
//	loss := net.Add(a, net.Mul(net.Scalar("balance", 0.1), b, ""), "loss")
func (n *Net) Scalar(name string, value float64) *gorgonia.Node {
	if !n.usable() {
		return nil
	}
	if !finite(value) {
		n.fail(fmt.Errorf("scalar %q: value %v must be finite: %w", name, value, ErrInit))
		return nil
	}
	if p := find(n.params, n.prefix+name); p != nil && n.shares {
		return n.again(scalar, name, p.Node, nil)
	}
	x := n.leaf(scalar, name, n.Type, nil)
	if x != nil {
		n.params = append(n.params, Param{Node: x, Init: Constant{Value: value}, Frozen: true})
	}
	return x
}

// has reports whether x has the prefix of the net's names.
func (n *Net) has(x *gorgonia.Node) bool { return strings.HasPrefix(x.Name(), n.prefix) }

// own returns the parameters of the list that have the prefix.
func (n *Net) own(list []Param) []Param {
	var own []Param
	for _, p := range list {
		if n.has(p.Node) {
			own = append(own, p)
		}
	}
	return own
}

// find returns the parameter of that name, or nil.
func find(list []Param, name string) *Param {
	if i := slices.IndexFunc(list, func(p Param) bool { return p.Node.Name() == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// again returns x, a parameter that is used again, or records an error if it has another type or
// shape.
func (n *Net) again(what, name string, x *gorgonia.Node, dims []int) *gorgonia.Node {
	if n.err == nil && (x.Dtype() != n.Type || !slices.Equal([]int(x.Shape()), dims)) {
		n.fail(fmt.Errorf("%s %q is used again as %s %s, and is %s %s: uses of one name must agree: %w", what, name,
			typeString(n.Type), shapeString(dims), typeString(x.Dtype()), shapeString(x.Shape()), ErrShape))
	}
	if n.err != nil {
		return nil
	}
	return x
}

// freshName returns the whole name of a node that is to be called name: with the prefix and, in a
// shared scope, with a number if it was used before.
func (n *Net) freshName(name string) string {
	full := n.prefix + name
	if uses := n.uses[full]; n.shares && uses > 0 {
		return fmt.Sprintf("%s %d", full, uses+1)
	}
	return full
}

// record records in a shared scope that x is called name.
func (n *Net) record(name string, x *gorgonia.Node) {
	if !n.shares {
		return
	}
	if n.uses == nil {
		n.uses, n.named = make(map[string]int), make(map[*gorgonia.Node]bool)
	}
	n.uses[n.prefix+name]++
	n.named[x] = true
}
