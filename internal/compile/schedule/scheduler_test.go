package schedule

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
)

var seed = flag.Uint64("seed", 1, "seed of random tests")

// shuffled makes a random order that the dependencies allow.
func shuffled(seed uint64) Scheduler {
	return Scheduler{"shuffled", func(g *Graph, from []int32) []int32 {
		r := rand.New(rand.NewPCG(seed, 3))
		from = slices.Clone(from)
		r.Shuffle(len(from), func(a, b int) { from[a], from[b] = from[b], from[a] })
		return g.Topological(from)
	}}
}

// Each scheduler's order has every instruction once, after all that it waits for.
func TestOrdersAreCompleteAndKeepDependencies(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 4))
	for range 200 {
		g := randomGraph(r)
		n := len(g.makes)
		for _, s := range append(Schedulers(), shuffled(r.Uint64())) {
			order := s.Order(g, Sequence(n))
			at := make([]int, n)
			for i := range at {
				at[i] = -1
			}
			for k, i := range order {
				for _, b := range g.before[i] {
					if at[b] < 0 {
						t.Fatalf("seed %d, order %q: %d comes before %d, for which it waits", *seed, s.Name, i, b)
					}
				}
				at[i] = k
			}
			if slices.Contains(at, -1) || len(order) != n {
				t.Fatalf("seed %d, order %q: got %v of %d instructions", *seed, s.Name, order, n)
			}
		}
	}
}

// randomGraph makes instructions that each make a value and read some of those before.
func randomGraph(r *rand.Rand) *Graph {
	n := 1 + r.IntN(40)
	g := &Graph{before: make([][]int32, n), after: make([][]int32, n), reads: make([][]kernels.Value, n), makes: make([]int64, n),
		readers: make([][]int32, n), bytes: make([]int64, n)}
	for i := range n {
		g.makes[i] = 256 * int64(r.IntN(9))
		g.bytes[i] = g.makes[i]
		for j := range i {
			if r.IntN(1+i) > 2 {
				continue
			}
			g.before[i], g.after[j] = append(g.before[i], int32(j)), append(g.after[j], int32(i))
			if r.IntN(4) > 0 {
				g.reads[i], g.readers[j] = append(g.reads[i], kernels.Value(j)), append(g.readers[j], int32(i))
			}
		}
	}
	return g
}
