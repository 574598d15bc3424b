package onnx_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// A graph is a model that a test writes.
type graph struct {
	inputs  []proto.ValueInfo
	inits   []proto.Tensor
	nodes   []proto.Node
	outputs []string
	opset   int64 // 0: 20
	ir      int64 // 0: 9
}

// model returns the model as messages.
func (g graph) model() *proto.Model {
	opset, ir := g.opset, g.ir
	if opset == 0 {
		opset = 20
	}
	if ir == 0 {
		ir = 9
	}
	m := &proto.Model{IRVersion: ir, Opsets: []proto.Opset{{Version: opset}}}
	m.Graph = &proto.Graph{Name: "g", Nodes: g.nodes, Initializers: g.inits, Inputs: g.inputs}
	for _, o := range g.outputs {
		m.Graph.Outputs = append(m.Graph.Outputs, proto.ValueInfo{Name: o, Type: proto.Float})
	}
	return m
}

// bytes returns the model as a file.
func (g graph) bytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := proto.Write(&b, g.model()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// input is an input of floats; a dimension of 0 is the batch, called N.
func input(name string, dims ...int64) proto.ValueInfo {
	v := proto.ValueInfo{Name: name, Type: proto.Float, HasShape: true}
	for _, d := range dims {
		if d == 0 {
			v.Dims = append(v.Dims, proto.Dim{Param: "N"})
		} else {
			v.Dims = append(v.Dims, proto.Dim{HasValue: true, Value: d})
		}
	}
	return v
}

// node is a node with one output.
func node(op string, in []string, out string, attributes ...proto.Attribute) proto.Node {
	return proto.Node{Op: op, Inputs: in, Outputs: []string{out}, Attributes: attributes}
}

// number and numbers are attributes.
func number(name string, x int64) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrInt, I: x}
}

func numbers(name string, xs ...int64) proto.Attribute {
	return proto.Attribute{Name: name, Type: proto.AttrInts, Ints: xs}
}

// ints is a vector of int64.
func ints(name string, xs ...int64) proto.Tensor {
	t := proto.Tensor{Name: name, Type: proto.Int64, Dims: []int64{int64(len(xs))}, HasRaw: true}
	for _, x := range xs {
		t.Raw = binary.LittleEndian.AppendUint64(t.Raw, uint64(x))
	}
	return t
}

// floats is a tensor of random numbers.
func floats(name string, dims ...int64) proto.Tensor {
	t := proto.Tensor{Name: name, Type: proto.Float, Dims: dims, HasRaw: true}
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	r := rand.New(rand.NewPCG(uint64(len(name)), uint64(n)))
	for range n {
		t.Raw = binary.LittleEndian.AppendUint32(t.Raw, math.Float32bits(float32(r.NormFloat64())))
	}
	return t
}

// images are 32 random images of 3×12×12 and labels of 4 classes, which the mean of a channel
// tells.
func images(t testing.TB) dataloader.Dataset {
	t.Helper()
	const n, size = 32, 3 * 12 * 12
	r := rand.New(rand.NewPCG(5, 5))
	x, y := make([]float32, n*size), make([]uint8, n)
	for i := range y {
		y[i] = uint8(r.IntN(4))
		for k := range size {
			x[i*size+k] = float32(r.NormFloat64())
			if k/144 == int(y[i]) {
				x[i*size+k] += 2
			}
		}
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 3, 12, 12), dataloader.Column("y", y))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// weights returns all parameters and statistics of a trainer.
func weights(t testing.TB, tr *trainer.Trainer) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	params, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range params {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			t.Fatal(err)
		}
		all[p.Name] = b
	}
	return all
}

// train runs some epochs and returns the loss of each.
func train(t testing.TB, tr *trainer.Trainer) (losses []float64) {
	t.Helper()
	for range 6 {
		r, err := tr.Fit(t.Context(), images(t))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss)
	}
	return losses
}
