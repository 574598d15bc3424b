package nets

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// cell is a layer of an unrolled LSTM and its latest state.
type cell struct{ wx, wh, b, h, c *gorgonia.Node }

// unrolledBlock is the largest number of steps in a block of an unrolled net's fields. Gorgonia takes
// slices whose bounds differ by 256 for one, so that a long sequence has two axes.
const unrolledBlock = 50

// Unrolled is an LSTM of the given depth, unrolled in time, that predicts the next character at each
// step: a graph of many small operations, made with Gorgonia's own functions. Its Output is the
// logarithm of the last step's probabilities. The block is the largest divisor of steps up to 50; there
// are at most 256 blocks.
//
//	x, y [B, steps/block, block, chars] → mean over the steps of -Σ y ⊙ log softmax
func Unrolled(depth, steps, chars, units int) func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
	return func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		block := min(steps, unrolledBlock)
		for steps%block != 0 {
			block--
		}
		x := net.Input("x", batch, steps/block, block, chars)
		y := net.Input("y", batch, steps/block, block, chars)
		cells := make([]cell, depth)
		for i, in := 0, chars; i < depth; i, in = i+1, units {
			name := fmt.Sprintf("lstm%d", i+1)
			cells[i].wx = net.Param(name+"/wx", layers.GlorotUniform{}, in, 4*units)
			cells[i].wh = net.Param(name+"/wh", layers.GlorotUniform{}, units, 4*units)
			cells[i].b = net.Param(name+"/b", layers.Zeros{}, 4*units)
		}
		out := net.Param("out/w", layers.GlorotUniform{}, units, chars)
		if net.Err() != nil {
			return layers.Model{}, net.Err()
		}
		m := layers.Model{Inputs: net.Inputs(), Params: net.Params()}
		for t := range steps {
			h := step(x, t, block)
			for i := range cells {
				h = cells[i].next(h, units)
			}
			m.Output = gorgonia.Must(gorgonia.LogSoftMax(gorgonia.Must(gorgonia.Mul(h, out))))
			rows := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(m.Output, step(y, t, block))), 1))
			loss := gorgonia.Must(gorgonia.Neg(gorgonia.Must(gorgonia.Mean(rows))))
			if m.Loss != nil {
				loss = gorgonia.Must(gorgonia.Add(m.Loss, loss))
			}
			m.Loss = loss
		}
		m.Loss = gorgonia.Must(gorgonia.Mul(m.Loss, gorgonia.NewConstant(float32(1)/float32(steps))))
		return m, nil
	}
}

// step returns step t of x [B, blocks, block, chars], as [B, chars].
func step(x *gorgonia.Node, t, block int) *gorgonia.Node {
	x = gorgonia.Must(gorgonia.Slice(x, nil, gorgonia.S(t/block)))
	return gorgonia.Must(gorgonia.Slice(x, nil, gorgonia.S(t%block)))
}

// next adds a step with the input x and returns its output: Hochreiter and Schmidhuber, 1997, with
// the forget gate of Gers et al., 2000.
func (l *cell) next(x *gorgonia.Node, units int) *gorgonia.Node {
	sum := gorgonia.Must(gorgonia.Mul(x, l.wx))
	if l.h != nil {
		sum = gorgonia.Must(gorgonia.Add(sum, gorgonia.Must(gorgonia.Mul(l.h, l.wh))))
	}
	sum = gorgonia.Must(gorgonia.BroadcastAdd(sum, l.b, nil, []byte{0}))
	gate := func(k int) *gorgonia.Node {
		return gorgonia.Must(gorgonia.Slice(sum, nil, gorgonia.S(k*units, (k+1)*units)))
	}
	input, output := gorgonia.Must(gorgonia.Sigmoid(gate(0))), gorgonia.Must(gorgonia.Sigmoid(gate(1)))
	next := gorgonia.Must(gorgonia.HadamardProd(input, gorgonia.Must(gorgonia.Tanh(gate(2)))))
	if l.c != nil {
		forget := gorgonia.Must(gorgonia.Sigmoid(gate(3)))
		next = gorgonia.Must(gorgonia.Add(next, gorgonia.Must(gorgonia.HadamardProd(forget, l.c))))
	}
	l.c, l.h = next, gorgonia.Must(gorgonia.HadamardProd(output, gorgonia.Must(gorgonia.Tanh(next))))
	return l.h
}
