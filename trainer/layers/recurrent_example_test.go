package layers_test

import (
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Two layers over 8 sequences of 50 steps; the second one's last output is classified.
func ExampleNet_LSTM() {
	n, x := net(8, 50, 20)
	all, _ := n.LSTM(x, "rnn/l0", layers.Recurrent{Units: 16})
	_, last := n.LSTM(all, "rnn/l1", layers.Recurrent{Units: 16})
	show(n, n.Dense(last, "head", 3, nil))
	// Output:
	// rnn/l0/wx (20, 64)
	// rnn/l0/wh (16, 64)
	// rnn/l0/b (64)
	// rnn/l1/wx (16, 64)
	// rnn/l1/wh (16, 64)
	// rnn/l1/b (64)
	// head/w (16, 3)
	// head/b (3)
	// output (8, 3)
}

// Both directions of a sequence, joined at each step.
func ExampleNet_GRU() {
	n, x := net(8, 50, 20)
	forward, _ := n.GRU(x, "rnn", layers.Recurrent{Units: 16})
	backward, _ := n.GRU(x, "rnn/reverse", layers.Recurrent{Units: 16, Reverse: true})
	show(n, n.Concat(gorgonia.Nodes{forward, backward}, "both", 2))
	// Output:
	// rnn/wx (20, 48)
	// rnn/wh (16, 48)
	// rnn/b (48)
	// rnn/bn (16)
	// rnn/reverse/wx (20, 48)
	// rnn/reverse/wh (16, 48)
	// rnn/reverse/b (48)
	// rnn/reverse/bn (16)
	// output (8, 50, 32)
}

// A decoder reads its own output: 3 steps of one cell, with the same parameters.
func ExampleNet_LSTMCell() {
	n, x := net(8, 16)
	loop := n.Shared("decoder")
	var h, c *gorgonia.Node
	for range 3 {
		h, c = loop.LSTMCell(x, h, c, "cell", 16)
		x = loop.Dense(h, "out", 16, layers.Tanh)
	}
	show(n, x)
	// Output:
	// decoder/cell/wx (16, 64)
	// decoder/cell/wh (16, 64)
	// decoder/cell/b (64)
	// decoder/out/w (16, 16)
	// decoder/out/b (16)
	// output (8, 16)
}

// A GRU one step at a time.
func ExampleNet_GRUCell() {
	n, x := net(8, 20)
	show(n, n.GRUCell(x, n.Input("state", 8, 16), "cell", 16))
	// Output:
	// cell/wx (20, 48)
	// cell/wh (16, 48)
	// cell/b (48)
	// cell/bn (16)
	// output (8, 16)
}

// A block of a decoder: attention to earlier steps, added to its input.
func ExampleNet_Attention() {
	n, x := net(8, 50, 32)
	y := n.Attention(n.LayerNorm(x, "norm"), "attn", layers.Attention{Heads: 4, Causal: true})
	show(n, n.Add(x, y, "sum"))
	// Output:
	// norm/gamma (32)
	// norm/beta (32)
	// attn/in_proj/w (32, 96)
	// attn/in_proj/b (96)
	// attn/out_proj/w (32, 32)
	// attn/out_proj/b (32)
	// output (8, 50, 32)
}
