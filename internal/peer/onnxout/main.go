// Command onnxout exports small models as ONNX files, runs them here and in onnxruntime, and prints
// how far the outputs differ.
//
//	go run ./internal/peer/onnxout -peer python3
//
// The Python needs the packages onnx, onnxruntime and numpy. onnx checks each file, and onnxruntime
// runs it for three batch sizes. An error is the largest difference, divided by the largest output.
package main

import (
	"bytes"
	"context"
	_ "embed" // of the script
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/onnxmodels"
	"github.com/evenkeel/evenkeel/internal/peer/python"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/trainer"
)

//go:embed check.py
var script string

// tolerance is the largest error.
const tolerance = 1e-5

// run is one batch of a model: names and shapes of inputs, and of outputs as they are here.
type run struct {
	Dir     string   `json:"dir"` // of the file, and of elements as raw bytes
	Model   string   `json:"model"`
	Inputs  []tensor `json:"inputs"`
	Outputs []tensor `json:"outputs"`
}

type tensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	File  string `json:"file"`
}

// verdict is what the script says about one model.
type verdict struct {
	Model   string  `json:"model"`
	Error   float64 `json:"error"`
	Largest float64 `json:"largest"`
	Failure string  `json:"failure"`
}

func main() {
	peer := flag.String("peer", "python3", "a Python with onnx, onnxruntime and numpy")
	python.Main("onnxout", func(ctx context.Context) error { return check(ctx, *peer, os.Stdout) })
}

// check exports the models, runs them, and prints a table.
func check(ctx context.Context, peer string, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "onnxout")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	var runs []run
	failed := 0
	for i, m := range onnxmodels.All() {
		of, err := export(ctx, dev, filepath.Join(dir, strconv.Itoa(i)), m)
		if err != nil {
			fmt.Fprintf(w, "%s: %v\n", m.Name, err)
			failed++
			continue
		}
		runs = append(runs, of...)
	}
	list, err := json.Marshal(runs)
	if err != nil {
		return err
	}
	out, err := python.Run(ctx, peer, script, list)
	if err != nil {
		return err
	}
	return table(json.NewDecoder(bytes.NewReader(out)), w, failed)
}

// table prints the verdicts, and returns an error if one is bad, or if bad models are not among
// them.
func table(d *json.Decoder, w io.Writer, bad int) error {
	n := bad
	for {
		var v verdict
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		n++
		mark := ""
		if v.Failure != "" || !(v.Error <= tolerance) || v.Largest == 0 {
			mark, bad = "  WRONG "+v.Failure, bad+1
		}
		fmt.Fprintf(w, "%-30s %8.1e of %-8.3g%s\n", v.Model, v.Error, v.Largest, mark)
	}
	fmt.Fprintf(w, "%d models, %d wrong\n", n, bad)
	if bad > 0 {
		return fmt.Errorf("%d models are wrong", bad)
	}
	return nil
}

// export writes a model, and inputs and outputs of three batches, to a folder.
func export(ctx context.Context, dev kernels.Device, dir string, m onnxmodels.Model) (runs []run, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	sizes := map[string]int{}
	values := func(name string) []float32 { return onnxmodels.Weights(name, sizes[name]) }
	for _, rows := range []int{1, 2, 7} {
		p, err := trainer.NewPredictor(ctx, m.Build, trainer.PredictorOptions{Device: dev, Batch: rows, Sizes: []int{rows}, Fields: m.Fields})
		if err != nil {
			return nil, err
		}
		for _, s := range p.Weights() {
			sizes[s.Name] = s.Spec.Shape.Elems()
		}
		one, err := predict(ctx, p, values, dir, m, rows)
		if err := errors.Join(err, p.Close()); err != nil {
			return nil, err
		}
		runs = append(runs, one)
	}
	opt := onnx.ExportOptions{Fields: m.Fields, Values: func(name string) []float32 {
		if sizes[name] == 0 {
			return nil
		}
		return values(name)
	}}
	opt.External = len(sizes)%2 == 1 // some with a second file
	_, err = onnx.ExportFile(ctx, filepath.Join(dir, "model.onnx"), m.Build, opt)
	return runs, err
}

// predict runs a batch, and writes inputs and outputs.
func predict(ctx context.Context, p *trainer.Predictor, values func(string) []float32, dir string, m onnxmodels.Model, rows int) (run, error) {
	r := run{Dir: dir, Model: m.Name}
	if err := p.LoadWeights(ctx, values); err != nil {
		return r, err
	}
	random := rand.New(rand.NewPCG(uint64(rows), 3))
	var inputs []any
	for i, in := range p.Inputs() {
		shape := append([]int{rows}, in.Spec.Shape...)
		x := draw(random, in.Spec.Type, kernels.Shape(shape).Elems(), m.Classes)
		inputs = append(inputs, x)
		t := tensor{Name: in.Name, Type: in.Spec.Type.String(), Shape: shape, File: fmt.Sprintf("in%d_%d", rows, i)}
		if err := write(filepath.Join(dir, t.File), x); err != nil {
			return r, err
		}
		r.Inputs = append(r.Inputs, t)
	}
	var outputs [][]float32
	for i, out := range p.Outputs() {
		shape := append([]int{rows}, out.Spec.Shape...)
		outputs = append(outputs, make([]float32, kernels.Shape(shape).Elems()))
		r.Outputs = append(r.Outputs, tensor{Name: out.Name, Type: "float32", Shape: shape, File: fmt.Sprintf("out%d_%d", rows, i)})
	}
	if err := p.PredictAll(ctx, outputs, inputs...); err != nil {
		return r, err
	}
	for i, y := range outputs {
		if err := write(filepath.Join(dir, r.Outputs[i].File), y); err != nil {
			return r, err
		}
	}
	return r, nil
}

// draw returns random elements: normal numbers, or integers below classes.
func draw(r *rand.Rand, t arena.DType, n, classes int) any {
	floats, whole := make([]float32, n), make([]int64, n)
	for i := range n {
		floats[i], whole[i] = float32(r.NormFloat64()), int64(r.IntN(max(classes, 1)))
	}
	switch {
	case t == arena.Uint8:
		pixels := make([]uint8, n)
		for i, v := range whole {
			pixels[i] = uint8(v)
		}
		return pixels
	case t.Float():
		return floats
	}
	return whole
}

// write writes elements as raw bytes.
func write(path string, x any) error {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}
