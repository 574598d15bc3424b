package trainer_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// rowLosses are losses of logits [B, 3], by name. Some have the field y.
var rowLosses = map[string]func(net *layers.Net, logits *gorgonia.Node) *gorgonia.Node{
	"cross entropy smooth": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.CrossEntropySmooth(x, labelsOf(net, x), 0.1, "rows")
	},
	"multi hinge": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.MultiHinge(x, labelsOf(net, x), 1, "rows")
	},
	"squared error": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.SquaredError(x, targetOf(net, x), "rows")
	},
	"absolute error": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.AbsoluteError(x, targetOf(net, x), "rows")
	},
	"huber": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.Huber(x, targetOf(net, x), 0.5, "rows")
	},
	"hinge": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node { return net.Hinge(x, targetOf(net, x), "rows") },
	"binary cross entropy": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.BinaryCrossEntropy(x, targetOf(net, x), net.Constant([]float64{1, 2, 3}, ""), "rows")
	},
	"kl divergence": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.KLDivergenceLogits(x, net.Softmax(targetOf(net, x), ""), "rows")
	},
	"cosine": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.Affine(net.CosineSimilarity(x, targetOf(net, x), ""), "rows", -1, 1)
	},
	"cosine embedding": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.CosineEmbedding(x, targetOf(net, x), net.Cast(labelsOf(net, x), "alike", x.Dtype()), 0.1, "rows")
	},
	"contrastive": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.Contrastive(x, targetOf(net, x), net.Cast(labelsOf(net, x), "alike", x.Dtype()), 3, "rows")
	},
	"triplet": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		t := targetOf(net, x)
		return net.Triplet(x, t, net.Neg(t, "far"), 1, "rows")
	},
	"infonce": func(net *layers.Net, x *gorgonia.Node) *gorgonia.Node {
		return net.InfoNCE(x, targetOf(net, x), 0.5, "rows")
	},
}

// labelled are the names of those that have it.
var labelled = []string{"cross entropy smooth", "multi hinge", "cosine embedding", "contrastive"}

// targetOf is a function of the input x of the net, of the shape of the logits.
func targetOf(net *layers.Net, logits *gorgonia.Node) *gorgonia.Node {
	return net.Slice(net.Inputs()[0], "target", layers.Range{Axis: 1, Start: 1, End: 4})
}

// labelsOf adds the field y, a class for each row of the logits.
func labelsOf(net *layers.Net, logits *gorgonia.Node) *gorgonia.Node {
	return net.Labels("y", logits.Shape()[0])
}

// rowLossNet is a model whose loss is made of one of rowLosses.
func rowLossNet(name string, total func(net *layers.Net, rows *gorgonia.Node) *gorgonia.Node) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		logits := net.Dense(net.Input("x", batch, 4), "out", 3, nil)
		return net.Model(logits, total(net, rowLosses[name](net, logits)), nil)
	}
}

// Each loss trains in exactly its plan and learns, with labels that are stored in any type, in batches
// with a tail, in windows, and on resident data; its rows do not depend on the batch.
func TestRowLossesTrainWithLabelsOfAnyType(t *testing.T) {
	rows := func(_ *layers.Net, rows *gorgonia.Node) *gorgonia.Node { return rows }
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, name := range slices.Sorted(maps.Keys(rowLosses)) {
			x, narrow, long := make([]float32, 4*21), make([]uint8, 21), make([]int64, 21)
			for i := range x {
				x[i] = float32(i*i%17)/4 - 2
			}
			for i := range narrow {
				narrow[i], long[i] = uint8(i%3), int64(i%3)
			}
			ds := columns(t, 21, dataloader.Column("x", x, 4), dataloader.Column("y", narrow))
			wide := columns(t, 21, dataloader.Column("x", x, 4), dataloader.Column("y", long))
			if !slices.Contains(labelled, name) {
				ds = columns(t, 21, dataloader.Column("x", x, 4))
				wide = ds
			}
			opt := trainer.Options{Device: dev, Batch: 7, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.02}}
			m := mix{net: name, model: rowLossNet(name, rows), data: ds, opt: opt}
			m.opt = exactly(t, m, opt)
			tr := made(t, m.model, m.opt)
			before := evaluate(t, tr, ds).Loss
			opt.Fields = wide.Fields()
			other := made(t, m.model, opt)
			if got := evaluate(t, other, wide).Loss; got != before {
				t.Errorf("%s: loss %v with labels of 64 bits, %v with 8", name, got, before)
			}
			opt.Batch, opt.Fields, opt.Resident, opt.Accumulate = 5, nil, []dataloader.Dataset{ds}, 3
			tails := made(t, m.model, opt)
			if got := evaluate(t, tails, ds).Loss; name != "infonce" && !about(got, before, 1e-5) {
				t.Errorf("%s: loss %v in batches of 5, %v in those of 7", name, got, before)
			}
			for range 30 {
				fit(t, tr, ds)
				fit(t, tails, ds)
			}
			for _, tr := range []*trainer.Trainer{tr, tails} {
				if after := evaluate(t, tr, ds).Loss; !(after < 0.9*before) {
					t.Errorf("%s: loss %v after 30 epochs, %v before", name, after, before)
				}
			}
		}
	})
}

func TestTheSumOfRowLossesIsRefusedAndTheirMeanIsNot(t *testing.T) {
	sum := func(net *layers.Net, rows *gorgonia.Node) *gorgonia.Node {
		return net.Sum(rows, "sum", layers.Reduce{})
	}
	mean := func(net *layers.Net, rows *gorgonia.Node) *gorgonia.Node {
		return net.Mean(rows, "mean", layers.Reduce{})
	}
	for name := range rowLosses {
		if _, err := trainer.Plan(t.Context(), rowLossNet(name, mean), trainer.Options{Batch: 4}); err != nil {
			t.Errorf("%s: the mean: %v", name, err)
		}
		var e *trainer.SumLossError
		_, err := trainer.Plan(t.Context(), rowLossNet(name, sum), trainer.Options{Batch: 4})
		if certain := name != "infonce"; errors.As(err, &e) != certain { // whose rows are mixed
			t.Errorf("%s: the sum: %v", name, err)
		}
	}
}

// The loss with class weights is Σ w·loss / Σ w over all samples, ignored labels left out.
func TestClassWeightsAreWeightsOfTheMean(t *testing.T) {
	weights := []float64{0.5, 3, 1}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, y := net.Input("x", batch, 3), net.Labels("y", batch)
		kept, known := net.Ignore(y, "ignore", 255)
		logits := net.Mul(x, net.Scalar("logits/scale", 1), "logits")
		hinge := net.MultiHinge(net.Add(logits, net.Param("logits/b", layers.Zeros{}, 3), ""), kept, 1, "rows")
		return net.Model(logits, hinge, net.Mul(known, net.ClassWeights(kept, weights, "classes"), "weight"))
	}
	const n = 23
	x, y := make([]float32, 3*n), make([]uint8, n)
	var total, weight float64
	for i := range y {
		y[i] = uint8(i * i % 4)
		for j := range 3 {
			x[3*i+j] = float32((7*i+5*j)%9) / 4
		}
		if y[i] == 3 {
			y[i] = 255
			continue
		}
		loss := 0.0
		for j := range 3 {
			if j != int(y[i]) {
				loss += max(0, 1-float64(x[3*i+int(y[i])])+float64(x[3*i+j])) / 3
			}
		}
		total, weight = total+weights[y[i]]*loss, weight+weights[y[i]]
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := columns(t, n, dataloader.Column("x", x, 3), dataloader.Column("y", y))
		tr := made(t, model, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		if got := evaluate(t, tr, ds).Loss; math.Abs(got-total/weight) > 1e-6 {
			t.Errorf("loss %v, want %v", got, total/weight)
		}
		fit(t, tr, ds)
		y[5] = 4 // no class, and not the ignored one
		bad := columns(t, n, dataloader.Column("x", x, 3), dataloader.Column("y", slices.Clone(y)))
		y[5] = 25 % 4
		var e *trainer.IndexError
		if _, err := tr.Fit(t.Context(), bad); !errors.As(err, &e) || e.Index != 4 || !strings.Contains(fmt.Sprint(err), "classes") {
			t.Errorf("a label of no class: got %v, want an IndexError of 4", err)
		}
	})
}
