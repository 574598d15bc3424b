package layers_test

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Layers over sequences in random graphs.

func init() {
	randomOps["lstm"], randomOps["gru"] = recurrentOp(false), recurrentOp(true)
	randomOps["attention"] = attentionOp()
}

// sequence picks an array of three dimensions.
func (g *grower) sequence() int {
	return g.pick(func(a array) bool { return len(a.shape) == 3 }, func() []int { return []int{1 + g.IntN(3), 1 + g.IntN(3), 1 + g.IntN(4)} })
}

// given returns the weights that the Init weights gives n elements.
func given(n int) []float64 {
	w := make([]float64, n)
	for k := range w {
		w[k] = weight(k)
	}
	return w
}

// recurrentOp is all outputs of a recurrent layer: Ints are its units, and 1 if it is reversed.
func recurrentOp(gru bool) randomOp {
	net := func(s statement, shape []int) recurrentNet {
		return recurrentNet{gru: gru, batch: shape[0], steps: shape[1], in: shape[2], units: s.Ints[0], reverse: s.Ints[1] == 1}
	}
	code := map[bool]string{false: "LSTM", true: "GRU"}[gru]
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			return statement{In: []int{g.sequence()}, Ints: []int{1 + g.IntN(3), g.IntN(2)}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			n.Weights = weights{}
			all, _ := net(s, in[0].Shape()).layer(n, in[0], nextName(in[0]), false)
			return all
		},
		value: func(s statement, in []array) array {
			r, blocks := net(s, in[0].shape), 4
			if gru {
				blocks = 3
			}
			y := newArray([]int{r.batch, r.steps, r.units})
			y.x, _ = r.outputs(in[0].x, map[string][]float64{"wx": given(r.in * blocks * r.units), "wh": given(r.units * blocks * r.units)})
			return y
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`first(net.%s(%s, "a name", layers.Recurrent{Units: %d, Reverse: %t}))`, code, in[0], s.Ints[0], s.Ints[1] == 1)
		},
	}
}

// attentionOp is self-attention: Ints are 1 if it is causal, and the number of heads.
func attentionOp() randomOp {
	return randomOp{
		draw: func(g *grower) (statement, bool) {
			x := g.sequence()
			heads := 1
			if g.all[x].shape[2]%2 == 0 {
				heads += g.IntN(2)
			}
			return statement{In: []int{x}, Ints: []int{g.IntN(2), heads}}, true
		},
		build: func(n *layers.Net, s statement, in gorgonia.Nodes) *gorgonia.Node {
			n.Weights = weights{}
			return n.Attention(in[0], nextName(in[0]), layers.Attention{Heads: s.Ints[1], Causal: s.Ints[0] == 1})
		},
		value: func(s statement, in []array) array {
			shape := in[0].shape
			c := shape[2]
			y := newArray(shape)
			p := map[string][]float64{"in_proj/w": given(3 * c * c), "out_proj/w": given(c * c)}
			y.x = plainAttention(in[0].x, shape[0], shape[1], c, s.Ints[1], s.Ints[0] == 1, nil, p)
			return y
		},
		code: func(s statement, in []string) string {
			return fmt.Sprintf(`net.Attention(%s, "a name", layers.Attention{Heads: %d, Causal: %t})`, in[0], s.Ints[1], s.Ints[0] == 1)
		},
	}
}
