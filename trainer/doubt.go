package trainer

import (
	"context"
	"fmt"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/identity"
)

// DoubtError lists nodes of a model's graph into which Gorgonia merged, or may have merged, nodes
// that differ: it merges nodes whose hashes are equal, and its hashes ignore parts of operations.
// It wraps ErrModel. Options.AllowMerged accepts such a graph.
type DoubtError struct {
	Batch int // rows that the graph was built for
	Nodes []Doubt
}

// Doubt is a node whose identity is in doubt.
type Doubt struct {
	Node string // name of the node in the graph
	What string // what was merged, or may have been
	Cure string // what to write instead
}

// maxDoubts is the number of nodes that the text of a DoubtError names.
const maxDoubts = 5

func (e *DoubtError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model function, batch %d: Gorgonia merged nodes that differ, or may have: ", e.Batch)
	for i, d := range e.Nodes {
		if i == maxDoubts {
			fmt.Fprintf(&b, "; and %d more", len(e.Nodes)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%q %s: %s", d.Node, d.What, d.Cure)
	}
	fmt.Fprintf(&b, "; or set Options.AllowMerged if the graph is meant as it is: %v", ErrModel)
	return b.String()
}

// Unwrap returns ErrModel.
func (e *DoubtError) Unwrap() error { return ErrModel }

// checkIdentity returns a *DoubtError if Gorgonia merged nodes of g that differ. If that can be,
// the model function is called again, on a graph that merges nothing.
func (p *planned) checkIdentity(ctx context.Context, g *gorgonia.ExprGraph, rows int) error {
	if p.distinct[rows] || !identity.Doubtful(g) {
		return nil
	}
	doubts, err := identity.Watch(g, func(g *gorgonia.ExprGraph) (gorgonia.Nodes, error) {
		m, err := callModel(ctx, p.model, g, rows)
		read := append(gorgonia.Nodes{m.Output, m.Correct}, m.Outputs...)
		for _, o := range objectivesOf(m) {
			read = append(read, o.Loss, o.Weight)
		}
		for _, metric := range m.Metrics {
			read = append(read, metric.Sum)
		}
		for _, name := range p.opt.Keep {
			read = append(read, g.ByName(name)...)
		}
		return read, err
	})
	if err != nil {
		return err
	}
	if len(doubts) == 0 {
		if p.distinct == nil {
			p.distinct = make(map[int]bool)
		}
		p.distinct[rows] = true
		return nil
	}
	e := &DoubtError{Batch: rows}
	for _, d := range doubts {
		e.Nodes = append(e.Nodes, Doubt(d))
	}
	return e
}
