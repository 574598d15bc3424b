package layers_test

import (
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// edge is an operation on numbers where its textbook form overflows or divides by zero.
type edge struct {
	name        string
	op          layers.Activation
	x           []float64
	want, slope []float64 // of the result, and of the sum of its elements by x; no slope: not checked
}

// functionEdges are edges of functions of each element.
func functionEdges() []edge {
	const huge = 1e30
	x := []float64{-huge, -100, 100, huge}
	zeros, step := []float64{0, 0, 0, 0}, []float64{0, 0, 1, 1}
	ramp := []float64{0, 0, 100, huge}
	power := func(p float64) layers.Activation {
		return func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node { return n.Power(x, name, p) }
	}
	// x to the power of 0, 1 and x.
	pow := func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node {
		return n.Pow(x, n.Add(n.Constant([]float64{0, 1, 0}, ""), n.Mul(x, n.Constant([]float64{0, 0, 1}, ""), ""), ""), name)
	}
	return []edge{
		{"softplus", layers.Softplus, x, ramp, step},
		{"sigmoid", layers.Sigmoid, x, step, zeros},
		{"silu", layers.SiLU, x, ramp, step},
		{"gelu", layers.GELU, x, ramp, step},
		{"gelu tanh", layers.GELUTanh, x, ramp, step},
		{"elu", layers.ELU(1), x, []float64{-1, -1, 100, huge}, step},
		{"hard swish", layers.HardSwish, x, ramp, step},
		{"clamp", layers.Clamp(-1, 1), x, []float64{-1, -1, 1, 1}, zeros},
		{"elu of zero", layers.ELU(1), []float64{0}, []float64{0}, []float64{1}},
		{"clamp at its bounds", layers.Clamp(0, 6), []float64{0, 6}, []float64{0, 6}, []float64{0.5, 0.5}},
		{"clamp of NaN", layers.Clamp(0, 6), []float64{math.NaN()}, []float64{math.NaN()}, nil},
		{"power 0", power(0), []float64{0, 2}, []float64{1, 1}, []float64{0, 0}},
		{"power 1", power(1), []float64{0, 2}, []float64{0, 2}, []float64{1, 1}},
		{"power 4", power(4), []float64{0, -2}, []float64{0, 16}, []float64{0, -32}},
		{"pow of zeros", pow, []float64{0, 0, 2}, []float64{1, 0, 4}, []float64{0, 1, 4 + 4*math.Ln2}},
		{"abs of zero", (*layers.Net).Abs, []float64{0}, []float64{0}, []float64{0}},
	}
}

// reductionEdges are edges of reductions to a scalar.
func reductionEdges() []edge {
	all := func(op func(n *layers.Net, x *gorgonia.Node, name string, r layers.Reduce) *gorgonia.Node) layers.Activation {
		return func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node {
			return op(n, x, name, layers.Reduce{Keep: true})
		}
	}
	softmax := func(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node { return n.Softmax(x, name) }
	inf, nan := math.Inf(1), math.NaN()
	norm, sumExp, prod := all((*layers.Net).Norm), all((*layers.Net).LogSumExp), all((*layers.Net).Prod)
	return []edge{
		{"norm of zeros", norm, []float64{0, 0}, []float64{0}, []float64{0, 0}},
		{"norm of large numbers", norm, []float64{3e30, -4e30}, []float64{5e30}, []float64{0.6, -0.8}},
		{"norm of small numbers", norm, []float64{3e-30, 4e-30}, []float64{5e-30}, []float64{0.6, 0.8}},
		{"norm of an infinity", norm, []float64{1, -inf}, []float64{inf}, nil},
		{"logsumexp of large numbers", sumExp, []float64{1e4, 1e4}, []float64{1e4 + math.Ln2}, []float64{0.5, 0.5}},
		{"logsumexp of masked numbers", sumExp, []float64{-inf, 2}, []float64{2}, []float64{0, 1}},
		{"logsumexp of -Inf", sumExp, []float64{-inf, -inf}, []float64{-inf}, []float64{0, 0}},
		{"logsumexp of an infinity", sumExp, []float64{0, inf}, []float64{inf}, nil},
		{"prod with a zero", prod, []float64{2, 0, 3}, []float64{0}, []float64{0, 6, 0}},
		{"prod with two zeros", prod, []float64{2, 0, 0}, []float64{0}, []float64{0, 0, 0}},
		{"max of equal numbers", all((*layers.Net).Max), []float64{1, 3, 3}, []float64{3}, []float64{0, 0.5, 0.5}},
		{"min of NaN", all((*layers.Net).Min), []float64{1, nan}, []float64{nan}, nil},
		{"variance of large equal numbers", all((*layers.Net).Variance), []float64{1e7, 1e7, 1e7}, []float64{0}, []float64{0, 0, 0}},
		{"softmax of large numbers", softmax, []float64{1e4, -1e4}, []float64{1, 0}, []float64{0, 0}},
	}
}

func TestOperationsHoldAtTheEdgesOnEveryDevice(t *testing.T) {
	holdAtTheEdges(t, append(functionEdges(), reductionEdges()...))
}

// holdAtTheEdges compares the results and slopes of edges on every device.
func holdAtTheEdges(t *testing.T, edges []edge) {
	for _, device := range devices {
		for _, dt := range types {
			t.Run(fmt.Sprint(device.name, " ", dt), func(t *testing.T) {
				n := layers.New(gorgonia.NewGraph())
				n.Type = dt
				loss := n.Constant(0.0, "")
				var results, params gorgonia.Nodes
				for _, e := range edges {
					params = append(params, n.Param(e.name+"/x", layers.Zeros{}, len(e.x)))
					y := e.op(n, params[len(params)-1], "result of "+e.name)
					results, loss = append(results, y), n.Add(loss, n.Sum(y, "", layers.Reduce{}), "")
				}
				if n.Err() != nil {
					t.Fatal(n.Err())
				}
				if _, err := gorgonia.Grad(loss, params...); err != nil {
					t.Fatal(err)
				}
				for i, e := range edges {
					bind(t, params[i], e.x)
				}
				m, err := vm.New(loss.Graph(), vm.Options{Device: device.open(t), Keep: results})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if err := m.RunAll(); err != nil {
					t.Fatal(err)
				}
				for i, e := range edges {
					if got := numbers(t, results[i].Value()); !alike(got, e.want) {
						t.Errorf("%s of %v is %v, want %v", e.name, e.x, got, e.want)
					}
					slope, err := params[i].Grad()
					if err != nil {
						t.Fatal(err)
					}
					if got := numbers(t, slope); e.slope != nil && !within(got, e.slope, 1e-5) {
						t.Errorf("%s of %v has slopes %v, want %v", e.name, e.x, got, e.slope)
					}
				}
			})
		}
	}
}

// alike reports whether elements differ by at most 1e-6 of their size. NaN is like NaN.
func alike(got, want []float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		g := got[i]
		if g != w && !(math.IsNaN(g) && math.IsNaN(w)) && !(math.Abs(g-w) <= 1e-6*math.Abs(w)+1e-37) {
			return false
		}
	}
	return true
}
