package layers_test

import (
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// plainAttention is self-attention of x [batch, steps, width] in plain Go; mask [batch, steps] is
// added to the scores of each key, and may be nil.
func plainAttention(x []float64, batch, steps, width, heads int, causal bool, mask []float64, p map[string][]float64) []float64 {
	y, size := []float64(nil), width/heads
	for b := range batch {
		var qkv [][]float64
		for t := range steps {
			row := x[(b*steps+t)*width : (b*steps+t+1)*width]
			qkv = append(qkv, affine(row, p["in_proj/w"], p["in_proj/b"], 3*width))
		}
		for t := range steps {
			mixed := make([]float64, width)
			for h := range heads {
				scores := make([]float64, steps)
				for s := range steps {
					for i := h * size; i < (h+1)*size; i++ {
						scores[s] += qkv[t][i] * qkv[s][width+i] / math.Sqrt(float64(size))
					}
					if causal && s > t {
						scores[s] = math.Inf(-1)
					}
					if mask != nil {
						scores[s] += mask[b*steps+s]
					}
				}
				for s, w := range softmax(scores) {
					for i := h * size; i < (h+1)*size; i++ {
						mixed[i] += w * qkv[s][2*width+i]
					}
				}
			}
			y = append(y, affine(mixed, p["out_proj/w"], p["out_proj/b"], width)...)
		}
	}
	return y
}

// The result is the formula, and gradients of input and parameters are slopes of it.
func TestAttentionIsItsFormulaAndLearnsAllItsParameters(t *testing.T) {
	const batch, steps, width, heads = 2, 3, 4, 2
	for _, causal := range []bool{false, true} {
		for _, masked := range []bool{false, true} {
			t.Run(fmt.Sprintf("causal %t, masked %t", causal, masked), func(t *testing.T) {
				rnd := seed.Rand(t, 33)
				net := layers.New(gorgonia.NewGraph())
				net.Type = tensor.Float64
				x := net.Input("x", batch, steps, width)
				a := layers.Attention{Heads: heads, Causal: causal}
				var mask []float64
				if masked { // the last step of the second row is hidden
					mask = []float64{0.5, 0, -0.5, 0, 0, -1e9}
					a.Mask = net.Constant(mask, "mask", batch, 1, 1, steps)
				}
				y := net.Attention(x, "a", a)
				if net.Err() != nil {
					t.Fatal(net.Err())
				}
				loss := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Square(y))))
				p := map[string][]float64{"x": reals(rnd, batch*steps*width)}
				bind(t, x, p["x"])
				nodes := gorgonia.Nodes{x}
				for _, q := range net.Params() {
					d := reals(rnd, q.Node.Shape().TotalSize())
					bind(t, q.Node, d)
					p[q.Node.Name()[len("a/"):]] = d
					nodes = append(nodes, q.Node)
				}
				grads, err := gorgonia.Grad(loss, nodes...)
				if err != nil {
					t.Fatal(err)
				}
				var read gorgonia.Value
				gorgonia.Read(y, &read)
				run(t, loss.Graph())
				plain := func() (sum float64) {
					for _, v := range plainAttention(p["x"], batch, steps, width, heads, causal, mask, p) {
						sum += v * v
					}
					return sum
				}
				near(t, "y", tensor.Float64, numbers(t, read), plainAttention(p["x"], batch, steps, width, heads, causal, mask, p))
				for i, q := range nodes {
					name := q.Name()
					if i > 0 {
						name = name[len("a/"):]
					}
					d, want := p[name], []float64{}
					for j, v := range d {
						const h = 1e-5
						d[j] = v + h
						up := plain()
						d[j] = v - h
						want = append(want, (up-plain())/(2*h))
						d[j] = v
					}
					if got := numbers(t, grads[i].Value()); !within(got, want, 1e-5) {
						t.Errorf("gradient of %s is %v, differences say %v (EVENKEEL_SEED=%d)", name, got, want, seed.Value())
					}
				}
			})
		}
	}
}

func TestBadAttentionIsAnErrorThatNamesLayerAndShapes(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(n *layers.Net)
		is    error
		want  []string
	}{
		{"of rows", func(n *layers.Net) { n.Attention(n.Input("x", 2, 4), "a", layers.Attention{Heads: 2}) }, layers.ErrShape, []string{`attention "a"`, "(2, 4)", "3 dimensions"}},
		{"without heads", func(n *layers.Net) { n.Attention(n.Input("x", 2, 3, 4), "a", layers.Attention{}) }, layers.ErrShape, []string{`attention "a"`, "0 heads"}},
		{"heads that do not divide", func(n *layers.Net) { n.Attention(n.Input("x", 2, 3, 4), "a", layers.Attention{Heads: 3}) }, layers.ErrShape, []string{"3 heads", "4 features"}},
		{"without a name", func(n *layers.Net) { n.Attention(n.Input("x", 2, 3, 4), "", layers.Attention{Heads: 2}) }, layers.ErrName, []string{`over "x" has no name`}},
		{"mask that enlarges", func(n *layers.Net) {
			n.Attention(n.Input("x", 2, 3, 4), "a", layers.Attention{Heads: 2, Mask: n.Input("m", 5, 1, 1, 1, 3)})
		}, layers.ErrShape, []string{`attention "a"`, "mask (5, 1, 1, 1, 3)", "(2, 2, 3, 3)"}},
		{"mask of integers", func(n *layers.Net) {
			n.Attention(n.Input("x", 2, 3, 4), "a", layers.Attention{Heads: 2, Mask: n.Indices("m", 3)})
		}, layers.ErrShape, []string{`attention "a"`, "Cast"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.build, c.is, c.want...) })
	}
}
