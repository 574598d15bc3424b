package onnx

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

func exportReshape(e *exporter, in *exportInstr) (string, error) {
	x := e.value(in.a.In[0])
	dims, err := e.dims(in.a.Out[0])
	if err != nil {
		return "", err
	}
	if from, err := e.dims(in.a.In[0]); err == nil && slices.Equal(from, dims) {
		return x, nil
	}
	return e.reshape(x, dims)
}

func exportTranspose(e *exporter, in *exportInstr) (string, error) {
	return e.node("Transpose", e.operands(in.a.In), intsAttr("perm", in.a.Attrs.(kernels.TransposeAttrs).Perm...)), in.same()
}

func exportBroadcast(e *exporter, in *exportInstr) (string, error) {
	return e.expand(e.value(in.a.In[0]), in.a.Out[0])
}

// expand returns x in the shape of v.
func (e *exporter) expand(x string, v kernels.Value) (string, error) {
	dims, err := e.dims(v)
	if err != nil {
		return "", err
	}
	to, err := e.vector(dims)
	if err != nil {
		return "", err
	}
	return e.node("Expand", []string{x, to}), nil
}

func exportConcat(e *exporter, in *exportInstr) (string, error) {
	return e.node("Concat", e.operands(in.a.In), intAttr("axis", in.a.Attrs.(kernels.ConcatAttrs).Axis)), in.same()
}

func exportFill(e *exporter, in *exportInstr) (string, error) {
	a, b := in.a.Attrs.(kernels.FillAttrs), in.b.Attrs.(kernels.FillAttrs)
	if b.Shape = a.Shape; a.Value != b.Value {
		return "", in.same()
	}
	dims, err := e.dims(in.a.Out[0])
	if err != nil {
		return "", err
	}
	small := !slices.ContainsFunc(dims, func(d exportDim) bool { return d.per != 0 }) && a.Shape.Elems() <= 64
	if small {
		return e.filled(e.a.Spec(in.a.Out[0]), a.Value), nil
	}
	return e.expand(e.scalar(a.Type, a.Value), in.a.Out[0])
}

// exportSlice writes the axes of which a part is taken.
func exportSlice(e *exporter, in *exportInstr) (string, error) {
	a, b := in.a.Attrs.(kernels.SliceAttrs), in.b.Attrs.(kernels.SliceAttrs)
	x := e.value(in.a.In[0])
	from, err := e.dims(in.a.In[0])
	if err != nil {
		return "", err
	}
	var starts, ends []exportDim
	var axes, steps []int
	for i := range a.Start {
		start, err1 := e.dimOf(a.Start[i], b.Start[i])
		end, err2 := e.dimOf(a.End[i], b.End[i])
		if err1 != nil || err2 != nil || a.Step[i] != b.Step[i] {
			return "", in.same()
		}
		if end == from[i] {
			end = exportDim{plus: exportEnd}
		}
		if start == (exportDim{}) && end.plus == exportEnd && a.Step[i] == 1 {
			continue
		}
		starts, ends, axes, steps = append(starts, start), append(ends, end), append(axes, i), append(steps, a.Step[i])
	}
	if len(axes) == 0 {
		return x, nil
	}
	first, err := e.vector(starts)
	if err != nil {
		return "", err
	}
	last, err := e.vector(ends)
	if err != nil {
		return "", err
	}
	return e.node("Slice", []string{x, first, last, e.int64s(axes...), e.int64s(steps...)}), nil
}

// exportUnslice pads with zeros. Steps put zeros between the elements: each gets a dimension of its
// own, which is padded to the step.
//
//	[a b] ─► [[a] [b]] ─► [[a 0] [b 0]] ─► [a 0 b 0] ─► [0 a 0 b]
func exportUnslice(e *exporter, in *exportInstr) (string, error) {
	a, b := in.a.Attrs.(kernels.UnsliceAttrs), in.b.Attrs.(kernels.UnsliceAttrs)
	x := e.value(in.a.In[0])
	dims, err := e.dims(in.a.In[0])
	if err != nil {
		return "", err
	}
	dims = slices.Clone(dims)
	rank := len(dims)
	before, after := make([]exportDim, rank), make([]exportDim, rank)
	for i, step := range a.Step {
		start, err1 := e.dimOf(a.Start[i], b.Start[i])
		size, err2 := e.dimOf(a.Shape[i], b.Shape[i])
		if err1 != nil || err2 != nil || step != b.Step[i] {
			return "", in.same()
		}
		if step > 1 {
			if x, err = e.spread(x, dims, i, step); err != nil {
				return "", err
			}
			dims[i] = exportDim{dims[i].per * step, dims[i].plus * step}
		}
		before[i] = start
		after[i] = exportDim{size.per - start.per - dims[i].per, size.plus - start.plus - dims[i].plus}
	}
	pads := append(before, after...)
	if !slices.ContainsFunc(pads, func(d exportDim) bool { return d != exportDim{} }) {
		return x, nil
	}
	by, err := e.vector(pads)
	if err != nil {
		return "", err
	}
	return e.node("Pad", []string{x, by, e.scalar(e.spec(in, 0).Type, 0)}), nil
}

// spread returns x, of shape dims, with step-1 zeros after each element along an axis.
func (e *exporter) spread(x string, dims []exportDim, axis, step int) (string, error) {
	single, err := e.reshape(x, slices.Insert(slices.Clone(dims), axis+1, exportDim{plus: 1}))
	if err != nil {
		return "", err
	}
	pads := make([]int, 2*(len(dims)+1))
	pads[len(dims)+1+axis+1] = step - 1
	x = e.node("Pad", []string{single, e.int64s(pads...)})
	joined := slices.Clone(dims)
	joined[axis] = exportDim{dims[axis].per * step, dims[axis].plus * step}
	return e.reshape(x, joined)
}

func exportGather(e *exporter, in *exportInstr) (string, error) {
	return e.node("Gather", []string{e.value(in.a.In[0]), e.integers(in.a.In[1])}, intAttr("axis", 0)), nil
}

// exportScatter adds rows to zeros.
func exportScatter(e *exporter, in *exportInstr) (string, error) {
	dims, err := e.dims(in.a.In[0])
	if err != nil {
		return "", err
	}
	zeros, err := e.expand(e.scalar(e.a.Spec(in.a.Out[0]).Type, 0), in.a.Out[0])
	if err != nil {
		return "", err
	}
	index, err := e.reshape(e.as(in.a.In[0], arena.Int64), append(dims, exportDim{plus: 1}))
	if err != nil {
		return "", err
	}
	return e.node("ScatterND", []string{zeros, index, e.value(in.a.In[1])}, textAttr("reduction", "add")), nil
}
