package onnx_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/onnxtest"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// devices are the devices that imports are tested on. memory 0: all.
var devices = map[string]func(t testing.TB, memory int64) kernels.Device{
	"cpu": func(t testing.TB, memory int64) kernels.Device {
		return cputest.OpenChecked(t, cpu.Options{Threads: 2, Memory: memory})
	},
	"emu": func(t testing.TB, memory int64) kernels.Device {
		return emutest.OpenChecked(t, emu.Options{Memory: memory, Seed: 1})
	},
}

// fixtures are the files that testdata/export.py has made.
func fixtures(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.onnx")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	return files
}

// The tolerance is far above roundings, 1e-6, and far below the effect of a wrong operation.
func TestModelsOfPyTorchPredictWhatOnnxruntimeDoes(t *testing.T) {
	for name, open := range devices {
		for _, file := range fixtures(t) {
			t.Run(name+"/"+filepath.Base(file), func(t *testing.T) {
				r, err := onnxtest.Compare(t.Context(), file, onnx.Options{}, open(t, 0))
				if err != nil {
					t.Fatal(err)
				}
				if !(r.Error <= 1e-5) || r.Largest < 0.1 {
					t.Errorf("error %.1e of outputs up to %v", r.Error, r.Largest)
				}
				if r.Model.Report().Operations == 0 {
					t.Error("no operations")
				}
				// The announced bytes are enough, and one less is not.
				po := trainer.PredictorOptions{Device: open(t, r.Bytes), Batch: r.Rows, Sizes: []int{r.Rows}}
				p, err := trainer.NewPredictor(t.Context(), r.Model.Build, po)
				if err != nil {
					t.Fatal(err)
				}
				if s := p.Stats(); s.Arena.Reserved != r.Bytes {
					t.Errorf("%d bytes of device memory, announced %d", s.Arena.Reserved, r.Bytes)
				}
				p.Close()
				po.Memory = r.Bytes - 1
				var capacity *trainer.CapacityError
				if _, err := trainer.NewPredictor(t.Context(), r.Model.Build, po); !errors.As(err, &capacity) || capacity.Need != r.Bytes {
					t.Errorf("one byte less: %v", err)
				}
			})
		}
	}
}

// open imports a fixture.
func open(t testing.TB, name string) *onnx.Model {
	t.Helper()
	m, err := onnx.Open("testdata/"+name+".onnx", onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// noted reports whether a note of the report has all words.
func noted(r onnx.Report, words ...string) bool {
	return slices.ContainsFunc(r.Notes, func(s string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
	})
}

func TestReportSaysWhatTheExporterFoldedAndShared(t *testing.T) {
	for _, c := range []struct {
		model string
		words []string
	}{
		{"cnn.old", []string{"batch normalization was folded", "2 of 2"}},
		{"cnn.dynamo", []string{"batch normalization was folded"}},
		{"fresh.kept", []string{`"4.running_var" has the initial values of "1.weight"`, "statistic of its own"}},
		{"fresh.kept", []string{`"4.weight" has the initial values of "1.weight"`, "parameter of its own"}},
		{"gpt.old", []string{`is "wte.weight", transposed, and is tied`}},
		{"gpt.dynamo", []string{`is "head.weight", transposed, and is tied`}},
		{"block.dynamo", []string{"4 parameters have names that the exporter has made"}},
	} {
		if r := open(t, c.model).Report(); !noted(r, c.words...) {
			t.Errorf("%s: no note of %q in %q", c.model, c.words, r.Notes)
		}
	}
	for _, model := range []string{"cnn.kept", "cnn.dynamokept", "cnn.training", "fresh.training", "mlp.old"} {
		if r := open(t, model).Report(); len(r.Notes) != 0 {
			t.Errorf("%s: notes %q", model, r.Notes)
		}
	}
}

// Parameters of batch normalization that an exporter has stored once are four tensors again; a real
// tie is one.
func TestParametersAreSharedWhereTheModelSharesThem(t *testing.T) {
	names := func(model string) (params, statistics []string) {
		for _, p := range open(t, model).Report().Parameters {
			if p.Statistic {
				statistics = append(statistics, p.Name)
			} else {
				params = append(params, p.Name)
			}
		}
		return params, statistics
	}
	kept, keptStatistics := names("fresh.kept")
	training, trainingStatistics := names("fresh.training")
	if !slices.Equal(kept, training) || !slices.Equal(keptStatistics, trainingStatistics) || len(kept) != 10 || len(keptStatistics) != 4 {
		t.Errorf("parameters %q and %q, statistics %q and %q", kept, training, keptStatistics, trainingStatistics)
	}
	for _, model := range []string{"gpt.old", "gpt.dynamo"} {
		count := 0
		for _, p := range open(t, model).Report().Parameters {
			if p.Spec.Shape.Equal(kernels.Shape{31, 16}) || p.Spec.Shape.Equal(kernels.Shape{16, 31}) {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%s: table and head are %d parameters, must be 1", model, count)
		}
	}
}

func TestAModelOfAFixedBatchSaysHowToExportIt(t *testing.T) {
	m := open(t, "cnn.static")
	if m.Batch() != 2 || open(t, "cnn.old").Batch() != 0 {
		t.Errorf("batch %d", m.Batch())
	}
	_, err := trainer.PlanPredictor(t.Context(), m.Build, trainer.PredictorOptions{Batch: 3})
	if !errors.Is(err, kernels.ErrShape) || !strings.Contains(err.Error(), "exported for batches of 2, not 3: export it with dynamic_axes or dynamic_shapes") {
		t.Error(err)
	}
	// A batch that a reshape has inside, where the input has none.
	b := graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, inits: []proto.Tensor{ints("shape", 2, 2, 2)}, outputs: []string{"y"},
		nodes: []proto.Node{node("Reshape", []string{"x", "shape"}, "y")}}.bytes(t)
	if _, err = onnx.Parse(b, onnx.Options{}); !errors.Is(err, kernels.ErrShape) || !strings.Contains(err.Error(), "export with dynamic_axes") {
		t.Error(err)
	}
}

func TestAllNodesThatAreNotSupportedAreInOneError(t *testing.T) {
	b := graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"e"}, nodes: []proto.Node{
		node("Relu", []string{"x"}, "a"), node("NoSuch", []string{"a"}, "b"), node("Sin", []string{"b"}, "c"),
		node("Attention", []string{"c"}, "d"), {Op: "Fused", Domain: "com.example", Inputs: []string{"d"}, Outputs: []string{"e"}},
	}}.bytes(t)
	_, err := onnx.Parse(b, onnx.Options{})
	var all *onnx.ImportError
	if !errors.As(err, &all) || !errors.Is(err, kernels.ErrUnsupported) || len(all.Nodes) != 3 {
		t.Fatal(err)
	}
	for i, want := range []onnx.NodeError{{Node: "b", Index: 1, Op: "NoSuch"}, {Node: "d", Index: 3, Op: "Attention"}, {Node: "e", Index: 4, Op: "com.example.Fused"}} {
		if got := all.Nodes[i]; got.Node != want.Node || got.Index != want.Index || got.Op != want.Op || got.Reason == nil {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestOptionsOfAnImport(t *testing.T) {
	b := graph{inputs: []proto.ValueInfo{{Name: "x", Type: proto.Float, HasShape: true, Dims: []proto.Dim{{Param: "N"}, {Param: "length"}}}},
		inits: []proto.Tensor{floats("table", 3), floats("scale", 3)}, outputs: []string{"y"},
		nodes: []proto.Node{node("Mul", []string{"x", "scale"}, "a"), node("Add", []string{"a", "table"}, "y")}}.bytes(t)
	for name, c := range map[string]struct {
		opt  onnx.Options
		want string
	}{
		"a size is missing":  {onnx.Options{}, `dimension 1 of input "x" is "length": give its size in Options.Dims`},
		"a size is negative": {onnx.Options{Dims: map[string]int{"length": -1}}, `"length" is -1`},
		"a bad pattern":      {onnx.Options{Constants: []string{"["}}, "Options.Constants"},
		"a bad limit":        {onnx.Options{FoldElements: -1}, "Options.FoldElements"},
	} {
		if _, err := onnx.Parse(b, c.opt); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, err := onnx.Parse(b, onnx.Options{Dims: map[string]int{"length": 3}, Constants: []string{"tab*"}})
	if err != nil {
		t.Fatal(err)
	}
	if p := m.Report().Parameters; len(p) != 1 || p[0].Name != "scale" {
		t.Errorf("parameters %v: the table is a constant", p)
	}
	if in, out := m.Inputs(), m.Outputs(); in[0].Name != "x" || !in[0].Spec.Shape.Equal(kernels.Shape{3}) || out[0].Name != "y" {
		t.Errorf("inputs %v, outputs %v", in, out)
	}
}

// A trunk from a file and a head of our own learn together; with the trunk frozen only the head
// moves.
func TestATrunkTrainsWithANewHead(t *testing.T) {
	m := open(t, "cnn.training")
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, 12, 12)
		out, err := m.Nodes(net.Scope("trunk"), x)
		if err != nil {
			return trainer.Model{}, err
		}
		return net.Classifier(x, net.Dense(out[0], "head", 4, nil))
	}
	for name, openDevice := range devices {
		for _, frozen := range [][]string{nil, {"trunk"}, {"trunk/0", "trunk/1"}} {
			t.Run(name+"/"+strings.Join(frozen, ","), func(t *testing.T) {
				opt := trainer.Options{Device: openDevice(t, 0), Batch: 8, Frozen: frozen, Seed: 3, Fields: images(t).Fields(),
					Optimizer: optim.Adam{Rate: 0.003}}
				plan, err := trainer.Plan(t.Context(), model, opt)
				if err != nil {
					t.Fatal(err)
				}
				opt.Device = openDevice(t, plan.Total) // no more than is announced
				tr, err := trainer.New(t.Context(), model, opt)
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				before := weights(t, tr)
				losses := train(t, tr)
				after := weights(t, tr)
				for param, w := range before {
					still := slices.ContainsFunc(frozen, func(f string) bool { return strings.HasPrefix(param, f+"/") })
					if same := slices.Equal(w, after[param]); same != still {
						t.Errorf("%s: unchanged is %v, want %v", param, same, still)
					}
				}
				if last := losses[len(losses)-1]; !(last < losses[0]) {
					t.Errorf("losses %v do not fall", losses)
				}
			})
		}
	}
}

func ExampleOpen() {
	m, err := onnx.Open("testdata/mlp.dynamo.onnx", onnx.Options{})
	if err != nil {
		panic(err)
	}
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	ctx := context.Background()
	p, err := trainer.NewPredictor(ctx, m.Build, trainer.PredictorOptions{Device: dev, Batch: 4})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	y := make([]float32, 3)
	if err := p.Predict(ctx, y, make([]float32, 6)); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(m.Report().Producer[:7])
	// Output: pytorch
}
