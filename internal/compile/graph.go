package compile

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// graph is a program under construction. It implements kernels.Graph, so that gradient rules and lowering build alike.
type graph struct {
	*ir.Program
	label, owner string // of what is being built now
	mark         string
	back         bool // the backward pass is being built
}

// bug is what Apply panics with: specs that do not fit. Compile turns it into an error.
type bug struct{ err error }

// Apply adds a use of op and returns its first output.
func (g *graph) Apply(op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return g.apply(op, attrs, in...)[0]
}

// ApplyAll adds a use of op and returns its outputs.
func (g *graph) ApplyAll(op *kernels.Op, attrs any, in ...kernels.Value) []kernels.Value {
	return g.apply(op, attrs, in...)
}

// apply adds a use of op and returns all its outputs.
func (g *graph) apply(op *kernels.Op, attrs any, in ...kernels.Value) []kernels.Value {
	specs, err := op.Infer(attrs, g.Specs(in))
	if err != nil {
		panic(bug{fmt.Errorf("%s %s: %w", op.Name, g.label, err)})
	}
	owner := g.owner
	if owner == "" {
		owner = g.heir(in)
	}
	label := g.label
	if label == "" {
		label = op.Name
	}
	out := make([]kernels.Value, len(specs))
	for i, s := range specs {
		if err := s.Check(); err != nil {
			panic(bug{fmt.Errorf("%s %s: %w", op.Name, g.label, err)})
		}
		out[i] = g.Add(ir.Value{Name: label, Owner: owner, Spec: s, Of: kernels.None})
	}
	g.Instrs = append(g.Instrs, ir.Instr{Op: op, Attrs: attrs, In: append([]kernels.Value(nil), in...), Out: out,
		Label: label, Owner: owner, Mark: g.mark, Back: g.back})
	return out
}

// heir returns the layer that a nameless result is counted under: that of a parameter among its inputs, else of the
// first input that has one.
func (g *graph) heir(in []kernels.Value) string {
	owner := ""
	for _, v := range in {
		o := g.Values[v].Owner
		if r := g.Values[v].Ref.Region; o != "" && g.Values[v].Home && (r == ir.Parameters || r == ir.HostParameters) {
			return o
		}
		if owner == "" {
			owner = o
		}
	}
	return owner
}

// Spec returns the type and shape of v.
func (g *graph) Spec(v kernels.Value) kernels.Spec { return g.Values[v].Spec }
