package onnx

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// A program computes a model at one batch: leaves, then operations of package kernels in an order
// in which they can run. It does not depend on Gorgonia: build.go makes nodes of it.
type program struct {
	folding bool           // all leaves are constants: it is evaluated at once, and values may be empty
	specs   []kernels.Spec // by value
	steps   []step
	made    map[kernels.Value]int  // step that makes a value
	leaves  map[kernels.Value]leaf // values that no step makes
	outputs []*value
}

func newProgram(folding bool) *program {
	return &program{folding: folding, made: make(map[kernels.Value]int), leaves: make(map[kernels.Value]leaf)}
}

// A step is one operation.
type step struct {
	op    *kernels.Op
	attrs any
	in    []kernels.Value
	out   []kernels.Value
	rate  float64 // of dropout
	name  string  // of dropout
}

type leafKind int

const (
	inputLeaf leafKind = iota
	parameterLeaf
	statisticLeaf
	constantLeaf
)

// A leaf is a value that no operation makes.
type leaf struct {
	kind leafKind
	name string       // of the node; empty for a constant
	init *initializer // of a parameter or statistic
	data []float64    // of a constant
}

// mostSteps limits a program. A large model has some thousands of steps.
const mostSteps = 1 << 18

// storage returns the type that elements of an ONNX type have in a program. A bool is 0 or 1.
func storage(typ proto.DataType) arena.DType {
	switch typ {
	case proto.Float, proto.Bool:
		return arena.Float32
	case proto.Double:
		return arena.Float64
	case proto.Int64, proto.Int32, proto.Int16, proto.Int8, proto.Uint8, proto.Uint16, proto.Uint32:
		return arena.Int64
	}
	refuse("elements of type %v are not computed in: export the model in float32", typ)
	return 0
}

// Apply adds a use of op and returns its first output.
func (p *program) Apply(op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return p.ApplyAll(op, attrs, in...)[0]
}

// ApplyAll adds a use of op and returns its outputs. It ends the rule where specs do not fit.
func (p *program) ApplyAll(op *kernels.Op, attrs any, in ...kernels.Value) []kernels.Value {
	specs := make([]kernels.Spec, len(in))
	for i, v := range in {
		specs[i] = p.Spec(v)
	}
	outs, err := op.Infer(attrs, specs)
	ensure(err)
	return p.add(step{op: op, attrs: attrs, in: in}, outs...)
}

// add adds a step whose results have the given specs.
func (p *program) add(s step, specs ...kernels.Spec) []kernels.Value {
	if len(p.steps) >= mostSteps {
		refuse("the model has more than %d operations", mostSteps)
	}
	for _, spec := range specs {
		s.out = append(s.out, p.value(spec))
		p.made[s.out[len(s.out)-1]] = len(p.steps)
	}
	p.steps = append(p.steps, s)
	return slices.Clone(s.out) // a rule may replace a result
}

// value adds a value.
func (p *program) value(spec kernels.Spec) kernels.Value {
	ensure(spec.Check())
	if spec.Shape.Elems() == 0 && !p.folding {
		mismatch("a computed value of %v has no elements", spec.Shape)
	}
	p.specs = append(p.specs, spec)
	return kernels.Value(len(p.specs) - 1)
}

// leaf adds a leaf.
func (p *program) leaf(l leaf, spec kernels.Spec) kernels.Value {
	v := p.value(spec)
	p.leaves[v] = l
	return v
}

// Spec returns the type and shape of v.
func (p *program) Spec(v kernels.Value) kernels.Spec { return p.specs[v] }

// maker returns the step that makes v, or nil.
func (p *program) maker(v kernels.Value) *step {
	if i, ok := p.made[v]; ok {
		return &p.steps[i]
	}
	return nil
}

// needed returns which values the outputs depend on.
func (p *program) needed() []bool {
	need := make([]bool, len(p.specs))
	for _, o := range p.outputs {
		need[o.at] = true
	}
	for i := len(p.steps) - 1; i >= 0; i-- {
		for _, o := range p.steps[i].out {
			if !need[o] {
				continue
			}
			for _, v := range p.steps[i].in {
				need[v] = true
			}
		}
	}
	return need
}

// evaluate computes all values from leaves that are all constants, by the references of the
// operations.
func (p *program) evaluate(limit int) ([]kernels.Tensor, error) {
	tensors := make([]kernels.Tensor, len(p.specs))
	for i, l := range p.leaves {
		tensors[i] = kernels.Tensor{Spec: p.specs[i], Data: l.data}
	}
	var flops int64
	elements := 0
	for _, s := range p.steps {
		in, out := make([]kernels.Tensor, len(s.in)), make([]kernels.Spec, len(s.out))
		specs := make([]kernels.Spec, len(s.in))
		for i, v := range s.in {
			in[i], specs[i] = tensors[v], p.specs[v]
		}
		for i, o := range s.out {
			out[i] = p.specs[o]
			if n := out[i].Shape.Elems(); n > limit {
				elements = 8*limit + 1
			} else {
				elements += n
			}
		}
		if s.op.Cost != nil {
			flops += s.op.Cost(s.attrs, specs, out)
		}
		if elements > 8*limit || flops > 64*int64(limit) {
			return nil, fmt.Errorf("folding it takes more elements or operations than Options.FoldElements of %d allows: %w", limit, kernels.ErrUnsupported)
		}
		if s.op == kernels.Dropout || s.op == kernels.BatchNorm {
			return nil, fmt.Errorf("%s of constants: %w", s.op.Name, kernels.ErrUnsupported)
		}
		y, err := kernels.Eval(s.op, s.attrs, in)
		if err != nil {
			return nil, err
		}
		for i, o := range s.out {
			tensors[o] = y[i]
		}
	}
	return tensors, nil
}
