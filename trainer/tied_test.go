package trainer_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// waves is an Init of numbers that differ, whatever the parameter is called.
type waves struct{}

func (waves) Fill(_ *rand.Rand, _ []int, at int, dst []float64) {
	for i := range dst {
		dst[i] = math.Sin(float64(at + i))
	}
}

// tied is a net of words whose table is the output projection too, or where both are tables of their
// own that start alike.
func tied(one bool) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type, net.Weights = gorgonia.Float64, waves{}
		h := layers.Tanh(net, net.Embedding(net.Indices("words", batch), "words", 7, 3), "h")
		h = net.Mul(h, net.Constant([]float64{1, -2, 0.5}, ""), "")
		table := net.Parameter("words/table")
		if !one {
			table = net.Param("out/table", waves{}, 7, 3)
		}
		logits := net.MatMul(h, table, "logits", layers.Transposed{B: true})
		return net.Model(logits, net.CrossEntropySmooth(logits, net.Labels("y", batch), 0.1, "loss/rows"), nil)
	}
}

// The gradient of a tied table is the sum of those of two: so is the first update of gradient descent.
func TestATiedTableLearnsFromBothOfItsUses(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := columns(t, 6, dataloader.Column("words", []int32{0, 1, 1, 6, 3, 2}), dataloader.Column("y", []uint8{1, 1, 6, 3, 2, 0}))
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			opt := trainer.Options{Device: dev, Batch: 6, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1}, Guard: guard}
			m := mix{net: "tied", model: tied(true), data: ds, opt: opt}
			one := learnedOf(t, m.model, exactly(t, m, opt), ds)
			two := learnedOf(t, tied(false), opt, ds)
			if len(one) != 2 || len(two) != 3 { // with the constant
				t.Fatalf("%d and %d parameters", len(one), len(two))
			}
			at := func(b string, i int) float64 {
				return math.Float64frombits(binary.NativeEndian.Uint64([]byte(b[8*i:])))
			}
			for i := range 21 {
				was, read := math.Sin(float64(i)), i/3 != 4 && i/3 != 5 // no sample has these words
				in, out := at(two["words/table"], i)-was, at(two["out/table"], i)-was
				if got := at(one["words/table"], i) - was; math.Abs(got-in-out) > 1e-14 || (in != 0) != read || out == 0 {
					t.Errorf("guard %v: element %d moves by %v, and in two tables by %v and %v", guard, i, got, in, out)
				}
			}
		}
	})
}
