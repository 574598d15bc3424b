package onnx

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Node cases: the tests of single operators that the onnx package generates. testdata/cases.py
// writes them to a file, of which testdata/cases.zip is a part.

// nodeCase is a case of the file.
type nodeCase struct {
	Name     string  `json:"name"`
	Operator string  `json:"operator"`
	Expanded bool    `json:"expanded"` // the operator as a function of others
	Rtol     float64 `json:"rtol"`
	Atol     float64 `json:"atol"`
	Inputs   int     `json:"inputs"`
	Outputs  int     `json:"outputs"`

	model   *proto.Model
	in, out []*proto.Tensor // nil: no tensor
}

// readCases calls f with each case of a file.
func readCases(path string, f func(c *nodeCase) error) (err error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	files := make(map[string]*zip.File)
	for _, file := range z.File {
		files[file.Name] = file
	}
	read := func(name string) ([]byte, error) {
		file := files[name]
		if file == nil {
			return nil, fmt.Errorf("%s: no %q", path, name)
		}
		r, err := file.Open()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		return b, errors.Join(err, r.Close())
	}
	list, err := read("cases.json")
	if err != nil {
		return err
	}
	var all []*nodeCase
	if err := json.Unmarshal(list, &all); err != nil {
		return err
	}
	tensor := func(name string) (*proto.Tensor, error) {
		if files[name+".other"] != nil {
			return nil, nil
		}
		b, err := read(name + ".pb")
		if err != nil {
			return nil, err
		}
		return proto.ParseTensor(b)
	}
	for _, c := range all {
		b, err := read(c.Name + "/model.onnx")
		if err != nil {
			return err
		}
		if c.model, err = proto.Parse(b); err != nil && !errors.Is(err, ErrFormat) { // of a domain that is not read
			return err
		}
		c.in, c.out = make([]*proto.Tensor, c.Inputs), make([]*proto.Tensor, c.Outputs)
		for i := range c.in {
			if c.in[i], err = tensor(fmt.Sprintf("%s/in_%d", c.Name, i)); err != nil {
				return err
			}
		}
		for i := range c.out {
			if c.out[i], err = tensor(fmt.Sprintf("%s/out_%d", c.Name, i)); err != nil {
				return err
			}
		}
		if err := f(c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// errOther: an input or output is a sequence, or of a type without a fixed size.
var errOther = fmt.Errorf("not all values are tensors of numbers: %w", kernels.ErrUnsupported)

// program imports the case with the shapes of its inputs, which have no batch. Inputs for which
// known holds are constants, as initializers of the file would be.
func (c *nodeCase) program(known func(i int) bool) (b *inference, err error) {
	if c.model == nil {
		return nil, fmt.Errorf("the file is not read: %w", kernels.ErrUnsupported)
	}
	m := &Model{opt: Options{FoldElements: 1 << 20}, source: c.model, graph: c.model.Graph, built: map[int]*inference{}, contents: map[*proto.Tensor]content{}}
	if err := m.checkVersion(); err != nil {
		return nil, err
	}
	if err := m.checkGraph(); err != nil {
		return nil, err
	}
	b = m.newInference(1)
	for _, ini := range m.inits {
		b.values[ini.name] = ofTensor(ini.tensor)
	}
	defer catch(&err)
	for i, in := range m.graph.Inputs {
		t := c.in[i]
		if t == nil || t.Check() != nil {
			return nil, errOther
		}
		v := ofTensor(t)
		if !known(i) {
			v.con = nil
			v.at = b.program.leaf(leaf{kind: inputLeaf, name: in.Name}, kernels.Spec{Type: storage(t.Type), Shape: v.shape})
		}
		b.values[in.Name] = v
	}
	for i := range m.graph.Nodes {
		b.visit(i, &m.graph.Nodes[i])
	}
	if b.errs != nil {
		return nil, &ImportError{Nodes: b.errs}
	}
	for i, o := range m.graph.Outputs {
		v := b.values[o.Name]
		if c.out[i] == nil || c.out[i].Check() != nil {
			return nil, errOther
		}
		if v == nil || v.missing != "" || v.blamed {
			return nil, fmt.Errorf("output %q is not computed: %w", o.Name, kernels.ErrUnsupported)
		}
		b.program.outputs = append(b.program.outputs, v)
	}
	return b, nil
}

// compare returns an error if got is not the output i that the case wants.
func (c *nodeCase) compare(i int, typ proto.DataType, shape kernels.Shape, got []float64) error {
	want := c.out[i]
	if typ != want.Type {
		return fmt.Errorf("output %d is %v, must be %v", i, typ, want.Type)
	}
	if len(shape) != len(want.Dims) || !slices.EqualFunc(shape, want.Dims, func(a int, b int64) bool { return int64(a) == b }) {
		return fmt.Errorf("output %d is %v, must be %v", i, shape, want.Dims)
	}
	for k, x := range got {
		w := want.Float64(k)
		near := x == w || math.IsNaN(x) && math.IsNaN(w) || math.Abs(x-w) <= c.Atol+c.Rtol*math.Abs(w)
		if !near {
			return fmt.Errorf("output %d, element %d of %v is %v, must be %v", i, k, shape, x, w)
		}
	}
	return nil
}
