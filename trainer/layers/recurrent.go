package layers

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Recurrent describes a recurrent layer.
type Recurrent struct {
	Units   int  // size of the state, and of the output of a step
	Reverse bool // read the sequence from its last step to its first
	NoBias  bool // leave out the biases
}

// LSTM adds a layer of long short-term memory, unrolled over the steps of x, with a state that
// starts at 0.
//
//	x [B, T, In] → all [B, T, Units], the output of each step, and last [B, Units]
//	i, f, g, o = blocks of x·wx + h·wh + b
//	c' = σ(f)·c + σ(i)·tanh(g),  h' = σ(o)·tanh(c')
//
// last is the output of the step that is computed last: of the first one if Reverse is set. Both
// directions are two layers whose results are joined by [Net.Concat].
//
// The parameters are name/wx [In, 4·Units] and name/wh [Units, 4·Units], which start uniform within
// ±1/√Units or with Net.Weights, and name/b [4·Units], which starts at 0. Formulas and the order of
// the blocks are PyTorch's, which has a second bias that is added to b. Source: Hochreiter and
// Schmidhuber, 1997, with the forget gate of Gers et al., 2000.
func (n *Net) LSTM(x *gorgonia.Node, name string, r Recurrent) (all, last *gorgonia.Node) {
	layer := fmt.Sprintf("lstm %q", name)
	if !n.sequence(layer, name, x, r.Units) {
		return nil, nil
	}
	l := n.lstmOf(name, x.Shape()[2], r)
	l.meet = x.Shape()[1] == 1
	var c *gorgonia.Node
	return n.unroll(name, x, r, func(x, h *gorgonia.Node, name string) *gorgonia.Node {
		h, c = l.step(x, h, c, name)
		return h
	})
}

// LSTMCell adds one step of an [Net.LSTM], for loops of your own. x [B, In], h, c [B, units] → the
// next h and c [B, units]. h and c may both be nil: a state of 0. The parameters are those of LSTM.
// All steps of a loop have the same if they are added with one name to a [Net.Shared] scope.
func (n *Net) LSTMCell(x, h, c *gorgonia.Node, name string, units int) (nextH, nextC *gorgonia.Node) {
	layer := fmt.Sprintf("lstm cell %q", name)
	if !n.cell(layer, name, x, units, h, c) {
		return nil, nil
	}
	return n.lstmOf(name, x.Shape()[1], Recurrent{Units: units}).step(x, h, c, name+"/h")
}

// GRU adds a layer of gated recurrent units, unrolled over the steps of x, with a state that starts
// at 0.
//
//	x [B, T, In] → all [B, T, Units], the output of each step, and last [B, Units]
//	r, z, n = blocks of x·wx + b,  r', z', n' = blocks of h·wh
//	m = tanh(n + σ(r + r')·(n' + bn)),  h' = m + σ(z + z')·(h − m)
//
// last is the output of the step that is computed last: of the first one if Reverse is set.
//
// The parameters are name/wx [In, 3·Units] and name/wh [Units, 3·Units], which start uniform within
// ±1/√Units or with Net.Weights, name/b [3·Units] and name/bn [Units], which start at 0. Formulas
// and the order of the blocks are PyTorch's. Source: Cho et al., 2014, with the reset after the
// product.
func (n *Net) GRU(x *gorgonia.Node, name string, r Recurrent) (all, last *gorgonia.Node) {
	layer := fmt.Sprintf("gru %q", name)
	if !n.sequence(layer, name, x, r.Units) {
		return nil, nil
	}
	l := n.gruOf(name, x.Shape()[2], r)
	l.meet = x.Shape()[1] == 1
	return n.unroll(name, x, r, l.step)
}

// GRUCell adds one step of a [Net.GRU], for loops of your own: see [Net.LSTMCell].
// x [B, In], h [B, units] → the next h [B, units]. h may be nil: a state of 0.
func (n *Net) GRUCell(x, h *gorgonia.Node, name string, units int) *gorgonia.Node {
	layer := fmt.Sprintf("gru cell %q", name)
	if !n.cell(layer, name, x, units, h) {
		return nil
	}
	return n.gruOf(name, x.Shape()[1], Recurrent{Units: units}).step(x, h, name+"/h")
}

// sequence reports whether x can be the input of a recurrent layer, and records an error if not.
func (n *Net) sequence(layer, name string, x *gorgonia.Node, units int) bool {
	return n.shaped(layer, name, x, "batch", "steps", "features") && n.positiveUnits(layer, units)
}

func (n *Net) positiveUnits(layer string, units int) bool {
	if units < 1 {
		n.fail(fmt.Errorf("%s: %d units: must be 1 or more: %w", layer, units, ErrShape))
	}
	return n.err == nil
}

// cell reports whether x and the state, whose nodes are all nil or none is, can be operands of a
// step. It records an error if not.
func (n *Net) cell(layer, name string, x *gorgonia.Node, units int, state ...*gorgonia.Node) bool {
	if !n.shaped(layer, name, x, "batch", "features") || !n.positiveUnits(layer, units) {
		return false
	}
	for _, s := range state {
		switch {
		case s == nil && state[0] == nil:
		case !n.ready(layer, s): // a nil node is an error, too
			return false
		case s.Dims() != 2 || s.Shape()[0] != x.Shape()[0] || s.Shape()[1] != units || s.Dtype() != x.Dtype():
			n.fail(fmt.Errorf("%s: state %q is %s %s, must be %s (%d, %d): %w", layer, s.Name(), typeString(s.Dtype()), shapeString(s.Shape()),
				typeString(x.Dtype()), x.Shape()[0], units, ErrShape))
			return false
		case state[0] == nil:
			n.fail(fmt.Errorf("%s: only a part of the state is nil: %w", layer, ErrNode))
			return false
		}
	}
	return true
}

// recurrentStep adds a step with the input x and the output h of the step before, which is nil in
// the first one, and returns its output. A name may be empty.
type recurrentStep func(x, h *gorgonia.Node, name string) *gorgonia.Node

// unroll adds a step for each row of x along axis 1, and stacks their outputs.
func (n *Net) unroll(name string, x *gorgonia.Node, r Recurrent, step recurrentStep) (all, last *gorgonia.Node) {
	outputs := make(gorgonia.Nodes, x.Shape()[1])
	for k := range outputs {
		t, label := k, ""
		if r.Reverse {
			t = len(outputs) - 1 - k
		}
		if k == len(outputs)-1 {
			label = name + "/last"
		}
		last = step(n.At(x, "", 1, t), last, label)
		if n.err != nil {
			return nil, nil
		}
		outputs[t] = last
	}
	return n.Stack(outputs, name+"/out", 1), last
}

// recurrence is what the steps of a recurrent layer share.
type recurrence struct {
	*Net
	units         int
	wx, wh, b, bn *gorgonia.Node // b and bn are nil without biases
	// meet: a state of 0 is multiplied by wh, too. There is but one step, and every parameter must
	// be used.
	meet bool
}

// recurrenceOf adds the parameters of a recurrent layer with a number of blocks.
func (n *Net) recurrenceOf(name string, in, blocks int, r Recurrent) recurrence {
	var init Init = Uniform{Limit: 1 / math.Sqrt(float64(r.Units))}
	if n.Weights != nil {
		init = n.Weights
	}
	l := recurrence{Net: n, units: r.Units}
	l.wx = n.Param(name+"/wx", init, in, blocks*r.Units)
	l.wh = n.Param(name+"/wh", init, r.Units, blocks*r.Units)
	if !r.NoBias {
		l.b = n.Param(name+"/b", Zeros{}, blocks*r.Units)
	}
	return l
}

// lstm is an LSTM layer.
type lstm struct{ recurrence }

func (n *Net) lstmOf(name string, in int, r Recurrent) *lstm {
	return &lstm{n.recurrenceOf(name, in, 4, r)}
}

// step adds a step; h and c are nil in the first one.
func (l *lstm) step(x, h, c *gorgonia.Node, name string) (nextH, nextC *gorgonia.Node) {
	const input, forget, candidate, output = 0, 1, 2, 3
	operands := gorgonia.Nodes{x, l.wx, h, l.recurrent(h), l.b}
	z := l.add("lstm gates", "", operands, func(g calc, in []kernels.Value) kernels.Value {
		x, wx, h, wh, b := in[0], in[1], in[2], in[3], in[4]
		z := g.linear(x, wx, b)
		if h == kernels.None && l.meet {
			h = g.zeros(x, l.units)
		}
		if h != kernels.None {
			z = g.two(kernels.Add, z, g.Apply(kernels.MatMul, kernels.MatMulAttrs{}, h, wh))
		}
		return z
	})
	nextC = l.add("lstm state", "", gorgonia.Nodes{z, c}, func(g calc, in []kernels.Value) kernels.Value {
		z, c := in[0], in[1]
		next := g.mul(g.sigmoid(g.block(z, input, l.units)), g.tanh(g.block(z, candidate, l.units)))
		if c != kernels.None {
			next = g.two(kernels.Add, g.mul(g.sigmoid(g.block(z, forget, l.units)), c), next)
		}
		return next
	})
	nextH = l.add("lstm output", name, gorgonia.Nodes{z, nextC}, func(g calc, in []kernels.Value) kernels.Value {
		return g.mul(g.sigmoid(g.block(in[0], output, l.units)), g.tanh(in[1]))
	})
	return nextH, nextC
}

// gru is a GRU layer.
type gru struct{ recurrence }

func (n *Net) gruOf(name string, in int, r Recurrent) *gru {
	l := &gru{n.recurrenceOf(name, in, 3, r)}
	if !r.NoBias {
		l.bn = n.Param(name+"/bn", Zeros{}, r.Units)
	}
	return l
}

// step adds a step; h is nil in the first one.
func (l *gru) step(x, h *gorgonia.Node, name string) *gorgonia.Node {
	const reset, update, candidate = 0, 1, 2
	operands := gorgonia.Nodes{x, l.wx, h, l.recurrent(h), l.b, l.bn}
	return l.add("gru", name, operands, func(g calc, in []kernels.Value) kernels.Value {
		x, wx, h, wh, b, bn := in[0], in[1], in[2], in[3], in[4], in[5]
		if h == kernels.None && l.meet {
			h = g.zeros(x, l.units)
		}
		fromX, fromH := g.linear(x, wx, b), kernels.None
		if h != kernels.None {
			fromH = g.Apply(kernels.MatMul, kernels.MatMulAttrs{}, h, wh)
		}
		gate := func(k int) kernels.Value {
			return g.sigmoid(g.sum(g.block(fromX, k, l.units), g.block(fromH, k, l.units)))
		}
		m := g.block(fromX, candidate, l.units)
		if s := g.sum(g.block(fromH, candidate, l.units), bn); s != kernels.None {
			r := gate(reset)
			m = g.two(kernels.Add, m, g.mul(r, s))
		}
		m = g.tanh(m)
		if h == kernels.None {
			return g.two(kernels.Sub, m, g.mul(gate(update), m))
		}
		return g.two(kernels.Add, m, g.mul(gate(update), g.two(kernels.Sub, h, m)))
	})
}

// recurrent returns wh, or nil where a step from state h does not multiply by it.
func (l *recurrence) recurrent(h *gorgonia.Node) *gorgonia.Node {
	if h == nil && !l.meet {
		return nil
	}
	return l.wh
}

// add adds the node of a formula. Operands that are nil are kernels.None in the formula.
func (l *recurrence) add(what, name string, operands gorgonia.Nodes,
	f func(g calc, in []kernels.Value) kernels.Value,
) *gorgonia.Node {
	if l.err != nil {
		return nil
	}
	var given gorgonia.Nodes
	index := make([]int, len(operands))
	for i, x := range operands {
		if index[i] = -1; x != nil {
			index[i] = len(given)
			given = append(given, x)
		}
	}
	return l.compose(what, name, func(g kernels.Graph, in []kernels.Value) kernels.Value {
		all := make([]kernels.Value, len(index))
		for i, k := range index {
			if all[i] = kernels.None; k >= 0 {
				all[i] = in[k]
			}
		}
		return f(calc{g}, all)
	}, given...)
}

func (c calc) sigmoid(x kernels.Value) kernels.Value { return c.of(kernels.Sigmoid, x) }

func (c calc) tanh(x kernels.Value) kernels.Value { return c.of(kernels.Tanh, x) }

// linear is x·w + b; b may be kernels.None.
func (c calc) linear(x, w, b kernels.Value) kernels.Value {
	return c.sum(c.Apply(kernels.MatMul, kernels.MatMulAttrs{}, x, w), b)
}

// sum is a + b, of which either may be kernels.None: 0.
func (c calc) sum(a, b kernels.Value) kernels.Value {
	switch {
	case a == kernels.None:
		return b
	case b == kernels.None:
		return a
	}
	return c.two(kernels.Add, a, b)
}

// zeros is a matrix [rows of x, columns] of 0.
func (c calc) zeros(x kernels.Value, columns int) kernels.Value {
	s := c.Spec(x)
	return c.Apply(kernels.Fill, kernels.FillAttrs{Type: s.Type, Shape: kernels.Shape{s.Shape[0], columns}})
}

// block is columns k·size … of x, which may be kernels.None.
func (c calc) block(x kernels.Value, k, size int) kernels.Value {
	if x == kernels.None {
		return x
	}
	rows := c.Spec(x).Shape[0]
	a := kernels.SliceAttrs{Start: []int{0, k * size}, End: []int{rows, (k + 1) * size}, Step: []int{1, 1}}
	return c.Apply(kernels.Slice, a, x)
}
