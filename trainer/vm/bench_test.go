package vm_test

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// Machines of LSTMs unrolled with Gorgonia's own functions, of about 2,500 to 20,000 nodes before
// they are differentiated, by vm.Grad or by gorgonia.Grad, which adds about twice as many nodes.
// The time of neither that nor of building the graph is counted.
func BenchmarkNewUnrolled(b *testing.B) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	grads := []struct {
		name string
		of   func(loss *gorgonia.Node, ws ...*gorgonia.Node) (gorgonia.Nodes, error)
	}{{"vm", vm.Grad}, {"gorgonia", gorgonia.Grad}}
	for k := range 8 {
		grad, steps := grads[k/4], 80<<(k%4)
		b.Run(fmt.Sprintf("%s.Grad, %d steps", grad.name, steps), func(b *testing.B) {
			dev := openCPU(b)
			var nodes int
			for b.Loop() {
				b.StopTimer()
				g := gorgonia.NewGraph()
				m, err := nets.Unrolled(1, steps, 24, 16)(g, 4)
				if err != nil {
					b.Fatal(err)
				}
				nodes = len(g.AllNodes())
				var weights gorgonia.Nodes
				for _, p := range m.Params {
					weights = append(weights, p.Node)
				}
				if _, err := grad.of(m.Loss, weights...); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				machine, err := vm.New(g, vm.Options{Device: dev, Logger: quiet})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := machine.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(nodes), "nodes")
		})
	}
}
