package trainer_test

import (
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Models that compute with the number 1 / batch and with 0.2, which are one number at a batch of 5:
// what the first step computes with one of them, and the last step with the other, is then computed
// once and stays alive between them, where the peak is.
var coincidences = map[string]func(net *layers.Net, x *gorgonia.Node, early, late float32) (first, last *gorgonia.Node){
	"constants of layers": func(net *layers.Net, x *gorgonia.Node, early, late float32) (first, last *gorgonia.Node) {
		s := x.Shape()
		return net.Constant(early, "early", s...), net.Constant(late, "late", s...)
	},
	"scaled by layers": func(net *layers.Net, x *gorgonia.Node, early, late float32) (first, last *gorgonia.Node) {
		return net.Affine(x, "early", float64(early), 0), net.Affine(x, "late", float64(late), 0)
	},
	"functions of what is scaled": func(net *layers.Net, x *gorgonia.Node, early, late float32) (first, last *gorgonia.Node) {
		return net.Exp(net.Affine(x, "early", float64(early), 0), "exp early"), net.Exp(net.Affine(x, "late", float64(late), 0), "exp late")
	},
	"scaled by Gorgonia's constants": func(net *layers.Net, x *gorgonia.Node, early, late float32) (first, last *gorgonia.Node) {
		return gorgonia.Must(gorgonia.HadamardProd(x, gorgonia.NewConstant(early))), gorgonia.Must(gorgonia.HadamardProd(x, gorgonia.NewConstant(late)))
	},
}

// Every short batch fits into the planned memory, also one whose numbers coincide with others.
func TestAShortBatchWhoseConstantsCoincideFits(t *testing.T) {
	const width, inner = 64, 8
	for name, parts := range coincidences {
		t.Run(name, func(t *testing.T) {
			model := func(g *gorgonia.ExprGraph, rows int) (trainer.Model, error) {
				net := layers.New(g)
				x := net.Input("x", rows, width)
				first, last := parts(net, x, 0.2, 1/float32(rows))
				product := func(x *gorgonia.Node, name string, in, out int) *gorgonia.Node {
					return net.MatMul(x, net.Param("w/"+name, layers.GlorotUniform{}, in, out), name, layers.Transposed{})
				}
				h := net.Add(product(first, "first", width, inner), product(x, "field", width, inner), "start")
				h = net.Softmax(product(h, "wide", inner, width), "middle", 1)
				h = product(h, "narrow", width, inner)
				// Both operands of each row are needed at once, so that no order computes this
				// earlier.
				row, square := net.Reshape(h, "row", rows, 1, inner), net.Reshape(last, "square", rows, inner, inner)
				h = net.Reshape(net.MatMul(row, square, "end", layers.Transposed{}), "flat", rows, inner)
				return net.Classifier(x, net.Dense(h, "out", 3, nil))
			}
			each(t, func(t *testing.T, dev kernels.Device) {
				for _, rows := range []int{8, 7, 6} {
					n := rows + 5 // ends with a batch of 5
					x, y := make([]float32, n*width), make([]uint8, n)
					ds := columns(t, n, dataloader.Column("x", x, width), dataloader.Column("y", y))
					tr := made(t, model, trainer.Options{Device: dev, Batch: rows, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Sequential: true, Frozen: []string{"w/*"}})
					fit(t, tr, ds)
					evaluate(t, tr, ds)
				}
			})
		})
	}
}
