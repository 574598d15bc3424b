package onnx

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

var casesFile = flag.String("cases", "", "file of node cases, of testdata/cases.py or testdata/draw.py; empty: those in testdata")
var rewrite = flag.Bool("rewrite", false, "write the table in docs/onnx.md")

// fates are what becomes of a case.
type fate int

const (
	passed  fate = iota // the device computes what the case wants
	folded              // import does
	refused             // import names the operator
	differs             // by design: see byDesign
	wrong
)

// byDesign are cases in which a prediction computes something else on purpose.
var byDesign = map[string]string{
	"test_training_dropout":              "dropout in training mode: a prediction drops nothing",
	"test_training_dropout_default":      "dropout in training mode: a prediction drops nothing",
	"test_training_dropout_mask":         "dropout in training mode: a prediction drops nothing",
	"test_training_dropout_default_mask": "dropout in training mode: a prediction drops nothing",
}

// TestNodeCases imports node cases and predicts them on the CPU. A case may be refused, never
// wrong. Operators read shapes, axes and the like from operands, which are inputs of the cases:
// where an import needs to know them, these inputs are constants.
//
//	python3 onnx/testdata/cases.py /tmp/cases.zip
//	go test ./onnx -run TestNodeCases -cases /tmp/cases.zip -rewrite
//
// writes the table in docs/onnx.md.
func TestNodeCases(t *testing.T) {
	if *casesFile != "" {
		table := runCases(t, *casesFile)
		if t.Log(table.sum()); *rewrite {
			table.write(t, "../docs/onnx.md")
		}
		return
	}
	// The numbers: a case that a device computes does not become one that import computes, unseen.
	for file, sum := range map[string]string{"testdata/cases.zip": "301 passed, 33 computed", "testdata/drawn.zip": "111 passed, 2 computed"} {
		table := runCases(t, file)
		if !strings.HasPrefix(table.sum(), "Operators: "+sum) {
			t.Errorf("%s: want %s, got %s", file, sum, table.sum())
		}
		for _, name := range table.names() {
			if row := table.rows[name]; row.own[refused]+row.own[wrong] > 0 {
				t.Errorf("%s: %s: the cases in testdata are those that are not refused, got %v %v", file, name, row.own, row.reasons)
			}
		}
	}
}

// runCases runs the cases of a file. One that is wrong is an error of the test.
func runCases(t *testing.T, file string) *caseTable {
	t.Helper()
	dev := cputest.Open(t, cpu.Options{})
	table := newCaseTable()
	err := readCases(file, func(c *nodeCase) error {
		is, err := c.try(t, dev)
		if why := byDesign[c.Name]; why != "" && is == wrong {
			is, err = differs, errors.New(why)
		}
		if is == wrong {
			t.Errorf("%s (%s): %v", c.Name, c.Operator, err)
		}
		table.add(c, is, err)
		if testing.Verbose() {
			t.Logf("%-8v %s: %v", is, c.Name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// try runs the case with as few constants as it can be imported with.
func (c *nodeCase) try(t *testing.T, dev kernels.Device) (fate, error) {
	t.Helper()
	empty := func(i int) bool { n, _ := c.in[i].Elements(); return n == 0 }
	choices := []func(i int) bool{
		empty,
		func(i int) bool { return empty(i) || i > 0 && !c.in[i].Type.IsFloat() },
		func(i int) bool { return empty(i) || !c.in[i].Type.IsFloat() },
		func(i int) bool { return empty(i) || i > 0 },
	}
	var last error
	for _, known := range choices {
		b, err := c.program(func(i int) bool { return c.in[i] != nil && known(i) })
		if err == nil {
			var is fate
			if is, err = c.run(t, dev, b); is != refused {
				return is, err
			}
		}
		last = err
	}
	return refused, last
}

// run predicts a case. A device refuses an index below 0: import must know it.
func (c *nodeCase) run(t *testing.T, dev kernels.Device, b *inference) (fate, error) {
	t.Helper()
	var at []int // outputs that are computed
	var values []*value
	for i, v := range b.program.outputs {
		if v.con == nil {
			at, values = append(at, i), append(values, v)
			continue
		}
		if err := c.compare(i, v.typ, v.shape, elementsOf(v)); err != nil {
			return wrong, err
		}
	}
	if len(at) == 0 {
		return folded, nil
	}
	b.program.outputs = values
	got, err := c.predict(t, dev, b)
	var index *trainer.IndexError
	if errors.As(err, &index) {
		return refused, err
	}
	if err != nil {
		return wrong, err
	}
	for k, i := range at {
		if err := c.compare(i, values[k].typ, values[k].shape, got[k]); err != nil {
			return wrong, err
		}
	}
	return passed, nil
}

// elementsOf returns the elements of a constant.
func elementsOf(v *value) (data []float64) {
	err := func() (err error) {
		defer catch(&err)
		data = v.elements(1 << 24)
		return nil
	}()
	if err != nil {
		return []float64{math.NaN()}
	}
	return data
}

// predict runs the program in a model of a batch of 1: its inputs and outputs have a dimension
// more.
func (c *nodeCase) predict(t *testing.T, dev kernels.Device, b *inference) (_ [][]float64, err error) {
	t.Helper()
	fields := make(map[string]any)
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		inputs := make(gorgonia.Nodes, len(b.m.inputs))
		for i, in := range b.m.inputs {
			v := b.values[in.Name]
			if v.con != nil {
				continue
			}
			in.Type = c.in[i].Type
			x := addInput(net, in, append(kernels.Shape{batch}, v.shape...))
			fields[in.Name] = field(c.in[i])
			if inputs[i] = net.Reshape(x, "", v.shape...); len(v.shape) == 0 {
				inputs[i] = net.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{}}, 0, "", x)
			}
		}
		outs, err := b.replay(net, inputs, false)
		if err != nil {
			return trainer.Model{}, err
		}
		for i, y := range outs {
			shape := append(kernels.Shape{1}, b.program.Spec(b.program.outputs[i].at).Shape...)
			outs[i] = net.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: shape}, 0, fmt.Sprintf("result%d", i), y)
		}
		return trainer.Model{Inputs: net.Inputs(), Output: outs[0], Outputs: outs[1:], Params: net.Params(), Statistics: net.Statistics()}, net.Err()
	}
	p, err := trainer.NewPredictor(t.Context(), model, trainer.PredictorOptions{Device: dev, Batch: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	outs := p.Outputs()
	dst, got := make([][]float32, len(outs)), make([][]float64, len(outs))
	for i, o := range outs {
		dst[i] = make([]float32, o.Spec.Shape.Elems())
	}
	var read []any // inputs that no output depends on are left out
	for _, in := range p.Inputs() {
		read = append(read, fields[in.Name])
	}
	if err := p.PredictAll(t.Context(), dst, read...); err != nil {
		return nil, err
	}
	for i, y := range dst {
		for _, x := range y {
			got[i] = append(got[i], float64(x))
		}
	}
	return got, nil
}

// field returns the elements of a tensor as a predictor takes them.
func field(t *proto.Tensor) any {
	n, _ := t.Elements()
	floats, doubles, whole := make([]float32, n), make([]float64, n), make([]int64, n)
	for i := range int(n) {
		doubles[i] = t.Float64(i)
		floats[i] = float32(doubles[i])
		if !t.Type.IsFloat() {
			whole[i] = t.Int64(i)
		}
	}
	switch t.Type {
	case proto.Float, proto.Bool:
		return floats
	case proto.Double:
		return doubles
	}
	return whole
}
