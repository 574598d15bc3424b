package layers

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Einsum adds a sum of products in Einstein's notation. spec has a letter for each axis of each
// operand, and after -> the letters of the result; it sums over the letters that the result lacks.
//
//	ij,jk->ik      product of matrices
//	bhqd,bhkd->bhqk  scores of attention
//	bij->bji       transposed matrices
//	i,j->ij        outer product
//
// There are one or two operands. A letter is once in an operand, and in one operand at least.
func (n *Net) Einsum(spec, name string, in ...*gorgonia.Node) *gorgonia.Node {
	var first *gorgonia.Node
	if len(in) > 0 {
		first = in[0]
	}
	layer := operation("einsum", name, first)
	if !n.usable() {
		return nil
	}
	e, err := parseEinsum(spec)
	if err == nil && len(in) != len(e.in) {
		err = fmt.Errorf("%q has %d operands, got %d: %w", spec, len(e.in), len(in), ErrShape)
	}
	if err != nil {
		n.fail(fmt.Errorf("%s: %w", layer, err))
		return nil
	}
	if !n.floats(layer, in...) {
		return nil
	}
	for i, x := range in {
		if err := e.measure(i, x.Shape()); err != nil {
			n.fail(fmt.Errorf("%s: %w", layer, err))
			return nil
		}
	}
	return n.compose("einsum", name, func(g kernels.Graph, x []kernels.Value) kernels.Value { return e.compute(calc{g}, x) }, in...)
}

// einsum is a parsed specification.
type einsum struct {
	spec string
	in   []string // letters of the operands
	out  string   // letters of the result
	size map[rune]int
}

// parseEinsum parses a specification. It refuses those that are no product of matrices.
func parseEinsum(spec string) (einsum, error) {
	refuse := func(format string, args ...any) (einsum, error) {
		return einsum{}, fmt.Errorf("%q %s: %w", spec, fmt.Sprintf(format, args...), kernels.ErrAttrs)
	}
	left, out, ok := strings.Cut(strings.ReplaceAll(spec, " ", ""), "->")
	e := einsum{spec: spec, in: strings.Split(left, ","), out: out, size: map[rune]int{}}
	switch {
	case strings.Contains(spec, "."):
		return refuse("has an ellipsis: give each axis a letter")
	case !ok:
		return refuse("has no ->: write the letters of the result after it")
	case len(e.in) > 2:
		return refuse("has %d operands: multiply two at a time", len(e.in))
	}
	for _, letters := range append(slices.Clone(e.in), out) {
		for i, l := range letters {
			switch {
			case !('a' <= l && l <= 'z' || 'A' <= l && l <= 'Z'):
				return refuse("has %q: axes are letters", l)
			case strings.ContainsRune(letters[:i], l):
				return refuse("has %q twice in %q: multiply by an identity matrix and sum", l, letters)
			}
		}
	}
	for _, l := range out {
		if !strings.ContainsRune(left, l) {
			return refuse("has %q in the result only: use Repeat", l)
		}
	}
	return e, nil
}

// measure stores the sizes of the letters of operand i, whose shape is s.
func (e einsum) measure(i int, s []int) error {
	letters := e.in[i]
	if len(letters) != len(s) {
		return fmt.Errorf("%q has %d letters for operand %d of shape %s: %w", e.spec, len(letters), i, shapeString(s), ErrShape)
	}
	for axis, l := range letters {
		if have, ok := e.size[l]; ok && have != s[axis] {
			return fmt.Errorf("%q: %q is %d in operand 0 and %d in operand 1 of shape %s: %w", e.spec, l, have, s[axis], shapeString(s), ErrShape)
		}
		e.size[l] = s[axis]
	}
	return nil
}

// compute is the sum of products.
func (e einsum) compute(c calc, x []kernels.Value) kernels.Value {
	terms := make([]term, len(x))
	for i, v := range x {
		others := e.out
		if len(x) == 2 {
			others += e.in[1-i]
		}
		terms[i] = term{v, e.in[i]}.sumOver(c, func(l rune) bool { return !strings.ContainsRune(others, l) })
	}
	y := terms[0]
	if len(x) == 2 {
		y = e.multiply(c, terms[0], terms[1])
	}
	return y.ordered(c, e.out).v
}

// multiply is the product of a and b, summed over the letters that the result lacks. Letters are
//
//	of both and the result  one product for each of their indices
//	of both alone           summed over: columns of a, rows of b
//	of one and the result   rows of a, columns of b
func (e einsum) multiply(c calc, a, b term) term {
	var each, summed, rows, columns string
	for _, l := range a.letters {
		switch inB := strings.ContainsRune(b.letters, l); {
		case inB && strings.ContainsRune(e.out, l):
			each += string(l)
		case inB:
			summed += string(l)
		default:
			rows += string(l)
		}
	}
	for _, l := range b.letters {
		if !strings.ContainsRune(a.letters, l) {
			columns += string(l)
		}
	}
	letters := each + rows + columns
	shape := e.shape(letters)
	if summed == "" { // products of single elements, which broadcast
		ones := func(s string) kernels.Shape { return slices.Repeat(kernels.Shape{1}, len(s)) }
		x := c.reshape(a.ordered(c, each+rows).v, slices.Concat(e.shape(each+rows), ones(columns)))
		y := c.reshape(b.ordered(c, each+columns).v, slices.Concat(e.shape(each), ones(rows), e.shape(columns)))
		return term{c.mul(x, y), letters}
	}
	x, transA := a.matrices(c, e, each, rows, summed)
	y, transB := b.matrices(c, e, each, summed, columns)
	z := c.Apply(kernels.MatMul, kernels.MatMulAttrs{TransA: transA, TransB: transB}, x, y)
	return term{c.reshape(z, shape), letters}
}

// shape returns the sizes of letters.
func (e einsum) shape(letters string) kernels.Shape {
	s := kernels.Shape{}
	for _, l := range letters {
		s = append(s, e.size[l])
	}
	return s
}

// term is a value and the letters of its axes.
type term struct {
	v       kernels.Value
	letters string
}

// sumOver sums over the letters that drop selects.
func (t term) sumOver(c calc, drop func(l rune) bool) term {
	var axes []int
	kept := ""
	for i, l := range t.letters {
		if drop(l) {
			axes = append(axes, i)
		} else {
			kept += string(l)
		}
	}
	if axes == nil {
		return t
	}
	return term{c.Apply(kernels.Sum, kernels.ReduceAttrs{Axes: axes}, t.v), kept}
}

// ordered is t with its axes in the order of letters.
func (t term) ordered(c calc, letters string) term {
	perm := make([]int, 0, len(letters))
	for _, l := range letters {
		perm = append(perm, strings.IndexRune(t.letters, l))
	}
	return term{c.transpose(t.v, perm), letters}
}

// matrices is t as [each, rows, columns]; as [each, columns, rows] and true where that needs no
// copy.
func (t term) matrices(c calc, e einsum, each, rows, columns string) (v kernels.Value, transposed bool) {
	shape := kernels.Shape{e.shape(each).Elems(), e.shape(rows).Elems(), e.shape(columns).Elems()}
	if t.letters == each+columns+rows {
		shape[1], shape[2] = shape[2], shape[1]
		transposed = true
	} else {
		t = t.ordered(c, each+rows+columns)
	}
	if each == "" {
		shape = shape[1:]
	}
	return c.reshape(t.v, shape), transposed
}
