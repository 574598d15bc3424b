package compile

import (
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// integerUses are operations on two fields of integers, a = 200, 3, 100, 7 and b = 100, 255, 200, 2, and
// the sum of their results.
var integerUses = map[string]struct {
	build func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node
	sum   float64
}{
	"add": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node { return d.Must(gorgonia.Add(a, b)) }, 867},
	"sub": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node { return d.Must(gorgonia.Sub(a, b)) }, -247},
	"square": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node {
		return d.Must(gorgonia.HadamardProd(a, a))
	},
		50058},
	"quotient, by Gorgonia": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node {
		return d.Must(gorgonia.HadamardDiv(a, b))
	}, 5},
	"concat": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node { return d.Must(gorgonia.Concat(0, a, b)) }, 867},
	"concat of layers": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node {
		net := layers.New(d.Graph)
		return d.Must(net.Concat(gorgonia.Nodes{a, b}, "", 0), net.Err())
	}, 867},
	"where": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node {
		net := layers.New(d.Graph)
		less := net.Less(net.Cast(a, "", tensor.Float32), net.Cast(b, "", tensor.Float32), "")
		return d.Must(net.Where(less, a, b, ""), net.Err())
	}, 100 + 3 + 100 + 2},
	"selection": {func(d *graphtest.Draft, a, b *gorgonia.Node) *gorgonia.Node {
		column := d.Must(gorgonia.Reshape(a, tensor.Shape{4, 1}))
		at := gorgonia.NewConstant(tensor.New(tensor.WithBacking([]int{0, 0})), gorgonia.WithName("at"))
		return d.Must(gorgonia.ByIndices(column, at, 1))
	}, 620},
}

// Fields may be stored in other types than their nodes in the graph have.
func TestIntegersMayBeStoredInAnyType(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		stored := []arena.DType{arena.Uint8, arena.Int32, arena.Int64}
		for name, use := range integerUses {
			for i, ta := range stored {
				tb := stored[(i+1)%3]
				d := graphtest.New(nil, tensor.Float32)
				field := func(name string) *gorgonia.Node {
					return gorgonia.NewVector(d.Graph, tensor.Int, gorgonia.WithShape(4), gorgonia.WithName(name))
				}
				a, b := field("a"), field("b")
				y := use.build(d, a, b)
				loss := d.Must(gorgonia.Sum(d.Must(gorgonia.ConvType(y, tensor.Int, tensor.Float32))))
				homes := &ir.Homes{}
				p := compileFor(t, d.Graph, Config{Mode: Evaluate, Homes: homes, Device: dev, Model: frontend.Model{Batch: 4, Loss: loss, Inputs: map[*gorgonia.Node]frontend.Input{
					a: {Field: "a", Spec: kernels.Spec{Type: ta, Shape: kernels.Shape{4}}}, b: {Field: "b", Spec: kernels.Spec{Type: tb, Shape: kernels.Shape{4}}}}}})
				m := load(t, dev, homes, p)
				if at := m.field("a"); at != nil {
					kernels.Store(at, ta, []float64{200, 3, 100, 7})
				}
				if at := m.field("b"); at != nil {
					kernels.Store(at, tb, []float64{100, 255, 200, 2})
				}
				if got := m.loss(t); got != use.sum {
					t.Errorf("%s of %v and %v: got a sum of %v, want %v\n%v", name, ta, tb, got, use.sum, p)
				}
			}
		}
	})
}
