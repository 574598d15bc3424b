package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// long is a graph of about ops operations: parallel towers of dense layers, whose results are added
// up.
func long(d *graphtest.Draft, ops, towers int) (loss *gorgonia.Node) {
	x := d.In(8, 6)
	for range towers {
		h := x
		for range ops / towers / 3 {
			h = d.Must(gorgonia.Mul(h, d.In(6, 6)))
			h = d.Must(gorgonia.Tanh(d.Must(gorgonia.BroadcastAdd(h, d.In(6), nil, []byte{0}))))
		}
		n := d.Must(gorgonia.Mean(h))
		if loss == nil {
			loss = n
		} else {
			loss = d.Must(gorgonia.Add(loss, n))
		}
	}
	return loss
}

// On 2 cores of an AMD EPYC a graph of 2,000 operations, with its gradients and updates 6,000
// instructions, compiles in a tenth of a second, one of 3,500 operations, 10,000 instructions, in a
// fifth.
func BenchmarkCompile(b *testing.B) {
	for _, towers := range []int{1, 20, 100} {
		for _, ops := range []int{500, 2000, 3500} {
			b.Run(fmt.Sprintf("%d operations in %d towers", ops, towers), func(b *testing.B) {
				d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
				loss := long(d, ops, towers)
				for b.Loop() {
					cfg := Config{Model: frontend.Model{Loss: loss}, Mode: Train, Update: updateOf(optim.Adam{}, optim.Clip{}), Homes: &ir.Homes{}}
					p, err := compileGraph(d.Graph, cfg)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(len(p.Instrs)), "instructions")
				}
			})
		}
	}
}

func BenchmarkCompileMLP(b *testing.B) {
	n := net{widths: []int{784, 512, 256, 10}, batch: 128, act: layers.ReLU}
	g, cfg := n.config(b, Train, n.batch, nil, nil)
	for b.Loop() {
		cfg.Homes = &ir.Homes{}
		if _, err := compileGraph(g, cfg); err != nil {
			b.Fatal(err)
		}
	}
}

// Unrolled nets, with their gradients and updates. Gorgonia's own time, to build the graph, is not
// counted.
func BenchmarkCompileUnrolled(b *testing.B) {
	for _, c := range []struct {
		name         string
		depth, steps int
	}{{"char-RNN", 2, 25}, {"LSTM of 10,000 nodes", 1, 300}, {"LSTM of 40,000 nodes", 1, 1200}} {
		b.Run(c.name, func(b *testing.B) {
			g := gorgonia.NewGraph()
			const rows = 4
			m, err := nets.Unrolled(c.depth, c.steps, 24, 16)(g, rows)
			if err != nil {
				b.Fatal(err)
			}
			cfg := Config{Mode: Train, Update: updateOf(optim.Adam{}, optim.Clip{})}
			cfg.Model = frontend.Model{Loss: m.Loss, Batch: rows, Inputs: map[*gorgonia.Node]frontend.Input{}, Params: map[*gorgonia.Node]bool{}}
			for _, n := range m.Inputs {
				spec := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape(n.Shape())}
				cfg.Inputs[n] = frontend.Input{Field: n.Name(), Spec: spec}
			}
			for _, p := range m.Params {
				cfg.Params[p.Node] = true
			}
			for b.Loop() {
				cfg.Homes = &ir.Homes{}
				p, err := compileGraph(g, cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(g.AllNodes())), "nodes")
				b.ReportMetric(float64(len(p.Instrs)), "instructions")
			}
		})
	}
}
