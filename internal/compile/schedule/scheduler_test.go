package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

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
	r := rand.New(rand.NewPCG(seed.Value(), 4))
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
						t.Fatalf("seed %d, order %q: %d comes before %d, for which it waits", seed.Value(), s.Name, i, b)
					}
				}
				at[i] = k
			}
			if slices.Contains(at, -1) || len(order) != n {
				t.Fatalf("seed %d, order %q: got %v of %d instructions", seed.Value(), s.Name, order, n)
			}
		}
	}
}

// graphOf returns the graph of instructions that make bytes and read the values of others; each
// instruction makes one value.
func graphOf(makes []int64, reads [][]int32) *Graph {
	n := len(makes)
	g := &Graph{before: reads, after: make([][]int32, n), reads: make([][]kernels.Value, n), makes: makes,
		readers: make([][]int32, n), bytes: makes}
	for i, in := range reads {
		for _, j := range in {
			g.after[j] = append(g.after[j], int32(i))
			g.reads[i], g.readers[j] = append(g.reads[i], kernels.Value(j)), append(g.readers[j], int32(i))
		}
	}
	return g
}

func TestSchedulersPreferWhatKeepsFewerBytesLive(t *testing.T) {
	// 0 and 1 make values, 2 and 3 read them.
	pairs := func(bytes int64) *Graph {
		return graphOf([]int64{10, 10, bytes, bytes}, [][]int32{nil, nil, {0}, {1}})
	}
	for _, c := range []struct {
		name  string
		g     *Graph
		order func(g *Graph, from []int32) []int32
		from  []int32
		want  []int32
	}{
		{"the reader frees as much as it makes", pairs(10), schedulers[1].Order, []int32{0, 1, 2, 3}, []int32{0, 2, 1, 3}},
		{"the reader frees more than it makes", pairs(5), schedulers[2].Order, []int32{0, 1, 2, 3}, []int32{0, 2, 1, 3}},
		{"no reader frees more than it makes", pairs(10), schedulers[2].Order, []int32{0, 1, 2, 3}, []int32{0, 1, 2, 3}},
		// 1 reads 0; 3 reads 1 and 2. Seen from the end, 1 keeps 0 live and 2 nothing.
		{"the maker that keeps nothing live comes last", graphOf([]int64{10, 10, 10, 1}, [][]int32{nil, {0}, nil, {1, 2}}),
			schedulers[3].Order, []int32{2, 0, 1, 3}, []int32{0, 1, 2, 3}},
		// 2 needs 1, which is large; 3 reads 0 and 2.
		{"the operand that needs most comes first", graphOf([]int64{10, 100, 10, 1}, [][]int32{nil, nil, {1}, {0, 2}}),
			schedulers[0].Order, []int32{0, 1, 2, 3}, []int32{1, 2, 0, 3}},
		{"one sink after the other", graphOf([]int64{10, 10, 0, 0}, [][]int32{nil, nil, {1}, {0}}),
			schedulers[5].Order, []int32{0, 1, 2, 3}, []int32{1, 2, 0, 3}},
	} {
		if got := c.order(c.g, c.from); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
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
