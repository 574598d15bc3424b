package compile

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Gorgonia computes these graphs, or their gradients, wrongly; the graph itself is right.
func TestWhatGorgoniaComputesWronglyIsRight(t *testing.T) {
	for _, c := range graphtest.Wrongs {
		t.Run(c.Name, func(t *testing.T) {
			d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
			loss, want := c.Build(d)
			dev := openCPU(t)
			cfg := Config{Model: frontend.Model{Loss: loss}, Mode: Train, Device: dev, Update: updateOf(still{}, optim.Clip{}), Homes: &ir.Homes{}}
			m := load(t, dev, cfg.Homes, compileFor(t, d.Graph, cfg))
			m.start(t, d.Graph, still{})
			got := m.loss(t)
			var x, dx []float64
			for _, n := range d.Inputs {
				x = append(x, graphtest.Numbers(n.Value())...)
				dx = append(dx, m.numbers(t, ir.Gradients, n.Name())...)
			}
			if w := want(x); !graphtest.Near([]float64{got}, []float64{w}, 1e-12) {
				t.Errorf("seed %d: got %v, want %v\n%s", seed.Value(), got, w, listing(m.Program))
			}
			for i, w := range graphtest.Slopes(want, x) {
				if !graphtest.Near(dx[i:i+1], []float64{w}, 1e-6) {
					t.Fatalf("seed %d: gradient %d: got %v, want %v\n%s", seed.Value(), i, dx[i], w, listing(m.Program))
				}
			}
		})
	}
}

// Gorgonia names a large constant by some of its elements: constants that differ elsewhere share a
// name.
func TestConstantsThatPrintAlikeHavePlacesOfTheirOwn(t *testing.T) {
	homes := &ir.Homes{}
	var refs []int64
	for _, at := range []int{1234, 1235, 1234} {
		k := make([]float64, 2500)
		k[at] = 3
		d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
		y := d.Must(gorgonia.HadamardProd(d.In(50, 50), gorgonia.NewConstant(tensor.New(tensor.WithShape(50, 50), tensor.WithBacking(k)))))
		p := compileFor(t, d.Graph, Config{Model: frontend.Model{Loss: d.Must(gorgonia.Sum(y))}, Mode: Evaluate, Homes: homes})
		refs = append(refs, p.Values[p.Constants[0].Value].Ref.Offset)
	}
	if refs[0] == refs[1] || refs[0] != refs[2] {
		t.Errorf("got places %v, want the first and the last to be one, and another", refs)
	}
}
