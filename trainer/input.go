package trainer

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/kernels"
)

// inputs maps the inputs of model m to fields of the batches of program k. Without Options.Fields
// each input is a field that is stored as its node is in the graph; so is a target that
// Options.Fields lacks.
func (p *planned) inputs(m Model, k programKey) (map[*gorgonia.Node]frontend.Input, error) {
	fields := p.opt.Fields
	if k.dataset != streamed {
		fields = p.residents[k.dataset].fields
	}
	for _, f := range fields {
		if !slices.ContainsFunc(m.Inputs, func(n *gorgonia.Node) bool { return n.Name() == f.Name }) {
			return nil, errNoInput(f.Name)
		}
	}
	all := make(map[*gorgonia.Node]frontend.Input)
	for _, n := range m.Inputs {
		known := fields
		if k.dataset == streamed && fields != nil && !hasField(fields, n.Name()) && m.Output != nil && !predicts(m, n) {
			known = nil
		}
		in, err := inputOf(n, known, k.rows)
		if err != nil {
			return nil, err
		}
		in.Rows = p.opt.room()
		if k.dataset != streamed {
			in.Resident, in.Samples = residentName(k.dataset), p.residents[k.dataset].samples
		}
		all[n] = in
	}
	return all, nil
}

// room returns the rows of the largest batch, which fields in slots have room for.
func (o *Options) room() int { return max(o.Batch, o.EvalBatch) }

// hasField reports whether one of fields has the name.
func hasField(fields []dataloader.Field, name string) bool {
	return slices.ContainsFunc(fields, func(f dataloader.Field) bool { return f.Name == name })
}

// inputOf returns the field that input n reads, in a batch of rows.
func inputOf(n *gorgonia.Node, fields []dataloader.Field, rows int) (frontend.Input, error) {
	if fields == nil {
		s, err := frontend.SpecOf(n)
		if err != nil {
			return frontend.Input{}, fmt.Errorf("input %w", err)
		}
		return frontend.Input{Field: n.Name(), Spec: s}, nil
	}
	i := slices.IndexFunc(fields, func(f dataloader.Field) bool { return f.Name == n.Name() })
	if i < 0 {
		var names []string
		for _, f := range fields {
			names = append(names, f.Name)
		}
		return frontend.Input{}, fmt.Errorf("model input %q has no field in the data, which have %q: %w",
			n.Name(), names, ErrData)
	}
	f := fields[i]
	if shape := n.Shape(); len(shape) > 0 && shape[0] == rows && reordersElements(f.Shape, shape[1:]) {
		return frontend.Input{}, fmt.Errorf("field %q has samples of %v, the input takes %v: "+
			"the same number of elements in another order; "+
			"store them as the input is, or give the field a flat shape: %w",
			f.Name, f.Shape, shape[1:], ErrData)
	}
	return frontend.Input{Field: f.Name, Scale: f.Scale, Shift: f.Shift,
		Spec: kernels.Spec{Type: f.Type, Shape: append(kernels.Shape{rows}, f.Shape...)}}, nil
}

// errNoInput is the error about a field that the model does not read.
func errNoInput(field string) error {
	return fmt.Errorf("field %q is not an input of the model: leave it out with dataloader.Select: %w", field, ErrData)
}

// reordersElements reports whether reading samples of one shape as if they had another gives other
// samples. Both shapes then have the same number of elements and several dimensions, dimensions of
// 1 left out, and these differ:
//
//	stored      read        reorders
//	[3 32 32]   [32 32 3]   yes
//	[1 28 28]   [28 28]     no: the dimension of 1 changes nothing
//	[784]       [28 28]     no: a flat field may feed any shape
func reordersElements(stored, read []int) bool {
	without1 := func(shape []int) []int {
		return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
	}
	a, b := without1(stored), without1(read)
	return len(a) > 1 && len(b) > 1 && kernels.Shape(a).Elems() == kernels.Shape(b).Elems() && !slices.Equal(a, b)
}

// residentName returns the name of resident dataset i in plans and programs.
func residentName(i int) string { return fmt.Sprintf("dataset %d", i) }

// predicts reports whether a prediction of m reads the input n.
func predicts(m Model, n *gorgonia.Node) bool {
	return slices.ContainsFunc(append(gorgonia.Nodes{m.Output}, m.Outputs...), func(out *gorgonia.Node) bool { return frontend.Reads(out, n) })
}
