package layers_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/trainer"
)

// onnxPeer is a Python with onnx, onnxruntime and numpy.
var onnxPeer = flag.String("onnx-peer", "", "a Python with onnx, onnxruntime and numpy, in which exported random graphs run; empty: they are only exported")

// TestRandomGraphsAreExported writes random graphs as ONNX files, imports these again, and compares
// predictions with the interpreter in float64. With -onnx-peer, onnxruntime runs them, too, for a
// batch of 1 and of 3.
func TestRandomGraphsAreExported(t *testing.T) {
	tries := *graphs
	if testing.Short() {
		tries = min(tries, 6)
	}
	dir, r := t.TempDir(), rand.New(rand.NewPCG(seed.Value(), 70))
	var runs []map[string]any
	for k := range tries {
		g := growGraph(r, 5+r.IntN(56), operationNames())
		name := fmt.Sprintf("graph %d", k)
		var b bytes.Buffer
		if _, err := onnx.Export(context.Background(), &b, g.predict, onnx.ExportOptions{}); err != nil {
			t.Fatalf("%s: %v\n%v", name, err, g)
		}
		var want []float32
		all := g.values(nil, exact)
		for _, i := range g.roots() {
			for _, v := range all[i].x {
				want = append(want, float32(v))
			}
		}
		if err := importAgain(t, b.Bytes(), want); err != nil {
			t.Fatalf("%s: %v\n%v", name, err, g)
		}
		folder := filepath.Join(dir, fmt.Sprint(k))
		if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "model.onnx"), b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, rows := range []int{1, 3} {
			x, y := make([]float32, rows), []float32{}
			for range rows {
				y = append(y, want...)
			}
			in, out := fmt.Sprintf("in%d", rows), fmt.Sprintf("out%d", rows)
			if err := errors.Join(writeRaw(filepath.Join(folder, in), x), writeRaw(filepath.Join(folder, out), y)); err != nil {
				t.Fatal(err)
			}
			tensor := func(name, file string, columns int) []map[string]any {
				return []map[string]any{{"name": name, "type": "float32", "shape": []int{rows, columns}, "file": file}}
			}
			runs = append(runs, map[string]any{"dir": folder, "model": name, "inputs": tensor("x", in, 1), "outputs": tensor("output", out, len(want))})
		}
	}
	if *onnxPeer != "" {
		runPeer(t, runs)
	}
}

// importAgain predicts two rows of zeros with the model of a file.
func importAgain(t *testing.T, file []byte, want []float32) (err error) {
	t.Helper()
	m, err := onnx.Parse(file, onnx.Options{})
	if err != nil {
		return err
	}
	p, err := trainer.NewPredictor(t.Context(), m.Build,
		trainer.PredictorOptions{Device: cputest.Open(t, cpu.Options{}), Batch: 2, Sizes: []int{2}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	got := make([]float32, 2*len(want))
	if err := p.Predict(t.Context(), got, []float32{0, 0}); err != nil {
		return err
	}
	wide := [2][]float64{}
	for i, x := range got {
		wide[0], wide[1] = append(wide[0], float64(x)), append(wide[1], float64(want[i%len(want)]))
	}
	return alikeTo(wide[0], wide[1], tolerances[tensor.Float32].value)
}

// predict is the graph as a model of one input, zeros, which is added to the elements of all roots.
func (g randomGraph) predict(graph *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	b, err := g.build(graph, tensor.Float32)
	if err != nil {
		return trainer.Model{}, err
	}
	var roots gorgonia.Nodes
	for _, i := range g.roots() {
		roots = append(roots, b.net.Reshape(b.nodes[i], "", 1, -1))
	}
	row := roots[0]
	if len(roots) > 1 {
		row = b.net.Concat(roots, "", 1)
	}
	y := b.net.Add(b.net.Input("x", batch, 1), row, "y")
	return trainer.Model{Inputs: b.net.Inputs(), Output: y, Params: b.net.Params()}, b.net.Err()
}

// writeRaw writes elements as raw bytes.
func writeRaw(path string, x []float32) error {
	var b bytes.Buffer
	return errors.Join(binary.Write(&b, binary.LittleEndian, x), os.WriteFile(path, b.Bytes(), 0o600))
}

// runPeer runs the models in onnxruntime.
func runPeer(t *testing.T, runs []map[string]any) {
	t.Helper()
	list, err := json.Marshal(runs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), *onnxPeer, "../../internal/peer/onnxout/check.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(list), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	verdicts, worst := 0, 0.0
	for d := json.NewDecoder(bytes.NewReader(out)); ; verdicts++ {
		var v struct {
			Model, Failure string
			Error, Largest float64
		}
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, v.Error)
		if v.Failure != "" || !(v.Error <= tolerances[tensor.Float32].value) {
			t.Errorf("%s: error %.1e of %.3g %s", v.Model, v.Error, v.Largest, v.Failure)
		}
	}
	t.Logf("%d graphs, largest error %.1e", verdicts, worst)
}
