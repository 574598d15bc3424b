package onnx

import (
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
)

// einsum is a sum of products of one or two operands, a letter an axis. A letter is once in an
// operand; ... is refused.
func einsum(c *call) []*value {
	spec := strings.ReplaceAll(c.attrText("equation", ""), " ", "")
	left, result, explicit := strings.Cut(spec, "->")
	terms := strings.Split(left, ",")
	if strings.Contains(spec, ".") || len(terms) != len(c.in) || len(terms) > 2 {
		refuse("equation %q of %d operands", spec, len(c.in))
	}
	sizes := make(map[rune]int)
	for i, term := range terms {
		if len(term) != len(c.shape(i)) {
			mismatch("equation %q for operand %d of %v", spec, i, c.shape(i))
		}
		for a, l := range term {
			if strings.Count(term, string(l)) > 1 {
				refuse("equation %q: a letter is twice in an operand", spec)
			}
			if d, ok := sizes[l]; ok && d != c.shape(i)[a] {
				mismatch("equation %q: %q is %d and %d", spec, l, d, c.shape(i)[a])
			}
			sizes[l] = c.shape(i)[a]
		}
	}
	if !explicit { // letters that occur once, in order
		letters := []byte(strings.ReplaceAll(left, ",", ""))
		slices.Sort(letters)
		for _, l := range letters {
			if strings.Count(left, string(l)) == 1 {
				result += string(l)
			}
		}
	}
	for _, l := range result {
		if _, ok := sizes[l]; !ok || strings.Count(result, string(l)) > 1 {
			badAttribute("equation %q: the letter %q of the result", spec, l)
		}
	}
	y, have := c.float(0), terms[0]
	if len(terms) == 2 {
		y, have = c.contract(y, c.float(1), terms[0], terms[1], result, sizes)
	}
	y, have = c.sumLetters(y, have, result)
	return c.one(c.transpose(y, places(result, have)))
}

// places returns where the letters of to are in from.
func places(to, from string) []int {
	perm := make([]int, len(to))
	for i, l := range []byte(to) {
		perm[i] = strings.IndexByte(from, l)
	}
	return perm
}

// sumLetters sums over the letters that keep lacks.
func (c *call) sumLetters(x kernels.Value, have, keep string) (kernels.Value, string) {
	var axes []int
	left := ""
	for i, l := range []byte(have) {
		if strings.IndexByte(keep, l) < 0 {
			axes = append(axes, i)
		} else {
			left += string(l)
		}
	}
	if axes == nil {
		return x, have
	}
	return c.Apply(kernels.Sum, kernels.ReduceAttrs{Axes: axes}, x), left
}

// contract multiplies two operands as matrices [shared, free, summed] and [shared, summed, free].
func (c *call) contract(a, b kernels.Value, as, bs, result string, sizes map[rune]int) (kernels.Value, string) {
	a, as = c.sumLetters(a, as, bs+result)
	b, bs = c.sumLetters(b, bs, as+result)
	var shared, summed, freeA, freeB string
	for _, l := range as {
		switch inB, out := strings.ContainsRune(bs, l), strings.ContainsRune(result, l); {
		case inB && out:
			shared += string(l)
		case inB:
			summed += string(l)
		default:
			freeA += string(l)
		}
	}
	for _, l := range bs {
		if !strings.ContainsRune(as, l) {
			freeB += string(l)
		}
	}
	size := func(letters string) int {
		n := 1
		for _, l := range letters {
			n *= sizes[l]
		}
		return n
	}
	g, m, k, n := size(shared), size(freeA), size(summed), size(freeB)
	a = c.reshape(c.transpose(a, places(shared+freeA+summed, as)), kernels.Shape{g, m, k})
	b = c.reshape(c.transpose(b, places(shared+summed+freeB, bs)), kernels.Shape{g, k, n})
	y := c.Apply(kernels.MatMul, kernels.MatMulAttrs{}, a, b)
	var shape kernels.Shape
	for _, l := range shared + freeA + freeB {
		shape = append(shape, sizes[l])
	}
	return c.reshape(y, shape), shared + freeA + freeB
}
