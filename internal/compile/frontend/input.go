package frontend

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Input is the source of a graph input: a field of the batch, in the slot or in a resident dataset.
type Input struct {
	Field        string       // name in the slot
	Spec         kernels.Spec // as stored: [Batch, ...]
	Scale, Shift float64      // decoded = Scale*stored + Shift; a Scale of 0 means 1
	Resident     string       // name of the resident dataset; empty: the slot holds the field
	Samples      int          // rows of the resident dataset
	Rows         int          // of the largest batch, which the field in the slot has room for; 0: those of Spec
}

// scaled reports whether decoding changes the stored numbers.
func (in Input) scaled() bool { return in.Scale != 0 && in.Scale != 1 || in.Shift != 0 }

// setLabel gives the instructions that are appended from now on the label and the layer of n.
// Without a slash in its name the layer is inferred from the operands.
func (g *Graph) setLabel(n *gorgonia.Node) {
	g.Label, g.Owner, g.Mark = n.Name(), "", ""
	if strings.Contains(g.Label, "/") {
		g.Owner = ir.OwnerOf(g.Label)
	}
}

// input returns the value of a node without an op: a field of the batch, a running statistic, or a
// parameter.
func (g *Graph) input(n *gorgonia.Node) (kernels.Value, error) {
	spec, err := SpecOf(n)
	if err != nil {
		return kernels.None, err
	}
	g.setLabel(n)
	if in, ok := g.Inputs[n]; ok {
		return g.field(n, spec, in)
	}
	if g.Model.Statistics[n] && !g.Machine {
		return g.statistic(n, spec)
	}
	if n.Value() == nil && !g.Model.Params[n] && !g.Machine {
		return kernels.None, fmt.Errorf("%q %v is neither an input of the model nor a parameter with a value: %w",
			n.Name(), spec, ErrInput)
	}
	// A parameter. Programs that share Homes place it in the same bytes.
	name := g.homeName(n)
	if was, ok := g.byName[name]; ok {
		return kernels.None, fmt.Errorf("parameters %v and %v are both called %q: %w", g.Spec(was), spec, name, ErrName)
	}
	v, err := g.Home(g.regionOf(name, spec), ir.OwnerOf(name), name, spec)
	if err != nil {
		return kernels.None, fmt.Errorf("parameter %w", err)
	}
	g.byName[name] = v
	// Integers cannot be trained.
	frozen := !spec.Type.Float() || g.untrained(n.Name())
	g.params = append(g.params, paramNode{Param{Name: name, Value: v, Frozen: frozen}, n})
	return v, nil
}

// regionOf returns the region that the program reads a parameter in.
func (g *Graph) regionOf(name string, spec kernels.Spec) arena.Region {
	for _, r := range [...]arena.Region{ir.Averages, ir.HostAverages} {
		if _, ok := g.Homes.Find(r, name); ok && g.Averaged {
			return r
		}
	}
	if g.Offloaded != nil && g.Offloaded(name, spec) {
		return ir.HostParameters
	}
	return ir.Parameters
}

// constant returns a value with a home that holds data. The home is named by a hash of the data, so
// that equal constants share it: Gorgonia names a constant by its printed form, which is the same
// for different large tensors.
func (g *Graph) constant(n *gorgonia.Node, spec kernels.Spec, data []byte) (kernels.Value, error) {
	owner := "constants"
	if strings.Contains(n.Name(), "/") {
		owner = ir.OwnerOf(n.Name())
	}
	sum := sha256.Sum256(data)
	v, err := g.Home(ir.Parameters, owner, fmt.Sprintf("%s%v %x", constantPrefix, spec, sum[:8]), spec)
	if err != nil {
		return kernels.None, fmt.Errorf("%q: its elements depend on the batch: make it of one row, which broadcasts, "+
			"or feed it as an input: constant %w", n.Name(), err)
	}
	g.Constants = append(g.Constants, ir.Constant{Value: v, Data: data})
	return v, nil
}

// homeName returns the name of the home of parameter n. The programs of one model share parameters
// by name; a machine has one program, and gives each of its parameters a name.
func (g *Graph) homeName(n *gorgonia.Node) string {
	if g.Machine {
		return g.Homes.FreshName(ir.Parameters, n.Name())
	}
	return n.Name()
}

// field returns a graph input: rows of the slot, or of a resident dataset, decoded where they are
// stored in another type or scaled.
//
//	slot                      image (128, 784) uint8 ─► decode ─► float32
//	resident data and index   gather ─► decode ─► float32
func (g *Graph) field(n *gorgonia.Node, spec kernels.Spec, in Input) (kernels.Value, error) {
	switch {
	case len(spec.Shape) == 0 || spec.Shape[0] != g.Batch:
		return kernels.None, fmt.Errorf("input %q %v: its first dimension must be the batch, %d: %w",
			n.Name(), spec, g.Batch, kernels.ErrShape)
	case len(in.Spec.Shape) == 0 || in.Spec.Shape[0] != g.Batch || in.Spec.Shape.Elems() != spec.Shape.Elems():
		return kernels.None, fmt.Errorf("input %q is %v in the graph, the data have %v: %w",
			n.Name(), spec, in.Spec, kernels.ErrShape)
	case !spec.Type.Float() && (in.Spec.Type.Float() || in.scaled()): // integers are not decoded
		return kernels.None, fmt.Errorf("input %q is %v in the graph, the data have %v, scale %v, shift %v: "+
			"only inputs of float type are decoded: %w", n.Name(), spec, in.Spec, in.Scale, in.Shift, kernels.ErrShape)
	}
	v, err := g.stored(in)
	if err != nil {
		return kernels.None, fmt.Errorf("input %q: %w", n.Name(), err)
	}
	if spec.Type.Float() && (in.Spec.Type != spec.Type || in.scaled()) {
		scale := in.Scale
		if scale == 0 {
			scale = 1
		}
		v = g.Apply(kernels.Decode, kernels.DecodeAttrs{To: spec.Type, Scale: scale, Shift: in.Shift}, v)
	}
	if !g.Spec(v).Shape.Equal(spec.Shape) {
		v = g.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: spec.Shape}, v)
	}
	return v, nil
}

// stored returns the field in its storage type: a range of the slot, or rows gathered from resident
// data by the slot's indices.
func (g *Graph) stored(in Input) (kernels.Value, error) {
	if in.Resident == "" {
		// A field that only programs of small batches read has room for the largest one, since the
		// loader fills it for every batch.
		if len(in.Spec.Shape) > 0 && in.Rows > in.Spec.Shape[0] {
			room := in.Spec
			room.Shape = append(kernels.Shape{in.Rows}, in.Spec.Shape[1:]...)
			if _, err := g.Homes.Place(ir.Slot, "batch", in.Field, room); err != nil {
				return kernels.None, err
			}
		}
		return g.Home(ir.Slot, "batch", in.Field, in.Spec)
	}
	if in.Samples < 1 {
		return kernels.None, fmt.Errorf("%s has %d samples: %w", in.Resident, in.Samples, kernels.ErrShape)
	}
	// The slot holds a row number for each sample of the batch instead of the sample.
	all := kernels.Spec{Type: in.Spec.Type, Shape: append(kernels.Shape{in.Samples}, in.Spec.Shape[1:]...)}
	data, err := g.Home(ir.Resident, in.Resident, in.Resident+"/"+in.Field, all)
	if err != nil {
		return kernels.None, err
	}
	index, err := g.Home(ir.Slot, "batch", ir.IndexField, kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{g.Batch}})
	if err != nil {
		return kernels.None, err
	}
	return g.Apply(kernels.Gather, nil, data, index), nil
}

// SpecOf returns the spec of a node of tensor or scalar type.
func SpecOf(n *gorgonia.Node) (kernels.Spec, error) {
	dt, err := dtypeOf(n.Dtype())
	if err != nil {
		return kernels.Spec{}, fmt.Errorf("%q: %w", n.Name(), err)
	}
	return kernels.Spec{Type: dt, Shape: append(kernels.Shape{}, n.Shape()...)}, nil
}

// dtypeOf returns the arena type of a Gorgonia type; an int has 64 bits. Bool is an error: see
// storageType.
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

// constantPrefix begins the names of homes of constants, which end with a hash of their bytes.
const constantPrefix = "constant "

// IsConstant reports whether name is that of the home of a constant.
func IsConstant(name string) bool {
	i := strings.LastIndexByte(name, ' ')
	_, err := hex.DecodeString(name[i+1:])
	return strings.HasPrefix(name, constantPrefix) && len(name)-i == 17 && err == nil
}
