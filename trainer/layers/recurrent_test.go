package layers_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// recurrentNet is a recurrent layer in plain Go: p has its parameters wx, wh, b and bn, of which
// the last two may be missing, and x is [batch, steps, in].
type recurrentNet struct {
	gru                     bool
	batch, steps, in, units int
	reverse                 bool
}

// affine returns v·w + b for w [len(v), n]; b may be nil.
func affine(v, w, b []float64, n int) []float64 {
	y := make([]float64, n)
	copy(y, b)
	for i, a := range v {
		for j := range y {
			y[j] += a * w[i*n+j]
		}
	}
	return y
}

// outputs returns the outputs of all steps [batch, steps, units], and those of the step computed
// last.
func (r recurrentNet) outputs(x []float64, p map[string][]float64) (all, last []float64) {
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	n := r.units
	all = make([]float64, r.batch*r.steps*n)
	for row := range r.batch {
		h, c := make([]float64, n), make([]float64, n)
		for k := range r.steps {
			t := k
			if r.reverse {
				t = r.steps - 1 - k
			}
			at := row*r.steps + t
			xt := x[at*r.in : (at+1)*r.in]
			if r.gru {
				a, b := affine(xt, p["wx"], p["b"], 3*n), affine(h, p["wh"], nil, 3*n)
				for j := range n {
					reset, update, bn := sigmoid(a[j]+b[j]), sigmoid(a[n+j]+b[n+j]), 0.0
					if p["bn"] != nil {
						bn = p["bn"][j]
					}
					m := math.Tanh(a[2*n+j] + reset*(b[2*n+j]+bn))
					h[j] = (1-update)*m + update*h[j]
				}
			} else {
				a, b := affine(xt, p["wx"], p["b"], 4*n), affine(h, p["wh"], nil, 4*n)
				for j := range n {
					c[j] = sigmoid(a[n+j]+b[n+j])*c[j] + sigmoid(a[j]+b[j])*math.Tanh(a[2*n+j]+b[2*n+j])
					h[j] = sigmoid(a[3*n+j]+b[3*n+j]) * math.Tanh(c[j])
				}
			}
			copy(all[at*n:], h)
		}
		last = append(last, h...)
	}
	return all, last
}

// layer adds the layer to n.
func (r recurrentNet) layer(n *layers.Net, x *gorgonia.Node, name string, noBias bool) (all, last *gorgonia.Node) {
	o := layers.Recurrent{Units: r.units, Reverse: r.reverse, NoBias: noBias}
	if r.gru {
		return n.GRU(x, name, o)
	}
	return n.LSTM(x, name, o)
}

// what names the layer.
func (r recurrentNet) what() string {
	return fmt.Sprintf("%s of %d steps, reverse %t", map[bool]string{false: "lstm", true: "gru"}[r.gru], r.steps, r.reverse)
}

// recurrentNets are small layers: of one step, of one row, and in both directions.
func recurrentNets() (all []recurrentNet) {
	for _, gru := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			all = append(all, recurrentNet{gru, 2, 3, 4, 3, reverse})
		}
		all = append(all, recurrentNet{gru, 3, 1, 2, 2, false}, recurrentNet{gru, 1, 4, 1, 1, false})
	}
	return all
}

// recurrentCases are both results by the gradient of x, with weights that are given.
func recurrentCases() (cases []opCase) {
	for _, r := range recurrentNets() {
		blocks := 4
		if r.gru {
			blocks = 3
		}
		p := map[string][]float64{"wx": given(r.in * blocks * r.units), "wh": given(r.units * blocks * r.units)}
		for _, whole := range []bool{true, false} {
			shape := []int{r.batch, r.units}
			if whole {
				shape = []int{r.batch, r.steps, r.units}
			}
			name := fmt.Sprintf("%s, whole %t", r.what(), whole)
			cases = append(cases, opCase{name: name, in: [][]int{{r.batch, r.steps, r.in}}, shape: shape,
				build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
					was := n.Weights
					n.Weights = weights{}
					defer func() { n.Weights = was }()
					all, last := r.layer(n, x[0], name, true)
					if whole {
						return all
					}
					return last
				},
				want: func(x [][]float64) []float64 {
					all, last := r.outputs(x[0], p)
					if whole {
						return all
					}
					return last
				}})
		}
	}
	return cases
}

// The results are the formulas', and the gradients of all parameters are slopes of the formulas.
func TestRecurrentLayersLearnAllTheirParameters(t *testing.T) {
	for _, r := range recurrentNets() {
		t.Run(r.what(), func(t *testing.T) {
			rnd := seed.Rand(t, 31)
			net := layers.New(gorgonia.NewGraph())
			net.Type = tensor.Float64
			x := net.Input("x", r.batch, r.steps, r.in)
			all, last := r.layer(net, x, "rnn", false)
			if net.Err() != nil {
				t.Fatal(net.Err())
			}
			loss := gorgonia.Must(gorgonia.Add(gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Square(all)))), gorgonia.Must(gorgonia.Sum(last))))
			xs, p := reals(rnd, r.batch*r.steps*r.in), map[string][]float64{}
			bind(t, x, xs)
			var nodes gorgonia.Nodes
			for _, q := range net.Params() {
				d := reals(rnd, q.Node.Shape().TotalSize())
				bind(t, q.Node, d)
				p[q.Node.Name()[len("rnn/"):]] = d
				nodes = append(nodes, q.Node)
			}
			grads, err := gorgonia.Grad(loss, nodes...)
			if err != nil {
				t.Fatal(err)
			}
			var readAll, readLast gorgonia.Value // Gorgonia computes in place
			gorgonia.Read(all, &readAll)
			gorgonia.Read(last, &readLast)
			run(t, loss.Graph())
			wantAll, wantLast := r.outputs(xs, p)
			near(t, "all", tensor.Float64, numbers(t, readAll), wantAll)
			near(t, "last", tensor.Float64, numbers(t, readLast), wantLast)
			plain := func() (sum float64) {
				all, last := r.outputs(xs, p)
				for _, v := range all {
					sum += v * v
				}
				for _, v := range last {
					sum += v
				}
				return sum
			}
			for i, q := range nodes {
				d, want := p[q.Name()[len("rnn/"):]], []float64{}
				for j, v := range d {
					const h = 1e-5
					d[j] = v + h
					up := plain()
					d[j] = v - h
					want = append(want, (up-plain())/(2*h))
					d[j] = v
				}
				if got := numbers(t, grads[i].Value()); !within(got, want, 1e-7) {
					t.Errorf("gradient of %s is %v, differences say %v (EVENKEEL_SEED=%d)", q.Name(), got, want, seed.Value())
				}
			}
		})
	}
}

// Steps of a loop in a shared scope are the layer: bit for bit, with one set of parameters.
func TestCellsInASharedScopeAreTheLayer(t *testing.T) {
	for _, gru := range []bool{false, true} {
		r := recurrentNet{gru: gru, batch: 2, steps: 3, in: 4, units: 3}
		net := layers.New(gorgonia.NewGraph())
		x := net.Input("x", r.batch, r.steps, r.in)
		_, last := r.layer(net, x, "layer", false)
		shared := net.Shared("loop")
		var h, c *gorgonia.Node
		for t := range r.steps {
			xt := net.At(x, "", 1, t)
			if gru {
				h = shared.GRUCell(xt, h, "cell", r.units)
			} else {
				h, c = shared.LSTMCell(xt, h, c, "cell", r.units)
			}
		}
		if net.Err() != nil {
			t.Fatal(net.Err())
		}
		rnd := seed.Rand(t, 32)
		bind(t, x, reals(rnd, r.batch*r.steps*r.in))
		given := map[string][]float64{}
		for _, q := range net.Params() {
			name := q.Node.Name()[slices.Index([]byte(q.Node.Name()), '/')+1:]
			name = name[max(0, slices.Index([]byte(name), '/')+1):]
			if given[name] == nil {
				given[name] = reals(rnd, q.Node.Shape().TotalSize())
			}
			bind(t, q.Node, given[name])
		}
		if want := map[bool]int{false: 3, true: 4}[gru]; len(given) != want || len(net.Params()) != 2*want {
			t.Errorf("%d names of %d parameters, want %d of %d", len(given), len(net.Params()), want, 2*want)
		}
		run(t, h.Graph())
		if got, want := numbers(t, h.Value()), numbers(t, last.Value()); !slices.Equal(got, want) {
			t.Errorf("gru %t: %v by cells, %v by the layer", gru, got, want)
		}
	}
}

func TestBadRecurrentLayersAreErrorsThatNameLayerAndShapes(t *testing.T) {
	units := layers.Recurrent{Units: 3}
	for _, c := range []struct {
		name  string
		build func(n *layers.Net)
		is    error
		want  []string
	}{
		{"lstm of rows", func(n *layers.Net) { n.LSTM(n.Input("x", 2, 4), "l", units) }, layers.ErrShape, []string{`lstm "l"`, "(2, 4)", "3 dimensions"}},
		{"gru of no units", func(n *layers.Net) { n.GRU(n.Input("x", 2, 4, 5), "l", layers.Recurrent{}) }, layers.ErrShape, []string{`gru "l"`, "0 units"}},
		{"gru without a name", func(n *layers.Net) { n.GRU(n.Input("x", 2, 4, 5), "", units) }, layers.ErrName, []string{`over "x" has no name`}},
		{"lstm twice", func(n *layers.Net) { x := n.Input("x", 2, 4, 5); n.LSTM(x, "l", units); n.LSTM(x, "l", units) }, layers.ErrName, []string{`"l/wx"`}},
		{"cell of sequences", func(n *layers.Net) { n.GRUCell(n.Input("x", 2, 4, 5), nil, "l", 3) }, layers.ErrShape, []string{`gru cell "l"`, "2 dimensions"}},
		{"cell of no units", func(n *layers.Net) { n.LSTMCell(n.Input("x", 2, 4), nil, nil, "l", 0) }, layers.ErrShape, []string{`lstm cell "l"`, "0 units"}},
		{"state of another size", func(n *layers.Net) { n.GRUCell(n.Input("x", 2, 4), n.Input("h", 2, 4), "l", 3) }, layers.ErrShape, []string{`gru cell "l"`, `"h"`, "(2, 4)", "(2, 3)"}},
		{"half a state", func(n *layers.Net) { n.LSTMCell(n.Input("x", 2, 4), n.Input("h", 2, 3), nil, "l", 3) }, layers.ErrNode, []string{`lstm cell "l"`, "nil"}},
		{"the other half", func(n *layers.Net) { n.LSTMCell(n.Input("x", 2, 4), nil, n.Input("c", 2, 3), "l", 3) }, layers.ErrNode, []string{`lstm cell "l"`, "nil"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.build, c.is, c.want...) })
	}
}
