package layers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// softplus is log(1 + eˣ).
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// logSoftmax returns x - log Σeˣ.
func logSoftmax(x []float64) []float64 {
	m, sum := slices.Max(x), 0.0
	for _, v := range x {
		sum += math.Exp(v - m)
	}
	y := slices.Clone(x)
	for i := range y {
		y[i] -= m + math.Log(sum)
	}
	return y
}

// probabilities draws rows of 4 that add up to 1, or any elements, between 0 and 1.
func probabilities(r *rand.Rand, d []float64) {
	sum := 0.0
	for i := range d {
		d[i] = 0.1 + r.Float64()
		if sum += d[i]; i%4 == 3 || i == len(d)-1 {
			for j := i - i%4; j <= i; j++ {
				d[j] /= sum
			}
			sum = 0
		}
	}
}

// elementCase is a loss of 3 rows of 2×2 elements.
func elementCase(name string, add func(n *layers.Net, x, t *gorgonia.Node) *gorgonia.Node, fill func(r *rand.Rand, d []float64), f func(x, t float64) float64) opCase {
	return opCase{name: name, in: [][]int{{3, 2, 2}, {3, 2, 2}}, shape: []int{3}, fill: fill,
		build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return add(n, x[0], x[1]) },
		want: func(x [][]float64) []float64 {
			y := make([]float64, 3)
			for i := range 12 {
				y[i/4] += f(x[0][i], x[1][i]) / 4
			}
			return y
		}}
}

// rowCase is a loss of operands of 3 rows of 4 elements.
func rowCase(name string, operands int, fill func(r *rand.Rand, d []float64), add func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node, f func(row int, x [][]float64) float64) opCase {
	return opCase{name: name, in: slices.Repeat([][]int{{3, 4}}, operands), shape: []int{3}, fill: fill, build: add,
		want: func(x [][]float64) (y []float64) {
			for i := range 3 {
				var rows [][]float64
				for _, v := range x {
					rows = append(rows, v[4*i:4*i+4])
				}
				y = append(y, f(i, rows))
			}
			return y
		}}
}

func norm(x []float64) (y float64) {
	for _, v := range x {
		y += v * v
	}
	return math.Sqrt(y)
}

func difference(a, b []float64) []float64 {
	d := slices.Clone(a)
	for i := range d {
		d[i] -= b[i]
	}
	return d
}

func cosine(a, b []float64) (y float64) {
	for i := range a {
		y += a[i] * b[i]
	}
	return y / norm(a) / norm(b)
}

// labels are those of three rows.
var labels = []int{2, 0, 3}

func labelsOf(n *layers.Net) *gorgonia.Node { return n.Constant(labels, "") }

// alike are pairs that are alike, and are not.
var alike3 = []float64{1, 0, -1}

func lossCases() []opCase {
	return slices.Concat(elementLossCases(), classLossCases(), pairLossCases())
}

func elementLossCases() []opCase {
	type node = *gorgonia.Node
	sign := func(t float64) float64 { return math.Copysign(1, t) }
	cases := []opCase{
		elementCase("squared error", func(n *layers.Net, x, t node) node { return n.SquaredError(x, t, "") }, nil, func(x, t float64) float64 { return (x - t) * (x - t) }),
		elementCase("absolute error", func(n *layers.Net, x, t node) node { return n.AbsoluteError(x, t, "") }, quarters, func(x, t float64) float64 { return math.Abs(x - t) }),
		elementCase("huber", func(n *layers.Net, x, t node) node { return n.Huber(x, t, 0.8, "") }, nil, func(x, t float64) float64 {
			if e := math.Abs(x - t); e > 0.8 {
				return 0.8 * (e - 0.4)
			}
			return (x - t) * (x - t) / 2
		}),
		elementCase("hinge", func(n *layers.Net, x, t node) node {
			one := n.Constant(1.0, "")
			return n.Hinge(x, n.Where(n.Greater(t, n.Constant(0.0, ""), ""), one, n.Neg(one, ""), ""), "")
		}, nil, func(x, t float64) float64 { return max(0, 1-sign(t)*x) }),
		elementCase("binary cross entropy", func(n *layers.Net, x, t node) node {
			return n.BinaryCrossEntropy(x, layers.Sigmoid(n, t, fmt.Sprint("p of ", x.Name())), nil, "")
		}, nil, func(x, t float64) float64 {
			p := 1 / (1 + math.Exp(-t))
			return p*softplus(-x) + (1-p)*softplus(x)
		}),
	}
	weighted := elementCase("weighted binary cross entropy", func(n *layers.Net, x, t node) node {
		return n.BinaryCrossEntropy(x, n.Square(t, ""), n.Constant([]float64{1, 2.5}, ""), "")
	}, nil, nil)
	weighted.want = func(x [][]float64) []float64 {
		y := make([]float64, 3)
		for i := range 12 {
			t := x[1][i] * x[1][i]
			y[i/4] += (t*[]float64{1, 2.5}[i%2]*softplus(-x[0][i]) + (1-t)*softplus(x[0][i])) / 4
		}
		return y
	}
	return append(cases, weighted)
}

func classLossCases() []opCase {
	smooth := func(name string, e float64) opCase {
		return rowCase(name, 1, nil, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.CrossEntropySmooth(x[0], labelsOf(n), e, "")
		}, func(i int, x [][]float64) (y float64) {
			log := logSoftmax(x[0])
			for j := range 4 {
				y -= e / 4 * log[j]
			}
			return y - (1-e)*log[labels[i]]
		})
	}
	divergence := func(x, t []float64) (y float64) {
		for j := range t {
			y += t[j] * (math.Log(t[j]) - x[j])
		}
		return y
	}
	return []opCase{
		smooth("smooth cross entropy", 0.3), smooth("cross entropy, not smooth", 0),
		rowCase("class weights", 1, nil, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.Mul(n.CrossEntropy(x[0], labelsOf(n), "row of "+x[0].Name()), n.ClassWeights(labelsOf(n), []float64{0.5, 7, 2, 0}, ""), "")
		}, func(i int, x [][]float64) float64 { return -[]float64{2, 0.5, 0}[i] * logSoftmax(x[0])[labels[i]] }),
		rowCase("multi hinge", 1, nil, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.MultiHinge(x[0], labelsOf(n), 0.9, "")
		}, func(i int, x [][]float64) (y float64) {
			for j, v := range x[0] {
				if j != labels[i] {
					y += max(0, 0.9-x[0][labels[i]]+v) / 4
				}
			}
			return y
		}),
		rowCase("kl divergence", 2, probabilities, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.KLDivergence(x[0], x[1], "")
		}, func(_ int, x [][]float64) float64 { return divergence(x[0], x[1]) }),
		rowCase("kl divergence of logits", 2, probabilities, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.KLDivergenceLogits(x[0], x[1], "")
		}, func(_ int, x [][]float64) float64 { return divergence(logSoftmax(x[0]), x[1]) }),
	}
}

func pairLossCases() []opCase {
	infoNCE := opCase{name: "infonce", in: [][]int{{3, 2, 2}, {3, 2, 2}}, shape: []int{3},
		build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.InfoNCE(x[0], x[1], 0.4, "") },
		want: func(x [][]float64) (y []float64) {
			for i := range 3 {
				var logits []float64
				for j := range 3 {
					logits = append(logits, cosine(x[0][4*i:4*i+4], x[1][4*j:4*j+4])/0.4)
				}
				y = append(y, -logSoftmax(logits)[i])
			}
			return y
		}}
	return []opCase{
		{name: "normalize", in: [][]int{{2, 3}}, shape: []int{2, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Normalize(x[0], "") },
			want: func(x [][]float64) (y []float64) {
				for i, v := range x[0] {
					y = append(y, v/norm(x[0][i/3*3:][:3]))
				}
				return y
			}},
		rowCase("cosine similarity", 2, nil, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.CosineSimilarity(x[0], x[1], "") },
			func(_ int, x [][]float64) float64 { return cosine(x[0], x[1]) }),
		rowCase("cosine embedding", 2, nil, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.CosineEmbedding(x[0], x[1], n.Constant(alike3, ""), -0.5, "")
		}, func(i int, x [][]float64) float64 {
			if i == 0 {
				return 1 - cosine(x[0], x[1])
			}
			return max(0, cosine(x[0], x[1])+0.5)
		}),
		rowCase("contrastive", 2, nil, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.Contrastive(x[0], x[1], n.Constant(alike3, ""), 4, "")
		}, func(i int, x [][]float64) float64 {
			d := norm(difference(x[0], x[1]))
			if i == 0 {
				return d * d
			}
			return max(0, 4-d) * max(0, 4-d)
		}),
		rowCase("triplet", 3, nil, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Triplet(x[0], x[1], x[2], 1.5, "") },
			func(_ int, x [][]float64) float64 {
				return max(0, norm(difference(x[0], x[1]))-norm(difference(x[0], x[2]))+1.5)
			}),
		infoNCE,
	}
}

// lossEdge is an edge of a loss whose first operand is x, in rows.
func lossEdge(name string, rows int, x, want, slope []float64, loss func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node) edge {
	return edge{name, func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node {
		return n.Reshape(loss(n, n.Reshape(x, "", rows, -1)), name, len(want))
	}, x, want, slope}
}

func TestLossesHoldAtTheEdgesOnEveryDevice(t *testing.T) {
	holdAtTheEdges(t, slices.Concat(elementLossEdges(), classLossEdges(), pairLossEdges()))
}

func elementLossEdges() []edge {
	const huge = 1e30
	target := func(loss func(n *layers.Net, x, t *gorgonia.Node) *gorgonia.Node, t ...float64) func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return loss(n, x, n.Constant(t, "", x.Shape()...))
		}
	}
	l1 := func(n *layers.Net, x, t *gorgonia.Node) *gorgonia.Node { return n.AbsoluteError(x, t, "") }
	huber := func(n *layers.Net, x, t *gorgonia.Node) *gorgonia.Node { return n.Huber(x, t, 2, "") }
	hinge := func(n *layers.Net, x, t *gorgonia.Node) *gorgonia.Node { return n.Hinge(x, t, "") }
	bce := func(n *layers.Net, x, t *gorgonia.Node) *gorgonia.Node { return n.BinaryCrossEntropy(x, t, nil, "") }
	weighted := func(n *layers.Net, x, t *gorgonia.Node) *gorgonia.Node {
		return n.BinaryCrossEntropy(x, t, n.Constant(3.0, ""), "")
	}
	inf := math.Inf(1)
	return []edge{
		lossEdge("l1 of equal numbers", 2, []float64{5, -huge}, []float64{0, 0}, []float64{0, 0}, target(l1, 5, -huge)),
		lossEdge("l1 of far numbers", 2, []float64{huge, -huge}, []float64{2 * huge, 2 * huge}, []float64{1, -1}, target(l1, -huge, huge)),
		lossEdge("huber at 0 and at delta", 4, []float64{0, 2, -2, 2.000001}, []float64{0, 2, 2, 2.000002}, []float64{0, 2, -2, 2}, target(huber, 0, 0, 0, 0)),
		lossEdge("huber of far numbers", 3, []float64{huge, -huge, inf}, []float64{2 * huge, 2 * huge, inf}, []float64{2, -2, 2}, target(huber, 0, 0, 0)),
		lossEdge("hinge at its margin", 4, []float64{1, -1, huge, -huge}, []float64{0, 0, 0, huge}, []float64{0, 0, 0, -1}, target(hinge, 1, -1, 1, 1)),
		lossEdge("binary cross entropy at 0", 3, []float64{0, 0, 0}, []float64{math.Ln2, math.Ln2, math.Ln2}, []float64{-0.5, 0.5, 0.25}, target(bce, 1, 0, 0.25)),
		lossEdge("binary cross entropy of labels at 0", 1, []float64{0, 0}, []float64{math.Ln2}, []float64{-0.25, 0.25}, target(bce, 1, 0)),
		lossEdge("binary cross entropy at 1000", 4, []float64{1000, -1000, 1000, -1000}, []float64{0, 1000, 1000, 0}, []float64{0, -1, 1, 0}, target(bce, 1, 1, 0, 0)),
		lossEdge("binary cross entropy of sure answers", 2, []float64{20, -20}, []float64{2.0611536181902037e-9, 2.0611536181902037e-9}, []float64{0, 0}, target(bce, 1, 0)),
		lossEdge("binary cross entropy of huge logits", 2, []float64{huge, -huge}, []float64{huge / 2, huge / 2}, []float64{0.5, -0.5}, target(bce, 0.5, 0.5)),
		lossEdge("weighted binary cross entropy", 4, []float64{0, 0, -1000, 1000}, []float64{3 * math.Ln2, math.Ln2, 3000, 1000}, []float64{-1.5, 0.5, -3, 1}, target(weighted, 1, 0, 1, 0)),
	}
}

func classLossEdges() []edge {
	nan, inf := math.NaN(), math.Inf(1)
	class := func(loss func(n *layers.Net, x, labels *gorgonia.Node) *gorgonia.Node, label ...int) func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node { return loss(n, x, n.Constant(label, "")) }
	}
	smooth := func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node { return n.CrossEntropySmooth(x, y, 0.5, "") }
	sharp := func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node { return n.CrossEntropySmooth(x, y, 0, "") }
	hinge := func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node { return n.MultiHinge(x, y, 1, "") }
	kl := func(t ...float64) func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.KLDivergence(x, n.Constant(t, "", x.Shape()...), "")
		}
	}
	logits := func(t ...float64) func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.KLDivergenceLogits(x, n.Constant(t, "", x.Shape()...), "")
		}
	}
	ignored := func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		y, w := n.Ignore(n.Constant([]int{1, -1}, ""), fmt.Sprint("of ", x.Name()), -1)
		return n.Mul(n.CrossEntropySmooth(x, y, 0.5, ""), n.Mul(w, n.ClassWeights(y, []float64{8, 2}, ""), ""), "")
	}
	return []edge{
		// Half of the target is the class, half is shared: 1000·(0.5 + 0.25) from the wrong one, and 1000·0.25.
		lossEdge("smooth cross entropy of sure logits", 2, []float64{1000, 0, 1000, 0}, []float64{750, 250}, []float64{0.75, -0.75, 0.25, -0.25}, class(smooth, 1, 0)),
		lossEdge("smooth cross entropy of equal logits", 1, []float64{1e4, 1e4}, []float64{math.Ln2}, []float64{-0.25, 0.25}, class(smooth, 0)),
		lossEdge("cross entropy of masked classes", 1, []float64{0, -inf, 0}, []float64{math.Ln2}, []float64{-0.5, 0, 0.5}, class(sharp, 0)),
		lossEdge("smooth cross entropy of no class", 2, []float64{1, 2, 3, 4}, []float64{nan, nan}, nil, class(smooth, 2, -1)),
		lossEdge("multi hinge at its margin", 2, []float64{1, 0, -1e30, 1e30}, []float64{0, 1e30}, []float64{0, 0, -0.5, 0.5}, class(hinge, 0, 0)),
		lossEdge("multi hinge of equal numbers", 1, []float64{5, 5, 5}, []float64{2.0 / 3}, []float64{1.0 / 3, -2.0 / 3, 1.0 / 3}, class(hinge, 1)),
		lossEdge("multi hinge of an infinity elsewhere", 1, []float64{1, -inf}, []float64{0}, []float64{0, 0}, class(hinge, 0)),
		lossEdge("multi hinge of no class", 2, []float64{1, 2, 3, 4}, []float64{nan, nan}, nil, class(hinge, 2, -1)),
		lossEdge("kl divergence of a sure target", 1, []float64{math.Log(0.25), -inf}, []float64{math.Log(4)}, []float64{-1, 0}, kl(1, 0)),
		lossEdge("kl divergence of what never is", 1, []float64{-inf, 0}, []float64{inf}, []float64{-0.5, -0.5}, kl(0.5, 0.5)),
		lossEdge("kl divergence of equal distributions", 1, []float64{math.Log(0.5), math.Log(0.5)}, []float64{0}, []float64{-0.5, -0.5}, kl(0.5, 0.5)),
		lossEdge("kl divergence of zeros", 1, []float64{-1, -2}, []float64{0}, []float64{0, 0}, kl(0, 0)),
		lossEdge("kl divergence of large logits", 1, []float64{1e4, 1e4}, []float64{math.Ln2}, []float64{-0.5, 0.5}, logits(1, 0)),
		lossEdge("kl divergence of masked logits", 1, []float64{3, -inf, 3}, []float64{math.Ln2}, []float64{-0.5, 0, 0.5}, logits(1, 0, 0)),
		lossEdge("ignored labels and class weights", 2, []float64{0, 0, 1000, -1000}, []float64{2 * math.Ln2, 0}, []float64{0.5, -0.5, 0, 0}, ignored),
	}
}

func pairLossEdges() []edge {
	const huge, tiny = 3e30, 3e-30
	with := func(loss func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node, y ...float64) func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return loss(n, x, n.Constant(y, "", x.Shape()...))
		}
	}
	cos := func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node { return n.CosineSimilarity(x, y, "") }
	flipped := func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node { return n.CosineSimilarity(y, x, "") }
	embedding := func(alike ...float64) func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node {
			return n.CosineEmbedding(x, y, n.Constant(alike, ""), 0, "")
		}
	}
	contrastive := func(alike ...float64) func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node {
			return n.Contrastive(x, y, n.Constant(alike, ""), 2, "")
		}
	}
	triplet := func(negative ...float64) func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node {
		return func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node {
			return n.Triplet(x, y, n.Constant(negative, "", x.Shape()...), 1, "")
		}
	}
	nce := func(n *layers.Net, x, y *gorgonia.Node) *gorgonia.Node { return n.InfoNCE(x, y, 0.01, "") }
	unit := func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node { return n.Normalize(x, "") }
	return []edge{
		lossEdge("normalize zeros", 2, []float64{0, 0, 0, 5}, []float64{0, 0, 0, 1}, []float64{0, 0, 0.2, 0}, unit),
		lossEdge("normalize far numbers", 2, []float64{huge, 0, 0, -tiny}, []float64{1, 0, 0, -1}, nil, unit),
		lossEdge("cosine with zeros", 2, []float64{0, 0, 3, 4}, []float64{0, 0}, []float64{0, 0, 0, 0}, with(cos, 1, 2, 0, 0)),
		lossEdge("cosine of the second with zeros", 2, []float64{0, 0, 3, 4}, []float64{0, 0}, []float64{0, 0, 0, 0}, with(flipped, 1, 2, 0, 0)),
		lossEdge("cosine of far numbers", 2, []float64{huge, 0, -tiny, 0}, []float64{1, -1}, nil, with(cos, huge, 0, 1, 0)),
		lossEdge("cosine of opposite vectors", 1, []float64{3, 4}, []float64{-1}, []float64{0, 0}, with(cos, -6, -8)),
		lossEdge("cosine embedding with zeros", 2, []float64{0, 0, 0, 0}, []float64{1, 0}, []float64{0, 0, 0, 0}, with(embedding(1, -1), 1, 2, 1, 2)),
		lossEdge("cosine embedding of equal vectors", 2, []float64{5, 0, 5, 0}, []float64{0, 1}, []float64{0, 0, 0, 0}, with(embedding(1, 0), 3, 0, 3, 0)),
		lossEdge("contrastive of equal vectors", 2, []float64{3, 4, 3, 4}, []float64{0, 4}, []float64{0, 0, 0, 0}, with(contrastive(1, 0), 3, 4, 3, 4)),
		lossEdge("contrastive of far vectors", 2, []float64{3, 0, huge, 0}, []float64{9, 0}, []float64{6, 0, 0, 0}, with(contrastive(1, 0), 0, 0, 0, 0)),
		lossEdge("contrastive at its margin", 1, []float64{2, 0}, []float64{0}, []float64{0, 0}, with(contrastive(0), 0, 0)),
		lossEdge("triplet of equal vectors", 1, []float64{3, 4}, []float64{1}, []float64{0, 0}, with(triplet(3, 4), 3, 4)),
		lossEdge("triplet of an equal positive", 1, []float64{0, 0}, []float64{0.5}, []float64{1, 0}, with(triplet(0.5, 0), 0, 0)),
		lossEdge("triplet at its margin", 1, []float64{0, 0}, []float64{0}, []float64{0, 0}, with(triplet(1, 0), 0, 0)),
		lossEdge("triplet of far vectors", 1, []float64{0, 0}, []float64{huge}, []float64{-1, 1}, with(triplet(0, 1), huge, 0)),
		lossEdge("infonce of one row", 1, []float64{3, 4}, []float64{0}, []float64{0, 0}, with(nce, 4, 3)),
		lossEdge("infonce with zeros", 2, []float64{0, 0, 0, 0}, []float64{math.Ln2, math.Ln2}, []float64{0, 0, 0, 0}, with(nce, 4, 3, 1, 0)),
		lossEdge("infonce of opposite vectors", 2, []float64{1, 0, -1, 0}, []float64{200, 200}, []float64{0, 0, 0, 0}, with(nce, -1, 0, 1, 0)),
	}
}

func TestMistakesWithLossesNameThem(t *testing.T) {
	for _, c := range lossMistakes() {
		t.Run(c.name, func(t *testing.T) {
			refused(t, func(n *layers.Net) { c.build(n, n.Input("x", 2, 3)) }, c.is, c.want...)
		})
	}
}

// mistake is a loss of x [2, 3] that is refused.
type mistake struct {
	name  string
	build func(n *layers.Net, x *gorgonia.Node)
	is    error
	want  []string
}

func lossMistakes() []mistake {
	nan := math.NaN()
	attrs := func(name string, add func(n *layers.Net, x *gorgonia.Node), want ...string) mistake {
		return mistake{name, add, kernels.ErrAttrs, want}
	}
	shape := func(name string, add func(n *layers.Net, x *gorgonia.Node), want ...string) mistake {
		return mistake{name, add, layers.ErrShape, want}
	}
	return []mistake{
		attrs("huber", func(n *layers.Net, x *gorgonia.Node) { n.Huber(x, x, 0, "h") }, `huber "h"`, "delta is 0", "above 0"),
		attrs("huber nan", func(n *layers.Net, x *gorgonia.Node) { n.Huber(x, x, nan, "") }, `huber of "x"`, "NaN"),
		attrs("smoothing", func(n *layers.Net, x *gorgonia.Node) { n.CrossEntropySmooth(x, n.Labels("y", 2), 1, "s") }, `"s"`, "smoothing is 1"),
		attrs("multi hinge", func(n *layers.Net, x *gorgonia.Node) { n.MultiHinge(x, n.Labels("y", 2), -1, "s") }, `multi hinge "s"`, "margin is -1"),
		attrs("cosine margin", func(n *layers.Net, x *gorgonia.Node) { n.CosineEmbedding(x, x, n.Input("t", 2), 2, "s") }, `cosine embedding "s"`, "margin is 2"),
		attrs("contrastive", func(n *layers.Net, x *gorgonia.Node) { n.Contrastive(x, x, n.Input("t", 2), 0, "s") }, `contrastive "s"`, "margin is 0"),
		attrs("triplet", func(n *layers.Net, x *gorgonia.Node) { n.Triplet(x, x, x, -1, "s") }, `triplet "s"`, "margin is -1"),
		attrs("temperature", func(n *layers.Net, x *gorgonia.Node) { n.InfoNCE(x, x, 0, "s") }, `infonce "s"`, "temperature is 0"),
		attrs("class weights", func(n *layers.Net, _ *gorgonia.Node) { n.ClassWeights(n.Labels("y", 2), []float64{1, -2}, "s") }, `class weights "s"`, "class 1 is -2"),
		shape("no class weights", func(n *layers.Net, _ *gorgonia.Node) { n.ClassWeights(n.Labels("y", 2), nil, "s") }, `class weights "s"`, "no weights"),
		shape("class weights of floats", func(n *layers.Net, x *gorgonia.Node) { n.ClassWeights(x, []float64{1}, "s") }, `class weights "s"`, "integer"),
		shape("squared error", func(n *layers.Net, x *gorgonia.Node) { n.SquaredError(x, n.Input("t", 2), "s") }, `squared error "s"`, "(2)", "(2, 3)"),
		shape("scalar", func(n *layers.Net, _ *gorgonia.Node) { s := n.Scalar("s", 1); n.AbsoluteError(s, s, "l") }, `absolute error "l"`, "scalar"),
		shape("types", func(n *layers.Net, x *gorgonia.Node) { n.Type = tensor.Float64; n.Hinge(x, n.Input("t", 2, 3), "s") }, `hinge "s"`, "float32", "float64"),
		shape("positive weight", func(n *layers.Net, x *gorgonia.Node) {
			n.BinaryCrossEntropy(x, x, n.Constant([]float64{1, 2}, ""), "s")
		}, `"s"`, "(2)", "(2, 3)"),
		shape("larger positive weight", func(n *layers.Net, x *gorgonia.Node) { n.BinaryCrossEntropy(x, x, n.Constant(1.0, "", 4, 2, 3), "s") }, `"s"`, "(4, 2, 3)"),
		shape("labels of floats", func(n *layers.Net, x *gorgonia.Node) { n.MultiHinge(x, n.Input("t", 2), 1, "s") }, `multi hinge "s"`, "integer"),
		shape("labels of another batch", func(n *layers.Net, x *gorgonia.Node) { n.CrossEntropySmooth(x, n.Labels("y", 3), 0.1, "s") }, `"s"`, "(3)", "(2)"),
		shape("logits of images", func(n *layers.Net, _ *gorgonia.Node) { n.MultiHinge(image(n.Scope("i")), n.Labels("y", 2), 1, "s") }, `"s"`, "2 dimensions"),
		shape("alike", func(n *layers.Net, x *gorgonia.Node) { n.Contrastive(x, x, x, 1, "s") }, `contrastive "s"`, "(2, 3)", "one number for each row"),
		{"no target", func(n *layers.Net, x *gorgonia.Node) { n.KLDivergence(x, nil, "s") }, layers.ErrNode, []string{`kl divergence "s"`, "nil"}},
		{"no negative", func(n *layers.Net, x *gorgonia.Node) { n.Triplet(x, x, nil, 1, "s") }, layers.ErrNode, []string{`triplet "s"`, "nil"}},
		{"no losses", func(n *layers.Net, x *gorgonia.Node) { _, _ = n.Model(x, nil, nil) }, layers.ErrNode, []string{"model", "nil"}},
		shape("weight of a model", func(n *layers.Net, x *gorgonia.Node) { _, _ = n.Model(x, n.SquaredError(x, x, ""), x) }, "model", `weight "x"`, "(2)"),
	}
}
