package identity

import (
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// The chance that nodes of an unrolled LSTM have equal 32-bit hashes. Each graph has another batch
// size, hence other hashes. Metrics, per graph: pairs of nodes with equal hashes, as counted and as
// expected of random hashes; and the expected number of pairs that Gorgonia would then merge, because
// type, shape, op and number of operands agree.
func BenchmarkEqualHashes(b *testing.B) {
	for _, c := range []struct{ depth, steps int }{{1, 300}, {1, 600}, {1, 1200}, {3, 500}} {
		b.Run(fmt.Sprintf("depth %d, %d steps", c.depth, c.steps), func(b *testing.B) {
			model := nets.Unrolled(c.depth, c.steps, 24, 16)
			var nodes, equal, expected, alike float64
			batch := 0
			for b.Loop() {
				batch++
				g := gorgonia.NewGraph()
				if _, err := model(g, batch); err != nil {
					b.Fatal(err)
				}
				w, err := newWatchedGraph(watchedHashes(g))
				var m layers.Model
				if err == nil {
					m, err = model(w.g, batch)
				}
				if err != nil {
					b.Fatal(err)
				}
				w.finish()
				different, kinds := w.classes(usesFrom(gorgonia.Nodes{m.Loss, m.Output}))
				n := float64(len(g.AllNodes()))
				nodes += n
				equal += float64(different)
				expected += n * (n - 1) / 2 / math.Exp2(32)
				for _, k := range kinds {
					alike += k * (k - 1) / 2 / math.Exp2(32)
				}
			}
			b.ReportMetric(nodes/float64(batch), "nodes")
			b.ReportMetric(equal/float64(batch), "equal-hashes/graph")
			b.ReportMetric(expected/float64(batch), "expected/graph")
			b.ReportMetric(100*alike/float64(batch), "%merged")
		})
	}
}

// classes returns the number of pairs of different nodes with equal hashes, and the sizes of the
// classes of nodes that differ in operands only.
func (w *watchedGraph) classes(uses map[*gorgonia.Node]int) (different int, sizes map[string]float64) {
	found := w.merged(uses)
	different, sizes = len(found), make(map[string]float64)
	for _, s := range w.slots {
		kept := 0
		for _, n := range s.nodes {
			if w.mergedInto[n] == nil {
				kept++
				sizes[fmt.Sprint(n.Op().Hashcode(), n.Type(), n.Shape(), len(childrenOf(n)))]++
			}
		}
		different += max(0, kept-1)
	}
	return different, sizes
}
