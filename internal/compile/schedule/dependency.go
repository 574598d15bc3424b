package schedule

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Graph is the dependencies between the instructions of a program and the bytes that they need: all
// that a scheduler sees.
//
// Invariant: dependencies point backwards: instructions were built after all that they wait for.
type Graph struct {
	before, after [][]int32         // by instruction: instructions that it waits for, and that wait for it
	reads         [][]kernels.Value // by instruction: root values of scratch that it reads, each once
	makes         []int64           // by instruction: bytes of scratch that it adds
	readers       [][]int32         // by root value
	bytes         []int64           // by root value
}

// Before returns the instructions that i waits for. The caller leaves the slice as it is.
func (g *Graph) Before(i int32) []int32 { return g.before[i] }

// dependencies derives the dependencies of p, which is aliased:
//
//   - a reader waits for the maker of each operand;
//   - an instruction that overwrites bytes waits for all earlier readers of those bytes;
//   - a value waits for the one that ir.Program.Follows names.
func dependencies(p *ir.Program) *Graph {
	n := len(p.Instrs)
	g := &Graph{before: make([][]int32, n), after: make([][]int32, n),
		reads: make([][]kernels.Value, n), makes: make([]int64, n),
		readers: make([][]int32, len(p.Values)), bytes: make([]int64, len(p.Values))}
	maker := make([]int32, len(p.Values))
	for i := range maker {
		maker[i] = -1
	}
	// An update overwrites bytes that others may read. Program order determines which contents a
	// reader means:
	//
	//	y = f w │ w' = update w │ z = f w'     readers of w since its last change come before the update
	since := make([][]int32, len(p.Values)) // by root value: its readers since its last change
	for i := range p.Instrs {
		in, at := &p.Instrs[i], int32(i)
		for _, o := range in.Out {
			if v, ok := p.Follows[o]; ok {
				g.edge(maker[v], at)
			}
		}
		for _, v := range in.In {
			g.edge(maker[v], at)
			root, _ := p.Root(v)
			since[root] = append(since[root], at)
			if !p.Values[root].Home && !slices.Contains(g.reads[i], root) {
				g.reads[i] = append(g.reads[i], root)
				g.readers[root] = append(g.readers[root], at)
			}
		}
		for k, o := range in.Out {
			maker[o] = at
			root, _ := p.Root(o)
			if k < len(in.Op.Updates) {
				for _, r := range since[root] {
					g.edge(r, at)
				}
				since[root] = []int32{at}
			} else if root == o && !p.Values[o].Home {
				g.bytes[o] = arena.Round(p.Spec(o).Bytes())
				g.makes[i] += g.bytes[o]
			}
		}
	}
	return g
}

// edge lets b wait for a; a of -1 is a home, which nothing makes. The caller makes all edges to b
// before those to b+1, so if the edge exists already, it is the last one of after[a].
func (g *Graph) edge(a, b int32) {
	if a >= 0 && a != b && (len(g.after[a]) == 0 || g.after[a][len(g.after[a])-1] != b) {
		g.after[a] = append(g.after[a], b)
		g.before[b] = append(g.before[b], a)
	}
}
