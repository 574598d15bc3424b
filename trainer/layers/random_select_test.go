package layers_test

import (
	"cmp"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

func init() {
	randomOps["where"] = whereOp()
	randomOps["cumsum"] = cumSumOp()
	randomOps["topk"] = topKOp()
	randomOps["argmax"] = argMaxOp()
}

// whereOp chooses between two operands by whether a third one is positive.
func whereOp() randomOp {
	shape := func(g *grower, in ...int) []int {
		var s []int
		for _, i := range in {
			s, _ = pairShape(s, g.all[i].shape)
		}
		return s
	}
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			s := statement{In: []int{g.any()}}
			for range 2 {
				s.In = append(s.In, g.pick(func(b array) bool { _, ok := pairShape(shape(g, s.In...), b.shape); return ok },
					func() []int { return shape(g, s.In...) }))
			}
			g.Shuffle(3, func(i, j int) { s.In[i], s.In[j] = s.In[j], s.In[i] })
			return s, true
		},
		build: func(n *layers.Net, _ statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.Where(n.Greater(in[0], n.Constant(0.0, ""), ""), in[1], in[2], "")
		},
		value: func(_ statement, in []array) array {
			whole, _ := pairShape(in[0].shape, in[1].shape)
			whole, _ = pairShape(whole, in[2].shape)
			y := newArray(whole)
			eachIndex(whole, func(i int, at []int) {
				if y.x[i] = in[2].get(at); in[0].get(at) > 0 {
					y.x[i] = in[1].get(at)
				}
			})
			return y
		},
		code: func(_ statement, in []string) string {
			return fmt.Sprintf(`net.Where(net.Greater(%s, net.Constant(0.0, ""), ""), %s, %s, "")`, in[0], in[1], in[2])
		},
		smooth: func(_ statement, in []array) bool {
			return !slices.ContainsFunc(in[0].x, func(x float64) bool { return x > -margin && x < margin })
		},
		constant: []int{0},
	}
}

// drawAxis draws an operand and an axis of it: Ints.
func drawAxis(g *grower) (statement, bool) {
	x := g.rank(1)
	return statement{In: []int{x}, Ints: []int{g.IntN(len(g.all[x].shape))}}, true
}

// cumSumOp is the running sum along an axis.
func cumSumOp() randomOp {
	return randomOp{
		draw: drawAxis,
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.CumSum(in[0], "", s.Ints[0])
		},
		value: func(s statement, in []array) array {
			return in[0].along(s.Ints[0], func(line []float64) []float64 {
				for i := range line[1:] {
					line[i+1] += line[i]
				}
				return line
			})
		},
		code: func(s statement, in []string) string { return fmt.Sprintf(`net.CumSum(%s, "", %d)`, in[0], s.Ints[0]) },
	}
}

// distinctAlong reports whether elements along the axis Ints[0] differ.
func distinctAlong(s statement, in []array) bool {
	return in[0].reduce(s.Ints[:1], false, apart).each(func(d float64) float64 { return min(d, 1) }).least() >= margin
}

// descending returns the numbers of the elements of x, the largest first.
func descending(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(x[j], x[i]) })
	return order
}

// topKOp selects the largest elements along an axis: Ints are the axis and their number.
func topKOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			s, ok := drawAxis(g)
			s.Ints = append(s.Ints, 1+g.IntN(g.all[s.In[0]].shape[s.Ints[0]]))
			return s, ok
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			y, _ := n.TopK(in[0], "", s.Ints[0], s.Ints[1])
			return y
		},
		value: func(s statement, in []array) array {
			sorted := in[0].along(s.Ints[0], func(line []float64) []float64 {
				y := make([]float64, len(line))
				for i, k := range descending(line) {
					y[i] = line[k]
				}
				return y
			})
			shape := slices.Clone(in[0].shape)
			shape[s.Ints[0]] = s.Ints[1]
			return sorted.gather(shape, func(at []int) []int { return at })
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.TopK(%s, "", %s)`, in[0], commas(s.Ints))
		},
		smooth: distinctAlong,
	}
}

// argMaxOp is the index of the largest element along an axis, as a float.
func argMaxOp() randomOp {
	return randomOp{
		draw: drawAxis,
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			return n.Cast(n.ArgMax(in[0], "", s.Ints[0]), "", n.Type)
		},
		value: func(s statement, in []array) array {
			return in[0].reduce(s.Ints, false, func(x []float64) float64 { return float64(descending(x)[0]) })
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Cast(net.ArgMax(%s, "", %d), "", net.Type)`, in[0], s.Ints[0])
		},
		smooth: distinctAlong,
		flat:   true,
	}
}
