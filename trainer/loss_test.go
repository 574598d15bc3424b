package trainer_test

import (
	"errors"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// lossParts are the nodes of a small net that losses are made of, for a batch of b rows.
type lossParts struct {
	net    *layers.Net
	b      int
	x      *gorgonia.Node // [b, 4]
	w      *gorgonia.Node // [4, 3]
	logits *gorgonia.Node // [b, 3]
	rows   *gorgonia.Node // [b], cross entropies
	square *gorgonia.Node // [b, 3], (logits - t)²
	t      *gorgonia.Node // [b, 3], a field of distributions
	weight *gorgonia.Node // [b], a field of one number a row
}

// lossNet is a model whose loss is made by loss.
func lossNet(change func(*trainer.Model), loss func(p *lossParts) *gorgonia.Node) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		p := &lossParts{net: net, b: batch, x: net.Input("x", batch, 4), t: net.Input("t", batch, 3), weight: net.Input("weight", batch)}
		y := net.Labels("y", batch)
		p.w = net.Param("out/w", layers.GlorotUniform{}, 4, 3)
		p.logits = gorgonia.Must(gorgonia.Mul(p.x, p.w))
		p.rows = net.CrossEntropy(p.logits, y, "rows")
		p.square = gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Sub(p.logits, p.t))))
		m := trainer.Model{Inputs: net.Inputs(), Output: p.logits, Loss: loss(p), Params: net.Params()}
		if change != nil {
			change(&m)
		}
		return m, net.Err()
	}
}

func sum(x *gorgonia.Node, along ...int) *gorgonia.Node {
	return gorgonia.Must(gorgonia.Sum(x, along...))
}
func mean(x *gorgonia.Node) *gorgonia.Node    { return gorgonia.Must(gorgonia.Mean(x)) }
func prod(a, b *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.HadamardProd(a, b)) }
func plus(a, b *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.Add(a, b)) }
func quot(a, b *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.HadamardDiv(a, b)) }
func num(x float64) *gorgonia.Node            { return gorgonia.NewConstant(float32(x)) }

// vector is a constant of n equal elements.
func vector(n int, x float32) *gorgonia.Node {
	data := make([]float32, n)
	for i := range data {
		data[i] = x
	}
	return gorgonia.NewConstant(tensor.New(tensor.WithShape(n), tensor.WithBacking(data)))
}

func dot(a, b *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.Mul(a, b)) }

func crossEntropySum(p *lossParts) *gorgonia.Node { return sum(p.rows) }

// A loss that is a sum over the rows is refused; one that is a mean, or may be one, is not.
func TestALossThatIsASumOverTheRowsIsRefused(t *testing.T) {
	t.Parallel()
	logSoftmax := func(p *lossParts) *gorgonia.Node { return gorgonia.Must(gorgonia.LogSoftMax(p.logits, 1)) }
	for name, loss := range map[string]func(p *lossParts) *gorgonia.Node{
		"cross entropy":        crossEntropySum,
		"squares":              func(p *lossParts) *gorgonia.Node { return sum(p.square) },
		"means of squares":     func(p *lossParts) *gorgonia.Node { return sum(gorgonia.Must(gorgonia.Mean(p.square, 1))) },
		"sum of sums":          func(p *lossParts) *gorgonia.Node { return sum(sum(p.square, 1)) },
		"along the rows first": func(p *lossParts) *gorgonia.Node { return mean(sum(p.square, 0)) },
		"half":                 func(p *lossParts) *gorgonia.Node { return prod(sum(p.square), num(0.5)) },
		"log-likelihood":       func(p *lossParts) *gorgonia.Node { return gorgonia.Must(gorgonia.Neg(sum(prod(logSoftmax(p), p.t)))) },
		"one term of two":      func(p *lossParts) *gorgonia.Node { return plus(sum(p.rows), sum(gorgonia.Must(gorgonia.Square(p.w)))) },
		"sum and mean":         func(p *lossParts) *gorgonia.Node { return plus(mean(p.rows), sum(p.square)) },
		"by a constant":        func(p *lossParts) *gorgonia.Node { return quot(sum(p.rows), num(4)) },
		"product with itself":  func(p *lossParts) *gorgonia.Node { return dot(p.rows, p.rows) },
		"product with ones":    func(p *lossParts) *gorgonia.Node { return dot(vector(p.b, 1), p.rows) },
		"where they are":       func(p *lossParts) *gorgonia.Node { return sum(p.net.Where(p.rows, p.rows, p.rows, "")) },
		"divided too early":    func(p *lossParts) *gorgonia.Node { return sum(sum(quot(p.square, num(3)), 1)) },
	} {
		for _, batch := range []int{3, 4, 6} {
			if name == "by a constant" && batch == 4 { // then 4 is taken for the number of rows
				continue
			}
			_, err := trainer.Plan(t.Context(), lossNet(nil, loss), trainer.Options{Batch: batch})
			var e *trainer.SumLossError
			if !errors.As(err, &e) || !errors.Is(err, trainer.ErrModel) || e.Batch != batch || !strings.Contains(err.Error(), "gorgonia.Mean") {
				t.Errorf("%s, batch %d: got %v, want a SumLossError", name, batch, err)
			}
		}
	}
	for name, loss := range map[string]func(p *lossParts) *gorgonia.Node{
		"mean":                     func(p *lossParts) *gorgonia.Node { return mean(p.rows) },
		"of sums along a row":      func(p *lossParts) *gorgonia.Node { return mean(sum(p.square, 1)) },
		"sum divided by rows":      func(p *lossParts) *gorgonia.Node { return quot(sum(p.square), num(float64(p.b))) },
		"sum times 1/rows":         func(p *lossParts) *gorgonia.Node { return prod(sum(p.square), num(1/float64(p.b))) },
		"by rows and a constant":   func(p *lossParts) *gorgonia.Node { return quot(sum(p.square), num(0.5*float64(p.b))) },
		"rows divided, then added": func(p *lossParts) *gorgonia.Node { return sum(quot(p.square, num(float64(p.b)))) },
		"product with 1/rows":      func(p *lossParts) *gorgonia.Node { return dot(vector(p.b, 1/float32(p.b)), p.rows) },
		"log-likelihood": func(p *lossParts) *gorgonia.Node {
			return gorgonia.Must(gorgonia.Neg(quot(sum(prod(logSoftmax(p), p.t)), num(float64(p.b)))))
		},
		"mean and a penalty": func(p *lossParts) *gorgonia.Node { return plus(mean(p.rows), sum(gorgonia.Must(gorgonia.Square(p.w)))) },
		"a sum times 0":      func(p *lossParts) *gorgonia.Node { return plus(mean(p.rows), prod(num(0), sum(p.rows))) },
		"weighted":           func(p *lossParts) *gorgonia.Node { return sum(prod(p.rows, p.weight)) },
		"weighted product":   func(p *lossParts) *gorgonia.Node { return dot(p.rows, p.weight) },
		"weighted mean":      func(p *lossParts) *gorgonia.Node { return quot(sum(prod(p.rows, p.weight)), sum(p.weight)) },
		"weights where they count": func(p *lossParts) *gorgonia.Node {
			return sum(prod(p.rows, p.net.Where(p.rows, p.weight, p.rows, "")))
		},
		"running sum":           func(p *lossParts) *gorgonia.Node { return quot(sum(p.net.CumSum(p.rows, "", 0)), sum(p.rows)) },
		"divided by its sum":    func(p *lossParts) *gorgonia.Node { return quot(sum(prod(p.rows, p.rows)), sum(p.rows)) },
		"root of a sum":         func(p *lossParts) *gorgonia.Node { return gorgonia.Must(gorgonia.Sqrt(sum(p.square))) },
		"softmax over the rows": func(p *lossParts) *gorgonia.Node { return sum(prod(gorgonia.Must(gorgonia.SoftMax(p.logits, 0)), p.t)) },
	} {
		for _, batch := range []int{3, 4, 6} {
			if _, err := trainer.Plan(t.Context(), lossNet(nil, loss), trainer.Options{Batch: batch}); err != nil {
				t.Errorf("%s, batch %d: %v", name, batch, err)
			}
		}
	}
}

// A batch of one row has its sum as its mean, unless evaluation has more; and a caller can say that a sum is meant.
func TestALossThatIsASumIsAcceptedWhereItIsTheMean(t *testing.T) {
	t.Parallel()
	meant := func(m *trainer.Model) { m.MeanLoss = true }
	fixed := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		if batch != 4 && batch != 1 {
			return trainer.Model{}, errors.New("only batches of 4")
		}
		return lossNet(nil, func(p *lossParts) *gorgonia.Node { return prod(sum(p.rows), num(0.25)) })(g, batch)
	}
	for name, c := range map[string]struct {
		model   trainer.ModelFunc
		opt     trainer.Options
		refused bool
	}{
		"one row":                {lossNet(nil, crossEntropySum), trainer.Options{Batch: 1}, false},
		"one row, evaluate more": {lossNet(nil, crossEntropySum), trainer.Options{Batch: 1, EvalBatch: 8}, true},
		"meant":                  {lossNet(meant, crossEntropySum), trainer.Options{Batch: 4}, false},
		"one batch size only":    {fixed, trainer.Options{Batch: 4}, false},
	} {
		_, err := trainer.Plan(t.Context(), c.model, c.opt)
		var e *trainer.SumLossError
		if errors.As(err, &e) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: got %v, want refused: %v", name, err, c.refused)
		}
	}
}
