package onnx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/onnxmodels"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// exported exports a model and parses the file.
func exported(t testing.TB, model trainer.ModelFunc, opt onnx.ExportOptions) (*proto.Model, onnx.Exported) {
	t.Helper()
	var b bytes.Buffer
	done, err := onnx.Export(context.Background(), &b, model, opt)
	if err != nil {
		t.Fatal(err)
	}
	if done.Bytes != int64(b.Len()) {
		t.Errorf("%d bytes announced, %d written", done.Bytes, b.Len())
	}
	m, err := proto.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return m, done
}

// predicts is a model without a loss.
func predicts(f func(n *layers.Net, batch int) *gorgonia.Node) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		n := layers.New(g)
		out := f(n, batch)
		return trainer.Model{Inputs: n.Inputs(), Output: out, Params: n.Params(), Statistics: n.Statistics()}, n.Err()
	}
}

// small is a model with the patterns that export recognises.
var small = predicts(func(n *layers.Net, batch int) *gorgonia.Node {
	c := layers.Conv2D{Out: 2, Kernel: layers.Square(3), NoBias: true}
	h := n.BatchNorm(n.Conv(n.Input("x", batch, 1, 5, 5), "conv", c, nil), "norm", layers.ReLU)
	return n.Softmax(n.Dense(n.Flatten(h, "flat"), "dense", 3, nil), "probabilities")
})

// listing is a model as text: a line for each value and node.
func listing(m *proto.Model) string {
	var s strings.Builder
	value := func(kind string, v proto.ValueInfo) {
		fmt.Fprintf(&s, "%s %s %v", kind, v.Name, v.Type)
		for _, d := range v.Dims {
			if d.HasValue {
				fmt.Fprintf(&s, " %d", d.Value)
			} else {
				fmt.Fprintf(&s, " %s", d.Param)
			}
		}
		s.WriteByte('\n')
	}
	for _, v := range m.Graph.Inputs {
		value("input", v)
	}
	for _, x := range m.Graph.Initializers {
		fmt.Fprintf(&s, "weight %s %v %v\n", x.Name, x.Type, x.Dims)
	}
	for _, n := range m.Graph.Nodes {
		fmt.Fprintf(&s, "%s = %s %s", strings.Join(n.Outputs, ", "), n.Op, strings.Join(n.Inputs, ", "))
		for _, a := range n.Attributes {
			fmt.Fprintf(&s, " %s=%v%v%v", a.Name, a.I, a.Ints, a.F)
		}
		s.WriteByte('\n')
	}
	for _, v := range m.Graph.Outputs {
		value("output", v)
	}
	return s.String()
}

func TestExportKeepsNamesAndRecognisesLayers(t *testing.T) {
	m, done := exported(t, small, onnx.ExportOptions{})
	want := `input x float batch 1 5 5
weight conv/w float [2 1 3 3]
weight norm/gamma float [2]
weight norm/beta float [2]
weight norm/mean float [2]
weight norm/variance float [2]
weight flat/constant int64 [2]
weight dense/w float [18 3]
weight dense/b float [3]
conv/out = Conv x, conv/w kernel_shape=0[3 3]0 strides=0[1 1]0 pads=0[0 0 0 0]0 dilations=0[1 1]0 group=1[]0
norm/out = BatchNormalization conv/out, norm/gamma, norm/beta, norm/mean, norm/variance epsilon=0[]1e-05
norm/act = Relu norm/out
flat = Reshape norm/act, flat/constant
dense/out = Gemm flat, dense/w, dense/b
output = Softmax dense/out axis=1[]0
output output float batch 3
`
	if got := listing(m); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var names []string
	for _, w := range done.Weights {
		names = append(names, w.Name)
	}
	if got := strings.Join(names, " "); got != "conv/w norm/gamma norm/beta norm/mean norm/variance dense/w dense/b" {
		t.Errorf("weights %s", got)
	}
	if done.Nodes != 6 || !slices.Equal(done.Operators, []string{"BatchNormalization", "Conv", "Gemm", "Relu", "Reshape", "Softmax"}) ||
		len(done.Inputs) != 1 || done.Inputs[0].Spec.String() != "float32 (1, 5, 5)" || done.Outputs[0].Spec.String() != "float32 (3)" {
		t.Errorf("report %+v", done)
	}
}

func TestExportWritesTheSameBytesAgain(t *testing.T) {
	for _, m := range onnxmodels.All() {
		var files [2]bytes.Buffer
		for i := range files {
			if _, err := onnx.Export(context.Background(), &files[i], m.Build, onnx.ExportOptions{Seed: 3}); err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
		}
		if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
			t.Errorf("%s: two exports differ", m.Name)
		}
	}
}

func TestExportListsAllOperationsThatONNXLacks(t *testing.T) {
	model := predicts(func(n *layers.Net, batch int) *gorgonia.Node {
		x := n.Input("x", batch, 3)
		diagonal := gorgonia.Must(gorgonia.DiagFlat(n.Reshape(x, "flat", batch*3))) // Gorgonia's own code
		y := n.Reshape(n.Sum(diagonal, "sum", layers.Reduce{Axes: []int{1}}), "rows", batch, 3)
		return n.Apply(kernels.TanhGrad, nil, 0, "slope", y, n.Apply(kernels.SigmoidGrad, nil, 0, "gate", x, x))
	})
	var b bytes.Buffer
	_, err := onnx.Export(context.Background(), &b, model, onnx.ExportOptions{})
	var refused *onnx.ExportError
	if !errors.As(err, &refused) || !errors.Is(err, kernels.ErrUnsupported) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, r := range refused.Operations {
		got = append(got, r.Operation+" "+r.Node)
	}
	slices.Sort(got)
	if len(got) != 3 || !strings.HasPrefix(got[0], "host ") || got[1] != "sigmoid_grad gate" || got[2] != "tanh_grad slope" || b.Len() > 0 {
		t.Errorf("%d bytes written, refused %q", b.Len(), got)
	}
}

func TestAModelThatDependsOnTheBatchIsExportedForOne(t *testing.T) {
	models := map[string]trainer.ModelFunc{
		"a mean over the batch": predicts(func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 2)
			return n.Affine(x, "share", 1/float64(batch), 0)
		}),
		"a table with a row for each row": predicts(func(n *layers.Net, batch int) *gorgonia.Node {
			rows := make([]float32, batch)
			for i := range rows {
				rows[i] = float32(i)
			}
			return n.Add(n.Input("x", batch, 1), n.Constant(rows, "rows", batch, 1), "y")
		}),
		"other operations": predicts(func(n *layers.Net, batch int) *gorgonia.Node {
			x := n.Input("x", batch, 1)
			for range batch {
				x = n.Neg(x, "")
			}
			return x
		}),
	}
	for name, model := range models {
		_, err := onnx.Export(context.Background(), &bytes.Buffer{}, model, onnx.ExportOptions{})
		if err == nil {
			t.Errorf("%s: exported for any batch", name)
		}
		m, _ := exported(t, model, onnx.ExportOptions{Batch: 4})
		if d := m.Graph.Inputs[0].Dims[0]; d.Value != 4 {
			t.Errorf("%s: the input has %+v rows", name, d)
		}
	}
	_, err := onnx.Export(context.Background(), &bytes.Buffer{}, predicts(func(n *layers.Net, batch int) *gorgonia.Node {
		if batch != 8 {
			n.Fail(fmt.Errorf("only 8: %w", layers.ErrShape))
		}
		return n.Neg(n.Input("x", batch, 1), "y")
	}), onnx.ExportOptions{})
	if err == nil || !strings.Contains(err.Error(), "ExportOptions.Batch") {
		t.Errorf("a model for one batch: %v", err)
	}
}

func TestExportTakesWeightsOfTheModelOnly(t *testing.T) {
	values := func(name string) []float32 {
		return map[string][]float32{"dense/w": make([]float32, 18*3), "dense/b": {1, 2}}[name]
	}
	_, err := onnx.Export(context.Background(), &bytes.Buffer{}, small, onnx.ExportOptions{Values: values})
	if !errors.Is(err, trainer.ErrData) {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"conv/w", "norm/gamma", "norm/mean", "dense/b"} { // all at once
		if !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if strings.Contains(err.Error(), "dense/w") {
		t.Errorf("%v names dense/w, which is right", err)
	}
}

func TestExportFileReplacesBothFilesOrNone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	for _, name := range []string{path, path + ".data"} {
		if err := os.WriteFile(name, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func() string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := onnx.ExportFile(ctx, path, small, onnx.ExportOptions{External: true})
	if b, _ := os.ReadFile(path); !errors.Is(err, context.Canceled) || string(b) != "before" || list() != "model.onnx model.onnx.data" {
		t.Errorf("cancelled: error %v, file %q, folder %s", err, b, list())
	}
	done, err := onnx.ExportFile(context.Background(), path, onnxmodels.Named("vgg").Build, onnx.ExportOptions{External: true})
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, name := range []string{path, path + ".data"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if done.Bytes != total || list() != "model.onnx model.onnx.data" {
		t.Errorf("%d bytes announced, the files have %d; folder %s", done.Bytes, total, list())
	}
}

func TestMistakesInExportOptions(t *testing.T) {
	ctx := context.Background()
	for name, opt := range map[string]onnx.ExportOptions{
		"negative batch": {Batch: -1},
		"two files":      {External: true},
		"two sources":    {Weights: (*trainer.Trainer)(nil), Values: func(string) []float32 { return nil }},
	} {
		if _, err := onnx.Export(ctx, &bytes.Buffer{}, small, opt); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := onnx.Export(ctx, &bytes.Buffer{}, nil, onnx.ExportOptions{}); !errors.Is(err, trainer.ErrModel) {
		t.Errorf("no model: %v", err)
	}
	if _, err := onnx.Export(ctx, &bytes.Buffer{}, small, onnx.ExportOptions{Weights: (*trainer.Trainer)(nil)}); !errors.Is(err, trainer.ErrClosed) {
		t.Errorf("no trainer: %v", err)
	}
	var none context.Context
	if _, err := onnx.Export(none, &bytes.Buffer{}, small, onnx.ExportOptions{}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("no context: %v", err)
	}
}
