package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// Recurrent layers, unrolled: each time step is a few operations.
var recurrentRules = map[string][]rule{
	"LSTM": {{since: 7, apply: recurrent(4, lstmCell)}},
	"GRU":  {{since: 7, apply: recurrent(3, gruCell)}},
	"RNN":  {{since: 7, apply: recurrent(1, rnnCell)}},
}

// A cell is one direction of a recurrent layer. W, R and the biases are those of all gates, one
// after another.
type cell struct {
	*call
	units  int
	r      kernels.Value // [gates·H, H]
	wb, rb kernels.Value // [gates·H]
	peep   kernels.Value // [3·H], or None
	f      []*kernels.Op // activations
	h, c   kernels.Value // state [B, H]; None: zeros
}

// A cellFunc moves a cell by one time step. x [B, gates·H] is the product of the input and W, with
// the bias of W.
type cellFunc func(l *cell, x kernels.Value)

// recurrent unrolls a layer with a number of gates.
func recurrent(gates int, step cellFunc) ruleFunc {
	return func(c *call) []*value {
		c.checkRecurrent()
		x, s := c.float(0), c.shape(0)
		batchFirst := c.attrBool("layout", false)
		if len(s) != 3 || len(c.shape(1)) != 3 || len(c.shape(2)) != 3 {
			mismatch("operands %v, %v and %v", s, c.shape(1), c.shape(2))
		}
		if batchFirst {
			x = c.transpose(x, []int{1, 0, 2})
		}
		units := c.shape(2)[2]
		directions := c.directions()
		if d := c.shape(1)[0]; d != len(directions) || c.shape(1)[1] != gates*units {
			mismatch("weights %v for %d directions of %d gates of %d units", c.shape(1), len(directions), gates, units)
		}
		var all, last, cells []kernels.Value
		for d, backward := range directions {
			l := c.cell(d, gates, units, len(directions), batchFirst)
			y := l.unroll(c, x, d, backward, step)
			all, last, cells = append(all, y), append(last, l.h), append(cells, l.c)
		}
		typ := c.must(0).typ
		stack := func(axis int, list []kernels.Value, perm []int) *value {
			parts := make([]kernels.Value, len(list))
			for i, v := range list {
				parts[i] = c.reshape(v, slices.Insert(slices.Clone(c.Spec(v).Shape), axis, 1))
			}
			y := c.concat(axis, parts...)
			if batchFirst {
				y = c.transpose(y, perm)
			}
			return c.out(y, typ)
		}
		out := []*value{stack(1, all, []int{2, 0, 1, 3}), stack(0, last, []int{1, 0, 2})}
		if cells[0] != kernels.None {
			out = append(out, stack(0, cells, []int{1, 0, 2}))
		}
		return out
	}
}

// checkRecurrent refuses what is not known.
func (c *call) checkRecurrent() {
	if c.n.Attribute("clip") != nil {
		refuse("clip")
	}
	if c.attrBool("input_forget", false) {
		refuse("input_forget")
	}
	if c.arg(4) == nil {
		return
	}
	s := c.shape(0)
	length := s[0]
	if c.attrBool("layout", false) {
		length = s[1]
	}
	for _, n := range c.ints(4, "the lengths of sequences") {
		if n != length {
			refuse("sequences of %d steps in a batch of %d", n, length)
		}
	}
}

// directions returns for each direction whether it begins at the end.
func (c *call) directions() []bool {
	switch d := c.attrText("direction", "forward"); d {
	case "forward":
		return []bool{false}
	case "reverse":
		return []bool{true}
	case "bidirectional":
		return []bool{false, true}
	default:
		badAttribute("direction %q", d)
	}
	return nil
}

// activations are the functions of gates that are known.
var activations = map[string]*kernels.Op{"Sigmoid": kernels.Sigmoid, "Tanh": kernels.Tanh, "Relu": kernels.ReLU, "Softplus": kernels.Softplus}

// functions returns the activations of direction d, n of them.
func (c *call) functions(d, n int) []*kernels.Op {
	f := []*kernels.Op{kernels.Sigmoid, kernels.Tanh, kernels.Tanh}[:n]
	if n == 1 {
		f = []*kernels.Op{kernels.Tanh}
	}
	a := c.n.Attribute("activations")
	if a == nil || len(a.Strings) == 0 {
		return f
	}
	if len(a.Strings) < (d+1)*n {
		badAttribute("%d activations", len(a.Strings))
	}
	f = nil
	for _, s := range a.Strings[d*n : (d+1)*n] {
		if activations[string(s)] == nil {
			refuse("activation %q", s)
		}
		f = append(f, activations[string(s)])
	}
	return f
}

// cell returns direction d with its weights and first state.
func (c *call) cell(d, gates, units, directions int, batchFirst bool) *cell {
	l := &cell{call: c, units: units, peep: kernels.None, h: kernels.None, c: kernels.None}
	l.f = c.functions(d, map[int]int{4: 3, 3: 2, 1: 1}[gates])
	part := func(i int) kernels.Value { // row d of operand i
		if s := c.shape(i); s[0] != directions {
			mismatch("operand %d is %v", i, s)
		}
		v := c.slice(c.weight(i), 0, d, d+1)
		return c.reshape(v, slices.Clone(c.Spec(v).Shape[1:]))
	}
	l.r = part(2)
	if s := c.Spec(l.r).Shape; !s.Equal(kernels.Shape{gates * units, units}) {
		mismatch("recurrent weights %v for %d units", s, units)
	}
	if c.arg(3) != nil {
		if s := c.shape(3); !s.Equal(kernels.Shape{directions, 2 * gates * units}) {
			mismatch("biases %v", s)
		}
		b := part(3)
		l.wb, l.rb = c.slice(b, 0, 0, gates*units), c.slice(b, 0, gates*units, 2*gates*units)
	} else {
		l.wb, l.rb = kernels.None, kernels.None
	}
	state := func(i int) kernels.Value {
		if c.arg(i) == nil {
			return kernels.None
		}
		v := c.float(i)
		if batchFirst {
			v = c.transpose(v, []int{1, 0, 2})
		}
		v = c.slice(v, 0, d, d+1)
		return c.reshape(v, slices.Clone(c.Spec(v).Shape[1:]))
	}
	l.h = state(5)
	if gates == 4 {
		l.c = state(6)
		if c.arg(7) != nil {
			l.peep = part(7)
		}
	}
	return l
}

// unroll runs the cell over x [T, B, I] and returns all states [T, B, H].
func (l *cell) unroll(c *call, x kernels.Value, d int, backward bool, step cellFunc) kernels.Value {
	s := c.Spec(x).Shape
	w := c.slice(c.weight(1), 0, d, d+1)
	w = c.reshape(w, slices.Clone(c.Spec(w).Shape[1:]))
	rows, a := kernels.Shape{s[0] * s[1], s[2]}, kernels.MatMulAttrs{TransB: true}
	in := []kernels.Value{c.reshape(x, rows), w}
	if l.wb != kernels.None {
		a.Bias = true
		in = append(in, l.wb)
	}
	z := c.Apply(kernels.MatMul, a, in...)
	states := make([]kernels.Value, s[0])
	for i := range s[0] {
		t := i
		if backward {
			t = s[0] - 1 - i
		}
		step(l, c.slice(z, 0, t*s[1], (t+1)*s[1]))
		states[t] = c.reshape(l.h, kernels.Shape{1, s[1], l.units})
	}
	return c.concat(0, states...)
}

// recurrentPart is h·Rᵀ plus the bias of R, for gates from one on; None if h and the bias are 0.
func (l *cell) recurrentPart(h kernels.Value, from, to int) kernels.Value {
	u := l.units
	bias := kernels.None
	if l.rb != kernels.None {
		bias = l.slice(l.rb, 0, from*u, to*u)
	}
	if h == kernels.None {
		return bias
	}
	a, in := kernels.MatMulAttrs{TransB: true}, []kernels.Value{h, l.slice(l.r, 0, from*u, to*u)}
	if bias != kernels.None {
		a.Bias = true
		in = append(in, bias)
	}
	return l.Apply(kernels.MatMul, a, in...)
}

// gate returns gate i of z [B, gates·H].
func (l *cell) gate(z kernels.Value, i int) kernels.Value {
	return l.slice(z, 1, i*l.units, (i+1)*l.units)
}

// product is a·b, or None if b is.
func (l *cell) product(a, b kernels.Value) kernels.Value {
	if b == kernels.None {
		return b
	}
	return l.mul(a, b)
}

// peephole is part i of the peephole weights times a state.
func (l *cell) peephole(i int, state kernels.Value) kernels.Value {
	if l.peep == kernels.None || state == kernels.None {
		return kernels.None
	}
	return l.mul(state, l.slice(l.peep, 0, i*l.units, (i+1)*l.units))
}

// lstmCell has the gates i, o, f, c.
func lstmCell(l *cell, x kernels.Value) {
	z := l.sum(x, l.recurrentPart(l.h, 0, 4))
	i := l.of(l.f[0], l.sum(l.gate(z, 0), l.peephole(0, l.c)))
	f := l.of(l.f[0], l.sum(l.gate(z, 2), l.peephole(2, l.c)))
	c := l.sum(l.mul(i, l.of(l.f[1], l.gate(z, 3))), l.product(f, l.c))
	o := l.of(l.f[0], l.sum(l.gate(z, 1), l.peephole(1, c)))
	l.c = c
	l.h = l.mul(o, l.of(l.f[2], c))
}

// gruCell has the gates z, r, h.
func gruCell(l *cell, x kernels.Value) {
	zr := l.sum(l.slice(x, 1, 0, 2*l.units), l.recurrentPart(l.h, 0, 2))
	z, r := l.of(l.f[0], l.gate(zr, 0)), l.of(l.f[0], l.gate(zr, 1))
	var inner kernels.Value
	if l.attrBool("linear_before_reset", false) {
		inner = l.product(r, l.recurrentPart(l.h, 2, 3))
	} else {
		inner = l.recurrentPart(l.product(r, l.h), 2, 3)
	}
	n := l.of(l.f[1], l.sum(l.gate(x, 2), inner))
	// h = (1-z)·n + z·h
	l.h = l.sum(l.mul(l.affine(z, -1, 1), n), l.product(z, l.h))
}

// rnnCell has one gate.
func rnnCell(l *cell, x kernels.Value) {
	l.h = l.of(l.f[0], l.sum(x, l.recurrentPart(l.h, 0, 1)))
}
