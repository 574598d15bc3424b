package onnx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
)

// A Report says what became of a model at import.
type Report struct {
	Producer   string // program that wrote the file, such as "pytorch 2.7.0"
	Opset      int
	Nodes      int // in the file
	Folded     int // of them computed at import: constants, and arithmetic with shapes
	Operations int // of package kernels, for the batch that the model was tried with
	// Parameters are the initializers that are parameters or running statistics, in the order in
	// which they are used.
	Parameters []Parameter
	// Notes say what the exporter has folded or shared, and what that means for training, a
	// sentence each.
	Notes []string
}

// A Parameter is an initializer that is trained, or a running statistic.
type Parameter struct {
	Name      string // of the node: dots of the file's name are slashes
	File      string // name in the file
	Spec      kernels.Spec
	Statistic bool
}

// Report returns what became of the model.
func (m *Model) Report() Report {
	b, err := m.programFor(cmp.Or(m.fixed, 3))
	if err != nil {
		return Report{} // not reached: Open has imported it
	}
	r := Report{
		Producer: strings.TrimSpace(m.source.Producer + " " + m.source.ProducerVersion), Opset: int(m.opset), Nodes: len(m.graph.Nodes),
		Folded: b.counts.folded,
	}
	need := b.program.needed()
	for _, s := range b.program.steps {
		if slices.ContainsFunc(s.out, func(v kernels.Value) bool { return need[v] }) {
			r.Operations++
		}
	}
	for v, spec := range b.program.specs {
		if l, ok := b.program.leaves[kernels.Value(v)]; ok && l.init != nil && need[v] {
			r.Parameters = append(r.Parameters, Parameter{Name: l.name, File: l.init.name, Spec: spec, Statistic: l.kind == statisticLeaf})
		}
	}
	r.Notes = append(m.folding(), b.notes...)
	made := 0
	example := ""
	for _, p := range r.Parameters {
		if unnamed.MatchString(p.File) {
			made, example = made+1, cmp.Or(example, p.File)
		}
	}
	if made > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d parameters have names that the exporter has made, such as %q: it has folded or transposed them", made, example))
	}
	return r
}

// folding says whether batch normalization seems to be folded into convolutions.
func (m *Model) folding() (notes []string) {
	renamed, convs := 0, 0
	for i := range m.graph.Nodes {
		n := &m.graph.Nodes[i]
		if n.Op == "BatchNormalization" {
			return nil
		}
		if n.Op != "Conv" || len(n.Inputs) < 2 {
			continue
		}
		convs++
		if strings.HasPrefix(n.Inputs[1], "onnx::Conv") || len(n.Inputs) > 2 && strings.HasSuffix(n.Inputs[2], "_bias") {
			renamed++
		}
	}
	if renamed > 0 {
		notes = append(notes, fmt.Sprintf("batch normalization was folded into at least %d of %d convolutions when the model was exported: it cannot be had back; "+
			"to train with it, export with do_constant_folding=False and training=TrainingMode.TRAINING, or with dynamo=True and optimize=False", renamed, convs))
	}
	return notes
}
