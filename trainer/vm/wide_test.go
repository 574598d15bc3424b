package vm_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// wideInts are integers that no float64 holds, and the limits.
var wideInts = []int{1<<53 + 1, -1<<53 - 1, math.MaxInt, math.MinInt, math.MaxInt - 2, 1<<60 + 3}

// Operations that only move elements change no bit of integers of 64 bits, on any device.
func TestIntegersOf64BitsAreMovedToTheBit(t *testing.T) {
	w := wideInts
	const many = 700 // more than a block of threads
	spread := slices.Repeat([]int{w[0]}, 2*many)
	for _, c := range []struct {
		name  string
		build func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error)
		want  []int
	}{
		{"slice", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return n.Slice(x, "", layers.Range{Axis: 1, Start: 1, End: 3}), nil
		}, []int{w[1], w[2], w[4], w[5]}},
		{"concat", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return n.Concat(gorgonia.Nodes{x, x}, "", 0), nil
		}, append(slices.Clone(w), w...)},
		{"stack", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return n.Stack(gorgonia.Nodes{x, x}, "", 2), nil
		}, []int{w[0], w[0], w[1], w[1], w[2], w[2], w[3], w[3], w[4], w[4], w[5], w[5]}},
		{"transpose", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) { return n.Transpose(x, ""), nil },
			[]int{w[0], w[3], w[1], w[4], w[2], w[5]}},
		{"reshape", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) { return n.Reshape(x, "", -1), nil }, w},
		{"repeat", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) { return n.Repeat(x, "", 1, 2), nil },
			[]int{w[0], w[0], w[1], w[1], w[2], w[2], w[3], w[3], w[4], w[4], w[5], w[5]}},
		{"where", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return n.Where(n.Constant([]float64{1, 0, 1}, ""), x, n.Constant(math.MaxInt-1, ""), ""), nil
		}, []int{w[0], math.MaxInt - 1, w[2], w[3], math.MaxInt - 1, w[5]}},
		{"constant", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return n.Reshape(n.Constant(w, ""), "", 3, 2), nil
		}, w},
		{"a constant number over a shape", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return n.Reshape(n.Constant(w[0], "", many, 2), "", -1), nil
		}, spread},
		{"a scalar over a shape", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return n.Repeat(n.Reshape(n.Slice(x, "", layers.Range{End: 1}, layers.Range{Axis: 1, End: 1}), "", 1), "", 0, 2*many), nil
		}, spread},
		{"Gorgonia's slice", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return gorgonia.Slice(x, nil, gorgonia.S(1))
		}, []int{w[1], w[4]}},
		{"Gorgonia's concat", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.Concat(0, x, x) },
			append(slices.Clone(w), w...)},
		{"Gorgonia's transpose", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.Transpose(x, 1, 0) },
			[]int{w[0], w[3], w[1], w[4], w[2], w[5]}},
		{"Gorgonia's scalar", func(n *layers.Net, x *gorgonia.Node) (*gorgonia.Node, error) {
			return gorgonia.Add(x, gorgonia.NewConstant(1<<54+1))
		}, []int{w[0] + 1<<54 + 1, w[1] + 1<<54 + 1, w[2] - math.MaxInt + math.MinInt + 1<<54, w[3] + 1<<54 + 1,
			math.MinInt + 1<<54 - 2, w[5] + 1<<54 + 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				g := gorgonia.NewGraph()
				n := layers.New(g)
				x := n.Indices("x", 2, 3)
				y, err := c.build(n, x)
				if err := errors.Join(err, n.Err()); err != nil {
					t.Fatal(err)
				}
				let(t, x, tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(slices.Clone(w))))
				m := newMachine(t, dev, g, vm.Options{Keep: gorgonia.Nodes{y}})
				newBuilder(t, tensor.Float64, 1).wantNative(m.Plan())
				mustRun(t, m)
				if got := fmt.Sprint(y.Value().Data()); got != fmt.Sprint(c.want) {
					t.Errorf("got %s, want %v", got, c.want)
				}
			})
		})
	}
}
