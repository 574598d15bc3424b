package compile

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// param is a parameter of the program.
type param struct {
	node   *gorgonia.Node
	name   string
	value  kernels.Value
	frozen bool
}

// at says which node is being lowered: what is applied from now on carries the node's label and layer.
func (c *compiler) at(n *gorgonia.Node) {
	c.Label, c.Mark = n.Name(), ""
	c.Owner = ""
	if strings.Contains(c.Label, "/") {
		c.Owner = ir.OwnerOf(c.Label)
	}
}

// input returns the value of a node without an op: a field of the batch, or a parameter.
func (c *compiler) input(n *gorgonia.Node) (kernels.Value, error) {
	spec, err := SpecOf(n)
	if err != nil {
		return kernels.None, err
	}
	c.at(n)
	if in, ok := c.Inputs[n]; ok {
		return c.field(n, spec, in)
	}
	if c.Statistics[n] && c.Mode != Machine {
		return c.statistic(n, spec)
	}
	if n.Value() == nil && !c.Params[n] {
		return kernels.None, fmt.Errorf("%q %v is neither an input of the model nor a parameter with a value: %w", n.Name(), spec, ErrInput)
	}
	name := c.nameOf(n)
	if was, ok := c.byName[name]; ok {
		return kernels.None, fmt.Errorf("parameters %v and %v are both called %q: %w", c.Spec(was), spec, name, ErrName)
	}
	region := ir.Parameters
	if c.Offload.keeps(name, spec) {
		region = ir.HostParameters
	}
	v, err := c.Home(region, ir.OwnerOf(name), name, spec)
	if err != nil {
		return kernels.None, fmt.Errorf("parameter %w", err)
	}
	c.byName[name] = v
	frozen := !spec.Type.Float() || c.frozen(n.Name())
	c.params = append(c.params, param{node: n, name: name, value: v, frozen: frozen})
	return v, nil
}

// constant returns a value that holds data for as long as the arena lives. It is called after its contents: Gorgonia names a constant
// by how it prints, which large ones share.
func (c *compiler) constant(n *gorgonia.Node, spec kernels.Spec, data []byte) (kernels.Value, error) {
	owner := "constants"
	if strings.Contains(n.Name(), "/") {
		owner = ir.OwnerOf(n.Name())
	}
	sum := sha256.Sum256(data)
	v, err := c.Home(ir.Parameters, owner, fmt.Sprintf("constant %v %x", spec, sum[:8]), spec)
	if err != nil {
		return kernels.None, fmt.Errorf("constant %w", err)
	}
	c.Constants = append(c.Constants, ir.Constant{Value: v, Data: data})
	return v, nil
}

// nameOf returns the name of n's home. Programs of one model find their common parameters by name; a machine has one program.
func (c *compiler) nameOf(n *gorgonia.Node) string {
	if c.Mode == Machine {
		return c.fresh(ir.Parameters, n.Name())
	}
	return n.Name()
}

// field reads a graph input from the batch: gathered where the dataset is resident, decoded where it is stored otherwise.
func (c *compiler) field(n *gorgonia.Node, spec kernels.Spec, in Input) (kernels.Value, error) {
	switch {
	case len(spec.Shape) == 0 || spec.Shape[0] != c.Batch:
		return kernels.None, fmt.Errorf("input %q %v: its first dimension must be the batch, %d: %w", n.Name(), spec, c.Batch, kernels.ErrShape)
	case len(in.Spec.Shape) == 0 || in.Spec.Shape[0] != c.Batch || in.Spec.Shape.Elems() != spec.Shape.Elems():
		return kernels.None, fmt.Errorf("input %q is %v in the graph, the data have %v: %w", n.Name(), spec, in.Spec, kernels.ErrShape)
	case !spec.Type.Float() && (in.Spec.Type.Float() || in.scaled()): // integers are read as they are stored
		return kernels.None, fmt.Errorf("input %q is %v in the graph, the data have %v, scale %v, shift %v: only inputs of float type are decoded: %w",
			n.Name(), spec, in.Spec, in.Scale, in.Shift, kernels.ErrShape)
	}
	v, err := c.stored(in)
	if err != nil {
		return kernels.None, fmt.Errorf("input %q: %w", n.Name(), err)
	}
	if spec.Type.Float() && (in.Spec.Type != spec.Type || in.scaled()) {
		scale := in.Scale
		if scale == 0 {
			scale = 1
		}
		v = c.Apply(kernels.Decode, kernels.DecodeAttrs{To: spec.Type, Scale: scale, Shift: in.Shift}, v)
	}
	if !c.Spec(v).Shape.Equal(spec.Shape) {
		v = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: spec.Shape}, v)
	}
	return v, nil
}

func (in Input) scaled() bool { return in.Scale != 0 && in.Scale != 1 || in.Shift != 0 }

// stored returns the field as stored: a range of the slot, or rows gathered from resident data by the slot's index.
func (c *compiler) stored(in Input) (kernels.Value, error) {
	if in.Resident == "" {
		return c.Home(ir.Slot, "batch", in.Field, in.Spec)
	}
	if in.Samples < 1 {
		return kernels.None, fmt.Errorf("%s has %d samples: %w", in.Resident, in.Samples, kernels.ErrShape)
	}
	all := kernels.Spec{Type: in.Spec.Type, Shape: append(kernels.Shape{in.Samples}, in.Spec.Shape[1:]...)}
	data, err := c.Home(ir.Resident, in.Resident, in.Resident+"/"+in.Field, all)
	if err != nil {
		return kernels.None, err
	}
	index, err := c.Home(ir.Slot, "batch", ir.IndexField, kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{c.Batch}})
	if err != nil {
		return kernels.None, err
	}
	return c.Apply(kernels.Gather, nil, data, index), nil
}

// SpecOf returns the spec of a node of tensor or scalar type.
func SpecOf(n *gorgonia.Node) (kernels.Spec, error) {
	dt, err := dtypeOf(n.Dtype())
	if err != nil {
		return kernels.Spec{}, fmt.Errorf("%q: %w", n.Name(), err)
	}
	return kernels.Spec{Type: dt, Shape: append(kernels.Shape{}, n.Shape()...)}, nil
}

// dtypeOf maps a Gorgonia type. Int is stored in 64 bits; bool results of comparisons are read as floats by their op.
func dtypeOf(dt tensor.Dtype) (arena.DType, error) {
	switch dt {
	case tensor.Float32:
		return arena.Float32, nil
	case tensor.Float64:
		return arena.Float64, nil
	case tensor.Uint8:
		return arena.Uint8, nil
	case tensor.Int32:
		return arena.Int32, nil
	case tensor.Int64, tensor.Int:
		return arena.Int64, nil
	}
	return 0, fmt.Errorf("type %v: %w", dt, kernels.ErrUnsupported)
}
