package trainer

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// predictorInput is a field of the slot.
type predictorInput struct {
	name  string
	spec  kernels.Spec // of a row
	elems int          // of a row
	bytes int          // of a row
	host  []byte       // all rows of the slot
}

// predictorOutput is a result of a batch.
type predictorOutput struct {
	name   string
	spec   kernels.Spec // of a row
	elems  int          // of a row
	host   []byte       // all rows
	floats []float32    // host, if the type is float32
}

// rowOf returns the type and shape of one row of a batch of n rows.
func rowOf(s kernels.Spec, n int) kernels.Spec {
	if len(s.Shape) > 0 && s.Shape[0] == n {
		return kernels.Spec{Type: s.Type, Shape: slices.Clone(s.Shape[1:])}
	}
	return kernels.Spec{Type: s.Type, Shape: kernels.Shape{s.Shape.Elems() / n}}
}

// bindInputs lists the inputs in the order of Model.Inputs.
func (p *Predictor) bindInputs() {
	plan := p.weights.plan
	for _, name := range plan.order {
		home, ok := plan.homes.Find(ir.Slot, name)
		if !ok { // only the loss reads it
			continue
		}
		in := predictorInput{name: name, spec: rowOf(home.Spec, p.batch), host: p.lane.fields[name]}
		in.elems = home.Spec.Shape.Elems() / p.batch
		in.bytes = in.elems * int(home.Spec.Type.Size())
		p.inputs = append(p.inputs, in)
	}
}

// bindOutputs lists the results of the largest program: Model.Output first.
func (p *Predictor) bindOutputs() {
	prog := p.sizes[len(p.sizes)-1].ir
	for _, r := range prog.Results {
		v := prog.Values[r.Value]
		out := predictorOutput{name: r.Name, spec: rowOf(v.Spec, p.batch), elems: v.Spec.Shape.Elems() / p.batch,
			host: p.lane.results[v.Ref.Offset : v.Ref.Offset+v.Ref.Size]}
		if v.Spec.Type == arena.Float32 {
			out.floats = dataloader.View[float32](out.host)
		}
		if r.Name == compile.OutputName {
			p.outputs = slices.Insert(p.outputs, 0, out)
		} else {
			p.outputs = append(p.outputs, out)
		}
	}
}

// read writes n rows, from row first on, to dst as float32.
func (o *predictorOutput) read(dst []float32, first, n int) {
	if o.floats != nil {
		copy(dst, o.floats[first*o.elems:(first+n)*o.elems])
		return
	}
	size := int(o.spec.Type.Size())
	b := o.host[first*o.elems*size : (first+n)*o.elems*size]
	toFloats(dst, o.spec.Type, b)
}

// bytesOfSlice returns the memory of a slice that a caller passed, and the type of its elements. An
// unknown type is 0.
func bytesOfSlice(x any) ([]byte, arena.DType) {
	switch x := x.(type) {
	case []float32:
		return elementBytes(x), arena.Float32
	case []uint8:
		return x, arena.Uint8
	case []int32:
		return elementBytes(x), arena.Int32
	case []int64:
		return elementBytes(x), arena.Int64
	case []float64:
		return elementBytes(x), arena.Float64
	}
	return nil, 0
}

// elementBytes returns the memory of x, without a copy.
func elementBytes[T float32 | float64 | int32 | int64](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(x[0])))
}

// InputError lists the mistakes in the arguments of a call of Predict. It wraps ErrData.
type InputError struct{ Mistakes []string }

func (e *InputError) Error() string {
	return fmt.Sprintf("predict: %s: %v", strings.Join(e.Mistakes, "; "), ErrData)
}

// Unwrap returns ErrData.
func (e *InputError) Unwrap() error { return ErrData }

// inputError describes what is wrong with the arguments of a call: every mistake at once.
//
//go:noinline
func (p *Predictor) inputError(dst [][]float32, types []arena.DType, lengths []int) error {
	e := &InputError{}
	addf := func(format string, args ...any) { e.Mistakes = append(e.Mistakes, fmt.Sprintf(format, args...)) }
	if len(types) != len(p.inputs) {
		var names []string
		for _, in := range p.inputs {
			names = append(names, fmt.Sprintf("%q %v", in.name, in.spec))
		}
		addf("%d inputs, the model has %d: %s", len(types), len(p.inputs), strings.Join(names, ", "))
	}
	rows := 0 // of the first input that is right
	for i, in := range p.inputs[:min(len(p.inputs), len(types))] {
		size := max(1, int(types[i].Size()))
		n := lengths[i] / size
		switch {
		case types[i] != in.spec.Type:
			addf("input %q is a slice of %s, the plan has %v", in.name, typeName(types[i]), in.spec.Type)
		case in.elems == 0 || n%in.elems != 0 || n == 0:
			addf("input %q has %d elements, a row has %d", in.name, n, in.elems)
		case n/in.elems > p.batch:
			addf("input %q has %d rows, the batch is %d at most: pass fewer rows a call, or set PredictorOptions.Batch", in.name, n/in.elems, p.batch)
		case rows == 0:
			rows = n / in.elems
		case n/in.elems != rows:
			addf("input %q has %d rows, another has %d", in.name, n/in.elems, rows)
		}
	}
	if !slices.ContainsFunc(dst, func(d []float32) bool { return d != nil }) {
		addf("no slice for an output")
	}
	if len(dst) > len(p.outputs) {
		addf("%d slices for outputs, the model has %d", len(dst), len(p.outputs))
	}
	for i, out := range p.outputs[:min(len(dst), len(p.outputs))] {
		if rows > 0 && dst[i] != nil && len(dst[i]) != rows*out.elems {
			addf("dst of %q has %d elements, %d rows of %d need %d", out.name, len(dst[i]), rows, out.elems, rows*out.elems)
		}
	}
	return e
}

// typeName names a type for people.
func typeName(t arena.DType) string {
	if t == 0 {
		return "another type"
	}
	return t.String()
}
