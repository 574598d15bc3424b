package compile

import (
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// still is an optimizer that changes nothing: its rate is 0.
type still struct{ optim.SGD }

func (still) Controls(int64, []float64) {}

// loss runs the program and returns its loss.
func (m *machine) loss(t *testing.T) float64 {
	t.Helper()
	m.run(t)
	return m.numbers(t, ir.Results, LossName)[0]
}

// compiled is a random graph in memory, after its first step.
func (g *grower) compiled(t *testing.T, dev kernels.Device, loss *gorgonia.Node) (m *machine, first float64) {
	t.Helper()
	cfg := g.config(dev, loss)
	cfg.Homes = &ir.Homes{}
	m = load(t, dev, cfg.Homes, compileFor(t, g.Graph, cfg))
	m.start(t, g.Graph, still{})
	g.feed(m)
	return m, m.loss(t)
}

// differences checks gradients, in float64, against central differences of the loss, at some
// elements of each parameter. With steps of 1e-6 these err by about 1e-10 from rounding and as much
// from the third derivative, times the factors of the graph; the tolerance is 1e-5 of the larger of
// 1 and the gradient.
func (g *grower) differences(t *testing.T, m *machine) error {
	t.Helper()
	const step, tol, samples = 1e-6, 1e-5, 8
	for _, n := range g.params() {
		grad := m.numbers(t, ir.Gradients, n.Name())
		part, _ := m.homes.Find(ir.Parameters, n.Name())
		x := elementsOf[float64](m.at(part.Ref))
		for range min(samples, len(x)) {
			i := g.Rand.IntN(len(x))
			was := x[i]
			x[i] = was + step
			up := m.loss(t)
			x[i] = was - step
			down := m.loss(t)
			x[i] = was
			if want := (up - down) / (2 * step); !(math.Abs(grad[i]-want) <= tol*max(1, math.Abs(want))) {
				return fmt.Errorf("gradient of %s %v at %d: got %v, differences say %v", n.Name(), n.Shape(), i, grad[i], want)
			}
		}
	}
	return nil
}

func TestGradientsOfRandomGraphsAreThoseOfDifferences(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for s := range uint64(60) {
			s += seed.Value() * 1000
			g, loss := randomGraph(s, tensor.Float64, false)
			m, _ := g.compiled(t, dev, loss)
			if err := g.differences(t, m); err != nil {
				t.Fatalf("seed %d, %v: %v\n%v", s, g.grown, err, listing(m.Program))
			}
			m.memory.Free()
		}
	})
}

// Gorgonia runs the same graphs, with gradients of its own. It sums in another order, and in
// float32 rounds within what is one operation for us: a few dozen operations multiply that. Now and
// then its machine overwrites a value that a gradient still reads; where the two disagree,
// differences decide.
func TestRandomGraphsTrainAsOnGorgoniasTapeMachine(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const graphs = 60
		ran, agreed := 0, 0
		for s := range uint64(graphs) {
			s += seed.Value() * 1000
			dt := []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2]
			g, loss := randomGraph(s, dt, true)
			m, got := g.compiled(t, dev, loss)
			want, grads, err := tapeGrads(loss, g.params())
			if err != nil { // Gorgonia cannot
				continue
			}
			ran++
			tol := map[tensor.Dtype]float64{tensor.Float32: 1e-3, tensor.Float64: 1e-9}[dt]
			if !graphtest.Near([]float64{got}, want, tol) {
				t.Fatalf("seed %d, %v: got loss %v, Gorgonia has %v\n%v", s, g.grown, got, want, listing(m.Program))
			}
			if name := g.disagrees(t, m, grads, tol); name == "" {
				agreed++
			} else {
				exact, loss := randomGraph(s, tensor.Float64, true)
				m, _ := exact.compiled(t, dev, loss)
				if err := exact.differences(t, m); err != nil {
					t.Fatalf("seed %d, %v: Gorgonia has another gradient of %s, and %v\n%v", s, g.grown, name, err, listing(m.Program))
				}
			}
			m.memory.Free()
		}
		if ran < graphs/2 || agreed < ran*8/10 {
			t.Errorf("seed %d: Gorgonia ran %d of %d graphs and agreed on %d", seed.Value(), ran, graphs, agreed)
		}
	})
}

// disagrees returns the first parameter whose gradient differs from Gorgonia's, "" for none.
func (g *grower) disagrees(t *testing.T, m *machine, want [][]float64, tol float64) string {
	t.Helper()
	for i, n := range g.params() {
		if !graphtest.Near(m.numbers(t, ir.Gradients, n.Name()), want[i], tol) {
			return n.Name()
		}
	}
	return ""
}

// tapeGrads returns the loss and the gradients of params as Gorgonia computes them: the loss by
// itself first, since with gradients its machine reuses more memory.
func tapeGrads(loss *gorgonia.Node, params gorgonia.Nodes) (value []float64, grads [][]float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	alone, err := graphtest.Tape(loss)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := gorgonia.Grad(loss, params...)
	if err != nil {
		return nil, nil, err
	}
	all, err := graphtest.Tape(append(gorgonia.Nodes{loss}, nodes...)...)
	if err != nil {
		return nil, nil, err
	}
	return alone[0], all[1:], nil
}
