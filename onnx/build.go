package onnx

import (
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// Build is a [trainer.ModelFunc] for prediction: it adds the model to g for a batch. The inputs,
// the parameters and the outputs have the names that they have in the file; dots in names of
// parameters become slashes. The first output of the file is Model.Output, the others are
// Model.Outputs. The model has no loss: to train it, see [Model.Nodes].
func (m *Model) Build(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	b, err := m.programFor(batch)
	if err != nil {
		return trainer.Model{}, err
	}
	net := layers.New(g)
	var inputs gorgonia.Nodes
	for _, in := range m.inputs {
		shape, err := m.shapeOf(in, batch)
		if err != nil {
			return trainer.Model{}, err
		}
		inputs = append(inputs, addInput(net, in, shape))
	}
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	outs, err := b.replay(net, inputs, true)
	if err != nil {
		return trainer.Model{}, err
	}
	return trainer.Model{Inputs: inputs, Output: outs[0], Outputs: outs[1:], Params: net.Params(), Statistics: net.Statistics()}, nil
}

// addInput adds an input field.
func addInput(net *layers.Net, in proto.ValueInfo, shape kernels.Shape) *gorgonia.Node {
	switch n := *net; storage(in.Type) {
	case arena.Int64:
		return net.Indices(in.Name, shape...)
	case arena.Float64:
		n.Type = tensor.Float64
		return n.Input(in.Name, shape...)
	default:
		n.Type = tensor.Float32
		return n.Input(in.Name, shape...)
	}
}

// Nodes adds the model to net, such as a trunk to the net of a user's model function, and returns
// its outputs in the order of the file. in are the inputs in the order of the file, of the types of
// the model and with its dimensions; dimension 0 of the first is the batch. A nil node in the
// result, or an error, is recorded in net too.
//
// Parameters start with the values of the file. Their names are those of the file under the prefix
// of net, dots become slashes: Options.Frozen of a trainer selects them and whole modules of them,
// for example "trunk" or "trunk/layer1". Batch normalization that is kept in the file trains as
// [layers.Net.BatchNorm] does, and frozen it uses its running statistics. What an exporter has
// folded trains as it is; Report says what that is.
func (m *Model) Nodes(net *layers.Net, in ...*gorgonia.Node) (gorgonia.Nodes, error) {
	fail := func(err error) (gorgonia.Nodes, error) {
		net.Fail(err)
		return make(gorgonia.Nodes, len(m.results)), err
	}
	if err := net.Err(); err != nil {
		return fail(err)
	}
	if len(in) != len(m.inputs) {
		return fail(m.errorf("%d inputs, the model has %d: %w", len(in), len(m.inputs), layers.ErrNode))
	}
	batch := 0
	for i, x := range in {
		if x == nil || len(x.Shape()) == 0 {
			return fail(m.errorf("input %q is nil or a scalar: %w", m.inputs[i].Name, layers.ErrNode))
		}
		if i == 0 {
			batch = x.Shape()[0]
		}
	}
	b, err := m.programFor(batch)
	if err != nil {
		return fail(err)
	}
	for i, x := range in {
		want, _ := m.shapeOf(m.inputs[i], batch)
		integer := storage(m.inputs[i].Type) == arena.Int64
		if !slices.Equal(x.Shape(), tensor.Shape(want)) || !integer && dtypeOf(storage(m.inputs[i].Type)) != x.Dtype() ||
			integer && x.Dtype() != tensor.Int {
			return fail(m.errorf("input %q is %v %v, must be %v %v: %w", m.inputs[i].Name, x.Dtype(), x.Shape(), storage(m.inputs[i].Type), want, layers.ErrShape))
		}
	}
	outs, err := b.replay(net, in, false)
	if err != nil {
		return fail(err)
	}
	return outs, nil
}

// dtypeOf returns Gorgonia's type of floats that are stored as t.
func dtypeOf(t arena.DType) tensor.Dtype {
	if t == arena.Float64 {
		return tensor.Float64
	}
	return tensor.Float32
}

// replay adds the nodes of a program. With named, outputs have the names of the file.
func (b *inference) replay(net *layers.Net, inputs gorgonia.Nodes, named bool) (gorgonia.Nodes, error) {
	r := &replay{inference: b, net: net, inputs: inputs, nodes: make([]*gorgonia.Node, len(b.program.specs)), need: b.program.needed()}
	r.leaves()
	for i := range b.program.steps {
		r.step(&b.program.steps[i])
	}
	if err := net.Err(); err != nil {
		return nil, err
	}
	outs := make(gorgonia.Nodes, len(b.program.outputs))
	for i, v := range b.program.outputs {
		outs[i] = r.nodes[v.at]
		// A node of its own: the output may be an input, or another output too.
		name := ""
		if named {
			name = b.m.graph.Outputs[i].Name
		}
		outs[i] = net.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: b.program.Spec(v.at).Shape}, 0, name, outs[i])
	}
	return outs, net.Err()
}

// A replay adds a program to a net.
type replay struct {
	*inference
	net    *layers.Net
	inputs gorgonia.Nodes
	nodes  []*gorgonia.Node // by value
	need   []bool
}

// leaves adds parameters and constants, in the order of the program.
func (r *replay) leaves() {
	for v, spec := range r.program.specs {
		l, ok := r.program.leaves[kernels.Value(v)]
		if !ok || !r.need[v] && l.kind != inputLeaf {
			continue
		}
		net := *r.net
		net.Type = dtypeOf(spec.Type)
		switch l.kind {
		case inputLeaf:
			i := slices.IndexFunc(r.m.inputs, func(in proto.ValueInfo) bool { return in.Name == l.name })
			r.nodes[v] = r.inputs[i]
		case parameterLeaf:
			r.nodes[v] = net.Param(l.name, stored{l.init.tensor}, spec.Shape...)
		case statisticLeaf:
			r.nodes[v] = net.Statistic(l.name, stored{l.init.tensor}, spec.Shape...)
		case constantLeaf:
			r.nodes[v] = addConstant(&net, l, spec)
		}
	}
}

// addConstant adds a constant of floats or of integers.
func addConstant(net *layers.Net, l leaf, spec kernels.Spec) *gorgonia.Node {
	if spec.Type != arena.Int64 {
		if len(spec.Shape) == 0 {
			return net.Constant(l.data[0], "")
		}
		return net.Constant(l.data, "", spec.Shape...)
	}
	data := make([]int, len(l.data))
	for i, x := range l.data {
		data[i] = toInt(x)
	}
	if len(spec.Shape) == 0 {
		return net.Constant(data[0], "")
	}
	return net.Constant(data, "", spec.Shape...)
}

// step adds the nodes of the results of a step that are needed.
func (r *replay) step(s *step) {
	if r.net.Err() != nil {
		return
	}
	for k, out := range s.out {
		if !r.need[out] {
			continue
		}
		in := make(gorgonia.Nodes, len(s.in))
		for i, v := range s.in {
			in[i] = r.nodes[v]
		}
		if s.op == kernels.Dropout {
			r.nodes[out] = r.net.Dropout(in[0], s.name, s.rate)
		} else {
			r.nodes[out] = r.net.Apply(s.op, s.attrs, k, "", in...)
		}
	}
}

// stored gives a parameter the values of a tensor of the file.
type stored struct{ t *proto.Tensor }

// Fill implements layers.Init.
func (s stored) Fill(_ *rand.Rand, _ []int, at int, dst []float64) {
	for i := range dst {
		dst[i] = s.t.Float64(at + i)
	}
}

var _ layers.Init = stored{}
