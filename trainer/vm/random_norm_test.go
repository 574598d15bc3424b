package vm_test

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// randomNorms have states or modes, which a tape machine gets wrong: see plainOps.
func randomNorms() map[string]randomOp {
	return map[string]randomOp{
		"batch norm": {func(g *randomGrower) (in, args []int) {
			x := g.rank(4)
			s := g.shapes[x]
			if g.eval || s[0]*s[2]*s[3] < 4 {
				return nil, nil
			}
			return []int{x, g.shaped(1, s[1], 1, 1), g.shaped(1, s[1], 1, 1)}, nil
		}, func(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
			y, _, _, _, err := gorgonia.BatchNorm(in[0], in[1], in[2], 0.1, 0.1)
			return d.Must(y, err)
		}},
		"dropout": {func(g *randomGrower) (in, args []int) {
			if !g.eval {
				return nil, nil
			}
			return []int{g.any(func(s tensor.Shape) bool { return len(s) > 0 }, g.wide(), g.wide())}, []int{1 + g.IntN(9)}
		}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
			return d.Must(gorgonia.Dropout(in[0], float64(args[0])/10))
		}},
	}
}

// plainBatchNorm is the formula of a batch normalization with epsilon 0.1.
func plainBatchNorm(d *graphtest.Draft, in gorgonia.Nodes, _ []int) *gorgonia.Node {
	n := layers.New(d.Graph)
	along := layers.Reduce{Axes: []int{0, 2, 3}, Keep: true}
	centered := n.Sub(in[0], n.Mean(in[0], "", along), "")
	variance := n.Mean(n.Mul(centered, centered, ""), "", along)
	y := n.Add(n.Mul(n.Div(centered, n.Sqrt(n.Affine(variance, "", 1, 0.1), ""), ""), in[1], ""), in[2], "")
	return d.Must(y, n.Err())
}

// randomIntegers compute with integers, which have no gradient, and multiply floats by the result.
func randomIntegers() map[string]randomOp {
	types := []tensor.Dtype{tensor.Int, tensor.Int32, tensor.Int64, tensor.Uint8}
	functions := []func(a, b *gorgonia.Node) (*gorgonia.Node, error){
		gorgonia.HadamardDiv, gorgonia.Add, gorgonia.Sub, gorgonia.HadamardProd, gorgonia.MaxBetween, gorgonia.MinBetween,
		func(a, b *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.Lt(a, b, true) },
	}
	// Args: the seed of the integers, their type, the reduction at the end, its axis, and
	// functions.
	const none, sum, largest, kinds = 0, 1, 2, 3
	return map[string]randomOp{"integers": {func(g *randomGrower) (in, args []int) {
		args = []int{g.IntN(1 << 20), g.IntN(len(types)), g.IntN(kinds), g.IntN(2)}
		for range 1 + g.IntN(3) {
			args = append(args, g.IntN(len(functions)))
		}
		return []int{g.rank(2)}, args
	}, func(d *graphtest.Draft, in gorgonia.Nodes, args []int) *gorgonia.Node {
		rnd := rand.New(rand.NewPCG(uint64(args[0]), 1))
		shape, dt, axis := in[0].Shape(), types[args[1]], args[3]
		least := -3
		if dt == tensor.Uint8 {
			least = 0
		}
		y := integersLike(d, dt, shape, func() int { return least + rnd.IntN(6) })
		for _, k := range args[4:] {
			from := least
			if k == 0 {
				from = 1 // a divisor
			}
			y = d.Must(functions[k](y, integersLike(d, dt, shape, func() int { return from + rnd.IntN(6) })))
		}
		switch args[2] {
		case sum:
			y = d.Must(gorgonia.Sum(y, axis))
		case largest:
			y = d.Must(gorgonia.Max(y, axis))
		}
		floats := d.Must(gorgonia.ConvType(y, dt, d.Type))
		if args[2] == none {
			return d.Must(gorgonia.HadamardProd(in[0], floats))
		}
		return d.Must(gorgonia.BroadcastHadamardProd(in[0], floats, nil, []byte{byte(axis)}))
	}}}
}

// integersLike returns an input of integers, which nothing is differentiated by.
func integersLike(d *graphtest.Draft, dt tensor.Dtype, shape tensor.Shape, draw func() int) *gorgonia.Node {
	v := tensor.New(tensor.Of(dt), tensor.WithShape(shape...))
	for i := range shape.TotalSize() {
		switch x := v.Data().(type) {
		case []int:
			x[i] = draw()
		case []int32:
			x[i] = int32(draw())
		case []int64:
			x[i] = int64(draw())
		case []uint8:
			x[i] = uint8(draw())
		}
	}
	name := fmt.Sprintf("integers %d", len(d.Graph.AllNodes()))
	return gorgonia.NewTensor(d.Graph, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name), gorgonia.WithValue(v))
}
