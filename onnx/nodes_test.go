package onnx_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

func TestInputsOfATrunkMustFit(t *testing.T) {
	m := open(t, "mlp.old")
	for name, c := range map[string]struct {
		add  func(n *layers.Net) gorgonia.Nodes
		want error
		text string
	}{
		"none":          {func(*layers.Net) gorgonia.Nodes { return nil }, layers.ErrNode, "0 inputs, the model has 1"},
		"nil":           {func(*layers.Net) gorgonia.Nodes { return gorgonia.Nodes{nil} }, layers.ErrNode, `input "x" is nil`},
		"another shape": {func(n *layers.Net) gorgonia.Nodes { return gorgonia.Nodes{n.Input("a", 2, 7)} }, layers.ErrShape, "(2, 7)"},
		"another rank":  {func(n *layers.Net) gorgonia.Nodes { return gorgonia.Nodes{n.Input("a", 2, 6, 1)} }, layers.ErrShape, "(2, 6, 1)"},
		"integers":      {func(n *layers.Net) gorgonia.Nodes { return gorgonia.Nodes{n.Indices("a", 2, 6)} }, layers.ErrShape, "int"},
		"float64": {func(n *layers.Net) gorgonia.Nodes {
			n.Type = tensor.Float64
			return gorgonia.Nodes{n.Input("a", 2, 6)}
		}, layers.ErrShape, "float64"},
	} {
		n := layers.New(gorgonia.NewGraph())
		out, err := m.Nodes(n, c.add(n)...)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !errors.Is(n.Err(), err) || len(out) != 1 || out[0] != nil {
			t.Errorf("%s: %v and %v, want %q", name, out, err, c.text)
		}
	}
	fixed := open(t, "cnn.static")
	n := layers.New(gorgonia.NewGraph())
	if _, err := fixed.Nodes(n, n.Input("a", 3, 3, 12, 12)); !errors.Is(err, layers.ErrShape) || !strings.Contains(err.Error(), "batches of 2, not 3") {
		t.Error(err)
	}
}

// In a shared scope, two inputs go through one trunk; in two scopes there are two.
func TestATrunkIsSharedOrTwice(t *testing.T) {
	m := open(t, "mlp.dynamo")
	params := func(add func(n *layers.Net, x gorgonia.Nodes)) int {
		n := layers.New(gorgonia.NewGraph())
		add(n, gorgonia.Nodes{n.Input("a", 2, 6), n.Input("b", 2, 6)})
		if err := n.Err(); err != nil {
			t.Fatal(err)
		}
		return len(n.Params())
	}
	shared := params(func(n *layers.Net, x gorgonia.Nodes) {
		s := n.Shared("trunk")
		for _, x := range x {
			_, _ = m.Nodes(s, x)
		}
	})
	twice := params(func(n *layers.Net, x gorgonia.Nodes) {
		_, _ = m.Nodes(n.Scope("one"), x[0])
		_, _ = m.Nodes(n.Scope("two"), x[1])
	})
	if shared != 6 || twice != 12 {
		t.Errorf("%d and %d parameters, want 6 and 12", shared, twice)
	}
}

func TestAModelIsUsedByManyGoroutines(t *testing.T) {
	m := open(t, "cnn.dynamo")
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			plan, err := trainer.PlanPredictor(t.Context(), m.Build, trainer.PredictorOptions{Batch: 1 + i%3})
			if err != nil || plan.Total == 0 || len(m.Report().Parameters) != 6 || len(m.Inputs()) != 1 || len(m.Outputs()) != 1 {
				t.Errorf("%v %v", plan, err)
			}
		})
	}
	wait.Wait()
}

// Parameters and inputs of float64 stay so, and several outputs are found by their names.
func TestAModelOfFloat64AndSeveralOutputs(t *testing.T) {
	w := proto.Tensor{Name: "w", Type: proto.Double, Dims: []int64{2}, Raw: make([]byte, 16), HasRaw: true}
	copy(w.Raw, []byte{0, 0, 0, 0, 0, 0, 0, 0x40})     // 2
	copy(w.Raw[8:], []byte{0, 0, 0, 0, 0, 0, 0, 0xc0}) // -2
	x := input("x", 0, 2)
	x.Type = proto.Double
	g := graph{inputs: []proto.ValueInfo{x}, inits: []proto.Tensor{w}, outputs: []string{"y", "x", "z"},
		nodes: []proto.Node{node("Mul", []string{"x", "w"}, "y"), node("ArgMax", []string{"y"}, "z", number("axis", 1), number("keepdims", 0))}}
	if _, err := onnx.Parse(g.bytes(t), onnx.Options{}); err == nil || !strings.Contains(err.Error(), `output "x" is an input`) {
		t.Error(err)
	}
	g.outputs = []string{"y", "z"}
	m, err := onnx.Parse(g.bytes(t), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, openDevice := range devices {
		p, err := trainer.NewPredictor(t.Context(), m.Build, trainer.PredictorOptions{Device: openDevice(t, 0), Batch: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if o := p.Outputs(); len(o) != 2 || o[1].Name != "z" {
			t.Errorf("%s: outputs %v", name, o)
		}
		y, z := make([]float32, 4), make([]float32, 2)
		if err := p.PredictAll(t.Context(), [][]float32{y, z}, []float64{1, 3, -5, 7}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(y, []float32{2, -6, -10, -14}) || !slices.Equal(z, []float32{0, 0}) {
			t.Errorf("%s: %v, %v", name, y, z)
		}
	}
}

func TestAPredictionOfAnImportedModelAllocatesNothing(t *testing.T) {
	m := open(t, "gpt.dynamo")
	p, err := trainer.NewPredictor(t.Context(), m.Build, trainer.PredictorOptions{Device: devices["cpu"](t, 0), Batch: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ids, dst := make([]int64, 8), make([]float32, 8*31)
	var in any = ids
	before := p.Stats()
	if n := testing.AllocsPerRun(20, func() {
		if err := p.Predict(t.Context(), dst, in); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if after := p.Stats(); after.Arena.Reserved != before.Arena.Reserved || after.Arena.InUse != before.Arena.InUse {
		t.Errorf("%d bytes in use, before %d", after.Arena.InUse, before.Arena.InUse)
	}
}

// Weights that are not finite are refused before anything is computed with them, except infinite
// masks.
func TestWeightsThatAreNotNumbersAreRefused(t *testing.T) {
	w := floats("w", 4)
	w.Raw = append(w.Raw[:12:12], 0, 0, 0xc0, 0x7f)
	m, err := onnx.Parse(one("Mul", []string{"x", "w"}, []proto.Tensor{w}).bytes(t), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	po := trainer.PredictorOptions{Device: devices["cpu"](t, 0), Batch: 1}
	if _, err := trainer.NewPredictor(t.Context(), m.Build, po); !errors.Is(err, layers.ErrInit) || !strings.Contains(err.Error(), `"w"`) {
		t.Error(err)
	}
	copy(w.Raw[12:], []byte{0, 0, 0x80, 0xff}) // -Inf
	if m, err = onnx.Parse(one("Add", []string{"x", "w"}, []proto.Tensor{w}).bytes(t), onnx.Options{}); err != nil || len(m.Report().Parameters) != 0 {
		t.Fatal(m.Report().Parameters, err)
	}
	p, err := trainer.NewPredictor(t.Context(), m.Build, po)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	y := make([]float32, 4)
	if err := p.Predict(t.Context(), y, make([]float32, 4)); err != nil || !math.IsInf(float64(y[3]), -1) {
		t.Error(y, err)
	}
}

// An initializer that is the scale and the variance of a layer is two: training moves them apart.
func TestAParameterThatIsAStatisticTooIsCopied(t *testing.T) {
	g := graph{inputs: []proto.ValueInfo{input("x", 0, 2, 3)}, inits: []proto.Tensor{floats("w.a", 2), floats("w.b", 2)}, outputs: []string{"y"},
		nodes: []proto.Node{node("Mul", []string{"w.a", "w.a"}, "v"), node("BatchNormalization", []string{"x", "w.a", "w.b", "w.b", "w.a"}, "y")}}
	m, err := onnx.Parse(g.bytes(t), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range m.Report().Parameters {
		names = append(names, p.Name)
		if p.Statistic != strings.HasSuffix(p.Name, " 2") {
			t.Errorf("%q is a statistic: %v", p.Name, p.Statistic)
		}
	}
	if !slices.Equal(names, []string{"w/a", "w/b", "w/b 2", "w/a 2"}) || !noted(m.Report(), `"w.a" is a parameter and a running statistic`) {
		t.Errorf("%q, notes %q", names, m.Report().Notes)
	}
}

// ONNX's momentum is the weight of the old statistics: 0.75 moves them a quarter of the way.
func TestRunningStatisticsMoveByTheMomentumOfTheFile(t *testing.T) {
	zero, one := proto.Tensor{Name: "mean", Type: proto.Float, Dims: []int64{3}, Raw: make([]byte, 12), HasRaw: true}, floats("variance", 3)
	for i := range 3 {
		copy(one.Raw[4*i:], []byte{0, 0, 0x80, 0x3f})
	}
	g := graph{inputs: []proto.ValueInfo{input("x", 0, 3, 12, 12)}, inits: []proto.Tensor{floats("g", 3), floats("b", 3), zero, one}, outputs: []string{"y"},
		nodes: []proto.Node{node("BatchNormalization", []string{"x", "g", "b", "mean", "variance"}, "n", real("momentum", 0.75)),
			node("GlobalAveragePool", []string{"n"}, "p"), node("Flatten", []string{"p"}, "y")}}
	m, err := onnx.Parse(g.bytes(t), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trainer.New(t.Context(), func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, 12, 12)
		out, err := m.Nodes(net, x)
		if err != nil {
			return trainer.Model{}, err
		}
		return net.Classifier(x, net.Dense(out[0], "head", 4, nil))
	}, trainer.Options{Device: devices["cpu"](t, 0), Batch: 32, Fields: images(t).Fields()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := tr.Fit(t.Context(), images(t)); err != nil { // one step
		t.Fatal(err)
	}
	want := 0.0 // mean of channel 0 over all images
	x := make([]byte, 4*3*12*12)
	for i := range 32 {
		if err := images(t).Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{x, make([]byte, 1)}); err != nil {
			t.Fatal(err)
		}
		for k := range 144 {
			want += float64(math.Float32frombits(binary.LittleEndian.Uint32(x[4*k:]))) / (32 * 144)
		}
	}
	got := float64(math.Float32frombits(binary.LittleEndian.Uint32(weights(t, tr)["mean"])))
	if math.Abs(want) < 0.1 || math.Abs(got-want/4) > 1e-5 {
		t.Errorf("running mean %v after one batch of mean %v, want a quarter", got, want)
	}
}

// What no output depends on costs nothing.
func TestNodesThatNoOutputNeedsAreLeftOut(t *testing.T) {
	small := one("Relu", []string{"x"}, nil)
	large := one("Relu", []string{"x"}, []proto.Tensor{floats("w", 4, 50)})
	large.nodes = append(large.nodes, node("MatMul", []string{"x", "w"}, "unused"))
	var bytes [2]int64
	for i, g := range []graph{small, large} {
		m, err := onnx.Parse(g.bytes(t), onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := trainer.PlanPredictor(t.Context(), m.Build, trainer.PredictorOptions{Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		bytes[i] = plan.Total
		n := layers.New(gorgonia.NewGraph())
		if _, err := m.Nodes(n, n.Input("a", 2, 4)); err != nil || len(n.Params()) != 0 {
			t.Errorf("%d parameters in the graph: %v", len(n.Params()), err)
		}
		if r := m.Report(); r.Operations != 1 || len(r.Parameters) != 0 {
			t.Errorf("%d operations, parameters %v", r.Operations, r.Parameters)
		}
	}
	if bytes[0] != bytes[1] || bytes[0] == 0 {
		t.Errorf("%d bytes, with what is not needed %d", bytes[0], bytes[1])
	}
}

func ExampleModel_Nodes() {
	m, err := onnx.Open("testdata/resnet8.training.onnx", onnx.Options{})
	if err != nil {
		panic(err)
	}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, 32, 32)
		trunk, err := m.Nodes(net.Scope("trunk"), x)
		if err != nil {
			return trainer.Model{}, err
		}
		return net.Classifier(x, net.Dense(trunk[0], "head", 10, nil))
	}
	for _, frozen := range [][]string{nil, {"trunk"}} {
		plan, err := trainer.Plan(context.Background(), model, trainer.Options{Batch: 32, Frozen: frozen})
		if err != nil {
			panic(err)
		}
		fmt.Println(frozen, plan.Total, "bytes")
	}
	// Output:
	// [] 11457280 bytes
	// [trunk] 4026880 bytes
}
