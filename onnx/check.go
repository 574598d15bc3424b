package onnx

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// newestIR is the newest version of the format that is known.
const newestIR = 14

// checkVersion finds the version of the operators.
func (m *Model) checkVersion() error {
	if v := m.source.IRVersion; v < 3 || v > newestIR {
		return m.broken("IR version %d, known are 3 to %d", v, newestIR)
	}
	seen := make(map[string]bool)
	for _, o := range m.source.Opsets {
		domain := o.Domain
		if domain == "ai.onnx" {
			domain = ""
		}
		if seen[domain] {
			return m.broken("two versions of the operators of domain %q", domain)
		}
		seen[domain] = true
		if domain == "" {
			m.opset = o.Version
		}
	}
	if m.opset < 7 || m.opset > newestOpset {
		return m.errorf("opset %d: known are 7 to %d: export the model for one of these, such as 20: %w", m.opset, newestOpset, kernels.ErrUnsupported)
	}
	if n := len(m.source.Functions); n > 0 {
		return m.errorf("%d local functions, such as %q: export the model without functions: %w", n, m.source.Functions[0], kernels.ErrUnsupported)
	}
	if m.graph.Sparse > 0 {
		return m.errorf("%d sparse initializers: %w", m.graph.Sparse, kernels.ErrUnsupported)
	}
	return nil
}

// mostNodes limits the nodes of a file. Each takes some hundred bytes of memory.
const mostNodes = 1 << 20

// checkGraph checks that each value is made once, before it is read, and that initializers have
// their bytes.
func (m *Model) checkGraph() error {
	if len(m.graph.Nodes) > mostNodes {
		return m.broken("%d nodes, more than %d", len(m.graph.Nodes), mostNodes)
	}
	if len(m.graph.Outputs) == 0 {
		return m.broken("no outputs")
	}
	made := make(map[string]string) // what makes a value
	for i := range m.graph.Initializers {
		t := &m.graph.Initializers[i]
		if made[t.Name] != "" {
			return m.broken("two initializers are called %q", t.Name)
		}
		made[t.Name] = "an initializer"
		if err := t.Check(); err != nil {
			return m.broken("%v", err)
		}
		m.inits = append(m.inits, &initializer{name: t.Name, tensor: t})
	}
	for _, v := range m.graph.Inputs {
		switch made[v.Name] {
		case "an initializer": // its default value
			continue
		case "":
			made[v.Name] = "an input"
			m.inputs = append(m.inputs, v)
		default:
			return m.broken("two inputs are called %q", v.Name)
		}
	}
	return m.checkNodes(made)
}

// checkNodes checks the order of nodes.
func (m *Model) checkNodes(made map[string]string) error {
	later := make(map[string]bool)
	for _, n := range m.graph.Nodes {
		for _, out := range n.Outputs {
			later[out] = true
		}
	}
	for i := range m.graph.Nodes {
		n := &m.graph.Nodes[i]
		what := fmt.Sprintf("node %d %q (%s)", i, nameOf(n), operatorOf(n))
		for _, in := range n.Inputs {
			switch {
			case in == "" || made[in] != "":
			case later[in]:
				return m.broken("%s reads %q, which a later node makes: nodes must be in order, and without cycles", what, in)
			default:
				return m.broken("%s reads %q, which nothing makes", what, in)
			}
		}
		for _, out := range n.Outputs {
			if out == "" {
				continue
			}
			if made[out] != "" {
				return m.broken("%s makes %q, which %s makes too", what, out, made[out])
			}
			made[out] = what
		}
	}
	seen := make(map[string]bool)
	for _, o := range m.graph.Outputs {
		if made[o.Name] == "" {
			return m.broken("output %q is made by nothing", o.Name)
		}
		if seen[o.Name] {
			return m.broken("two outputs are called %q", o.Name)
		}
		seen[o.Name] = true
	}
	return nil
}

// checkInputs finds the batch, and checks that all other dimensions are known.
func (m *Model) checkInputs() error {
	if len(m.inputs) == 0 {
		return m.errorf("the model has no inputs: %w", kernels.ErrUnsupported)
	}
	symbolic := false
	for _, in := range m.inputs {
		switch {
		case in.Type == proto.Undefined:
			return m.errorf("input %q is no tensor: %w", in.Name, kernels.ErrUnsupported)
		case in.Type.Bits() == 0 || in.Type == proto.Float16 || in.Type == proto.BFloat16 || in.Type == proto.Uint64:
			return m.errorf("input %q is of type %v: export the model in float32: %w", in.Name, in.Type, kernels.ErrUnsupported)
		case !in.HasShape || len(in.Dims) == 0:
			return m.errorf("input %q has no dimension of the batch: %w", in.Name, kernels.ErrShape)
		}
		d := in.Dims[0]
		switch {
		case !d.HasValue && m.fixed != 0 || d.HasValue && symbolic:
			return m.errorf("dimension 0 is a size in one input and symbolic in another, as in %q: export with dynamic_axes or dynamic_shapes "+
				"for all inputs: %w", in.Name, kernels.ErrShape)
		case !d.HasValue:
			symbolic = true
		case m.fixed != 0 && d.Value != int64(m.fixed):
			return m.errorf("input %q has %d rows, another one %d: dimension 0 must be the batch: %w", in.Name, d.Value, m.fixed, kernels.ErrShape)
		case d.Value < 1 || d.Value > 1<<31:
			return m.broken("input %q: dimension 0 is %d", in.Name, d.Value)
		default:
			m.fixed = int(d.Value)
		}
		for i, d := range in.Dims[1:] {
			switch {
			case d.HasValue && (d.Value < 1 || d.Value > 1<<46):
				return m.broken("input %q: dimension %d is %d", in.Name, i+1, d.Value)
			case !d.HasValue && m.opt.Dims[d.Param] == 0:
				return m.errorf("dimension %d of input %q is %q: give its size in Options.Dims: %w", i+1, in.Name, d.Param, trainer.ErrOption)
			}
		}
	}
	return nil
}
