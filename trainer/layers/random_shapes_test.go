package layers_test

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

func init() {
	randomOps["reshape"] = reshapeOp()
	randomOps["transpose"] = transposeOp()
	randomOps["repeat"] = repeatOp()
	randomOps["slice"] = sliceOp()
	randomOps["at"] = atOp()
	randomOps["concat"] = concatOp()
	randomOps["stack"] = stackOp()
}

// reshapeOp gives the elements another shape: Ints.
func reshapeOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.any()
			s := statement{In: []int{x}}
			for rest := len(g.all[x].x); rest > 1 || g.IntN(3) == 0; {
				var factors []int
				for f := 1; f <= rest; f++ {
					if rest%f == 0 {
						factors = append(factors, f)
					}
				}
				f := factors[g.IntN(len(factors))]
				s.Ints = append(s.Ints, f)
				rest /= f
			}
			return s, len(s.Ints) < 6
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.Reshape(in[0], "", s.Ints...)
		},
		value: func(s statement, in []array) array { return array{s.Ints, slices.Clone(in[0].x)} },
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Reshape(%s)`, strings.TrimSuffix(in[0]+`, "", `+commas(s.Ints), ", "))
		},
	}
}

// transposeOp permutes axes: Ints.
func transposeOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.rank(2)
			return statement{In: []int{x}, Ints: g.Perm(len(g.all[x].shape))}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.Transpose(in[0], "", s.Ints...)
		},
		value: func(s statement, in []array) array {
			var shape []int
			for _, a := range s.Ints {
				shape = append(shape, in[0].shape[a])
			}
			return in[0].gather(shape, func(at []int) []int {
				from := make([]int, len(at))
				for i, a := range s.Ints {
					from[a] = at[i]
				}
				return from
			})
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Transpose(%s, "", %s)`, in[0], commas(s.Ints))
		},
	}
}

// repeatOp repeats each index of an axis: Ints are the axis and the count.
func repeatOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.rank(1)
			return statement{In: []int{x}, Ints: []int{g.IntN(len(g.all[x].shape)), 1 + g.IntN(3)}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.Repeat(in[0], "", s.Ints[0], s.Ints[1])
		},
		value: func(s statement, in []array) array {
			shape := slices.Clone(in[0].shape)
			shape[s.Ints[0]] *= s.Ints[1]
			return in[0].gather(shape, func(at []int) []int {
				at = slices.Clone(at)
				at[s.Ints[0]] /= s.Ints[1]
				return at
			})
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Repeat(%s, "", %s)`, in[0], commas(s.Ints))
		},
	}
}

// sliceOp selects indices of one axis: Ints are the axis, first index, end and step.
func sliceOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.rank(1)
			shape := g.all[x].shape
			axis := g.IntN(len(shape))
			start := g.IntN(shape[axis])
			return statement{In: []int{x}, Ints: []int{axis, start, start + 1 + g.IntN(shape[axis]-start), 1 + g.IntN(2)}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.Slice(in[0], "", layers.Range{Axis: s.Ints[0], Start: s.Ints[1], End: s.Ints[2], Step: s.Ints[3]})
		},
		value: func(s statement, in []array) array {
			axis, start, end, step := s.Ints[0], s.Ints[1], s.Ints[2], s.Ints[3]
			shape := slices.Clone(in[0].shape)
			shape[axis] = (end - start + step - 1) / step
			return in[0].gather(shape, func(at []int) []int {
				at = slices.Clone(at)
				at[axis] = start + step*at[axis]
				return at
			})
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Slice(%s, "", layers.Range{Axis: %d, Start: %d, End: %d, Step: %d})`, in[0], s.Ints[0], s.Ints[1], s.Ints[2], s.Ints[3])
		},
	}
}

// atOp selects one index of an axis, which is missing then: Ints are both.
func atOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.rank(1)
			axis := g.IntN(len(g.all[x].shape))
			return statement{In: []int{x}, Ints: []int{axis, g.IntN(g.all[x].shape[axis])}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.At(in[0], "", s.Ints[0], s.Ints[1])
		},
		value: func(s statement, in []array) array {
			shape := slices.Delete(slices.Clone(in[0].shape), s.Ints[0], s.Ints[0]+1)
			return in[0].gather(shape, func(at []int) []int { return slices.Insert(slices.Clone(at), s.Ints[0], s.Ints[1]) })
		},
		code: func(s statement, in []string) string { return fmt.Sprintf(`net.At(%s, "", %s)`, in[0], commas(s.Ints)) },
	}
}

// concatOp joins two or three operands along an axis: Ints.
func concatOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.rank(1)
			s := statement{In: []int{x}, Ints: []int{g.IntN(len(g.all[x].shape))}}
			for range 1 + g.IntN(2) {
				shape := slices.Clone(g.all[x].shape)
				shape[s.Ints[0]] = 1 + g.IntN(3)
				s.In = append(s.In, g.shaped(shape))
			}
			return s, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node { return n.Concat(in, "", s.Ints[0]) },
		value: func(s statement, in []array) array {
			axis := s.Ints[0]
			var owner, start []int // by index along the axis
			for k, a := range in {
				first := len(owner)
				for range a.shape[axis] {
					owner, start = append(owner, k), append(start, first)
				}
			}
			shape := slices.Clone(in[0].shape)
			shape[axis] = len(owner)
			y := newArray(shape)
			eachIndex(shape, func(i int, at []int) {
				from := slices.Clone(at)
				from[axis] -= start[at[axis]]
				y.x[i] = in[owner[at[axis]]].get(from)
			})
			return y
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Concat(gorgonia.Nodes{%s}, "", %d)`, strings.Join(in, ", "), s.Ints[0])
		},
	}
}

// stackOp joins two operands of one shape along a new axis: Ints.
func stackOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.rank(1)
			shape := g.all[x].shape
			return statement{In: []int{x, g.shaped(shape)}, Ints: []int{g.IntN(len(shape) + 1)}}, len(shape) < 5
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node { return n.Stack(in, "", s.Ints[0]) },
		value: func(s statement, in []array) array {
			y := newArray(slices.Insert(slices.Clone(in[0].shape), s.Ints[0], len(in)))
			eachIndex(y.shape, func(i int, at []int) {
				y.x[i] = in[at[s.Ints[0]]].get(slices.Delete(slices.Clone(at), s.Ints[0], s.Ints[0]+1))
			})
			return y
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Stack(gorgonia.Nodes{%s}, "", %d)`, strings.Join(in, ", "), s.Ints[0])
		},
	}
}
