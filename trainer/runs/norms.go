package runs

import (
	"math"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
)

// gradNorm ends the names of kept norms of layers; see trainer.Options.Keep.
const gradNorm = "/gradnorm"

// normReader reads the norms of gradients by layer, at most every normsPeriod.
type normReader struct {
	trainer *trainer.Trainer
	names   []string // of kept values
	layers  []string
	absent  map[string][]bool // by objective, layers that its steps do not compute
	next    time.Duration     // since the run was opened
}

// open finds the norms that a trainer keeps.
func (n *normReader) open(t *trainer.Trainer) {
	n.trainer, n.absent = t, make(map[string][]bool)
	for _, name := range t.KeptNames() {
		if layer, ok := strings.CutSuffix(name, gradNorm); ok {
			n.names, n.layers = append(n.names, name), append(n.layers, layer)
		}
	}
}

// read reads the norms of a step into its record if they are due, and reports whether it did. A norm
// that the step has not computed is NaN. It is called inside Options.Progress.
func (n *normReader) read(s *step) bool {
	// A step without a norm has no update, and so no norms of layers.
	if len(n.names) == 0 || s.at < n.next || math.IsNaN(s.StepNorm) {
		return false
	}
	n.next = s.at + normsPeriod
	absent := n.absent[s.Objective]
	if absent == nil {
		absent = make([]bool, len(n.names))
		n.absent[s.Objective] = absent
	}
	for i, name := range n.names {
		s.norms[i] = float32(math.NaN())
		if !absent[i] && n.trainer.Read(name, s.norms[i:i+1]) != nil {
			absent[i] = true // an error allocates: it is made once
		}
	}
	return true
}
