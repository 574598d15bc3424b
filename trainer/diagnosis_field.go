package trainer

import (
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// storedField is a field of a program's batch, as it is stored.
type storedField struct {
	name   string
	value  ir.Value             // rows of the slot, or all samples of a resident dataset
	decode *kernels.DecodeAttrs // nil: the program reads it as it is stored
}

// sampleElems returns the number of elements of the field in a sample.
func (f *storedField) sampleElems() int { return f.value.Spec.Shape.Elems() / f.value.Spec.Shape[0] }

// fieldValues are the fields of a program's batch. A field is found by every value that has its
// elements in their order: its home, the rows gathered from resident data, and reshapes of these.
type fieldValues struct {
	all []*storedField
	of  map[kernels.Value]*storedField
}

// fieldValuesOf returns the fields that p reads. dataset is that of its programKey.
func fieldValuesOf(p *ir.Program, dataset int) fieldValues {
	fs := fieldValues{of: make(map[kernels.Value]*storedField)}
	for i, v := range p.Values {
		isField := v.Ref.Region == ir.Slot && !ir.IsControls(v.Name) && v.Name != ir.IndexField
		if !v.Home || !isField && v.Ref.Region != ir.Resident {
			continue
		}
		f := &storedField{name: strings.TrimPrefix(v.Name, residentName(dataset)+"/"), value: v}
		fs.all, fs.of[kernels.Value(i)] = append(fs.all, f), f
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		switch in.Op {
		case kernels.Gather, kernels.Reshape:
			if f := fs.of[in.In[0]]; f != nil {
				fs.of[in.Out[0]] = f
			}
		case kernels.Decode:
			fs.decodes(in.In[0], in.Attrs)
		case kernels.Chain:
			for _, s := range in.Attrs.(*kernels.ChainAttrs).Steps {
				if s.Op == kernels.Decode && s.A < len(in.In) {
					fs.decodes(in.In[s.A], s.Attrs)
				}
			}
		}
	}
	return fs
}

// decodes records that the program decodes v, if that is a field.
func (fs *fieldValues) decodes(v kernels.Value, attrs any) {
	if f := fs.of[v]; f != nil {
		a := attrs.(kernels.DecodeAttrs)
		f.decode = &a
	}
}

// under returns the field from which the program computes v element by element, such as the labels
// from which Net.Ignore makes others; nil if there is none.
func (fs *fieldValues) under(p *ir.Program, v kernels.Value) *storedField {
	elems := p.Spec(v).Shape.Elems()
	for i := len(p.Instrs) - 1; i >= 0 && fs.of[v] == nil; i-- {
		in := &p.Instrs[i]
		if in.Out[0] != v || in.Op.Elem == nil && in.Op != kernels.Chain && in.Op != kernels.Truncate && in.Op != kernels.Reshape {
			continue
		}
		for _, operand := range in.In {
			if p.Spec(operand).Shape.Elems() == elems {
				v = operand
				break
			}
		}
	}
	return fs.of[v]
}

// checkFields returns an error about the first number in the batch's fields that is not finite, or
// that decoding makes so.
func (d *diagnosis) checkFields() error {
	for _, f := range d.fields.all {
		if t := f.value.Spec.Type; f.decode == nil && !t.Float() && !t.Half() {
			continue
		}
		for row := range d.slot.indices {
			x, err := d.readSample(f, row)
			if err != nil {
				return err
			}
			for i, stored := range x {
				got := f.decoded(stored)
				if finite(got) {
					continue
				}
				return &NonFiniteError{Label: f.name, Index: i, Value: got, Decoded: finite(stored), Stored: stored,
					Samples: len(d.slot.indices), Sample: d.slot.indices[row], err: ErrNonFinite}
			}
		}
	}
	return nil
}

// decoded returns what the program reads where x is stored.
func (f *storedField) decoded(x float64) float64 {
	if f.decode == nil {
		return x
	}
	x = kernels.Decode.Elem(*f.decode, x, 0)
	if f.decode.To == arena.Float32 {
		x = float64(float32(x))
	}
	return x
}

// readSample returns the elements of a field in a row of the batch.
func (d *diagnosis) readSample(f *storedField, row int) ([]float64, error) {
	v := f.value
	if v.Ref.Region == ir.Resident { // whose rows are all samples
		row = d.slot.indices[row]
	}
	v.Spec.Shape = v.Spec.Shape[1:]
	v.Ref.Size = v.Spec.Bytes()
	v.Ref.Offset += int64(row) * v.Ref.Size
	return d.numbers(v)
}

// blameLabel looks for a label outside the classes in the inputs of a cross entropy, whose output e
// is about.
func (d *diagnosis) blameLabel(in *ir.Instr, e *NonFiniteError) error {
	classes, labels := d.program.Values[in.In[0]].Spec.Shape[1], in.In[1]
	got, err := d.numbers(d.program.Values[labels])
	if err != nil {
		return err
	}
	// A label outside the classes gives NaN.
	for i, l := range got {
		if l >= 0 && l < float64(classes) {
			continue
		}
		e.err, e.BadLabel, e.Classes, e.Index = ErrLabel, int64(l), classes, i
		if f := d.fields.under(d.program, labels); f != nil { // else the model computes the labels
			e.Op, e.Label, e.labels = "", f.name, f.sampleElems()
			e.Sample, e.Index = d.slot.indices[i/e.labels], i%e.labels
		}
		return e
	}
	return e
}

// blameWeight names the first weight below 0 in w, the operand of the root that in computes and value
// of the node called name; e is about that root. A field is named if w has its elements.
func (d *diagnosis) blameWeight(in *ir.Instr, name string, w []float64, e *NonFiniteError) error {
	i := slices.IndexFunc(w, func(x float64) bool { return x < 0 })
	if i < 0 { // a root that is not finite for another reason
		return e
	}
	e.err, e.Op, e.Label, e.Index, e.Value = ErrWeight, "weight", name, i, w[i]
	for _, operand := range in.In {
		f := d.fields.under(d.program, operand)
		if f == nil || f.sampleElems()*len(d.slot.indices) != len(w) {
			continue
		}
		row := i / f.sampleElems()
		e.Sample, e.Index = d.slot.indices[row], i%f.sampleElems()
		x, err := d.readSample(f, row)
		if err != nil {
			return err
		}
		if f.decoded(x[e.Index]) == w[i] { // else the model computes the weights from the field
			e.Op, e.Label = "", f.name
		}
		break
	}
	return e
}

// numbers returns the elements of a value of the program.
func (d *diagnosis) numbers(v ir.Value) ([]float64, error) {
	b, err := d.read(v)
	if err != nil {
		return nil, err
	}
	x := make([]float64, v.Spec.Shape.Elems())
	kernels.Load(x, v.Spec.Type, b)
	return x, nil
}
