package layers

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Net adds layers to one graph, under a prefix of names if it is a scope. After an error all
// methods do nothing and return nil; Err and the methods that return a Model return the first
// error. A Net, with all its scopes, is not safe for concurrent use.
type Net struct {
	// Type is the type of inputs and parameters added from now on: tensor.Float32 (default) or
	// tensor.Float64.
	Type tensor.Dtype
	// Weights computes the initial values of weights. Nil: HeUniform if an activation follows, else
	// GlorotUniform.
	Weights Init

	*content
	prefix string // of names: empty, or that of a scope, such as "encoder/"
	shares bool   // a name may be used again: see Shared
}

// content is what a net and its scopes have added.
type content struct {
	g          *gorgonia.ExprGraph
	inputs     gorgonia.Nodes
	params     []Param
	statistics []Param
	lastID     uint32 // last number of an operation of this package, among the nodes of g with ids below nextNode
	nextNode   int64
	err        error

	uses  map[string]int          // by name in a shared scope: how many nodes were given it, with or without a number
	named map[*gorgonia.Node]bool // the nodes of these names

	lines *lineRecorder // of the lines that add nodes; nil outside of Sources
}

// New returns a Net that adds layers to g, with float32 parameters.
func New(g *gorgonia.ExprGraph) *Net {
	n := &Net{Type: tensor.Float32, content: &content{g: g, lines: lineRecorderOf(g)}}
	n.usable()
	return n
}

// usable reports whether the net has a graph and no error.
func (n *Net) usable() bool {
	if n.content == nil {
		n.content = &content{}
	}
	if n.g == nil {
		n.fail(fmt.Errorf("the graph is nil: use layers.New(gorgonia.NewGraph()): %w", ErrNode))
	}
	return n.err == nil
}

// Err returns the first error of the net and all its scopes.
func (n *Net) Err() error {
	if n.content == nil {
		return nil
	}
	return n.err
}

// Inputs returns the nodes added by Input, Labels and Indices, and the targets, in the order in
// which they were added. A scope returns its own.
func (n *Net) Inputs() gorgonia.Nodes {
	var own gorgonia.Nodes
	if n.content != nil {
		for _, x := range n.inputs {
			if n.has(x) {
				own = append(own, x)
			}
		}
	}
	return own
}

// Params returns the parameters in the order in which they were added. A scope returns its own.
func (n *Net) Params() []Param {
	if n.content == nil {
		return nil
	}
	return n.own(n.params)
}

// Statistics returns the running statistics in the order in which they were added. A scope returns
// its own.
func (n *Net) Statistics() []Param {
	if n.content == nil {
		return nil
	}
	return n.own(n.statistics)
}

// Input adds an input field of type Net.Type. dims[0] is the batch size: x [B, ...].
func (n *Net) Input(name string, dims ...int) *gorgonia.Node {
	x := n.leaf("input", name, n.Type, dims)
	if x != nil {
		n.inputs = append(n.inputs, x)
	}
	return x
}

// Labels adds a field of class indices, of type int: y [B].
func (n *Net) Labels(name string, batch int) *gorgonia.Node {
	return n.integers("labels", name, []int{batch})
}

// Indices adds an input field of indices, of type int, such as the words of a text: x [B, ...].
func (n *Net) Indices(name string, dims ...int) *gorgonia.Node {
	return n.integers("indices", name, dims)
}

// integers adds an input field of type int.
func (n *Net) integers(what, name string, dims []int) *gorgonia.Node {
	x := n.leaf(what, name, tensor.Int, dims)
	if x != nil {
		n.inputs = append(n.inputs, x)
	}
	return x
}

// Param adds a parameter with the initial values of init. The part of the name before the last "/"
// is its layer. In a [Net.Shared] scope it returns the parameter that already has the name.
func (n *Net) Param(name string, init Init, dims ...int) *gorgonia.Node {
	return n.kept("parameter", &n.params, name, init, dims)
}

// Statistic adds a running statistic with the initial values of init: a value that is kept but not
// learned.
func (n *Net) Statistic(name string, init Init, dims ...int) *gorgonia.Node {
	return n.kept("statistic", &n.statistics, name, init, dims)
}

// kept adds a parameter or statistic to list.
func (n *Net) kept(what string, list *[]Param, name string, init Init, dims []int) *gorgonia.Node {
	if !n.usable() {
		return nil
	}
	if err := checkInit(init); err != nil {
		n.fail(fmt.Errorf("%s %q: %w", what, name, err))
	}
	if p := find(*list, n.prefix+name); p != nil && n.shares {
		return n.again(what, name, p.Node, dims)
	}
	p := n.leaf(what, name, n.Type, dims)
	if p != nil {
		*list = append(*list, Param{Node: p, Init: init})
	}
	return p
}

// Values binds a tensor of initial values to every parameter and statistic that has no value.
// Gorgonia's own machines need it. A trainer does not: it fills its own memory with the same
// numbers for the same seed.
func (n *Net) Values(seed uint64) error {
	if n.Err() != nil {
		return n.err
	}
	for _, p := range slices.Concat(n.Params(), n.Statistics()) {
		if p.Node.Value() != nil {
			continue
		}
		v, err := p.value(seed)
		if err == nil {
			err = gorgonia.Let(p.Node, v)
		}
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Node.Name(), err)
		}
	}
	return nil
}

// value returns the initial values of a parameter: a scalar, or a tensor.
func (p *Param) value(seed uint64) (v gorgonia.Value, err error) {
	name, shape := p.Node.Name(), p.Node.Shape()
	switch of := p.Node.Dtype(); of {
	case tensor.Float32:
		d := make([]float32, shape.TotalSize())
		err = Fill(d, p.Init, seed, name, shape...)
		v = newValue(d, shape, gorgonia.NewF32)
	case tensor.Float64:
		d := make([]float64, shape.TotalSize())
		err = Fill(d, p.Init, seed, name, shape...)
		v = newValue(d, shape, gorgonia.NewF64)
	default:
		err = fmt.Errorf("type %s: only float32 and float64 can be learned: %w", typeString(of), ErrShape)
	}
	return v, err
}

// leaf adds a node without an operation, of 1 dimension or more. It checks everything that would
// make Gorgonia panic.
func (n *Net) leaf(what, name string, t tensor.Dtype, dims []int) *gorgonia.Node {
	if !n.usable() {
		return nil
	}
	full := n.prefix + name
	switch {
	case name == "":
		n.fail(fmt.Errorf("%s %v has no name: %w", what, dims, ErrName))
	case len(n.g.ByName(full)) > 0:
		// Gorgonia treats inputs with the same name as one node.
		n.fail(fmt.Errorf("%s %q: the graph has a node of that name: %w", what, name, ErrName))
	case t != tensor.Float32 && t != tensor.Float64 && t != tensor.Int:
		n.fail(fmt.Errorf("%s %q: Net.Type is %s: use tensor.Float32 or tensor.Float64: %w", what, name, typeString(t), ErrShape))
	case len(dims) == 0 && what != scalar:
		n.fail(fmt.Errorf("%s %q needs at least 1 dimension: %w", what, name, ErrShape))
	case len(dims) > 0 && slices.Min(dims) < 1:
		n.fail(fmt.Errorf("%s %q: dimensions %s must all be 1 or more: %w", what, name, shapeString(dims), ErrShape))
	}
	if n.err != nil {
		return nil
	}
	if err := (kernels.Spec{Type: storage[t], Shape: dims}).Check(); err != nil {
		n.fail(fmt.Errorf("%s %q: %w", what, name, err))
		return nil
	}
	n.lines.add(full)
	if len(dims) == 0 {
		return gorgonia.NewScalar(n.g, t, gorgonia.WithName(full))
	}
	return gorgonia.NewTensor(n.g, t, len(dims), gorgonia.WithShape(dims...), gorgonia.WithName(full))
}

// id reserves the numbers of an operation and of the gradients of its operands, and returns the
// first.
func (n *Net) id(operands int) uint32 {
	n.findIDs()
	first := n.lastID + 1
	n.lastID += 1 + uint32(operands)
	return first
}

// findIDs updates lastID by the nodes that were added since: other nets may add to the graph, too.
func (n *Net) findIDs() {
	nodes := n.g.AllNodes()
	// Gorgonia appends nodes with increasing ids, and removes some.
	for i := len(nodes) - 1; i >= 0 && nodes[i].ID() >= n.nextNode; i-- {
		if op, ok := nodes[i].Op().(interface{ lastID() uint32 }); ok {
			n.lastID = max(n.lastID, op.lastID())
		}
	}
	if len(nodes) > 0 {
		n.nextNode = max(n.nextNode, nodes[len(nodes)-1].ID()+1)
	}
}

// keep names x, the node of a Gorgonia call, or records the error of the call. It returns nil after
// an error.
func (n *Net) keep(layer, name string, x *gorgonia.Node, err error) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	if err != nil {
		n.fail(fmt.Errorf("%s: %w: %w", layer, err, ErrNode))
		return nil
	}
	switch full := n.freshName(name); {
	case name == "":
		n.fail(fmt.Errorf("%s over %s has no name: %w", layer, shapeString(x.Shape()), ErrName))
	case n.shares && n.named[x]:
		return x // Gorgonia returns the node of an earlier use if the operands are the same
	case len(n.g.ByName(full)) > 0:
		n.fail(fmt.Errorf("%s: the graph has a node called %q already: %w", layer, full, ErrName))
	default:
		gorgonia.WithName(full)(x)
		n.lines.add(full)
		n.record(name, x)
		return x
	}
	return nil
}

// ready reports whether x can be an input. It records an error if x is nil, of another graph, or
// not a float.
func (n *Net) ready(layer string, x *gorgonia.Node) bool {
	if !n.usable() {
		return false
	}
	if err := n.checkNode(layer, "input", x); err != nil {
		n.fail(err)
	} else if x.Dtype() != tensor.Float32 && x.Dtype() != tensor.Float64 {
		n.fail(fmt.Errorf("%s: %q is of type %s: only float32 and float64 are supported: %w", layer, x.Name(), typeString(x.Dtype()), ErrShape))
	}
	return n.err == nil
}

// layer reports whether x can be the input of a layer called name, and records an error if not.
func (n *Net) layer(layer, name string, x *gorgonia.Node) bool {
	switch {
	case !n.ready(layer, x):
	case name == "":
		n.fail(fmt.Errorf("%slayer over %q has no name: %w", layer[:len(layer)-len(`""`)], x.Name(), ErrName))
	case x.Dtype() != n.Type:
		n.fail(fmt.Errorf("%s: input is %s but Net.Type is %s: %w", layer, typeString(x.Dtype()), typeString(n.Type), ErrShape))
	}
	return n.err == nil
}

// shaped reports whether x can be the input of a layer called name whose input has dims, and
// records an error if not.
func (n *Net) shaped(layer, name string, x *gorgonia.Node, dims ...string) bool {
	if n.layer(layer, name, x) && x.Dims() != len(dims) {
		n.fail(fmt.Errorf("%s: input %s needs %d dimensions, [%s]: %w", layer, shapeString(x.Shape()), len(dims), strings.Join(dims, ", "), ErrShape))
	}
	return n.err == nil
}

// weights returns the Init of the weights of a layer.
func (n *Net) weights(act Activation) Init {
	switch {
	case n.Weights != nil:
		return n.Weights
	case act != nil:
		return HeUniform{}
	}
	return GlorotUniform{}
}

// activated adds the activation of the layer called name.
func (n *Net) activated(y *gorgonia.Node, name string, act Activation) *gorgonia.Node {
	if y == nil || act == nil {
		return y
	}
	if y = act(n, y, name+"/act"); y == nil {
		n.fail(fmt.Errorf("%q: its activation returned no node: %w", name, ErrNode))
	}
	return y
}

// fail records the first error, in the graph too.
func (n *Net) fail(err error) {
	if n.err != nil {
		return
	}
	if n.prefix != "" {
		err = fmt.Errorf("scope %q: %w", strings.TrimSuffix(n.prefix, "/"), err)
	}
	if n.err = err; n.g != nil {
		n.mark()
	}
}

// shapeString writes dimensions as (2, 3).
func shapeString(dims []int) string {
	b := []byte{'('}
	for i, d := range dims {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Append(b, d)
	}
	return string(append(b, ')'))
}
