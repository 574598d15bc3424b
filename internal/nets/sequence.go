package nets

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// mlp is a chain of dense layers of equal width.  x [B, width].
func mlp(depth, width int) func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	return func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, width)
		h := x
		for l := range depth - 1 {
			h = net.Dense(h, fmt.Sprintf("hidden%d", l+1), width, layers.ReLU)
		}
		return net.Classifier(x, net.Dense(h, "out", classes, nil))
	}
}

// rnn is an Elman network unrolled in time.  x [B, steps, in];  h' = tanh(x·wx + h·wh + b).
func rnn(steps, in, units int) func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	return func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, steps, in)
		wx := net.Param("cell/wx", layers.GlorotUniform{}, in, units)
		wh := net.Param("cell/wh", layers.GlorotUniform{}, units, units)
		b := net.Param("cell/b", layers.Zeros{}, units)
		if net.Err() != nil {
			return layers.Model{}, net.Err()
		}
		var h *gorgonia.Node
		for t := range steps {
			now := gorgonia.Must(gorgonia.Slice(x, nil, gorgonia.S(t)))
			now = gorgonia.Must(gorgonia.Reshape(now, tensor.Shape{batch, in}))
			sum := gorgonia.Must(gorgonia.Mul(now, wx))
			if h != nil {
				sum = gorgonia.Must(gorgonia.Add(sum, gorgonia.Must(gorgonia.Mul(h, wh))))
			}
			h = gorgonia.Must(gorgonia.Tanh(gorgonia.Must(gorgonia.BroadcastAdd(sum, b, nil, []byte{0}))))
		}
		return net.Classifier(x, net.Dense(h, "out", classes, nil))
	}
}

// transformer is an encoder of a text that ends in the mean over its words: Vaswani et al., 2017,
// with the norms before attention and perceptron.  x [B, words], indices.
func transformer(blocks, heads, words, width int) func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	return func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		x := net.Indices("x", batch, words)
		h := net.Flatten(net.Embedding(x, "words", classes, width), "text") // [B, words*width]
		position := net.Param("position/table", layers.Normal{Std: 0.02}, words*width)
		if net.Err() != nil {
			return layers.Model{}, net.Err()
		}
		h = gorgonia.Must(gorgonia.BroadcastAdd(h, position, nil, []byte{0}))
		h = gorgonia.Must(gorgonia.Reshape(h, tensor.Shape{batch * words, width}))
		for k := range blocks {
			name := fmt.Sprintf("block%d", k+1)
			h = net.Residual(h, name+"/attention", func(x *gorgonia.Node) *gorgonia.Node {
				return attention(net, net.LayerNorm(x, name+"/norm1"), name+"/attention", batch, heads, words)
			}, nil)
			h = net.Residual(h, name+"/mlp", func(x *gorgonia.Node) *gorgonia.Node {
				x = net.Dense(net.LayerNorm(x, name+"/norm2"), name+"/widen", 4*width, gelu)
				return net.Dense(x, name+"/narrow", width, nil)
			}, nil)
		}
		h = net.LayerNorm(h, "norm")
		if net.Err() != nil {
			return layers.Model{}, net.Err()
		}
		h = gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Reshape(h, tensor.Shape{batch, words, width})), 1))
		h = gorgonia.Must(gorgonia.Reshape(h, tensor.Shape{batch, width}))
		return net.Classifier(x, net.Dense(h, "out", classes, nil))
	}
}

// attention lets each word of a text look at all of its words.  x [B*words, width] → same.
func attention(net *layers.Net, x *gorgonia.Node, name string, batch, heads, words int) *gorgonia.Node {
	if net.Err() != nil {
		return nil
	}
	width := x.Shape()[1]
	part := width / heads
	split := func(what string) *gorgonia.Node { // [B*heads, words, part]
		y := net.Dense(x, name+"/"+what, width, nil)
		y = gorgonia.Must(gorgonia.Reshape(y, tensor.Shape{batch, words, heads, part}))
		y = gorgonia.Must(gorgonia.Transpose(y, 0, 2, 1, 3))
		return gorgonia.Must(gorgonia.Reshape(y, tensor.Shape{batch * heads, words, part}))
	}
	query, key, value := split("query"), split("key"), split("value")
	scores := gorgonia.Must(gorgonia.BatchedMatMul(query, key, false, true)) // [B*heads, words, words]
	scores = gorgonia.Must(gorgonia.Mul(scores, gorgonia.NewConstant(float32(1/math.Sqrt(float64(part))))))
	y := gorgonia.Must(gorgonia.BatchedMatMul(net.Softmax(scores, name+"/weights"), value))
	y = gorgonia.Must(gorgonia.Reshape(y, tensor.Shape{batch, heads, words, part}))
	y = gorgonia.Must(gorgonia.Transpose(y, 0, 2, 1, 3))
	y = gorgonia.Must(gorgonia.Reshape(y, tensor.Shape{batch * words, width}))
	return net.Dense(y, name+"/out", width, nil)
}

// gelu is x·sigmoid(1.702·x): Hendrycks and Gimpel, 2016, section 2.
func gelu(net *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node {
	if net.Err() != nil {
		return nil
	}
	scaled := gorgonia.Must(gorgonia.Mul(x, gorgonia.NewConstant(float32(1.702))))
	return gorgonia.Must(gorgonia.HadamardProd(x, layers.Sigmoid(net, scaled, name+"/gate")))
}
