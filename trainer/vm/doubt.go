package vm

import (
	"fmt"
	"log/slog"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/identity"
)

// warn lists the nodes of g that may stand for several that differ, in the plan and in the log. The
// graph is all that a machine has: it does not show whether there were several. Nodes of one kind
// are one line: an unrolled net has hundreds of slices.
func (m *Machine) warn(g *gorgonia.ExprGraph, logger *slog.Logger) {
	if logger == nil {
		logger = slog.Default()
	}
	var kinds []identity.Doubt
	nodes := make(map[string]int) // by kind
	for _, d := range identity.Suspects(g) {
		if nodes[d.What]++; nodes[d.What] == 1 {
			kinds = append(kinds, d)
		}
	}
	for _, d := range kinds {
		line := d.String()
		if more := nodes[d.What] - 1; more > 0 {
			line = fmt.Sprintf("%s (and %d more nodes)", line, more)
		}
		m.plan.Programs[0].Doubts = append(m.plan.Programs[0].Doubts, line)
		logger.Warn("Gorgonia may have merged nodes that differ", "node", d.Node, "what", d.What, "cure", d.Cure, "nodes", nodes[d.What])
	}
}
