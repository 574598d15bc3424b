package main

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/weights"
)

// net is a model of nets.py in Evenkeel.
type net struct {
	name  string
	rules func() weights.Rules
	add   func(n *layers.Net, batch int) (x, out *gorgonia.Node)
}

// nets lists the models of nets.py.
func nets() []net {
	return []net{
		{"mlp", weights.Torch, mlp},
		{"cnn", weights.Torch, cnn},
		{"lstm", weights.Torch, lstm},
		{"gru", weights.Torch, gru},
		{"encoder", weights.Torch, encoder},
		{"gpt2", weights.GPT2, gpt2},
	}
}

// model returns the net with a loss.
func (m net) model(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	x, out := m.add(n, batch)
	return n.Regressor(x, out)
}

func mlp(n *layers.Net, batch int) (x, out *gorgonia.Node) {
	x = n.Input("x", batch, 12)
	return x, n.Dense(n.Dense(x, "fc1", 16, layers.GELU), "fc2", 5, nil)
}

func cnn(n *layers.Net, batch int) (x, out *gorgonia.Node) {
	x = n.Input("x", batch, 2, 8, 8)
	h := n.Conv(x, "conv1", layers.Conv2D{Out: 4, Kernel: layers.Square(3), Pad: layers.Square(1), NoBias: true}, nil)
	h = n.MaxPool(n.BatchNorm(h, "bn1", layers.ReLU), "pool", layers.Pool{Kernel: layers.Square(2)})
	h = n.Conv(h, "conv2", layers.Conv2D{Out: 6, Kernel: [2]int{3, 2}, Groups: 2}, nil)
	h = n.GlobalAvgPool(n.BatchNorm(h, "bn2", layers.ReLU), "mean")
	return x, n.Dense(n.Flatten(h, "flat"), "head", 4, nil)
}

func lstm(n *layers.Net, batch int) (x, out *gorgonia.Node) {
	x = n.Indices("x", batch, 7)
	h, _ := n.LSTM(n.Embedding(x, "emb", 20, 6), "rnn/l0", layers.Recurrent{Units: 8})
	_, last := n.LSTM(h, "rnn/l1", layers.Recurrent{Units: 8})
	return x, n.Dense(last, "head", 4, nil)
}

func gru(n *layers.Net, batch int) (x, out *gorgonia.Node) {
	x = n.Input("x", batch, 5, 6)
	h := x
	var last gorgonia.Nodes
	for _, name := range []string{"rnn/l0", "rnn/l1"} {
		all, end := n.GRU(h, name, layers.Recurrent{Units: 5})
		back, start := n.GRU(h, name+"/reverse", layers.Recurrent{Units: 5, Reverse: true})
		h, last = n.Concat(gorgonia.Nodes{all, back}, name+"/both", 2), gorgonia.Nodes{end, start}
	}
	return x, n.Dense(n.Concat(last, "last", 1), "head", 4, nil)
}

func encoder(n *layers.Net, batch int) (x, out *gorgonia.Node) {
	x = n.Input("x", batch, 6, 12)
	l := n.Scope("layer")
	h := l.LayerNorm(n.Add(x, l.Attention(x, "self_attn", layers.Attention{Heads: 3}), ""), "norm1")
	y := dense(l, dense(l, h, "linear1", 20, layers.GELU), "linear2", 12, nil)
	h = l.LayerNorm(n.Add(h, y, ""), "norm2")
	return x, n.Dense(n.Mean(h, "mean", layers.Reduce{Axes: []int{1}}), "head", 4, nil)
}

func gpt2(n *layers.Net, batch int) (x, out *gorgonia.Node) {
	const vocabulary, positions, words, width, blocks, heads = 40, 16, 10, 24, 2, 3
	x = n.Indices("x", batch, words)
	h := n.Embedding(x, "wte", vocabulary, width)
	position := n.Param("wpe/table", layers.Normal{Std: 0.02}, positions, width)
	h = n.Add(h, n.Slice(position, "", layers.Range{Axis: 0, End: words}), "")
	for i := range blocks {
		b := n.Scope(fmt.Sprint("h/", i))
		h = n.Add(h, b.Attention(b.LayerNorm(h, "ln_1"), "attn", layers.Attention{Heads: heads, Causal: true}), "")
		y := dense(b, b.LayerNorm(h, "ln_2"), "mlp/c_fc", 4*width, layers.GELUTanh)
		h = n.Add(h, dense(b, y, "mlp/c_proj", width, nil), "")
	}
	logits := n.MatMul(n.LayerNorm(h, "ln_f"), n.Parameter("wte/table"), "logits", layers.Transposed{B: true})
	return x, n.Reshape(logits, "out", batch, words*vocabulary)
}

// dense is a dense layer over the last axis.  x [B, T, In] → [B, T, out].
func dense(n *layers.Net, x *gorgonia.Node, name string, out int, act layers.Activation) *gorgonia.Node {
	if n.Err() != nil {
		return nil
	}
	s := x.Shape()
	y := n.Dense(n.Reshape(x, "", s[0]*s[1], s[2]), name, out, act)
	return n.Reshape(y, "", s[0], s[1], out)
}

// named returns the net of that name.
func named(name string) net {
	all := nets()
	return all[slices.IndexFunc(all, func(m net) bool { return m.name == name })]
}
