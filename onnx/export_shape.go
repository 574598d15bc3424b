package onnx

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// exportDim is a size that may depend on the batch: per·batch + plus.
type exportDim struct{ per, plus int }

// String returns d in terms of the batch's name.
func (d exportDim) String(batch string) string {
	s := batch
	if d.per != 1 {
		s = strconv.Itoa(d.per) + "*" + s
	}
	switch {
	case d.per == 0:
		return strconv.Itoa(d.plus)
	case d.plus != 0:
		return fmt.Sprintf("%s%+d", s, d.plus)
	}
	return s
}

// of returns d for a batch of rows.
func (d exportDim) of(rows int) int { return d.per*rows + d.plus }

// dimOf returns the size that is a in the first program and b in the second.
func (e *exporter) dimOf(a, b int) (exportDim, error) {
	if a == b {
		return exportDim{plus: a}, nil
	}
	rows := e.b.Batch - e.a.Batch
	d := exportDim{per: (b - a) / rows}
	d.plus = a - d.per*e.a.Batch
	if d.of(e.b.Batch) != b || d.per < 1 {
		return d, fmt.Errorf("a size is %d for %d rows and %d for %d", a, e.a.Batch, b, e.b.Batch)
	}
	return d, nil
}

// dimsOf is dimOf of each dimension.
func (e *exporter) dimsOf(a, b []int) ([]exportDim, error) {
	if len(a) != len(b) {
		return nil, fmt.Errorf("a shape is %v for %d rows and %v for %d", a, e.a.Batch, b, e.b.Batch)
	}
	dims := make([]exportDim, len(a))
	for i := range a {
		var err error
		if dims[i], err = e.dimOf(a[i], b[i]); err != nil {
			return nil, err
		}
	}
	return dims, nil
}

// dims returns the shape of v.
func (e *exporter) dims(v kernels.Value) ([]exportDim, error) {
	return e.dimsOf(e.a.Values[v].Spec.Shape, e.b.Values[v].Spec.Shape)
}

// int64s returns a constant vector.
func (e *exporter) int64s(xs ...int) string {
	var data []byte
	for _, x := range xs {
		data = binary.LittleEndian.AppendUint64(data, uint64(x))
	}
	return e.data(kernels.Spec{Type: arena.Int64, Shape: kernels.Shape{len(xs)}}, data)
}

// scalar returns a constant of a type, rounded to it.
func (e *exporter) scalar(t arena.DType, x float64) string {
	return e.filled(kernels.Spec{Type: t, Shape: kernels.Shape{}}, x)
}

// filled returns a constant of equal elements.
func (e *exporter) filled(s kernels.Spec, x float64) string {
	return e.elements(s, slices.Repeat([]float64{x}, s.Shape.Elems()))
}

// elements returns a constant, rounded to its type.
func (e *exporter) elements(s kernels.Spec, xs []float64) string {
	data := make([]byte, s.Bytes())
	kernels.Store(data, s.Type, xs)
	return e.data(s, data)
}

// data returns an initializer with these contents: the same one for the same contents.
func (e *exporter) data(s kernels.Spec, data []byte) string {
	sum := sha256.Sum256(data)
	key := s.String() + string(sum[:])
	if known := e.consts[key]; known != "" {
		return known
	}
	name := e.fresh(e.nameOf("constant"))
	e.consts[key] = name
	e.graph.Initializers = append(e.graph.Initializers, initializerOf(name, s, data))
	return name
}

// constant returns constant i of the program, which v is. One that has a row, or several, for each
// row of the batch becomes these rows, repeated.
func (e *exporter) constant(v kernels.Value, i int) string {
	a, b := e.a.Constants[i], e.b.Constants[i]
	s, t := e.a.Values[v].Spec, e.b.Values[v].Spec
	if s.Equal(t) && bytes.Equal(a.Data, b.Data) {
		return e.data(s, a.Data)
	}
	refuse := func() string {
		e.failed = append(e.failed, ExportRefusal{Operation: "constant", Node: e.label,
			Reason: "its elements depend on the batch: make it of one row, which broadcasts, or set ExportOptions.Batch"})
		return "?"
	}
	dims, err := e.dims(v)
	if err != nil || len(dims) == 0 || dims[0].per == 0 || dims[0].plus != 0 {
		return refuse()
	}
	row := kernels.Spec{Type: s.Type, Shape: append(kernels.Shape{dims[0].per}, s.Shape[1:]...)}
	first := a.Data[:row.Bytes()]
	if len(a.Data) != e.a.Batch*len(first) || len(b.Data) != e.b.Batch*len(first) ||
		!bytes.Equal(a.Data, bytes.Repeat(first, e.a.Batch)) || !bytes.Equal(b.Data, bytes.Repeat(first, e.b.Batch)) {
		return refuse()
	}
	repeats := make([]exportDim, len(dims))
	for k := range repeats {
		repeats[k].plus = 1
	}
	repeats[0] = exportDim{per: 1}
	times, err := e.vector(repeats)
	if err != nil {
		return refuse()
	}
	return e.node("Tile", []string{e.data(row, first), times})
}

// vector returns a vector of int64 with these elements.
func (e *exporter) vector(dims []exportDim) (string, error) {
	fixed := make([]int, 0, len(dims))
	for _, d := range dims {
		if d.per == 0 {
			fixed = append(fixed, d.plus)
		}
	}
	if len(fixed) == len(dims) {
		return e.int64s(fixed...), nil
	}
	if len(dims) == 1 {
		return e.element(dims[0])
	}
	var parts []string
	for _, d := range dims {
		part, err := e.element(d)
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	return e.node("Concat", parts, intAttr("axis", 0)), nil
}

// element returns a vector of one element, d.
func (e *exporter) element(d exportDim) (string, error) {
	if d.per == 0 {
		return e.int64s(d.plus), nil
	}
	if e.rows == "" {
		if len(e.graph.Inputs) == 0 {
			return "", errors.New("a size depends on the batch, and there is no input to take it from")
		}
		was := e.label
		e.label = e.opt.BatchName
		e.rows = e.node("Shape", []string{e.graph.Inputs[0].Name}, intAttr("start", 0), intAttr("end", 1))
		e.label = was
	}
	v := e.rows
	if d.per != 1 {
		v = e.node("Mul", []string{v, e.int64s(d.per)})
	}
	if d.plus != 0 {
		v = e.node("Add", []string{v, e.int64s(d.plus)})
	}
	return v, nil
}

// reshape returns x in a shape. One dimension that depends on the batch becomes -1.
func (e *exporter) reshape(x string, dims []exportDim) (string, error) {
	shape, varying, empty := make([]int, len(dims)), 0, false
	for i, d := range dims {
		shape[i] = d.plus
		if d.per != 0 {
			shape[i] = -1
			varying++
		} else if d.plus == 0 {
			empty = true
		}
	}
	to := ""
	if varying <= 1 && !empty {
		to = e.int64s(shape...)
	} else {
		var err error
		if to, err = e.vector(dims); err != nil {
			return "", err
		}
	}
	if empty {
		return e.node("Reshape", []string{x, to}, boolAttr("allowzero", true)), nil
	}
	return e.node("Reshape", []string{x, to}), nil
}

// exportEnd is the end of a range that goes to the end of a dimension, whatever that is.
const exportEnd = math.MaxInt64

func intAttr(name string, v int) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrInt, I: int64(v)}
}

func boolAttr(name string, v bool) proto.Attribute {
	if v {
		return intAttr(name, 1)
	}
	return intAttr(name, 0)
}

func floatAttr(name string, v float64) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrFloat, F: float32(v)}
}

func intsAttr(name string, vs ...int) proto.Attribute {
	a := proto.Attribute{Name: name, Type: proto.AttrInts}
	for _, v := range vs {
		a.Ints = append(a.Ints, int64(v))
	}
	return a
}

func textAttr(name, s string) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrString, S: []byte(s)}
}
